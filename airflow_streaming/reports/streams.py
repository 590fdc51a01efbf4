"""The reports of streams: one stream, all streams of a home, and which lane is live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.model.codec import encode, format_time
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.health_rules import QUERY_FAILED
from airflow_streaming.model.names import color_of
from airflow_streaming.model.observation import Observation, Verdict
from airflow_streaming.model.products.freshness import FreshnessFigures
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.control import Event
from airflow_streaming.model.records.size_change import SizeChange
from airflow_streaming.model.status import (
    DataLoss,
    ExecutorStatus,
    QueryStatus,
    SinkStatus,
    SizeChangeEnd,
)
from airflow_streaming.reports.report import (
    Block,
    Heading,
    Paragraph,
    Report,
    Tone,
    Words,
    code,
    facts,
    report_of,
    table,
    value,
)
from airflow_streaming.reports.report import Verdict as Answer
from airflow_streaming.reports.terminal import clock
from airflow_streaming.supervision.stream_status import Level, StreamStatus

if TYPE_CHECKING:
    from airflow_streaming.model.products.live_output import LiveOutput

TONES: Final = {
    Level.DOWN: Tone.BAD,
    Level.BAD: Tone.BAD,
    Level.WARN: Tone.WARNING,
    Level.BUSY: Tone.UNKNOWN,
    Level.WELL: Tone.GOOD,
    Level.OFF: Tone.NEUTRAL,
}

_QUERY = (
    *("query", "active", "batch", "rows in/s", "rows/s", "duration", "watermark", "state"),
    "backlog",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamView:
    """
    The status of a stream, with its events and open change for a report.

    :param has_lanes: The stream has a second lane.
    :param change: Progress of an open upgrade, cutover, restore or undo; empty without one.
    :param standby: State of the hot standby; empty without a standby.
    :param freshness: Figures of the freshness objective; ``None`` without an objective or a watermark.
    :param size: The newest change of the number of executors, made or recommended; ``None`` without one.
    :param size_end: The driver's answer to it; ``None`` without one.
    """

    status: StreamStatus
    events: tuple[Event, ...] = ()
    has_lanes: bool = False
    change: str = ""
    standby: str = ""
    freshness: FreshnessFigures | None = None
    size: SizeChange | None = None
    size_end: SizeChangeEnd | None = None

    @property
    def stream(self) -> str:
        """Return the name of the lane."""
        return self.status.stream

    def to_dict(self) -> dict[str, Any]:
        """Return the view for ``--json``; records have the form they have in the home."""
        status = self.status
        seen, verdict, standing = status.seen, status.verdict, status.standing
        found = (seen.epoch, seen.launch, seen.status, seen.exit, seen.death) if seen else ()
        return {
            "stream": status.stream,
            "color": color_of(status.stream).value,
            "live": status.is_live,
            "change": self.change,
            "standby": self.standby,
            "freshness": None if self.freshness is None else encode(self.freshness),
            "size": None if self.size is None else self.size.to_dict(),
            "size_end": None if self.size_end is None else self.size_end.to_dict(),
            "at": format_time(status.now),
            "all_right": status.is_all_right,
            "state": standing.word,
            "level": standing.level.value,
            "reason": standing.reason,
            "remedy": standing.remedy,
            "since": _time(standing.since),
            "verdict": verdict.state.value if verdict else None,
            "findings": [encode(finding) for finding in verdict.findings] if verdict else [],
            "rules": [encode(finding) for finding in seen.findings] if seen else [],
            "incidents": [alert.to_dict() for alert in status.incidents],
            "failures_in_a_row": status.failures_in_a_row,
            "backing_off": status.is_backing_off,
            "process": seen.process.state.value if seen else None,
            "restarts_24h": status.restarts_24h,
            "next_attempt_at": _time(status.next_attempt_at),
            "unread": list(status.unread),
            "data_loss": None if status.loss is None else encode(status.loss),
            "dag_differs": status.dag_differs,
            **{
                record.KIND: record.to_dict()
                for record in (status.desired, status.circuit, status.deployment, *found)
                if record is not None
            },
            "events": [event.to_dict() for event in self.events],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """
    A stream in the list of a home. ``status`` shows everything about one stream.

    :param since: When the standing began, where a record says so.
    :param seen_at: When its trigger saw it; ``None`` where this command has looked.
    """

    stream: str
    has_lanes: bool
    is_live: bool
    is_all_right: bool
    level: Level
    word: str
    reason: str
    remedy: str
    since: datetime | None
    desired: str
    circuit: str
    deployment: int | None
    epoch: int | None
    change: str
    incidents: int
    failures_in_a_row: int
    restarts_24h: int | None
    seen_at: datetime | None = None

    @classmethod
    def of(cls, view: StreamView) -> StreamRow:
        """Return the row of a stream."""
        status, standing = view.status, view.status.standing
        return cls(
            stream=status.stream,
            has_lanes=view.has_lanes,
            is_live=status.is_live,
            is_all_right=status.is_all_right,
            level=standing.level,
            word=standing.word,
            reason=standing.reason,
            remedy=standing.remedy,
            since=standing.since,
            desired="running" if status.wants_to_run else "stopped",
            circuit="open" if status.circuit_is_open else "closed",
            deployment=status.deployment.number if status.deployment else None,
            epoch=status.epoch or None,
            change=view.change,
            incidents=len(status.incidents),
            failures_in_a_row=status.failures_in_a_row,
            restarts_24h=status.restarts_24h,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the row for ``--json``."""
        return {
            "stream": self.stream,
            "color": color_of(self.stream).value,
            "live": self.is_live,
            "state": self.word,
            "level": self.level.value,
            "all_right": self.is_all_right,
            "reason": self.reason,
            "remedy": self.remedy,
            "since": _time(self.since),
            "desired_state": self.desired,
            "circuit_state": self.circuit,
            "deployment_number": self.deployment,
            "epoch_number": self.epoch,
            "change": self.change,
            "open_incidents": self.incidents,
            "failures_in_a_row": self.failures_in_a_row,
            "restarts_24h": self.restarts_24h,
            "seen_at": _time(self.seen_at),
        }


def _time(moment: datetime | None) -> str | None:
    return format_time(moment) if moment else None


def stream_report(seen: StreamView) -> Report:
    """Return everything about one stream."""
    return report_of(_stream(seen))


def _stream(view: StreamView) -> Iterator[Block]:
    yield Answer(
        subject=value(view.stream),
        word=view.status.standing.words,
        tone=TONES[view.status.standing.level],
        reason=value(view.status.standing.reason),
    )
    yield facts(_facts(view, view.status))
    status = view.status.seen.status if view.status.seen else None
    if status is not None and status.queries:
        yield table(_QUERY, map(_query, status.queries), "batch, rows in/s, rows/s, state, backlog")
        yield from _errors(view.status.verdict, status.queries)
    if view.events:
        yield Heading("Last events")
        yield table(
            ("at", "event", "by"),
            ((clock(e.at), value(e.message), value(e.by)) for e in view.events),
        )


def _facts(view: StreamView, status: StreamStatus) -> Iterator[tuple[Words, Words]]:
    desired, circuit, deployment = status.desired, status.circuit, status.deployment
    if status.standing.remedy:
        yield "what to do", value(status.standing.remedy)
    if view.has_lanes:
        lane = lane_words(status.stream, is_live=status.is_live)
        yield "lane", lane if status.is_live else f"{lane}, not live"
    if view.change:
        yield "change", value(view.change)
    yield (
        "desired",
        value(f"{desired.state}, by {desired.by} at {clock(desired.at)}: {desired.reason}")
        if desired
        else "running (the default)",
    )
    yield (
        "circuit",
        value(f"OPEN since {clock(circuit.at)}: {circuit.reason}")
        if circuit and status.circuit_is_open
        else "closed",
    )
    yield (
        "deployment",
        value(
            f"{deployment.number}: {deployment.application} on {deployment.runtime} "
            f"(Spark {deployment.spark_version})"
        )
        if deployment
        else "",
    )
    if status.dag_differs:
        yield "DAG", value(status.dag_differs)
    if status.seen is not None:
        yield from _driver(status.seen)
    yield from _data(view, status)
    yield "restarts", "" if status.restarts_24h is None else f"{status.restarts_24h} in 24 h"
    yield "failures", f"{status.failures_in_a_row} in a row"
    waits = ", backing off" if status.is_backing_off else ""
    yield "next attempt", f"{clock(status.next_attempt_at)}{waits}"
    for alert in status.incidents:
        yield "incident", value(f"{alert.key} since {clock(alert.at)}: {alert.reason}")
    for problem in status.unread:
        yield "unreadable", value(problem)


def _data(view: StreamView, status: StreamStatus) -> Iterator[tuple[Words, Words]]:
    if status.loss is not None:
        yield "data loss", value(loss_text(status.loss, status.now))
    if view.size is not None:
        text = size_text(view.size, view.size_end)
        yield "size", value(f"{text} ({clock(view.size.at)})")
    if view.standby:
        yield "standby", value(view.standby)
    if view.freshness is not None:
        yield "freshness", value(freshness_text(view.freshness))


def size_text(change: SizeChange, end: SizeChangeEnd | None) -> str:
    """Return a change of the size in words, with the driver's answer once there is one."""
    return change.sentence if end is None else f"{change.sentence} {end.sentence}"


def loss_text(loss: DataLoss, now: datetime) -> str:
    """Return when the first unread data is removed, in a line."""
    left = (loss.at - now).total_seconds()
    when = f"in {duration_text(left)}" if left > 0 else "by now"
    share = "" if loss.share is None else f", {loss.share:.0%} of its retention was left"
    return f"{loss.source} removes unread data of {loss.query} {when}, at {clock(loss.at)}{share}"


def freshness_text(found: FreshnessFigures) -> str:
    """Return the figures of a freshness objective in a line."""
    share = "not measured yet" if found.share is None else f"{found.share:.3%} on time"
    fires = [burn.alert.name for burn in found.burns if burn.fires]
    return (
        f"{'late now' if found.is_late else 'on time'}; {share} since {clock(found.since)}, "
        f"{found.budget_left:.0%} of the error budget left"
        + (f"; burns too fast ({', '.join(fires)})" if fires else "")
    )


def _driver(seen: Observation) -> Iterator[tuple[Words, Words]]:
    epoch = seen.epoch
    yield (
        "epoch",
        value(f"{epoch.number} ({epoch.cause}), begun {clock(epoch.created_at)} by {epoch.by}"),
    )
    yield "driver", value(_process(seen))
    if seen.status is not None:
        seconds = round((seen.now - seen.status.at).total_seconds())
        age = f"{duration_text(abs(seconds))} {'ago' if seconds >= 0 else 'ahead'}"
        yield "heartbeat", f"{seen.status.beat}, {age} by the clocks of driver and this host"
        yield "Spark UI", value(seen.status.ui_url or "")
        if seen.status.executors is not None:
            yield "executors", value(_executors(seen.status.executors))
        yield from (("sink", value(_sink(sink))) for sink in seen.status.sinks)
    yield "log", value((seen.launch.log if seen.launch else "") or "")


def _executors(seen: ExecutorStatus) -> str:
    wanted = "" if seen.wanted is None else f" of {seen.wanted} wanted"
    none = "" if seen.none_for_s is None else f", none for {duration_text(seen.none_for_s)}"
    lost = f"{seen.lost_last_hour} lost in the last hour"
    reason = f" (the last one: {seen.reason})" if seen.reason else ""
    return f"{seen.alive}{wanted} alive{none}, {lost}{reason}, {seen.failed_tasks} failed tasks"


def _process(seen: Observation) -> str:
    pid = f"pid {seen.status.pid}" if seen.status else ""
    driver = seen.launch.driver if seen.launch else pid
    host = seen.launch.host.name if seen.launch else seen.epoch.host.name
    where = f"{driver} on {host}" if driver else f"on {host}"
    return f"{where}, {seen.process.state}: {seen.process.detail}"


def _errors(verdict: Verdict | None, queries: Sequence[QueryStatus]) -> Iterator[Block]:
    """Yield the errors of queries, except the error in the verdict."""
    above = verdict.query if verdict is not None and verdict.rule == QUERY_FAILED else ""
    for query in queries:
        if query.error and query.name != above:
            yield Paragraph(("Query ", value(query.name), " has failed: ", value(query.error)))


def _query(query: QueryStatus) -> tuple[Words, ...]:
    active = "yes" if query.active else "FAILED" if query.error else "no"
    progress = query.progress
    if progress is None:
        return value(query.name), value(active), *[""] * (len(_QUERY) - 2)
    return (
        value(query.name),
        value(active),
        str(progress.batch_id),
        _rate(progress.input_rows_per_second),
        _rate(progress.processed_rows_per_second),
        f"{progress.duration_ms} ms",
        value(progress.watermark or ""),
        "" if progress.state_rows is None else f"{progress.state_rows:,} rows",
        _backlog(progress),
    )


def _sink(sink: SinkStatus) -> str:
    message = f"{sink.sink}: {sink.sent} sent, {sink.dropped} dropped"
    return ", ".join(part for part in (message, sink.url, sink.trouble) if part)


def _backlog(progress: BatchProgress) -> str:
    """Return the backlog in the first unit that every source reports."""
    for unit in ("records", "files", "bytes") if progress.sources else ():
        told = [getattr(source, f"backlog_{unit}") for source in progress.sources]
        if None not in told:
            return f"{sum(told):,.0f} {unit}"
    return ""


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.1f}"


def lane_words(lane: str, *, is_live: bool) -> str:
    """Return the color of a lane, and whether consumers read it."""
    color = color_of(lane).value
    return f"{color}, live" if is_live else color


def streams_report(
    rows: Sequence[StreamRow],
    home: str,
    unread: Mapping[str, str] | None = None,
    now: datetime | None = None,
    asked: str = "",
) -> Report:
    """
    Return one row for every stream of a home.

    :param asked: The options that chose some of the streams; empty for all.
    :param unread: Errors of unreadable streams, by name.
    :param now: The time of day, for the age of rows that triggers have left; ``None`` without ages.
    """
    return report_of(_streams(rows, home, unread or {}, now, asked))


def _streams(
    rows: Sequence[StreamRow],
    home: str,
    unread: Mapping[str, str],
    now: datetime | None,
    asked: str,
) -> Iterator[Block]:
    for name, why in unread.items():
        yield Paragraph((value(name), " cannot be shown: ", value(why)))
    if not rows and not unread:
        known = ("No stream of ", code(home), " matches ", code(asked), ".")
        yield Paragraph(known if asked else ("No stream has a deployment in ", code(home), "."))
    if not rows:
        return
    lane = ("lane",) if any(row.has_lanes for row in rows) else ()
    ages = now if any(row.seen_at for row in rows) else None
    seen = ("seen",) if ages else ()
    titles = (
        "stream",
        *lane,
        "state",
        *seen,
        "desired",
        "circuit",
        "deployment",
        "epoch",
        "reason",
    )
    yield table(titles, (_row(row, ages, with_lane=bool(lane)) for row in rows))


def _row(row: StreamRow, now: datetime | None, *, with_lane: bool) -> tuple[Words, ...]:
    return (
        value(row.stream),
        *((lane_words(row.stream, is_live=row.is_live),) if with_lane else ()),
        row.word.replace("_", " "),
        *((age_words(row.seen_at, now),) if now is not None else ()),
        row.desired,
        row.circuit,
        str(row.deployment or ""),
        str(row.epoch or ""),
        value(row.reason),
    )


def age_words(seen_at: datetime | None, now: datetime) -> str:
    """Return how long ago a trigger saw a stream; empty for a stream with a look of its own."""
    if seen_at is None:
        return ""
    return f"{duration_text(max(0, round((now - seen_at).total_seconds())))} ago"


def live_report(found: LiveOutput) -> Report:
    return report_of(_live(found))


def _live(found: LiveOutput) -> Iterator[Block]:
    yield Answer(
        subject=value(found.stream),
        word=f"{found.color.value} is live",
        tone=Tone.GOOD,
        reason=f"Since {clock(found.since)}." if found.since else "It was never cut over.",
    )
    yield facts(
        (
            ("lane", value(found.lane)),
            ("deployment", str(found.deployment)),
            # A folder that no query writes would send a consumer of a topic to nothing.
            *(("writes", value(place)) for place in found.places or (found.output,)),
        )
    )
    if found.history:
        yield Heading("Earlier periods")
        yield table(
            ("until", "lane", "deployment", "output"),
            (
                (clock(one.until), value(one.lane), str(one.deployment), value(one.output))
                for one in reversed(found.history)
            ),
        )
