"""Reports as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Most of what prints a table has no stream to report on.
    from airflow_streaming.cli.look import Report
    from airflow_streaming.core.epoch import Epoch
    from airflow_streaming.core.observation import Observation
    from airflow_streaming.core.progress import BatchProgress
    from airflow_streaming.core.status import QueryStatus, SinkStatus, Status

NOTHING = "-"


def show(report: Report) -> str:
    """Return everything about one stream."""
    verdict = report.verdict
    headline = f"{report.stream}: {verdict.state.upper() if verdict else 'NEVER RUN'}"
    reason = verdict.reason if verdict else "No driver of this stream was ever started."
    lines = [headline, f"  {reason}", "", *columns(_facts(report), gap=3)]
    status = report.seen.status if report.seen else None
    if status is not None and status.queries:
        lines += ["", *columns(_queries(status.queries))]
    if report.events:
        lines += ["", "Last events"]
        lines += [f"  {clock(e.at)}  {e.message}  ({e.by})" for e in report.events]
    return "\n".join(printable(line) for line in lines)


def show_all(reports: Sequence[Report]) -> str:
    """Return one line for every stream."""
    has_lanes = any(report.has_lanes for report in reports)
    head = ("stream", "verdict", "desired", "circuit", "deployment", "epoch", "reason")
    rows: list[tuple[str, ...]] = [head]
    for report in reports:
        rows.append(
            (
                report.stream,
                report.verdict.state.value if report.verdict else "never run",
                "running" if report.wants_to_run else "stopped",
                "open" if report.circuit_is_open else "closed",
                str(report.deployment.number) if report.deployment else NOTHING,
                str(report.seen.epoch.number) if report.seen else NOTHING,
                report.verdict.reason if report.verdict else NOTHING,
            )
        )
    if has_lanes:
        lanes = ["lane", *map(_lane, reports)]
        rows = [(first, lane, *rest) for (first, *rest), lane in zip(rows, lanes, strict=True)]
    return "\n".join(printable(line) for line in columns(rows))


def _lane(report: Report) -> str:
    return f"{report.colour.value}, live" if report.is_live else report.colour.value


def columns(rows: Iterable[Sequence[str]], gap: int = 2) -> list[str]:
    """Return rows as lines with aligned columns."""
    table = [*rows]
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    return [
        (" " * gap).join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def printable(text: str) -> str:
    """Return text from a record without characters that would steer the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def clock(moment: datetime | None) -> str:
    """Return a time as people read it, in UTC."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else NOTHING


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    desired, circuit, deployment = report.desired, report.circuit, report.deployment
    if report.has_lanes:
        yield "lane", _lane(report) if report.is_live else f"{_lane(report)}, not live"
    if report.change:
        yield "change", report.change
    yield (
        "desired",
        f"{desired.state}, by {desired.by} at {clock(desired.at)}: {desired.reason}"
        if desired
        else "running (nobody ever said otherwise)",
    )
    yield (
        "circuit",
        f"OPEN since {clock(circuit.at)}: {circuit.reason}"
        if circuit and report.circuit_is_open
        else "closed",
    )
    yield (
        "deployment",
        f"{deployment.number}: {deployment.application} on {deployment.runtime} "
        f"(Spark {deployment.spark_version})"
        if deployment
        else NOTHING,
    )
    if report.seen is not None:
        yield from _driver(report.seen)
    yield "restarts", f"{report.restarts} since the circuit was last closed by a person"
    yield "failures", f"{report.consecutive_failures} in a row"
    waits = ", backing off" if report.backing_off else ""
    yield "next attempt", f"{clock(report.next_attempt_at)}{waits}"
    for alert in report.incidents:
        yield "incident", f"{alert.key} since {clock(alert.at)}: {alert.reason}"


def _driver(seen: Observation) -> Iterator[tuple[str, str]]:
    yield "epoch", _epoch(seen.epoch)
    yield "driver", _process(seen)
    if seen.status is not None:
        age = _seconds(seen.now - seen.status.at)
        yield "heartbeat", f"{seen.status.beat}, {age} ago by the clocks of driver and this host"
        yield "Spark UI", seen.status.ui_url or NOTHING
        yield from (("sink", _sink(sink)) for sink in seen.status.sinks)
    yield "log", seen.launch.log if seen.launch else NOTHING


def _epoch(epoch: Epoch) -> str:
    return f"{epoch.number} ({epoch.cause}), begun {clock(epoch.created_at)} by {epoch.by}"


def _process(seen: Observation) -> str:
    told: Status | None = seen.status
    pid = seen.launch.pid if seen.launch else told.pid if told else None
    host = seen.launch.host.name if seen.launch else seen.epoch.host.name
    where = f"pid {pid} on {host}" if pid is not None else f"on {host}"
    return f"{where}, {seen.process.state}: {seen.process.detail}"


def _queries(queries: Iterable[QueryStatus]) -> Iterator[tuple[str, ...]]:
    yield (
        "query",
        "active",
        "batch",
        "rows in/s",
        "rows/s",
        "duration",
        "watermark",
        "state",
        "backlog",
    )
    for query in queries:
        progress = query.progress
        yield (
            query.name,
            "yes" if query.active else f"NO: {query.error}" if query.error else "no",
            str(progress.batch_id) if progress else NOTHING,
            _rate(progress.input_rows_per_second) if progress else NOTHING,
            _rate(progress.processed_rows_per_second) if progress else NOTHING,
            f"{progress.duration_ms} ms" if progress else NOTHING,
            (progress.watermark or NOTHING) if progress else NOTHING,
            _state(progress),
            _backlog(progress),
        )


def _sink(sink: SinkStatus) -> str:
    told = f"{sink.sink}: {sink.sent} sent, {sink.dropped} dropped"
    return ", ".join(part for part in (told, sink.url, sink.trouble) if part)


def _state(progress: BatchProgress | None) -> str:
    rows = progress.state_rows if progress else None
    return NOTHING if rows is None else f"{rows:,} rows"


def _backlog(progress: BatchProgress | None) -> str:
    """Return the backlog in the first unit that every source tells it in."""
    if progress is None or not progress.sources:
        return NOTHING
    for unit in ("records", "files", "bytes"):
        told = [getattr(source, f"backlog_{unit}") for source in progress.sources]
        if None not in told:
            return f"{sum(told):,.0f} {unit}"
    return NOTHING


def _rate(rate: float | None) -> str:
    return NOTHING if rate is None else f"{rate:,.1f}"


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f} s"
