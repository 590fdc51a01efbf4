"""
Handover of positions: a lane comes to the other lane's position.

First the new lane approaches the position while the other one runs; then, with the other drained,
it moves to the exact position. Each part is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

from airflow_streaming.changes.cutover.lanes import Checkpoints
from airflow_streaming.changes.handover.claims import BatchIdClaims, HandoverPair
from airflow_streaming.changes.handover.handover import HandoverPlan
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.model.records.epoch import OrderAct, StandbyAnswer, StandbyOrder

MOST_ROUNDS: Final = 5
"""A drained lane no longer moves: one round absorbs its input, a second one finds none."""
_PATIENCE_S: Final = 5.0
"""Seconds one move waits for an answer before the lanes are observed again."""
_POLL_S: Final = 0.1


class StandbyFailed(StreamingError):
    """The driver at the barrier could not execute its order."""


class PositionHandover:
    """
    Brings one lane to the other's position.

    That the lane that hands over is not as far as the other (``HandoverPlan.waiting``) means three
    things. While it runs, it has only to run on. Once it is drained, it is refused. On the way back
    it may be that it never came to write, which its claim must prove.

    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        *,
        by: str,
        now: Callable[[], datetime],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._checkpoints, self._by = checkpoints, by
        self._claiming: Final = BatchIdClaims(checkpoints)
        self._now, self._clock, self._sleep = now, clock, sleep

    def approach(self, way: HandoverPair) -> str | None:
        """
        Absorb the other lane's present position, once, while it runs.

        :returns: The reason to wait, or ``None`` if it is done.
        :raises StandbyFailed: The driver at the barrier failed.
        :raises CheckpointRefused: It can never reach the other's position.
        """
        if way.carries:
            return None
        if (waiting := self._unanswered(way)) is not None:
            return waiting
        found = {query: self._look(way, query) for query in way.queries}
        reasons = [over.waiting for over in found.values() if over.waiting]
        if reasons:
            return reasons[0]
        return self._absorb(way, found)

    def arrive(self, way: HandoverPair, *, has_written: bool = True) -> str | None:
        """
        Bring a lane to the exact position of the other, drained one, and claim its output.

        :param has_written: False if the lane that hands over may have written no batch at all: then one
            that is behind the other, and provably has written none, has nothing to hand over.
        :returns: The reason to wait, or ``None`` if it is done.
        :raises StandbyFailed: The driver at the barrier failed.
        :raises CheckpointRefused: It can never reach the other's position, or rows could be written
            twice; a user must check.
        """
        if way.carries:
            for query in way.queries:
                self._claiming.carry(way, query)
            return None
        for _ in range(MOST_ROUNDS):
            if (waiting := self._unanswered(way)) is not None:
                return waiting
            found = {query: self._look(way, query) for query in way.queries}
            at_barrier = [q for q in self._absorbing(found) if q in way.waiting]
            if not at_barrier:
                self._claiming.claim_all(way, found, has_written=has_written)
                return None
            if (waiting := self._absorb(way, found)) is not None:
                return waiting
        raise StandbyFailed(
            f"Epoch {way.epoch} of {way.behind.name} has fast-forwarded {MOST_ROUNDS} batches and is "
            "still not at the other lane's position."
        )

    def release(self, way: HandoverPair) -> None:
        """Let the driver at the barrier continue."""
        self._order(way, OrderAct.RELEASE)

    def _look(self, way: HandoverPair, query: str) -> HandoverPlan:
        return self._checkpoints.look(way.ahead_deployment, way.behind_deployment, query)

    def _absorbing(self, found: Mapping[str, HandoverPlan]) -> Iterator[str]:
        return (query for query, over in found.items() if over.absorb is not None)

    def _absorb(self, way: HandoverPair, found: Mapping[str, HandoverPlan]) -> str | None:
        batches: dict[str, int] = {}
        for query in self._absorbing(found):
            plan = found[query].absorb
            if plan is not None and query in way.waiting:
                self._checkpoints.plan(way.behind_deployment, query, plan)
                batches[query] = plan.batch
        if not batches:
            return None
        self._order(way, OrderAct.ABSORB, absorb=batches)
        return self._unanswered(way)

    def _order(
        self,
        way: HandoverPair,
        act: OrderAct,
        *,
        absorb: Mapping[str, int] | None = None,
    ) -> None:
        order = StandbyOrder(
            epoch=way.epoch,
            number=len(way.behind.orders(way.epoch)) + 1,
            act=act,
            at=self._now(),
            by=self._by,
            absorb=dict(absorb or {}),
        )
        way.behind.give_order(order)

    def _unanswered(self, way: HandoverPair) -> str | None:
        """Wait for the answer to the newest order; return the reason to wait on."""
        orders = way.behind.orders(way.epoch)
        if not orders:
            return None
        answer = self._await(way, orders[-1].number)
        if answer is None:
            return f"Epoch {way.epoch} of {way.behind.name} does order {orders[-1].number}."
        if answer.error:
            raise StandbyFailed(
                f"Epoch {way.epoch} of {way.behind.name} could not do order {answer.number}: "
                f"{answer.error}"
            )
        return None

    def _await(self, way: HandoverPair, number: int) -> StandbyAnswer | None:
        began = self._clock()
        while True:
            answer = way.behind.answer(way.epoch, number)
            if answer is not None or self._clock() - began >= _PATIENCE_S:
                return answer
            self._sleep(_POLL_S)
