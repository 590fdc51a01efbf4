"""
Claims of the queries that take over an output, and the handover of positions.

A claim is written before the driver at the barrier is released, and is never changed. It names the
first batch that the query writes to the common output: earlier commits went elsewhere. So on the
way back it also proves that a query has written no batch there.

First the new lane approaches the position while the other one runs; then, with the other drained,
it moves to the exact position. Each part is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from airflow_streaming.changes.cutover.lanes import Checkpoints
from airflow_streaming.changes.handover.handover import HandoverPlan, batch_shift
from airflow_streaming.exceptions import CheckpointRefused, StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import OrderAct, QueryClaim, StandbyAnswer, StandbyOrder

__all__ = ["HandoverPair", "PositionHandover", "StandbyFailed"]
MOST_ROUNDS: Final = 5
"""A drained lane no longer moves: one round absorbs its input, a second one finds none."""
_PATIENCE_S: Final = 5.0
"""Seconds one move waits for an answer before the lanes are observed again."""
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverPair:
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


class BatchIdClaims:
    """Writes the claims of a lane that takes over from a drained one."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints

    def claim_all(
        self, way: HandoverPair, found: Mapping[str, HandoverPlan], *, told: bool
    ) -> None:
        """
        Plan the remaining batches, and claim every query; nothing is planned before all can be.

        :param told: See ``PositionHandover.arrive``.
        :raises CheckpointRefused: A query cannot continue at the drained position.
        """
        for query, over in found.items():
            self._check(way, query, over, told=told)
        for query, over in found.items():
            plan = over.absorb or over.planned
            if plan is not None and not over.waiting:
                self._checkpoints.plan(way.behind_deployment, query, plan)
            self._claim(way, query, over)

    def carry(self, way: HandoverPair, query: str) -> None:
        """Make a query's checkpoint from the drained lane's; its numbers continue."""
        self._checkpoints.carry(way.ahead_deployment, way.behind_deployment, query)
        shift = self.shift_of(way.ahead, way.ahead_deployment, query)
        self._record(way, query, shift, counts_from=None)

    def shift_of(self, home: StreamHome, deployment: Deployment, query: str) -> int:
        """Return the number added to the batch ids of a query, or 0."""
        found = self._checkpoints.query_id(deployment, query)
        return home.batch_shift(found) if found else 0

    def _check(self, way: HandoverPair, query: str, over: HandoverPlan, *, told: bool) -> None:
        if over.waiting and told:
            raise CheckpointRefused(
                f"Query {query!r} of {way.behind.name} cannot resume where {way.ahead.name} was drained: "
                f"{over.waiting}"
            )
        if over.waiting and not _has_written_nothing(way, query, over):
            raise CheckpointRefused(
                f"Query {query!r} of {way.behind.name} cannot take over from {way.ahead.name}, and "
                f"nothing proves that {way.ahead.name} has written nothing with it: {over.waiting} "
                "Continuing could write its rows a second time. Inspect both checkpoints and the output."
            )
        is_taken_over = over.waiting or (over.planned is not None and over.absorb is None)
        if over.planned_in_blue is not None and not is_taken_over:
            raise CheckpointRefused(
                f"Query {query!r} of {way.ahead.name} has left batch {over.planned_in_blue} half "
                f"done, and the query of {way.behind.name} cannot take it over: it is not at the "
                "barrier yet, or has no batch of its own to resume from."
            )

    def _claim(self, way: HandoverPair, query: str, over: HandoverPlan) -> None:
        if over.waiting:
            # Nothing of the other lane is in the output: the numbers are still its own.
            own = way.behind.claim_of(self._checkpoints.query_id(way.behind_deployment, query))
            shift, since = (own.batch_shift, own.counts_from) if own else (0, None)
            self._record(way, query, shift, counts_from=since)
            return
        pending = None if over.absorb is None else over.absorb.batch
        mine = pending if pending is not None else _number(over.green.batch)
        shift = batch_shift(
            blue_batch=_number(over.blue.batch),
            green_batch=mine,
            blue_shift=self.shift_of(way.ahead, way.ahead_deployment, query),
        )
        self._record(way, query, shift, absorb=pending, counts_from=mine + 1)

    def _record(
        self,
        way: HandoverPair,
        query: str,
        shift: int,
        *,
        absorb: int | None = None,
        counts_from: int | None,
    ) -> None:
        query_id = self._checkpoints.query_id(way.behind_deployment, query)
        if not query_id:
            # A query that has never begun is claimed by its driver, if its numbers are Spark's own.
            if absorb is None and not shift and not counts_from:
                return
            raise CheckpointRefused(
                f"The checkpoint of query {query!r} of {way.behind.name} names no query, so it "
                f"cannot be claimed: {self._checkpoints.location(way.behind_deployment, query)}. "
                "Look at its file 'metadata'."
            )
        claim = QueryClaim(
            query=query,
            query_id=query_id,
            checkpoint=self._checkpoints.location(way.behind_deployment, query),
            epoch=way.epoch,
            batch_shift=shift,
            absorb=absorb,
            counts_from=counts_from,
        )
        way.behind.add_claim(way.behind_deployment.number, claim)


def _has_written_nothing(way: HandoverPair, query: str, over: HandoverPlan) -> bool:
    """Tell whether the lane that hands over has not begun what its claim lets it write."""
    claims = way.ahead.claims(way.ahead_deployment.number)
    claim = next((claim for claim in claims if claim.query == query), None)
    if claim is None or claim.counts_from is None:
        return False
    # A planned batch may have been written in part.
    newest = max(_number(over.blue.batch), _number(over.planned_in_blue))
    return newest < claim.counts_from


def _number(batch: int | None) -> int:
    # Before its first batch a query stands at -1: its next one is 0.
    return -1 if batch is None else batch


class StandbyFailed(StreamingError):
    """The driver at the barrier could not execute its order."""


class PositionHandover:
    """
    Brings one lane to the other's position.

    That the lane that hands over is not as far as the other (``HandoverPlan.waiting``) means three
    things. While it runs, it has only to run on. Once it is drained, it is refused. On the way back
    it may be that it never came to write, which its claim must prove.

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

    def arrive(self, way: HandoverPair, *, told: bool = True) -> str | None:
        """
        Bring a lane to the exact position of the other, drained one, and claim its output.

        :param told: False if the lane that hands over may have written no batch at all: then one
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
                self._claiming.claim_all(way, found, told=told)
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
