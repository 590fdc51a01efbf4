"""
Checkpoint + endpoint → Sight: one look at a stream that we did not launch.

Nothing is ever written where it looks. An observer has to listen before it can judge: the first
look of one without a memory says "starting", and what comes after is timed by its own clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_streaming.checkpoint.folders import Folders
from airflow_streaming.core.foreign.address import check_endpoint
from airflow_streaming.core.foreign.endpoint import EndpointSight, EndpointState
from airflow_streaming.core.foreign.evidence import ForeignEvidence, to_query_sight
from airflow_streaming.core.foreign.judge import judge_foreign
from airflow_streaming.core.foreign.tail import Tail
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.sight import Sight
from airflow_streaming.core.verdict import Verdict
from airflow_streaming.observe.endpoint import ask
from airflow_streaming.observe.foreign_memory import ForeignMemory, QueryMemory
from airflow_streaming.observe.tail import Tails


class ForeignObserver:
    """
    Looks at a stream by its checkpoint alone, and at its driver's metrics endpoint if it has one.

    :param folders: The checkpoint of one query, or the folder of a stream's checkpoints.
    :param rules: What to judge by; ``stall_after`` and ``stall_factor`` are what counts here.
    :param endpoint: ``http://host:port`` of the driver's web page.
    :param allowed: Endpoints that may be asked: those that are listed in the configuration, or the
        one that the driver's status names.
    :param memory: Where another observer left off.
    :param clock: Monotonic seconds.
    :param now: The time of day.
    :param asking: How an endpoint is asked.
    :raises SpecError: the endpoint is not an address, or may not be asked.
    """

    def __init__(
        self,
        folders: Folders,
        *,
        rules: HealthRules | None = None,
        endpoint: str | None = None,
        allowed: Collection[str] = (),
        memory: dict[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        asking: Callable[..., EndpointSight] = ask,
    ) -> None:
        self.who = folders.uri
        self._tails, self._rules = Tails(folders), rules or HealthRules()
        self._address = check_endpoint(endpoint, allowed) if endpoint is not None else None
        self._clock, self._now, self._asking = clock, now, asking
        self._heard, self._is_blind = clock(), False
        self._memory = ForeignMemory.from_event(memory, self._heard) if memory else ForeignMemory()

    def lose_sight(self) -> None:
        """Take note that a look failed: the time until the next one that succeeds is no silence."""
        self._is_blind = True

    def memory(self) -> dict[str, Any]:
        """Return what was learnt, for the next observer."""
        return self._memory.to_event(self._clock())

    def sight(self) -> Sight:
        """
        Look once; takes the time of two listings a query, and at most 3 s for the endpoint.

        :raises HomeUnavailable: the checkpoint's store could not be read; this says nothing of the
            stream.
        :raises RecordError: the location cannot be one of a stream's checkpoints.
        """
        # The endpoint comes first: a commit that is seen after it refused is a sign of life.
        endpoint = self._asking(self._address) if self._address is not None else None
        tails = self._tails.read()
        clock = self._clock()
        memory = self._awake(clock)
        if endpoint is not None:
            memory = memory.asked(endpoint, clock)
        gauges = _gauges(endpoint, memory)
        memory = _with_queries(memory, tails, gauges, clock)
        evidence = self._evidence(memory, tails, endpoint, gauges, clock)
        verdict = judge_foreign(evidence, self._rules)
        self._memory = _settled(memory, verdict, evidence, clock)
        healthy_for = clock - _since(self._memory.well_since, clock)
        return Sight(
            who=self.who,
            verdict=replace(verdict, healthy_for=timedelta(seconds=healthy_for)),
            queries=tuple(to_query_sight(tail) for tail in tails),
            fresh=bool(tails) and all(q.fresh or q.has_gauge for q in evidence.queries),
        )

    def _awake(self, clock: float) -> ForeignMemory:
        memory = self._memory
        if self._is_blind:
            # A store that was away was away for the stream too: it could not commit.
            memory = memory.shifted(clock - self._heard)
        self._heard, self._is_blind = clock, False
        return memory

    def _evidence(
        self,
        memory: ForeignMemory,
        tails: tuple[Tail, ...],
        endpoint: EndpointSight | None,
        gauges: frozenset[str] | None,
        clock: float,
    ) -> ForeignEvidence:
        return ForeignEvidence(
            who=self.who,
            now=self._now(),
            queries=tuple(memory.queries[t.name].evidence(t, gauges, clock) for t in tails),
            endpoint=endpoint,
            application=memory.application,
            refused_for=clock - _since(memory.refused_since, clock),
            changed_for=clock - _since(memory.changed_since, clock),
        )


def _gauges(endpoint: EndpointSight | None, memory: ForeignMemory) -> frozenset[str] | None:
    """Return the gauges of the application that the stream is known to be."""
    if endpoint is None or endpoint.state is not EndpointState.ANSWERED:
        return None
    return endpoint.queries if endpoint.application == memory.application else None


def _with_queries(
    memory: ForeignMemory, tails: tuple[Tail, ...], gauges: frozenset[str] | None, clock: float
) -> ForeignMemory:
    queries = dict(memory.queries)
    for tail in tails:
        known = queries.get(tail.name) or QueryMemory(committed=tail.committed, quiet_since=clock)
        known = known.seen(tail, clock)
        queries[tail.name] = known.asked(tail, gauges, clock, is_only=len(tails) == 1)
    return replace(memory, queries=queries)


def _settled(
    memory: ForeignMemory, verdict: Verdict, evidence: ForeignEvidence, clock: float
) -> ForeignMemory:
    """Return the memory with what the verdict adds to it."""
    if verdict.is_well:
        return replace(memory, well_since=_since(memory.well_since, clock))
    seen = evidence.endpoint.application if evidence.endpoint else None
    commits = any(query.quiet_for < evidence.changed_for for query in evidence.queries)
    if memory.changed_since is not None and commits and seen is not None:
        # The change has been told; from now on this application is the stream's.
        forgotten = {
            name: replace(query, gauge=None, gauge_lost_since=None)
            for name, query in memory.queries.items()
        }
        memory = replace(memory, application=seen, changed_since=None, queries=forgotten)
    return replace(memory, well_since=None)


def _since(since: float | None, clock: float) -> float:
    return clock if since is None else since
