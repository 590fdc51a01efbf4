"""
Snapshots of a stream's queries, for sensors and assets.

The stream is ours, by its name, or any stream, by its checkpoint. Our own driver reports by its
status; an external stream by its checkpoint, and perhaps its metrics endpoint. Gates read a
snapshot and need not know its origin. A readiness is three-valued: ready, not yet, or not without
intervention.

A subject travels in the kwargs of triggers, which a database keeps unencrypted, so it holds the id
of a connection and never its content.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from airflow_streaming.exceptions import closed
from airflow_streaming.model.observation import Observation, Verdict, VerdictState
from airflow_streaming.model.progress import MAX_OFFSET, BatchProgress, watermark_at
from airflow_streaming.model.status import QueryStatus, Status
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.readiness.pause import Pause
from airflow_streaming.supervision.stream_status import KeptDown, kept_down_by


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySnapshot:
    """
    Facts about one query; ``None`` means unknown, never zero.

    :param name: Its name; for an external query without one, the last part of its checkpoint.
    :param batch_id: The newest committed batch.
    :param committed_at: When it was committed, by the clock of the driver that wrote it.
    :param watermark: Event-time watermark that batch worked with: windows up to it are delivered.
    :param has_watermark: Whether the query has a watermark, which its first rows may not have moved
        yet. A checkpoint alone shows only that it has one.
    :param planned_batch: A batch that is planned and not committed.
    :param offsets: End offset of each source after the committed batch, in Spark's JSON; empty if
        one of them is incomplete.
    :param backlog_records: Sum over its sources, if every source reports it.
    """

    name: str
    batch_id: int | None = None
    committed_at: datetime | None = None
    watermark: datetime | None = None
    has_watermark: bool | None = None
    planned_batch: int | None = None
    offsets: tuple[str, ...] = ()
    backlog_records: float | None = None
    backlog_bytes: float | None = None
    backlog_files: float | None = None
    backlog_seconds: float | None = None
    read_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSnapshot:
    """
    Facts about a stream.

    :param who: The stream's name, or the checkpoint's location.
    :param epoch: The observed epoch, of a stream of ours.
    :param fresh: This observer has itself seen signs of life; a status that was merely read may be
        old.
    :param lost: Why it will not recover without intervention: it is stopped, or its circuit is
        open.
    :param pause: The stop, if its desired state is "stopped".
    :param lane: The live lane, of a stream of ours.
    :param output: The output of the lane's deployment; empty before the first.
    """

    who: str
    verdict: Verdict
    queries: tuple[QuerySnapshot, ...] = ()
    epoch: int | None = None
    fresh: bool = False
    lost: str | None = None
    pause: Pause | None = None
    lane: str | None = None
    output: str = ""


def sight_of(
    situation: ReconcileInput, who: str, *, earlier: Status | None = None
) -> StreamSnapshot:
    """
    Return the snapshot of a situation.

    :param earlier: The last status of an earlier epoch of the same deployment, for its commits: a
        restarted driver knows them only after its first batch.
    """
    seen, lost = situation.seen, _lost(situation)
    if seen is None:
        verdict = Verdict(state=VerdictState.STARTING, reason="The stream has never run.")
        return StreamSnapshot(who=who, verdict=verdict, lost=lost)
    return StreamSnapshot(
        who=who,
        verdict=judge(seen, situation.rules),
        queries=_queries_of(situation, seen, earlier),
        epoch=seen.epoch.number,
        fresh=seen.beating,
        lost=lost,
    )


def lacks_progress(status: Status | None) -> bool:
    """Return whether a status lacks the commits of a query."""
    return status is None or not status.queries or any(q.progress is None for q in status.queries)


def _lost(situation: ReconcileInput) -> str | None:
    circuit, seen = situation.circuit, situation.seen
    match kept_down_by(situation.desired, circuit, seen.epoch.number if seen else None):
        case KeptDown.STOPPED:
            return 'Desired state is "stopped".'
        case KeptDown.CIRCUIT if circuit is not None:
            return closed(f"The circuit is open: {circuit.reason}")
    return None


def _queries_of(
    situation: ReconcileInput, seen: Observation, earlier: Status | None
) -> tuple[QuerySnapshot, ...]:
    found = _queries(seen.status, earlier)
    deployment = situation.deployment
    if deployment is None or deployment.number == seen.epoch.deployment:
        return found
    # It may begin from an older checkpoint, as after a restore, and then reads its sources again.
    return tuple(replace(query, read_until=None) for query in found)


def _queries(status: Status | None, earlier: Status | None) -> tuple[QuerySnapshot, ...]:
    # The id belongs to the checkpoint: its commits stay, whichever driver runs the query now.
    committed = {query.id: query for query in earlier.queries} if earlier is not None else {}
    if status is None or not status.queries:
        return tuple(_as_of_then(query) for query in committed.values())
    return tuple(
        _as_of_then(replace(committed[query.id], name=query.name))
        if query.progress is None and query.id in committed
        else _query(query)
        for query in status.queries
    )


def _as_of_then(query: QueryStatus) -> QuerySnapshot:
    """Return only what stays true of a query of an earlier epoch."""
    then = _query(query)
    return QuerySnapshot(
        name=then.name,
        batch_id=then.batch_id,
        committed_at=then.committed_at,
        watermark=then.watermark,
        has_watermark=then.has_watermark,
        offsets=then.offsets,
        read_until=then.read_until,
    )


def _query(query: QueryStatus) -> QuerySnapshot:
    batch = query.progress
    if batch is None:
        return QuerySnapshot(name=query.name, planned_batch=query.planned_batch)
    records = _sum(batch, "backlog_records")
    return QuerySnapshot(
        name=query.name,
        batch_id=batch.batch_id if batch.batch_id >= 0 else None,
        committed_at=_committed_at(batch),
        watermark=_watermark(batch),
        # Spark names the watermark of every query that has one, from its first progress on.
        has_watermark=bool(batch.watermark),
        planned_batch=query.planned_batch,
        offsets=_offsets(batch),
        backlog_records=records,
        backlog_bytes=_sum(batch, "backlog_bytes"),
        backlog_files=_sum(batch, "backlog_files"),
        backlog_seconds=_seconds(records, batch.processed_rows_per_second),
        read_until=_read_until(batch),
    )


def _offsets(batch: BatchProgress) -> tuple[str, ...]:
    ends = [source.end_offset for source in batch.sources]
    # Two that were cut may look the same and not be.
    known = [end for end in ends if end is not None and len(end) < MAX_OFFSET]
    return tuple(known) if len(known) == len(ends) else ()


def _read_until(batch: BatchProgress) -> datetime | None:
    told = [_moment(source.read_until) for source in batch.sources]
    known = [moment for moment in told if moment is not None]
    return min(known) if known and len(known) == len(told) else None


def _sum(batch: BatchProgress, figure: str) -> float | None:
    told = [getattr(source, figure) for source in batch.sources]
    return sum(told) if told and None not in told else None


def _seconds(records: float | None, rate: float | None) -> float | None:
    if not records:
        return records
    return records / rate if rate else None


def _committed_at(batch: BatchProgress) -> datetime | None:
    begun = _moment(batch.at)
    try:
        return None if begun is None else begun + timedelta(milliseconds=batch.duration_ms)
    except OverflowError:
        return None


def _watermark(batch: BatchProgress) -> datetime | None:
    return None if watermark_at(batch.watermark) is None else _moment(batch.watermark)


def _moment(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text else None
        if found is None:
            return None
        # Spark writes UTC; a time without its zone is one as well.
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
