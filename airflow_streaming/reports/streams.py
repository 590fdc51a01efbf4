"""The reports of streams: one stream, all streams of a home, and which lane is live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_streaming.model.codec import encode, format_time
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.health_rules import QUERY_FAILED
from airflow_streaming.model.names import Color, color_of
from airflow_streaming.model.observation import Observation, Verdict
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.alert import Alert
from airflow_streaming.model.records.control import Circuit, Desired, DesiredState, Event
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.policy import RestartDecision
from airflow_streaming.model.status import ExecutorStatus, QueryStatus, SinkStatus
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

if TYPE_CHECKING:
    from airflow_streaming.home.consumers import LiveOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamView:
    """
    What is known of a stream at one moment.

    :param decision: What was decided about the newest epoch, if it failed.
    :param restarts: Restarts decided since the circuit was last closed by a user.
    :param incidents: Alerts that are not over.
    :param is_live: Whether it is the lane that consumers of the stream read.
    :param has_lanes: Whether the stream has a second lane.
    :param change: How far an open upgrade or cutover is, or what an unfinished restore or undo does;
        empty when none is open.
    :param standby: How the hot standby stands; empty where there was none.
    """

    stream: str
    now: datetime
    desired: Desired | None
    circuit: Circuit | None
    deployment: Deployment | None
    seen: Observation | None
    verdict: Verdict | None
    decision: RestartDecision | None
    restarts: int
    events: tuple[Event, ...]
    incidents: tuple[Alert, ...] = ()
    is_live: bool = True
    has_lanes: bool = False
    change: str = ""
    standby: str = ""

    @property
    def color(self) -> Color:
        """Return the color of the lane."""
        return color_of(self.stream)

    @property
    def wants_to_run(self) -> bool:
        """Tell whether the desired state is running, which it is until a user says otherwise."""
        return self.desired is None or self.desired.state is DesiredState.RUNNING

    @property
    def circuit_is_open(self) -> bool:
        """Tell whether the circuit keeps the stream down."""
        return self.circuit is not None and self.circuit.holds(
            self.seen.epoch.number if self.seen else None
        )

    @property
    def is_all_right(self) -> bool:
        """
        Tell whether the stream works or waits for data, or is intentionally stopped.

        A lane that is not live may be down at any time.
        """
        is_down = self.verdict is None or self.verdict.has_ended
        if self.wants_to_run and not (is_down and not self.is_live):
            return self.verdict is not None and self.verdict.is_well
        return is_down

    @property
    def next_attempt_at(self) -> datetime | None:
        """Return when a restart is due; ``None`` when none is decided."""
        return self.decision.next_attempt_at if self.decision is not None else None

    @property
    def consecutive_failures(self) -> int:
        """Return the failures in a row without healthy progress; 0 while the newest epoch lives."""
        return self.decision.consecutive_failures if self.decision is not None else 0

    @property
    def backing_off(self) -> bool:
        """Tell whether a restart is decided and waits."""
        return self.decision is not None and self.decision.is_waiting(self.now)

    def to_dict(self) -> dict[str, Any]:
        """Return the view for ``--json``; records have the form they have in the home."""
        seen, verdict = self.seen, self.verdict
        found = (seen.epoch, seen.launch, seen.status, seen.exit, seen.death) if seen else ()
        return {
            "stream": self.stream,
            "color": self.color.value,
            "live": self.is_live,
            "change": self.change,
            "standby": self.standby,
            "at": format_time(self.now),
            "all_right": self.is_all_right,
            "verdict": verdict.state.value if verdict else None,
            "reason": verdict.reason if verdict else _NEVER_RUN,
            "findings": [encode(finding) for finding in verdict.findings] if verdict else [],
            "rules": [encode(finding) for finding in seen.findings] if seen else [],
            "incidents": [alert.to_dict() for alert in self.incidents],
            "consecutive_failures": self.consecutive_failures,
            "backing_off": self.backing_off,
            "process": seen.process.state.value if seen else None,
            "restarts": self.restarts,
            "next_attempt_at": format_time(self.next_attempt_at) if self.next_attempt_at else None,
            **{
                record.KIND: record.to_dict()
                for record in (self.desired, self.circuit, self.deployment, *found)
                if record is not None
            },
            "events": [event.to_dict() for event in self.events],
        }


_NEVER_RUN = "The stream has never run."


def stream_report(seen: StreamView) -> Report:
    """Return everything about one stream."""
    return report_of(_stream(seen))


def _stream(view: StreamView) -> Iterator[Block]:
    yield Answer(
        subject=value(view.stream),
        word=view.verdict.state.value if view.verdict else "never run",
        tone=Tone.GOOD if view.is_all_right else Tone.BAD,
        reason=value(view.verdict.reason if view.verdict else _NEVER_RUN),
    )
    yield facts(_facts(view))
    status = view.seen.status if view.seen else None
    if status is not None and status.queries:
        yield table(_QUERY, map(_query, status.queries), "batch, rows in/s, rows/s, state, backlog")
        yield from _errors(view, status.queries)
    if view.events:
        yield Heading("Last events")
        yield table(
            ("at", "event", "by"),
            ((clock(e.at), value(e.message), value(e.by)) for e in view.events),
        )


def _facts(view: StreamView) -> Iterator[tuple[Words, Words]]:
    desired, circuit, deployment = view.desired, view.circuit, view.deployment
    if view.has_lanes:
        yield "lane", _lane(view) if view.is_live else f"{_lane(view)}, not live"
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
        if circuit and view.circuit_is_open
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
    if view.seen is not None:
        yield from _driver(view.seen)
    if view.standby:
        yield "standby", value(view.standby)
    yield "restarts", f"{view.restarts} since the circuit was last closed by a user"
    yield "failures", f"{view.consecutive_failures} in a row"
    waits = ", backing off" if view.backing_off else ""
    yield "next attempt", f"{clock(view.next_attempt_at)}{waits}"
    for alert in view.incidents:
        yield "incident", value(f"{alert.key} since {clock(alert.at)}: {alert.reason}")


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


_QUERY = (
    *("query", "active", "batch", "rows in/s", "rows/s", "duration", "watermark", "state"),
    "backlog",
)


def _errors(view: StreamView, queries: Sequence[QueryStatus]) -> Iterator[Block]:
    """Yield the errors of queries, but for the one that the verdict above gives already."""
    verdict = view.verdict
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
    told = f"{sink.sink}: {sink.sent} sent, {sink.dropped} dropped"
    return ", ".join(part for part in (told, sink.url, sink.trouble) if part)


def _backlog(progress: BatchProgress) -> str:
    """Return the backlog in the first unit that every source reports."""
    for unit in ("records", "files", "bytes") if progress.sources else ():
        told = [getattr(source, f"backlog_{unit}") for source in progress.sources]
        if None not in told:
            return f"{sum(told):,.0f} {unit}"
    return ""


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.1f}"


def _lane(view: StreamView) -> str:
    return f"{view.color.value}, live" if view.is_live else view.color.value


def streams_report(
    views: Sequence[StreamView], home: str, unread: Mapping[str, str] | None = None
) -> Report:
    """
    Return one row for every stream of a home.

    :param home: Where it lies.
    :param unread: Why a stream cannot be shown, by its name.
    """
    return report_of(_streams(views, home, unread or {}))


def _streams(views: Sequence[StreamView], home: str, unread: Mapping[str, str]) -> Iterator[Block]:
    for name, why in unread.items():
        yield Paragraph((value(name), " cannot be shown: ", value(why)))
    if not views and not unread:
        yield Paragraph(("No stream has a deployment in ", code(home), "."))
    if not views:
        return
    lane = ("lane",) if any(view.has_lanes for view in views) else ()
    titles = ("stream", *lane, "verdict", "desired", "circuit", "deployment", "epoch", "reason")
    rows = ((value(one.stream), *((_lane(one),) if lane else ()), *_row(one)) for one in views)
    yield table(titles, rows)


def _row(view: StreamView) -> tuple[Words, ...]:
    return (
        view.verdict.state.value if view.verdict else "never run",
        "running" if view.wants_to_run else "stopped",
        "open" if view.circuit_is_open else "closed",
        str(view.deployment.number) if view.deployment else "",
        str(view.seen.epoch.number) if view.seen else "",
        value(view.verdict.reason if view.verdict else ""),
    )


def live_report(found: LiveOutput) -> Report:
    """Return which lane of a stream is live, and what was live before."""
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
            ("output", value(found.output)),
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
