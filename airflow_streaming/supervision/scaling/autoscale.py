"""
Decide the number of a stream's executors from its figures.

A batch of ``x`` rows takes ``a + b * x`` seconds. More executors make ``b`` smaller and leave
``a``: planning, scheduling, commits. Both are fitted to the batches of the present driver, because
the pace of small batches measures nothing: a stream without a processing trigger is always busy with
the rows that arrived meanwhile. That ``b`` shrinks with the number of executors is an assumption;
if it is wrong, the next figures show it, and one change at most quadruples or halves the number.

Arriving rows are the rows read plus the growth of the backlog, so a stream that falls behind does
not look like one with little input. A source without a reported backlog, read with a limit, hides
it; then the share of time alone decides.

Earlier decisions are in the records, and the figures are from the present epoch, so a trigger may
ask at any time, twice, or after a day, and gets the same answer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from airflow_streaming.model.arguments.autoscale import Autoscale
from airflow_streaming.model.durations import age_of, duration_text
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.size_change import SizeChange, SizeCode
from airflow_streaming.supervision.scaling.after_quiet import growth_after_quiet
from airflow_streaming.supervision.scaling.carry_out import CarryOutStep, SizeState, carry_out
from airflow_streaming.supervision.scaling.size_effect import (
    LEAST_GAIN,
    blocked_until,
    gain_of,
    memory_text,
    rounds_text,
)

MIN_BATCHES: Final = 5
WARM_UP: Final = 2
"""First batches of a query that are left out, as they compile."""
_LONG: Final = 30.0
"""Seconds of a batch from which on its compiling does not matter."""
_SPREAD: Final = 0.15
"""Of the number of rows a batch, relative to its mean, from which on a fit says something."""
_FIT: Final = 0.5
"""Share of the variance of the durations that the number of rows must explain."""
_MOSTLY_FIXED: Final = 0.9
_PARTS: Final = 3
"""Parts of ``down_after`` that are judged separately; the busiest part counts."""
_UP_FACTOR: Final = 4
_DOWN_FACTOR: Final = 2
_DAY: Final = timedelta(days=1)


_CHANGES: Final = frozenset(
    {SizeCode.UP, SizeCode.DOWN, SizeCode.UNDO, SizeCode.WOULD_UP, SizeCode.WOULD_DOWN}
)
_WOULD: Final = {
    SizeCode.UP: SizeCode.WOULD_UP,
    SizeCode.DOWN: SizeCode.WOULD_DOWN,
    SizeCode.UNDO: SizeCode.WOULD_DOWN,
}


class Sample(NamedTuple):
    """A batch: its start, rows, seconds, and the backlog after it."""

    at: datetime
    rows: int
    seconds: float
    backlog: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeInput:
    """
    Input of the decision.

    :param executors: Executors that the present driver has asked for.
    :param alive: Its present executors; ``None`` if the driver does not report them.
    :param batches: Batches of the present epoch and size, oldest first, by query.
    :param intervals_s: Interval of the processing trigger, by query; missing if Spark starts the
        next batch at once.
    :param in_work_s: How long the batch in work has lasted, by query.
    :param changes: Changes of the last day at least, oldest first.
    :param blackout_until: End of the current blackout.
    :param cores_each: Cores of an executor.
    :param partitions: State partitions of the stream; ``None`` where they are not known.
    :param gc_share: Share of the tasks' time that went to garbage collection.
    """

    policy: Autoscale
    now: datetime
    executors: int | None
    alive: int | None = None
    batches: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    intervals_s: Mapping[str, float] = field(default_factory=dict)
    in_work_s: Mapping[str, float] = field(default_factory=dict)
    changes: Sequence[SizeChange] = ()
    blackout_until: datetime | None = None
    is_dynamic: bool = False
    cores_each: int = 0
    partitions: int | None = None
    gc_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """
    The need of one query over some time.

    :param share: Share of its time that it works.
    :param arrival: Arriving rows a second.
    :param capacity: Rows a second that it could process.
    :param backlog: Waiting rows; 0 if the source does not report them.
    :param executors: Needed executors; ``None`` if no number is enough.
    :param pace: Rows for a second of work, as measured: without the fit that ``capacity`` rests on.
    """

    query: str
    share: float
    arrival: float
    capacity: float
    backlog: float
    executors: int | None
    pace: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeStep:
    """
    The decision on the size.

    :param executors: The new number; the present one without a change, 0 if unknown.
    :param need: The figures of the query with the largest need.
    """

    code: SizeCode
    executors: int
    reason: str
    need: Need | None = None

    @property
    def changes(self) -> bool:
        """Tell whether a change is recorded now."""
        return self.code in _CHANGES

    @property
    def figures(self) -> dict[str, float]:
        """Return the figures as the record keeps them."""
        need = self.need
        if need is None:
            return {}
        return {
            "share": round(need.share, 3),
            "arrival": round(need.arrival, 1),
            "capacity": round(need.capacity, 1),
            "backlog": round(need.backlog, 0),
            "pace": round(need.pace, 1),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeView:
    """
    The observed size of a stream.

    :param state: The size that it has and should have.
    :param step: The decision by the figures.
    """

    state: SizeState
    step: SizeStep

    @property
    def carried(self) -> CarryOutStep:
        """Return how the stream gets its size."""
        return carry_out(self.state)

    @property
    def wanted(self) -> int | None:
        """Return the executors that its driver should have; ``None`` if the size is not managed."""
        return self.state.wanted

    @property
    def present(self) -> int | None:
        """Return the executors that its driver has asked for."""
        return self.state.present

    @property
    def next_number(self) -> int:
        """Return the number of the next change, as far as was seen."""
        return 1 if self.state.newest is None else self.state.newest.number + 1


def samples(batches: Iterable[BatchProgress]) -> dict[str, list[Sample]]:
    """Return batches by query, oldest first, without those whose time or backlog cannot be read."""
    found: dict[str, list[Sample]] = defaultdict(list)
    for batch in batches:
        at = moment_of(batch)
        if at is not None and batch.duration_ms > 0:
            told = [source.backlog_records for source in batch.sources]
            known = [amount for amount in told if amount is not None]
            backlog = sum(known) if known else None
            found[batch.query].append(
                Sample(at, batch.input_rows, batch.duration_ms / 1000, backlog)
            )
    return dict(found)


def moment_of(batch: BatchProgress) -> datetime | None:
    """Return when a batch began; ``None`` where its report cannot be read."""
    try:
        at = datetime.fromisoformat(batch.at)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def size_step(s: SizeInput) -> SizeStep:
    """Decide the number of executors."""
    step = _step(s)
    if not step.changes:
        return step
    costs = rounds_text(step.executors, s.cores_each, s.partitions) + memory_text(s.gc_share)
    step = replace(step, reason=f"{step.reason}{costs}")
    return _recommended(s, step) if s.policy.recommend_only else step


def _recommended(s: SizeInput, step: SizeStep) -> SizeStep:
    """Return a step that changes nothing; the same one is recorded once."""
    newest = s.changes[-1] if s.changes else None
    step = replace(step, code=_WOULD[step.code])
    is_told = newest is not None and (newest.code, newest.executors, newest.before) == (
        step.code,
        step.executors,
        s.executors,
    )
    return (
        _hold(s, SizeCode.STEADY, f"Recommended already: {step.reason}", step.need)
        if is_told
        else step
    )


def _step(s: SizeInput) -> SizeStep:
    if s.is_dynamic:
        return _hold(s, SizeCode.LEFT_TO_SPARK, "Dynamic allocation is on: Spark chooses.")
    if s.executors is None:
        return _hold(s, SizeCode.NO_EXECUTORS, "The driver has no executors that could be counted.")
    if s.alive is not None and s.alive < s.executors:
        return _hold(
            s,
            SizeCode.NOT_ARRIVED,
            f"{s.alive} of {s.executors} executors are there; the cluster has not given the others.",
        )
    returning = _after_quiet(s, s.executors)
    if returning is not None:
        return _allowed(s, s.executors, returning)
    up = _needs(s, s.policy.up_after, parts=1)
    if up is None:
        return _hold(
            s,
            SizeCode.NO_FIGURES,
            f"Figures of {duration_text(s.policy.up_after)} and of {MIN_BATCHES} batches with input "
            "are needed.",
        )
    undone = _undone(s, s.executors, up)
    if undone is not None:
        return _allowed(s, s.executors, undone)
    wanted = _wanted_up(s, s.executors, up)
    if wanted is not None:
        return _allowed(s, s.executors, wanted)
    return _down(s, s.executors, up)


def _undone(s: SizeInput, present: int, need: Need | SizeCode) -> SizeStep | None:
    """Return the step back from a change to more that had no effect on a stream that is still busy."""
    newest = s.changes[-1] if s.changes else None
    if newest is None or newest.code is not SizeCode.UP or newest.executors != present:
        return None
    if isinstance(need, SizeCode) or need.share <= s.policy.target:
        return None
    gain = gain_of(newest, need.pace)
    if gain is None or gain >= LEAST_GAIN:
        return None
    return SizeStep(
        code=SizeCode.UNDO,
        executors=s.policy.within(newest.before),
        reason=f"The change from {newest.before} to {present} executors brought {max(0.0, gain):.0%} of the expected "
        f"gain. {_told(need)}",
        need=need,
    )


def _after_quiet(s: SizeInput, present: int) -> SizeStep | None:
    """Return the step to more executors for a source that comes back after a quiet time."""
    found = [need for query in s.in_work_s if (need := _need_in_work(s, query)) is not None]
    need = max(found, key=lambda one: _weight(one.executors), default=None)
    if need is None or need.executors is None or present >= s.policy.max:
        return None
    wanted = min(need.executors, present * _UP_FACTOR)
    if wanted <= present:
        return None
    reason = (
        f"Query {need.query!r} had no input for a while, and its batches grow since: at least "
        f"{need.arrival:,.0f} rows/s come, and {need.capacity:,.0f} rows/s can be processed."
    )
    return SizeStep(code=SizeCode.UP, executors=s.policy.within(wanted), reason=reason, need=need)


def _need_in_work(s: SizeInput, query: str) -> Need | None:
    """Return the least need that the batches since a quiet time show; ``None`` without a quiet time before them."""
    interval, lasts = s.intervals_s.get(query), s.in_work_s[query]
    full = [one for one in _settled(s.batches.get(query, ())) if one.rows]
    if not interval:
        return None
    growth = growth_after_quiet(
        full, now=s.now, lasts=lasts, interval=interval, quiet=s.policy.up_after
    )
    if growth is None or len(growth.before) < MIN_BATCHES:
        return None
    cost = _cost(full, full[-MIN_BATCHES:], is_free=False)
    if cost is None or cost[1] <= 0:
        return None
    fixed, each = cost
    usable = max(0.0, 1.0 - fixed / interval)
    # The batch in work has at least the rows of the time so far.
    rows = [*(float(one.rows) for one in growth.since), max(0.0, lasts - fixed) / each]
    arrival = max(amount / span for amount, span in zip(rows, growth.spans_s, strict=True))
    return Need(
        query=query,
        share=arrival * each + fixed / interval,
        arrival=arrival,
        capacity=usable / each,
        backlog=0.0,
        executors=_executors(s, arrival, 0.0, each, usable),
        pace=sum(one.rows for one in full) / sum(one.seconds for one in full),
    )


def _settled(batches: Sequence[Sample]) -> list[Sample]:
    """Return the batches without the first ones, which compile."""
    return [one for n, one in enumerate(batches) if n >= WARM_UP or one.seconds >= _LONG]


def _wanted_up(s: SizeInput, present: int, need: Need | SizeCode) -> SizeStep | None:
    """Return the step to more executors, or the reason against it; ``None`` if not needed."""
    if isinstance(need, SizeCode):
        return None
    drain = need.arrival + need.backlog / s.policy.catch_up.total_seconds()
    if need.share <= s.policy.up_above and drain <= need.capacity:
        return None
    if need.executors is None:
        return _hold(
            s,
            SizeCode.FIXED_COST,
            f"Query {need.query!r} works {need.share:.0%} of its time, most of it not on rows: more "
            "executors do not help. Give it a longer processing trigger.",
            need,
        )
    wanted = min(need.executors, present * _UP_FACTOR)
    if wanted <= present:
        return None
    if present >= s.policy.max:
        return _hold(s, SizeCode.AT_MAX, f"{_told(need)} The limit is {s.policy.max}.", need)
    return SizeStep(
        code=SizeCode.UP, executors=s.policy.within(wanted), reason=_told(need), need=need
    )


def _down(s: SizeInput, present: int, recent: Need | SizeCode) -> SizeStep:
    need = _needs(s, s.policy.down_after, parts=_PARTS)
    if isinstance(recent, SizeCode):
        return _hold(s, recent, "The batches do not show what their time depends on.")
    if need is None or isinstance(need, SizeCode) or need.executors is None:
        return _hold(s, SizeCode.STEADY, _told(recent), recent)
    wanted = max(need.executors, math.ceil(present / _DOWN_FACTOR))
    if wanted >= present or recent.executors is None or recent.executors >= present:
        return _hold(s, SizeCode.STEADY, _told(recent), recent)
    if present <= s.policy.min:
        return _hold(s, SizeCode.AT_MIN, _told(need), need)
    step = SizeStep(
        code=SizeCode.DOWN, executors=s.policy.within(wanted), reason=_told(need), need=need
    )
    return _allowed(s, present, step)


def _allowed(s: SizeInput, present: int, step: SizeStep) -> SizeStep:
    """Return a step, or why it must wait."""
    if not step.changes:
        return step
    if s.blackout_until is not None:
        until = f"{s.blackout_until:%Y-%m-%d %H:%M %Z}"
        return _wait(present, step, SizeCode.BLACKOUT, f"The blackout ends at {until}.")
    blocked = blocked_until(s.changes, s.now, s.policy.blocked_for)
    if step.code is SizeCode.UP and blocked is not None:
        until = f"{blocked:%Y-%m-%d %H:%M %Z}"
        why = f"The last change to more had no effect; the next one may be made at {until}."
        return _wait(present, step, SizeCode.BLOCKED, why)
    # Clocks of hosts differ. A change of the future counts as long as one of the past does, so that
    # a wrong date costs no more than a right one.
    ages = [age_of(change.at, s.now) for change in s.changes]
    if ages and ages[-1] < s.policy.cool_down:
        cool_down = duration_text(s.policy.cool_down)
        return _wait(present, step, SizeCode.COOL_DOWN, f"A change rests for {cool_down}.")
    today = [change for change, age in zip(s.changes, ages, strict=True) if age < _DAY]
    smaller = sum(change.code is SizeCode.DOWN for change in today)
    is_spent = len(today) >= s.policy.changes_a_day
    # The remaining changes of the day are reserved for rising load.
    if is_spent or (step.code is SizeCode.DOWN and smaller >= s.policy.changes_a_day // 2):
        return _wait(
            present, step, SizeCode.DAY_LIMIT, f"{len(today)} changes were made in 24 hours."
        )
    return step


def _wait(present: int, step: SizeStep, code: SizeCode, why: str) -> SizeStep:
    return SizeStep(
        code=code,
        executors=present,
        reason=f"{step.reason} {step.executors} executors must wait: {why}",
        need=step.need,
    )


def _hold(s: SizeInput, code: SizeCode, reason: str, need: Need | None = None) -> SizeStep:
    return SizeStep(code=code, executors=s.executors or 0, reason=reason, need=need)


def _told(need: Need) -> str:
    needed = "no number of" if need.executors is None else str(need.executors)
    waits = f", {need.backlog:,.0f} rows wait" if need.backlog else ""
    return (
        f"Query {need.query!r} works {need.share:.0%} of its time: {need.arrival:,.0f} rows/s come, "
        f"{need.capacity:,.0f} rows/s can be processed{waits}. It needs {needed} executors."
    )


def _needs(s: SizeInput, over: timedelta, *, parts: int) -> Need | SizeCode | None:
    """
    Return the need of the query that needs most, in the part of some time in which it did.

    ``None``: not every part has figures of all queries with input; a code: they say nothing.
    """
    found: list[Need | SizeCode] = []
    part = over / parts
    for query, batches in s.batches.items():
        settled = _settled(batches)
        # A quiet query has no say, and its driver must have been watched for the whole time.
        if not any(sample.rows for sample in settled):
            continue
        if not settled or s.now - settled[0].at < over:
            return None
        for number in range(parts):
            begin, end = s.now - part * (number + 1), s.now - part * number
            inside = [one for one in settled if begin <= one.at < end]
            if parts == 1 and len(inside) < MIN_BATCHES:
                # Long batches: a stream that is far behind has few of them, and waits for no more.
                inside = settled[-MIN_BATCHES:]
            told = _need_of(s, query, inside, settled)
            if told is None:
                return None
            found.append(told)
    codes = [one for one in found if isinstance(one, SizeCode)]
    needs = [one for one in found if isinstance(one, Need)]
    if not found:
        return None
    if codes:
        # A query that cannot be judged may have the largest need; it hides no visible need.
        behind = [one for one in needs if one.share > s.policy.up_above]
        return max(behind, key=lambda one: _weight(one.executors)) if behind else codes[0]
    return max(needs, key=lambda one: (_weight(one.executors), one.share))


def _weight(executors: int | None) -> float:
    return math.inf if executors is None else executors


def _need_of(
    s: SizeInput, query: str, inside: Sequence[Sample], settled: Sequence[Sample]
) -> Need | SizeCode | None:
    interval = s.intervals_s.get(query)
    full = [one for one in settled if one.rows]
    worked = timedelta(seconds=sum(one.seconds for one in full))
    if len(inside) < 2 or (len(full) < MIN_BATCHES and worked < s.policy.up_after):
        return None
    span = (inside[-1].at - inside[0].at).total_seconds()
    if span <= 0:
        return None
    first, last = inside[0].backlog, inside[-1].backlog
    grown = 0.0 if first is None or last is None else last - first
    # Rows of the first batch arrived before it.
    arrival = max(0.0, (sum(one.rows for one in inside[1:]) + grown) / span)
    cost = _cost(full, inside, is_free=not interval)
    if cost is None:
        return SizeCode.UNCLEAR
    fixed, each = cost
    usable = 1.0 if not interval else max(0.0, 1.0 - fixed / interval)
    capacity = usable / each if each > 0 else math.inf
    share = arrival * each + (fixed / interval if interval else 0.0)
    waiting = max(0.0, (last or 0.0) - (inside[-1].rows if not interval else arrival * interval))
    return Need(
        query=query,
        share=share,
        arrival=arrival,
        capacity=capacity,
        backlog=waiting,
        executors=_executors(s, arrival, waiting, each, usable),
        pace=sum(one.rows for one in inside) / sum(one.seconds for one in inside),
    )


def _executors(
    s: SizeInput, arrival: float, backlog: float, each: float, usable: float
) -> int | None:
    rate = max(arrival / s.policy.target, arrival + backlog / s.policy.catch_up.total_seconds())
    if usable <= 1 - _MOSTLY_FIXED:
        return None
    return max(1, math.ceil(rate * each * (s.executors or 1) / usable - 1e-9))


def _cost(
    batches: Sequence[Sample], inside: Sequence[Sample], *, is_free: bool
) -> tuple[float, float] | None:
    """
    Return the fixed seconds of a batch, and the seconds of a row.

    :param is_free: No processing trigger: the next batch begins at once.
    """
    rows, seconds = [float(one.rows) for one in batches], [one.seconds for one in batches]
    mean_rows, mean_seconds = sum(rows) / len(rows), sum(seconds) / len(seconds)
    spread = sum((one - mean_rows) ** 2 for one in rows)
    joint = sum((x - mean_rows) * (y - mean_seconds) for x, y in zip(rows, seconds, strict=True))
    total = sum((one - mean_seconds) ** 2 for one in seconds)
    if math.sqrt(spread / len(rows)) >= _SPREAD * mean_rows and joint > 0 and total > 0:
        slope = joint / spread
        if joint * slope / total >= _FIT:
            fixed = max(0.0, mean_seconds - slope * mean_rows)
            return fixed, (mean_seconds - fixed) / mean_rows
    # Batches of one size: all of their time counts as spent on rows, which asks for more rather
    # than fewer executors. Without a trigger that is known only while there is always more to read.
    is_full = all(one.backlog is not None and one.backlog >= one.rows for one in inside)
    if is_free and not is_full:
        return None
    return 0.0, mean_seconds / mean_rows
