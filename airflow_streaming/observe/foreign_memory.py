"""
What an observer remembers of a foreign stream between two looks.

It fits in a small dict of ages, which a trigger hands to its task in the event, so that the task
need not listen as long again to come to the same verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from airflow_streaming.core.foreign.endpoint import Application, EndpointSight, EndpointState
from airflow_streaming.core.foreign.evidence import QueryEvidence, gauge_of
from airflow_streaming.core.foreign.tail import Tail


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMemory:
    """
    What is remembered of one query; times by the observer's monotonic clock.

    :param quiet_since: When its newest commit was first seen.
    :param planned_since: When its planned batch was first seen.
    :param fresh: A commit was made while the observer listened.
    :param gauge: The name its gauges go by, once seen.
    :param gauge_lost_since: When they were first missed.
    """

    committed: int | None
    quiet_since: float
    planned: int | None = None
    planned_since: float | None = None
    fresh: bool = False
    gauge: str | None = None
    gauge_lost_since: float | None = None

    def seen(self, tail: Tail, clock: float) -> QueryMemory:
        """Return the memory after a look at the checkpoint."""
        memory = self
        if tail.committed != self.committed:
            # Gauges that were lost before this commit were not those of this query.
            is_mistaken = self.gauge_lost_since is not None
            memory = replace(
                memory,
                committed=tail.committed,
                quiet_since=clock,
                # A lower one is of a new checkpoint in the same place.
                fresh=tail.committed is not None and tail.committed > _number(self.committed),
                gauge=None if is_mistaken else self.gauge,
                gauge_lost_since=None,
            )
        if tail.planned != memory.planned:
            since = clock if tail.planned is not None else None
            memory = replace(memory, planned=tail.planned, planned_since=since)
        return memory

    def asked(
        self, tail: Tail, gauges: frozenset[str] | None, clock: float, *, is_only: bool
    ) -> QueryMemory:
        """Return the memory after a look at the gauges of its application."""
        if gauges is None:
            return self
        name = self.gauge or gauge_of(tail, gauges, is_only=is_only)
        if name is None or name in gauges:
            return replace(self, gauge=name, gauge_lost_since=None)
        return replace(self, gauge_lost_since=_first(self.gauge_lost_since, clock))

    def evidence(self, tail: Tail, gauges: frozenset[str] | None, clock: float) -> QueryEvidence:
        """Return what is known of the query now."""
        has_gauge = None if gauges is None or self.gauge is None else self.gauge in gauges
        lost = self.gauge_lost_since if has_gauge is False else None
        return QueryEvidence(
            tail=tail,
            quiet_for=clock - self.quiet_since,
            planned_for=None if self.planned_since is None else clock - self.planned_since,
            fresh=self.fresh,
            has_gauge=has_gauge,
            gauge_lost_for=0.0 if lost is None else clock - lost,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignMemory:
    """
    What is remembered of a stream; times by the observer's monotonic clock.

    :param application: The application that its endpoint was first seen to be of.
    :param refused_since: When the endpoint began to refuse.
    :param changed_since: When the endpoint began to be of another application.
    :param well_since: Since when every look has found the stream well.
    """

    queries: dict[str, QueryMemory] = field(default_factory=dict)
    application: Application | None = None
    refused_since: float | None = None
    changed_since: float | None = None
    well_since: float | None = None

    def asked(self, endpoint: EndpointSight, clock: float) -> ForeignMemory:
        """Return the memory after a look at the endpoint."""
        if endpoint.state is not EndpointState.ANSWERED:
            is_refused = endpoint.state is EndpointState.REFUSED
            since = _first(self.refused_since, clock) if is_refused else None
            return replace(self, refused_since=since)
        first = self.application or endpoint.application
        is_other = first != endpoint.application
        return replace(
            self,
            application=first,
            refused_since=None,
            changed_since=_first(self.changed_since, clock) if is_other else None,
        )

    def shifted(self, seconds: float) -> ForeignMemory:
        """Return the memory without a time in which nobody could look."""
        queries = {
            name: replace(
                query,
                quiet_since=query.quiet_since + seconds,
                planned_since=_moved(query.planned_since, seconds),
                gauge_lost_since=_moved(query.gauge_lost_since, seconds),
            )
            for name, query in self.queries.items()
        }
        return replace(
            self,
            queries=queries,
            refused_since=_moved(self.refused_since, seconds),
            changed_since=_moved(self.changed_since, seconds),
            well_since=_moved(self.well_since, seconds),
        )

    def to_event(self, clock: float) -> dict[str, Any]:
        """Return the memory as ages in seconds, for another process to go on from."""
        application = self.application
        return {
            "application": [application.id, application.started] if application else None,
            "refused_for": _age(self.refused_since, clock),
            "changed_for": _age(self.changed_since, clock),
            "well_for": _age(self.well_since, clock),
            "queries": {
                name: {
                    "committed": query.committed,
                    "quiet_for": clock - query.quiet_since,
                    "planned": query.planned,
                    "planned_for": _age(query.planned_since, clock),
                    "fresh": query.fresh,
                    "gauge": query.gauge,
                    "gauge_lost_for": _age(query.gauge_lost_since, clock),
                }
                for name, query in self.queries.items()
            },
        }

    @classmethod
    def from_event(cls, data: dict[str, Any], clock: float) -> Self:
        """Go on from another process's memory."""
        told = data.get("application")
        return cls(
            application=Application(id=str(told[0]), started=str(told[1])) if told else None,
            refused_since=_begin(data.get("refused_for"), clock),
            changed_since=_begin(data.get("changed_for"), clock),
            well_since=_begin(data.get("well_for"), clock),
            queries={
                name: QueryMemory(
                    committed=query["committed"],
                    quiet_since=clock - float(query["quiet_for"]),
                    planned=query["planned"],
                    planned_since=_begin(query["planned_for"], clock),
                    fresh=bool(query["fresh"]),
                    gauge=query["gauge"],
                    gauge_lost_since=_begin(query["gauge_lost_for"], clock),
                )
                for name, query in data["queries"].items()
            },
        )


def _number(batch: int | None) -> int:
    return -1 if batch is None else batch


def _first(since: float | None, clock: float) -> float:
    return clock if since is None else since


def _moved(since: float | None, seconds: float) -> float | None:
    return None if since is None else since + seconds


def _age(since: float | None, clock: float) -> float | None:
    return None if since is None else clock - since


def _begin(age: float | None, clock: float) -> float | None:
    return None if age is None else clock - float(age)
