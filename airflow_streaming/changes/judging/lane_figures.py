"""
The figures by which a lane is judged, and until when outputs are compared.

Blue and green may run on hosts whose clocks differ, so a lane's times are its own driver's and are
only compared with each other. A silent lane has no figures; this is an error of measuring, not a
failure.

A batch writes results up to its own watermark. The watermark of the next batch, which a checkpoint
shows too, is already later, and results between the two are not written yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self

from airflow_streaming.changes.judging.soak import (
    QUIET_S,
    Backlog,
    backlog_of,
    batches_of,
    written_by,
)
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.codec import format_time, parse_time
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.jobs.comparison import Bound
from airflow_streaming.model.observation import Observation, VerdictState
from airflow_streaming.model.progress import BatchProgress, watermark_at
from airflow_streaming.model.status import QueryStatus, Status
from airflow_streaming.supervision.health import judge

MOST_WAIT: Final = timedelta(days=1)
"""Longest wait for a row that a status is believed; a forged interval would hold a comparison for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFigures:
    """
    A query of a lane.

    :param batches: Batches committed in the epoch.
    :param idle: It has no input, and has not committed for a while.
    :param read: Input rows of the sampled batches.
    :param wrote: Rows written by these batches; ``None`` if the sink does not count them.
    :param backlog: The backlog after its newest batch; ``None`` if no source reports it.
    :param largest: Input rows of the largest sampled batch.
    :param newest: Input rows of its newest batch; ``None`` before the first.
    """

    name: str
    active: bool = True
    batches: int = 0
    idle: bool = False
    read: int = 0
    wrote: int | None = None
    backlog: Backlog | None = None
    largest: int = 0
    newest: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    """
    Facts about a lane's driver.

    :param at: Time of its newest heartbeat, by its own clock.
    :param started_at: When it started, by the same clock.
    :param trouble: Why it does not work at all, in a sentence; else empty.
    :param findings: Firing findings, by ``rule/query``, with the reason.
    """

    deployment: int
    epoch: int
    at: datetime
    started_at: datetime
    trouble: str = ""
    findings: Mapping[str, str] = field(default_factory=dict)
    queries: tuple[QueryFigures, ...] = ()

    def query(self, name: str) -> QueryFigures | None:
        """Return a query by its name."""
        return next((query for query in self.queries if query.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """
    Start of a green's judgment: the driver that had caught up, and when.

    It is stored in the facts of the step into ``shadowing``, so that results of another driver, or
    from before an interruption, never count.

    :param at: By the driver's own clock.
    :param seen_at: By the observing host's clock.
    """

    deployment: int
    epoch: int
    at: datetime
    seen_at: datetime

    @classmethod
    def of(cls, green: LaneFigures, now: datetime) -> Self:
        """Begin to count now."""
        return cls(deployment=green.deployment, epoch=green.epoch, at=green.at, seen_at=now)

    def facts(self) -> dict[str, str]:
        return {
            "green_deployment": str(self.deployment),
            "green_epoch": str(self.epoch),
            "green_at": format_time(self.at),
            "seen_at": format_time(self.seen_at),
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, str]) -> Self | None:
        """Read it from the facts of a step; ``None`` where the step does not tell."""
        try:
            return cls(
                deployment=int(facts["green_deployment"]),
                epoch=int(facts["green_epoch"]),
                at=parse_time(facts["green_at"], "green_at"),
                seen_at=parse_time(facts["seen_at"], "seen_at"),
            )
        except (KeyError, ValueError, RecordError):
            return None


def longest_wait(*statuses: Status | None) -> timedelta:
    """Return how long a row can wait for its output: an interval of the trigger and two of the newest batches, at most a day."""
    queries = [query for status in statuses if status is not None for query in status.queries]
    waits = (
        (query.processing_interval_s or 0)
        + 2 * max(query.recent_durations_ms[-3:], default=0) / 1000
        for query in queries
    )
    return timedelta(seconds=min(max((0.0, *waits)), MOST_WAIT.total_seconds()))


def figures_of(
    seen: Observation | None, rules: HealthRules, batches: Sequence[BatchProgress] = ()
) -> LaneFigures | None:
    """
    Return the figures of a lane, ``None`` when its driver has not been heard of, or cannot be seen.

    :param batches: Progress of the newest batches of its epoch, over all queries, oldest first.
    """
    if seen is None or seen.status is None:
        return None
    verdict = judge(seen, rules)
    if verdict.state is VerdictState.UNREACHABLE:
        return None
    return LaneFigures(
        deployment=seen.epoch.deployment,
        epoch=seen.epoch.number,
        at=seen.status.at,
        started_at=seen.status.started_at,
        trouble="" if verdict.is_well or verdict.findings else verdict.reason,
        findings={f"{found.rule}/{found.query}": found.reason for found in verdict.findings},
        queries=tuple(_query(query, batches) for query in seen.status.queries),
    )


def _query(query: QueryStatus, batches: Sequence[BatchProgress]) -> QueryFigures:
    rows = batches_of(query, batches)
    told = [backlog for batch in rows if (backlog := backlog_of(batch)) is not None]
    quiet = query.committed_ago_s is None or query.committed_ago_s >= QUIET_S
    return QueryFigures(
        name=query.name,
        active=query.active,
        batches=query.batches,
        idle=quiet and not query.processing and not query.data_available,
        read=sum(batch.input_rows for batch in rows),
        wrote=written_by(rows),
        backlog=told[-1] if told else None,
        largest=max((batch.input_rows for batch in rows), default=0),
        newest=rows[-1].input_rows if rows else None,
        error=query.error,
    )


def bound_of(
    blue: Sequence[BatchProgress],
    green: Sequence[BatchProgress],
    *,
    since: datetime | None = None,
    from_beginning: bool = False,
    in_flight: timedelta = timedelta(0),
) -> Bound:
    """
    Return the bound of a comparison that is made after these batches were read.

    :param blue: Progress of blue's batches since green began, over all queries, oldest first.
    :param green: The same of green.
    :param since: From when on both outputs are complete, where that is known.
    :param from_beginning: Green was started fresh, from the beginning of its sources.
    :param in_flight: The longest wait of both lanes.
    """
    return Bound(
        blue=written_until(blue),
        green=written_until(green),
        since=since,
        from_beginning=from_beginning and since is None,
        late_rows=sum(batch.dropped_rows or 0 for batch in (*blue, *green)),
        in_flight=in_flight,
    )


def written_until(batches: Sequence[BatchProgress]) -> datetime | None:
    """Return the watermark up to which all queries have written; ``None`` where none has one."""
    newest = {batch.query: batch for batch in batches}
    known = (watermark_at(batch.watermark) for batch in newest.values())
    return min((at for at in known if at is not None), default=None)
