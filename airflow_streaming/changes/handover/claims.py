"""
Claims of the queries that take over an output.

A claim is written before the driver at the barrier is released, and is never changed. It names the
first batch that the query writes to the common output: earlier commits went elsewhere. So on the
way back it also proves that a query has written no batch there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_streaming.changes.cutover.lanes import Checkpoints
from airflow_streaming.changes.handover.handover import HandoverPlan, batch_shift
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import QueryClaim


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
        self, way: HandoverPair, found: Mapping[str, HandoverPlan], *, has_written: bool
    ) -> None:
        """
        Plan the remaining batches, and claim every query; nothing is planned before all can be.

        :param has_written: See ``PositionHandover.arrive``.
        :raises CheckpointRefused: A query cannot continue at the drained position.
        """
        for query, over in found.items():
            self._check(way, query, over, has_written=has_written)
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

    def _check(
        self, way: HandoverPair, query: str, over: HandoverPlan, *, has_written: bool
    ) -> None:
        if over.waiting and has_written:
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
