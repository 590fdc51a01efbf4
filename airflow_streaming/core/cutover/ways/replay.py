"""
Replay start: how far back a query with an empty checkpoint has to read to have its state complete.

What a state holds is bounded by the watermark: windows that end after it, keys and rows that are
younger. So the oldest row that still counts follows from the watermark and the length of windows
and join ranges; the watermark's delay is in the watermark itself. Without a watermark state is as
old as the stream, and so is a session, which may have begun at any time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_streaming.core.plan.plan import OperatorPlan, OperatorSort, QueryPlan
from airflow_streaming.core.upgrade.preflight_page import duration_text

_INTERVAL: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*(day|hour|minute|second|millisecond|microsecond)s?\b", re.IGNORECASE
)
_MICROSECONDS: Final = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}

_FOREVER: Final[Mapping[OperatorSort, str]] = {
    OperatorSort.SESSION_WINDOW: "a session that is open now may have begun at any time",
    OperatorSort.LIMIT: "a limit counts all rows that there ever were",
    OperatorSort.GROUPS_WITH_STATE: "what the author's own state holds cannot be seen in the plan",
    OperatorSort.TRANSFORM_WITH_STATE: "what the author's own state holds cannot be seen in the "
    "plan",
    OperatorSort.OTHER: "what this operator keeps is not known",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStart:
    """
    Where reading has to begin.

    :param at: Rows of this event time and later are needed; ``None`` for the sources' beginning.
    :param reason: How that follows, or why there is no such time, for a person.
    :param complete_from: Results that are closed after this event time are complete; earlier ones
        may lack rows. ``None`` when all are.
    :param reach: How far before the watermark ``at`` lies.
    """

    at: datetime | None
    reason: str
    complete_from: datetime | None = None
    reach: timedelta | None = None


def replay_start(plans: Sequence[QueryPlan], watermark_ms: Mapping[str, int]) -> ReplayStart:
    """
    Return from when a new, empty checkpoint has to read.

    :param plans: Of the new script; the query that reaches furthest back decides.
    :param watermark_ms: Watermark of the running queries by name, in milliseconds since 1970; 0 or
        missing for none.
    """
    stateful = [plan for plan in plans if plan.is_stateful]
    if not stateful:
        return ReplayStart(at=None, reason="No query keeps state, so none needs earlier rows.")
    found = [_of(plan, watermark_ms.get(plan.query, 0)) for plan in stateful]
    unbounded = next((one for one in found if one.at is None), None)
    if unbounded is not None:
        return unbounded
    latest = max(one.complete_from for one in found if one.complete_from)
    first = min(found, key=lambda one: one.at or latest)
    return ReplayStart(at=first.at, reason=first.reason, complete_from=latest, reach=first.reach)


def _of(plan: QueryPlan, watermark_ms: int) -> ReplayStart:
    try:
        reach = timedelta(microseconds=sum(_reach(plan, one) for one in plan.operators))
    except _Unbounded as why:
        return _from_the_beginning(plan, str(why))
    if watermark_ms <= 0:
        return _from_the_beginning(plan, "it has no watermark yet")
    watermark = datetime.fromtimestamp(watermark_ms / 1000, UTC)
    at = watermark - reach
    reason = (
        f"Query {plan.query!r} has emitted all that closed before its watermark, {_shown(watermark)}, "
        f"and what is open then reaches {duration_text(reach)} further back: rows from {_shown(at)} on are needed. "
        "Results that close before the watermark may lack rows."
    )
    return ReplayStart(at=at, reason=reason, complete_from=watermark, reach=reach)


def _from_the_beginning(plan: QueryPlan, why: str) -> ReplayStart:
    reason = f"Query {plan.query!r} has to read from the sources' beginning: {why}."
    return ReplayStart(at=None, reason=reason)


def _reach(plan: QueryPlan, operator: OperatorPlan) -> int:
    """Return how many microseconds before the watermark the oldest row of an operator's state lies."""
    if operator.sort in _FOREVER:
        raise _Unbounded(_FOREVER[operator.sort])
    if not plan.watermarks:
        raise _Unbounded("it has no watermark, so its state is as old as the stream")
    if plan.output_mode == "complete":
        raise _Unbounded("in complete mode nothing is ever let go of")
    if operator.window_us:
        return operator.window_us[0]
    if operator.sort is OperatorSort.JOIN:
        return _range_of(plan, operator)
    if operator.sort is OperatorSort.DEDUPLICATE_WITHIN_WATERMARK:
        return max(one.delay_ms for one in plan.watermarks) * 1000
    if _has_event_time(plan, operator):
        return 0
    raise _Unbounded(
        "the keys of its state have no column with a watermark, so they are kept for ever"
    )


def _range_of(plan: QueryPlan, operator: OperatorPlan) -> int:
    found = [
        float(number) * _MICROSECONDS[unit.lower()]
        for number, unit in _INTERVAL.findall(operator.condition)
    ]
    if found:
        # Bounds of both sides: together they are never less than either.
        return round(sum(found))
    if _has_event_time(plan, operator):
        return 0
    raise _Unbounded("its join has no range in time, so rows wait for ever")


def _has_event_time(plan: QueryPlan, operator: OperatorPlan) -> bool:
    times = {one.column for one in plan.watermarks}
    return any(key.name in times for key in operator.keys)


def _shown(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="seconds")


class _Unbounded(Exception):
    """State is as old as the stream; says why."""
