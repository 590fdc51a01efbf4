"""
Handing over on one sink: the lane that takes over comes to exactly where the other one stands.

First near it, while the other runs on; then, with the other drained, to its very position. Each part
may be done again: what is planned is found planned, and what was ordered is found ordered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from airflow_streaming.checkpoint.handing_over import HandOver, batch_shift
from airflow_streaming.core.cutover.orders import OrderAct, StandbyAnswer, StandbyOrder
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.epoch import QueryClaim
from airflow_streaming.cutover.ports import Checkpoints
from airflow_streaming.exceptions import CheckpointRefused, StreamingError
from airflow_streaming.home.home import StreamHome

log: Final = logging.getLogger(__name__)

MOST_ROUNDS: Final = 5
"""A drained lane moves no more: one round absorbs what it has, a second one finds nothing."""
_PATIENCE_S: Final = 5.0
"""How long one move waits for an answer; afterwards the lanes are looked at again."""
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """
    Two deployments of which one takes over from the other.

    :param ahead: The lane that hands over, and its deployment.
    :param behind: The lane that takes over; the driver of ``epoch`` waits at the barrier.
    :param waiting: Names of the queries that wait there now; the others come later.
    :param carries: The checkpoint is made from the other's, and nothing is absorbed.
    """

    ahead: StreamHome
    ahead_deployment: Deployment
    behind: StreamHome
    behind_deployment: Deployment
    epoch: int
    queries: tuple[str, ...]
    waiting: tuple[str, ...]
    carries: bool


class StandbyFailed(StreamingError):
    """The driver at the barrier could not do what it was told."""


class Handing:
    """
    Brings one lane to the other's position.

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
            that is not as far as the other has nothing to hand over.
        :returns: What is waited for; ``None`` when it was done.
        :raises StandbyFailed: the driver at the barrier could not.
        :raises CheckpointRefused: it can never stand where the other stands.
        """
        if way.carries:
            for query in way.queries:
                self._carry(way, query)
            return None
        for _ in range(MOST_ROUNDS):
            if (waiting := self._unanswered(way)) is not None:
                return waiting
            found = {query: self._look(way, query) for query in way.queries}
            at_barrier = [q for q in self._absorbing(found) if q in way.waiting]
            if not at_barrier:
                return self._claim_all(way, found, told=told)
            if (waiting := self._absorb(way, found)) is not None:
                return waiting
        raise StandbyFailed(
            f"Epoch {way.epoch} of {way.behind.name} has absorbed {MOST_ROUNDS} batches and still "
            "is not where the other lane stands."
        )

    def release(self, way: Crossing) -> None:
        """Let the driver at the barrier go on."""
        shifts = {
            query: self._shift_of(way.behind, way.behind_deployment, query) for query in way.queries
        }
        self._order(way, OrderAct.RELEASE, shift={q: n for q, n in shifts.items() if n})

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
        shift: Mapping[str, int] | None = None,
    ) -> None:
        order = StandbyOrder(
            epoch=way.epoch,
            number=len(way.behind.orders(way.epoch)) + 1,
            act=act,
            at=self._now(),
            by=self._by,
            absorb=dict(absorb or {}),
            shift=dict(shift or {}),
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

    def _claim_all(self, way: Crossing, found: Mapping[str, HandOver], *, told: bool) -> str | None:
        for query, over in found.items():
            if over.waiting and told:
                raise CheckpointRefused(
                    f"Query {query!r} of {way.behind.name} cannot go on from where "
                    f"{way.ahead.name} was drained: {over.waiting}"
                )
            if over.absorb is not None and over.planned_in_blue is not None:
                raise CheckpointRefused(
                    f"Query {query!r} of {way.ahead.name} has left batch {over.planned_in_blue} "
                    f"half done, and that of {way.behind.name} is not at the barrier yet to take "
                    "it over."
                )
        for query, over in found.items():
            plan = over.absorb or over.planned
            if plan is not None and not over.waiting:
                self._checkpoints.plan(way.behind_deployment, query, plan)
            self._claim(way, query, over)
        return None

    def _claim(self, way: Crossing, query: str, over: HandOver) -> None:
        before = self._shift_of(way.ahead, way.ahead_deployment, query)
        pending = None if over.absorb is None else over.absorb.batch
        mine = pending if pending is not None else _number(over.green.batch)
        if over.waiting:
            # The other lane has written nothing with this query: the numbers are still its own.
            shift = self._shift_of(way.behind, way.behind_deployment, query)
        else:
            shift = batch_shift(
                blue_batch=_number(over.blue.batch), green_batch=mine, blue_shift=before
            )
        self._record(way, query, shift, absorb=pending)

    def _carry(self, way: Crossing, query: str) -> None:
        self._checkpoints.carry(way.ahead_deployment, way.behind_deployment, query)
        self._record(way, query, self._shift_of(way.ahead, way.ahead_deployment, query))

    def _record(self, way: Crossing, query: str, shift: int, *, absorb: int | None = None) -> None:
        claim = QueryClaim(
            query=query,
            query_id=self._checkpoints.query_id(way.behind_deployment, query),
            checkpoint=self._checkpoints.location(way.behind_deployment, query),
            epoch=way.epoch,
            batch_shift=shift,
            absorb=absorb,
        )
        way.behind.add_claim(way.behind_deployment.number, claim)

    def _shift_of(self, home: StreamHome, deployment: Deployment, query: str) -> int:
        found = self._checkpoints.query_id(deployment, query)
        return home.batch_shift(found) if found else 0


def _number(batch: int | None) -> int:
    # Before its first batch a query stands at -1: its next one is 0.
    return -1 if batch is None else batch
