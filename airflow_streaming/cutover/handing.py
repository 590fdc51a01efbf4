"""
Handing over on one sink: the lane that takes over comes to exactly where the other one stands.

First near it, while the other runs on; then, with the other drained, to its very position. Each part
may be done again: what is planned is found planned, and what was ordered is found ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

from airflow_streaming.checkpoint.handing_over import HandOver
from airflow_streaming.core.cutover.orders import OrderAct, StandbyAnswer, StandbyOrder
from airflow_streaming.cutover.claiming import Claiming
from airflow_streaming.cutover.crossing import Crossing
from airflow_streaming.cutover.ports import Checkpoints
from airflow_streaming.exceptions import StreamingError

__all__ = ["Crossing", "Handing", "StandbyFailed"]

MOST_ROUNDS: Final = 5
"""A drained lane moves no more: one round absorbs what it has, a second one finds nothing."""
_PATIENCE_S: Final = 5.0
"""How long one move waits for an answer; afterwards the lanes are looked at again."""
_POLL_S: Final = 0.1


class StandbyFailed(StreamingError):
    """The driver at the barrier could not do what it was told."""


class Handing:
    """
    Brings one lane to the other's position.

    That the lane that hands over is not as far as the other (``HandOver.waiting``) means three
    things. While it runs, it has only to run on. Once it is drained, it is refused. On the way back
    it may be that it never came to write, which its claim has to prove.

    :param by: Who acts, for the records.
    :param now: The time of day.
    :param clock: Monotonic seconds.
    :param sleep: Waits some seconds.
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
        self._claiming: Final = Claiming(checkpoints)
        self._now, self._clock, self._sleep = now, clock, sleep

    def approach(self, way: Crossing) -> str | None:
        """
        Absorb what the other lane has read so far, once; it runs on.

        :returns: What is waited for; ``None`` when it was done.
        :raises StandbyFailed: the driver at the barrier could not.
        :raises CheckpointRefused: it can never stand where the other stands.
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

    def arrive(self, way: Crossing, *, told: bool = True) -> str | None:
        """
        Bring a lane to the very position of the other, which is drained, and claim what it writes.

        :param told: False when the lane that hands over may have written nothing at all: then one
            that is not as far as the other, and provably has written nothing, has nothing to hand
            over.
        :returns: What is waited for; ``None`` when it was done.
        :raises StandbyFailed: the driver at the barrier could not.
        :raises CheckpointRefused: it can never stand where the other stands, or rows could be
            written twice; a person has to look.
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
                self._claiming.claim_all(way, found, told=told)
                return None
            if (waiting := self._absorb(way, found)) is not None:
                return waiting
        raise StandbyFailed(
            f"Epoch {way.epoch} of {way.behind.name} has absorbed {MOST_ROUNDS} batches and still "
            "is not where the other lane stands."
        )

    def release(self, way: Crossing) -> None:
        """Let the driver at the barrier go on."""
        self._order(way, OrderAct.RELEASE)

    def _look(self, way: Crossing, query: str) -> HandOver:
        return self._checkpoints.look(way.ahead_deployment, way.behind_deployment, query)

    def _absorbing(self, found: Mapping[str, HandOver]) -> Iterator[str]:
        return (query for query, over in found.items() if over.absorb is not None)

    def _absorb(self, way: Crossing, found: Mapping[str, HandOver]) -> str | None:
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
        way: Crossing,
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

    def _unanswered(self, way: Crossing) -> str | None:
        """Wait for the answer to the newest order; return what is waited for still."""
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

    def _await(self, way: Crossing, number: int) -> StandbyAnswer | None:
        began = self._clock()
        while True:
            answer = way.behind.answer(way.epoch, number)
            if answer is not None or self._clock() - began >= _PATIENCE_S:
                return answer
            self._sleep(_POLL_S)
