"""
What rules have to say, worked out the long way, from everything, at every step.

Nothing here is shared with the product but its records. The model keeps no state: it lays the whole
history out as stretches of time, and asks of each whether the figure was bad or clear in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from airflow_streaming.model.health_rules import HealthRule
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.status import QueryStatus, Status

GOOD = "good"
"""Stands for a figure that is good whatever the bound."""

HEALED_BY_IDLENESS = {
    "processing_share",
    "batch_seconds",
    "batch_share",
    "dropped_rows",
    "state_commit_seconds",
    "cache_miss_share",
    "backlog_records",
    "backlog_bytes",
    "backlog_files",
    "backlog_seconds",
    "repaired_snapshots",
}


class Said(NamedTuple):
    """One finding, without its words."""

    rule: str
    query: str
    source: str | None
    state: str
    since: float | None = None


@dataclass
class Placed:
    """A batch with its times on the model's line."""

    row: BatchProgress
    start: float
    end: float
    gap: float | None


def seconds_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def lay_out(rows: Sequence[BatchProgress]) -> tuple[list[Placed], float]:
    """Return the batches one after the other, and what was added to the driver's clock."""
    placed: list[Placed] = []
    added = 0.0
    for row in rows:
        if placed and row.batch_id <= placed[-1].row.batch_id:
            continue
        start = seconds_of(row.at) + added
        gap = None
        if placed:
            if start < placed[-1].end - 1.0:
                added += placed[-1].end - start
                start = placed[-1].end
            if row.batch_id == placed[-1].row.batch_id + 1:
                gap = start - placed[-1].start
        floor = placed[-1].end if placed else start
        placed.append(Placed(row, start, max(floor, start + row.duration_ms / 1000), gap))
    return placed, added


def say(rules: Sequence[HealthRule], rows: Sequence[BatchProgress], status: Status) -> list[Said]:
    said: list[Said] = []
    for rule in rules:
        spoken_of = [q for q in status.queries if rule.query is None or q.name == rule.query]
        if not spoken_of:
            said.append(Said(rule.name, "", None, "unknown"))
        for query in spoken_of:
            said += _of_query(rule, query, [r for r in rows if r.query == query.name], status)
    return said


def _of_query(
    rule: HealthRule, query: QueryStatus, rows: list[BatchProgress], status: Status
) -> list[Said]:
    if not query.active:
        return [Said(rule.name, query.name, None, "unknown")]
    if rule.metric is Metric.COMMIT_AGE_SECONDS:
        return [_commit_age(rule, query, status)]
    if rule.metric not in {
        Metric.BACKLOG_RECORDS,
        Metric.BACKLOG_BYTES,
        Metric.BACKLOG_FILES,
        Metric.LOSS_SECONDS,
        Metric.LOSS_SHARE,
    }:
        return [_of_subject(rule, query, rows, status, None)]
    last = lay_out(rows)[0][-1].row if rows else None
    names = list(dict.fromkeys(s.source for s in last.sources)) if last else []
    names = [name for name in names if rule.source is None or rule.source in name]
    if not names:
        return [Said(rule.name, query.name, None, "unknown")]
    return [_of_subject(rule, query, rows, status, name) for name in names]


def _commit_age(rule: HealthRule, query: QueryStatus, status: Status) -> Said:
    works = query.processing and (query.data_available or query.batch_for_s is not None)
    if works:
        ages = [query.batch_for_s, query.committed_ago_s]
        if ages[0] is None:
            return Said(rule.name, query.name, None, "unknown")
        age = min(a for a in ages if a is not None)
    elif query.data_available:
        waits = query.committed_ago_s if query.ready_for_s is None else query.ready_for_s
        if waits is None:
            return Said(rule.name, query.name, None, "unknown")
        age = waits
    else:
        return Said(rule.name, query.name, None, "clear")
    if age <= rule.bound:
        return Said(rule.name, query.name, None, "clear")
    ripe = age >= rule.bound + rule.sustained_for.total_seconds()
    return Said(rule.name, query.name, None, "firing" if ripe else "pending")


def _of_subject(
    rule: HealthRule,
    query: QueryStatus,
    rows: list[BatchProgress],
    status: Status,
    source: str | None,
) -> Said:
    placed, added = lay_out(rows)
    clock = _Clock(query, status, placed, added)
    if rule.metric is Metric.INPUT_RATE:
        events = _rate_events(rule, placed, clock)
        frozen: list[tuple[float, float]] = []
    else:
        events, frozen = _batch_events(rule, placed, clock, source)
    state, since = _state(rule, events, frozen, clock.now)
    return Said(rule.name, query.name, source, state, None if since is None else since - added)


class _Clock:
    """What time it is on the line, and what goes on."""

    def __init__(
        self, query: QueryStatus, status: Status, placed: list[Placed], added: float
    ) -> None:
        now = status.at.timestamp() + added
        latest = query.progress
        if latest is not None and query.committed_ago_s is not None:
            ended = seconds_of(latest.at) + latest.duration_ms / 1000
            ahead = status.at.timestamp() - ended - query.committed_ago_s
            now -= ahead if abs(ahead) > 60 else 0.0
        self.now = max([now] + [p.end for p in placed[-1:]])
        self.interval = query.processing_interval_s or 0.0
        self.late = latest is not None and (not placed or latest.batch_id > placed[-1].row.batch_id)
        self.works = query.processing and (query.data_available or query.batch_for_s is not None)
        self.idle = not self.works and not query.data_available
        end = placed[-1].end if placed else 0.0
        self.quiet_until = self.now
        if self.works:
            begun = -math.inf if query.batch_for_s is None else self.now - query.batch_for_s
            self.quiet_until = max(end, begun)
        self.input_known_until = min(end, self.now) if self.late else self.quiet_until
        age = query.committed_ago_s
        since_start = (status.at - status.started_at).total_seconds()
        self.query_age: float = since_start if age is None else age


def _rate_events(
    rule: HealthRule, placed: list[Placed], clock: _Clock
) -> list[tuple[float, float | str]]:
    over = rule.mean_over.total_seconds()
    begun = placed[0].start if placed else clock.now - clock.query_age

    def rate(at: float) -> float:
        return sum(p.row.input_rows for p in placed if p.end <= at < p.end + over) / over

    # The rate changes when a batch ends and when one leaves the window.
    changes = {begun + over} | {p.end for p in placed} | {p.end + over for p in placed}

    def is_seen(at: float) -> bool:
        return not any(p.start < at < p.end for p in placed) and (
            at <= clock.input_known_until or any(at == p.end for p in placed)
        )

    # At the end of a batch the rate shows what happened behind it.
    return [(at, rate(at)) for at in sorted(changes) if at >= begun + over and is_seen(at)]


def _batch_events(
    rule: HealthRule, placed: list[Placed], clock: _Clock, source: str | None
) -> tuple[list[tuple[float, float | str]], list[tuple[float, float]]]:
    gives = [_gives(rule, p, clock.interval, source) for p in placed]
    first_kept = _after_last_silence(gives)
    events: list[tuple[float, float | str]] = []
    frozen: list[tuple[float, float]] = []
    heals = rule.metric.value in HEALED_BY_IDLENESS
    over = rule.mean_over.total_seconds()
    for i in range(first_kept, len(placed)):
        p = placed[i]
        window = [p]
        if over:
            window = [
                q
                for k, q in enumerate(placed)
                if first_kept <= k <= i and p.end - over < q.end <= p.end
            ]
        if gives[i] is not None and (not over or p.end - placed[0].start >= over):
            figure = _figure(rule, window, clock.interval, source)
            if figure is not None:
                events.append((p.end, figure))
        if not any(g is not None for g in gives[first_kept : i + 1]):
            continue
        due = max(p.end, p.start + clock.interval) + 30
        is_last = i == len(placed) - 1
        until = clock.quiet_until if is_last else placed[i + 1].start
        if until <= due or (is_last and clock.late):
            continue
        if heals and (not is_last or clock.idle or clock.works):
            events.append((due, GOOD))
        else:
            frozen.append((due, until))
    return events, frozen


def _after_last_silence(gives: list[tuple[float, ...] | None]) -> int:
    """Return where the figures begin that still count: 20 batches without one forget the rest."""
    kept = 0
    run = 0
    for i, gave in enumerate(gives):
        run = run + 1 if gave is None else 0
        if run >= 20:
            kept = i + 1
    return kept


def _gives(
    rule: HealthRule, p: Placed, interval: float, source: str | None
) -> tuple[float, ...] | None:
    row = p.row
    if source is not None:
        field = "loss_in_s" if rule.metric is Metric.LOSS_SECONDS else rule.metric.value
        found = [getattr(s, field) for s in row.sources if s.source == source]
        found = [figure for figure in found if figure is not None]
        worst = min if rule.metric in {Metric.LOSS_SECONDS, Metric.LOSS_SHARE} else max
        return (worst(found),) if found else None
    if rule.metric is Metric.PROCESSING_SHARE:
        times = [] if p.gap is None else [p.gap]
        if row.input_rows > 0 and row.input_rows_per_second:
            times.append(row.input_rows / row.input_rows_per_second)
        work = row.duration_ms / 1000
        if row.input_rows > 0 and row.processed_rows_per_second:
            work = row.input_rows / row.processed_rows_per_second
        return (max(times), work) if times else None
    if rule.metric is Metric.BACKLOG_SECONDS:
        told = [s.backlog_records for s in row.sources if s.backlog_records is not None]
        return (sum(told),) if told else None
    figure = {
        "batch_seconds": row.duration_ms / 1000,
        "batch_share": row.duration_ms / 1000 / interval if interval else None,
        "watermark_delay_seconds": row.watermark_delay_s,
        "state_rows": row.state_rows,
        "state_bytes": row.state_bytes,
        "dropped_rows": row.dropped_rows,
        "state_commit_seconds": None if row.state_commit_ms is None else row.state_commit_ms / 1000,
        "cache_miss_share": row.cache_miss_share,
        "observed": row.observed.get(rule.column or ""),
        **{
            name: row.figures.get(name)
            for name in (
                *("missing_executors", "lost_executors", "failed_tasks"),
                *("snapshot_lag", "repaired_snapshots"),
            )
        },
    }[rule.metric.value]
    return None if figure is None else (figure,)


def _figure(
    rule: HealthRule, window: list[Placed], interval: float, source: str | None
) -> float | None:
    given = [(p, _gives(rule, p, interval, source)) for p in window]
    told = [(p, gave) for p, gave in given if gave is not None]
    rows = sum(p.row.input_rows for p, _ in told)
    if rule.metric is Metric.PROCESSING_SHARE:
        work = math.fsum(gave[1] for _, gave in told)
        return math.fsum(gave[0] for _, gave in told) / work if rows and work else None
    mean = math.fsum(gave[0] for _, gave in told) / len(told)
    if rule.metric is Metric.BACKLOG_SECONDS and mean:
        work = math.fsum(p.row.duration_ms / 1000 for p, _ in told)
        return mean * work / rows if rows else None
    return mean


def _state(
    rule: HealthRule,
    events: list[tuple[float, float | str]],
    frozen: list[tuple[float, float]],
    now: float,
) -> tuple[str, float | None]:
    """
    Return the state and when it began.

    A rule fires at the end of a bad stretch's ripening and clears at the end of a clear one's; what
    happened last holds.
    """
    events = [event for event in events if event[0] <= now]
    if not events:
        return "unknown", None
    events = [*events, (math.inf, GOOD)]
    bad = _runs(events, lambda figure: figure != GOOD and rule.is_bad(float(figure)))
    clear = _runs(events, lambda figure: figure == GOOD or rule.is_clear(float(figure)))
    fired = [
        (ripe, begin)
        for begin, end in bad
        if (ripe := _after(begin, rule.sustained_for, frozen)) <= min(end, now)
    ]
    cleared = [
        (ripe, begin)
        for begin, end in clear
        if (ripe := _after(begin, rule.clear_for, frozen)) <= min(end, now)
    ]
    firing_since: float | None = None
    quiet_since = events[0][0]
    # Of two that ripen at once, the stretch that began earlier was there first.
    turns = [(at, begin, True) for at, begin in fired]
    turns += [(at, begin, False) for at, begin in cleared]
    for at, _, fires in sorted(turns):
        if fires and firing_since is None:
            firing_since = at
        elif not fires and firing_since is not None:
            firing_since, quiet_since = None, at
    if firing_since is not None:
        return "firing", firing_since
    pending = [begin for begin, end in bad if begin <= now < end]
    if pending:
        return "pending", pending[0]
    ended = [end for _, end in bad if end <= now]
    return "clear", max([quiet_since, *ended])


def _runs(events: list[tuple[float, float | str]], holds) -> list[tuple[float, float]]:  # type: ignore[no-untyped-def]
    runs: list[tuple[float, float]] = []
    for (begin, figure), (end, _) in pairwise(events):
        if not holds(figure):
            continue
        if runs and runs[-1][1] == begin:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((begin, end))
    return runs


def _after(begin: float, wait: timedelta, frozen: list[tuple[float, float]]) -> float:
    """Return when so much time that counts has passed."""
    ripe = begin + wait.total_seconds()
    for start, end in sorted(frozen):
        # A stretch that does not count pushes on whatever has not ripened when it begins.
        if begin <= start < ripe:
            ripe += end - start
    return ripe
