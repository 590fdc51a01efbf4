"""
Observe an external stream by its checkpoint and metrics endpoint.

The memory fits in a small dict of ages, as for streams of this provider.

An observer writes no files. It must listen before it can judge: the first look without a memory
says "starting", and later changes are timed by its own clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, TypeVar

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import Verdict
from airflow_streaming.model.spark.logs import MAX_LOG_BYTES
from airflow_streaming.model.spark.tail import (
    RECENT,
    LogFile,
    Tail,
    batch_of,
    durations,
    intervals,
    parse_commit,
    parse_offsets,
    parse_query_id,
)
from airflow_streaming.storage.folders import Folders
from airflow_streaming.supervision.external.address import check_endpoint
from airflow_streaming.supervision.external.endpoint import ask
from airflow_streaming.supervision.external.endpoint_reply import (
    Application,
    EndpointSight,
    EndpointState,
)
from airflow_streaming.supervision.external.judge import (
    ExternalEvidence,
    QueryEvidence,
    gauge_of,
    judge_external,
    to_query_sight,
)
from airflow_streaming.supervision.readiness.snapshot import StreamSnapshot

Parsed = TypeVar("Parsed")
MAX_CHECKPOINTS: Final = 200
"""The most queries of one driver; a folder with more checkpoints holds many streams."""

_STRANGE: Final = (
    "it is a {}, and was not followed. Give the folder of the checkpoint itself, or remove it."
)

_ONLY_STRANGE: Final = (
    "it has no checkpoint, and {} links, pipes or devices that were not followed. Give the folder of the "
    "checkpoint itself."
)


class Tails:
    """
    Reads the tails of one checkpoint, or of all checkpoints in a folder.

    A log's files are written once, so a batch is cached until a newer one appears; a look at a
    quiet checkpoint is two listings.

    :param folders: The checkpoint, or the folder whose sub-folders are checkpoints.
    """

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._kept: dict[str, tuple[tuple[object, ...], Tail]] = {}
        self._ids: dict[str, str | None] = {}

    def read(self) -> tuple[Tail, ...]:
        """
        Return the tails of all queries by name; empty without a checkpoint.

        A link is not followed: its tail is unknown, for it may be one more query.

        :raises HomeUnavailable: The store could not be read; the stream's state is unknown.
        :raises RecordError: A folder is too large for a checkpoint.
        """
        own = self._tail("")
        if own is not None:
            return (own,)
        listed = self._folders.entries("", _checkpoint_names) or []
        below = sorted(entry.name for entry in listed if entry.is_folder)
        strange = sorted((entry for entry in listed if entry.strange), key=lambda one: one.name)
        if len(below) > MAX_CHECKPOINTS:
            raise RecordError(
                f"{self._folders.uri} has {len(below)} folders, more than {MAX_CHECKPOINTS}. Give "
                "the checkpoint of one query, or the folder of one stream's checkpoints."
            )
        found = [tail for folder in below if (tail := self._tail(folder)) is not None]
        if not found and strange:
            # Perhaps no folder of checkpoints: a page must not list the names in it.
            own_name = self._folders.uri.rstrip("/").rsplit("/", 1)[-1]
            return (Tail(name=own_name, unknown=_ONLY_STRANGE.format(len(strange))),)
        behind = (Tail(name=one.name, unknown=_STRANGE.format(one.strange)) for one in strange)
        return (*found, *behind)

    def _tail(self, folder: str) -> Tail | None:
        offsets = self._log(folder, "offsets")
        if offsets is None:
            return None
        # Commits are listed after offsets: a batch in between is seen done, never overdue.
        commits = self._log(folder, "commits") or []
        committed, newest = commits[-1] if commits else None, offsets[-1] if offsets else None
        # A commit that is written anew has another time.
        seen = (committed, newest)
        kept = self._kept.get(folder)
        if kept is not None and kept[0] == seen:
            return kept[1]
        tail = self._read(folder, offsets, commits)
        if tail.unknown is None:
            self._kept[folder] = (seen, tail)
        return tail

    def _log(self, folder: str, log: str) -> list[LogFile] | None:
        entries = self._folders.entries(_join(folder, log), _newest_names)
        if entries is None:
            return None
        files = [
            LogFile(batch=batch, modified=entry.modified)
            for entry in entries
            if not entry.is_folder and (batch := batch_of(entry.name)) is not None
        ]
        return sorted(files, key=lambda file: file.batch)

    def _read(self, folder: str, offsets: list[LogFile], commits: list[LogFile]) -> Tail:
        committed = commits[-1] if commits else None
        newest = offsets[-1].batch if offsets else None
        is_planned = newest is not None and (committed is None or newest > committed.batch)
        tail = Tail(
            name=folder or self._folders.uri.rstrip("/").rsplit("/", 1)[-1],
            committed=committed.batch if committed else None,
            planned=newest if is_planned else None,
            committed_at=committed.modified if committed else None,
            durations=durations(offsets, commits),
            intervals=intervals(commits),
            query_id=self._query_id(folder),
        )
        try:
            return self._with_content(folder, tail)
        except RecordError as err:
            return replace(tail, unknown=str(err))

    def _with_content(self, folder: str, tail: Tail) -> Tail:
        if tail.planned is not None:
            # Only to check that the plan's version is known.
            self._parsed(folder, f"offsets/{tail.planned}", parse_offsets)
        if tail.committed is None:
            return tail
        # Nothing in it is needed either: the watermark it tells is the next batch's, and what that
        # one completes is not written yet.
        self._parsed(folder, f"commits/{tail.committed}", parse_commit)
        plan = self._parsed(folder, f"offsets/{tail.committed}", parse_offsets)
        return replace(
            tail,
            watermark=plan.watermark if plan else None,
            offsets=plan.offsets if plan else (),
        )

    def _parsed(self, folder: str, path: str, parse: Callable[[bytes], Parsed]) -> Parsed | None:
        # Spark purges old batches at any time, so a missing file is not known rather than wrong.
        data = self._folders.read(_join(folder, path), MAX_LOG_BYTES)
        if data is None:
            return None
        try:
            return parse(data)
        except RecordError as err:
            raise RecordError(f"{path}: {err}") from err

    def _query_id(self, folder: str) -> str | None:
        if self._ids.get(folder) is None:
            try:
                data = self._folders.read(_join(folder, "metadata"), MAX_LOG_BYTES)
            except RecordError:
                data = None
            self._ids[folder] = parse_query_id(data) if data is not None else None
        return self._ids[folder]


def _newest_names(names: Iterable[str]) -> list[str]:
    batches = sorted(batch for name in names if (batch := batch_of(name)) is not None)
    return [str(batch) for batch in batches[-RECENT - 1 :]]


def _checkpoint_names(names: Iterable[str]) -> list[str]:
    return [n for n in names if n.isprintable() and n[:1] not in {"", ".", "_"} and len(n) <= 200]


def _join(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMemory:
    """
    The memory of one query; times by the observer's monotonic clock.

    :param quiet_since: When its newest commit was first seen.
    :param planned_since: When its planned batch was first seen.
    :param fresh: A commit was made while the observer listened.
    :param gauge: The name of its gauges, once seen.
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
            # Gauges that were lost before this commit belonged to another query.
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
        """Return the evidence on the query now."""
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
class ExternalHistory:
    """
    The memory of a stream; times by the observer's monotonic clock.

    :param application: The first application seen at its endpoint.
    :param refused_since: When the endpoint began to refuse.
    :param changed_since: When the endpoint began to belong to another application.
    :param well_since: Since when every look has found the stream well.
    """

    queries: dict[str, QueryMemory] = field(default_factory=dict)
    application: Application | None = None
    refused_since: float | None = None
    changed_since: float | None = None
    well_since: float | None = None

    def asked(self, endpoint: EndpointSight, clock: float) -> ExternalHistory:
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

    def shifted(self, seconds: float) -> ExternalHistory:
        """Return the memory without a time in which the stream could not be read."""
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
        """Return the memory as ages in seconds, from which another process continues."""
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
        """Continue from another process's memory."""
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


class ExternalObserver:
    """
    Observes a stream by its checkpoint alone, and by its driver's metrics endpoint if it has one.

    :param folders: The checkpoint of one query, or the folder of a stream's checkpoints.
    :param rules: Rules of health; ``stall_after`` and ``stall_factor`` matter here.
    :param endpoint: ``http://host:port`` of the driver's web page.
    :param allowed: Permitted endpoints: from the configuration, or from the driver's status.
    :param clock: Monotonic seconds.
    :param asking: Reads an endpoint.
    :raises SpecError: The endpoint is not an address, or not permitted.
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
        self._memory = (
            ExternalHistory.from_event(memory, self._heard) if memory else ExternalHistory()
        )

    def lose_sight(self) -> None:
        self._is_blind = True

    def memory(self) -> dict[str, Any]:
        """Return the memory for the next observer."""
        return self._memory.to_event(self._clock())

    def snapshot(self) -> StreamSnapshot:
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
        verdict = judge_external(evidence, self._rules)
        self._memory = _settled(memory, verdict, evidence, clock)
        healthy_for = clock - _since(self._memory.well_since, clock)
        return StreamSnapshot(
            who=self.who,
            verdict=replace(verdict, healthy_for=timedelta(seconds=healthy_for)),
            queries=tuple(to_query_sight(tail) for tail in tails),
            fresh=bool(tails) and all(q.fresh or q.has_gauge for q in evidence.queries),
        )

    def _awake(self, clock: float) -> ExternalHistory:
        memory = self._memory
        if self._is_blind:
            # A store that was away was away for the stream too: it could not commit.
            memory = memory.shifted(clock - self._heard)
        self._heard, self._is_blind = clock, False
        return memory

    def _evidence(
        self,
        memory: ExternalHistory,
        tails: tuple[Tail, ...],
        endpoint: EndpointSight | None,
        gauges: frozenset[str] | None,
        clock: float,
    ) -> ExternalEvidence:
        return ExternalEvidence(
            who=self.who,
            now=self._now(),
            queries=tuple(memory.queries[t.name].evidence(t, gauges, clock) for t in tails),
            endpoint=endpoint,
            application=memory.application,
            refused_for=clock - _since(memory.refused_since, clock),
            changed_for=clock - _since(memory.changed_since, clock),
        )


def _gauges(endpoint: EndpointSight | None, memory: ExternalHistory) -> frozenset[str] | None:
    """Return the gauges of the application that the stream is known to be."""
    if endpoint is None or endpoint.state is not EndpointState.ANSWERED:
        return None
    return endpoint.queries if endpoint.application == memory.application else None


def _with_queries(
    memory: ExternalHistory, tails: tuple[Tail, ...], gauges: frozenset[str] | None, clock: float
) -> ExternalHistory:
    queries = dict(memory.queries)
    for tail in tails:
        known = queries.get(tail.name) or QueryMemory(committed=tail.committed, quiet_since=clock)
        known = known.seen(tail, clock)
        queries[tail.name] = known.asked(tail, gauges, clock, is_only=len(tails) == 1)
    return replace(memory, queries=queries)


def _settled(
    memory: ExternalHistory, verdict: Verdict, evidence: ExternalEvidence, clock: float
) -> ExternalHistory:
    """Return the memory, updated by the verdict."""
    if verdict.is_well:
        return replace(memory, well_since=_since(memory.well_since, clock))
    seen = evidence.endpoint.application if evidence.endpoint else None
    commits = any(query.quiet_for < evidence.changed_for for query in evidence.queries)
    if memory.changed_since is not None and commits and seen is not None:
        # The change was reported; from now on this application is the stream's.
        forgotten = {
            name: replace(query, gauge=None, gauge_lost_since=None)
            for name, query in memory.queries.items()
        }
        memory = replace(memory, application=seen, changed_since=None, queries=forgotten)
    return replace(memory, well_since=None)


def _since(since: float | None, clock: float) -> float:
    return clock if since is None else since
