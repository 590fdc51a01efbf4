"""
Watermarks: which rows are late, and when state may be forgotten.

The watermark itself goes on from the checkpoint and never goes back. State that the old delay has
dropped is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import OperatorSort, QueryPlan, WatermarkPlan

_MEASURED: Final = "measured: starts"

LONGER: Final = Rule(
    name="watermark.longer",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="The watermark waits longer: it stands still until rows are as much newer. What was "
    "written and dropped by the shorter delay does not come back.",
    source=_MEASURED,
)
SHORTER: Final = Rule(
    name="watermark.shorter",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="The watermark waits less: it leaps, groups are closed at once, and rows that the "
    "longer delay would have counted are dropped as late.",
    source=_MEASURED,
)
ADDED: Final = Rule(
    name="watermark.added",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A watermark begins: rows that are later than its delay are dropped from now on, and "
    "state behind it is forgotten.",
    source=_MEASURED,
)
REMOVED: Final = Rule(
    name="watermark.removed",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A watermark must not be taken away from state: what it has dropped is gone, late rows "
    "of it begin anew and are taken for all there is, and state only grows.",
    source="measured: removed in update mode, starts",
    remedy="Keep the watermark, with a longer delay if rows must not be dropped.",
)
NEEDED: Final = Rule(
    name="watermark.needed",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Without a watermark Spark refuses this query: nothing would ever be written.",
    source="Structured Streaming guide, output modes; UNSUPPORTED_STREAMING_OPERATOR",
    remedy="Keep the watermark.",
)
COLUMN: Final = Rule(
    name="watermark.column",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The watermark must stay with its column: it goes on from the times of the old one.",
    source="by construction: the checkpoint holds one time, without the name of a column",
    remedy="Start with a new checkpoint (blue-green).",
)
NO_EFFECT: Final = Rule(
    name="watermark.no_effect",
    severity=GateDecision.ALLOWED,
    sentence="Without state, and in complete mode, a watermark drops nothing.",
    source="Structured Streaming guide, watermarks",
)

RULES: Final = (LONGER, SHORTER, ADDED, REMOVED, NEEDED, COLUMN, NO_EFFECT)

_NEEDING: Final = frozenset({OperatorSort.AGGREGATE, OperatorSort.SESSION_WINDOW})


def judge_watermarks(pair: Pair) -> Iterator[GateFinding]:
    """Compare the watermarks of both plans."""
    old, new = pair.old.watermarks, pair.new.watermarks
    if sorted(map(_key, old)) == sorted(map(_key, new)):
        return
    if not (has_effect(pair.old) or has_effect(pair.new)):
        yield NO_EFFECT.found(old=text_of(old), new=text_of(new), evidence=pair.shown_by_plan)
        return
    for rule in sorted(_rules(pair), key=lambda rule: rule.name):
        yield rule.found(old=text_of(old), new=text_of(new), evidence=pair.shown_by_plan)


def needs_watermark(plan: QueryPlan) -> bool:
    """Tell whether Spark refuses a query that has no watermark."""
    sorts = {operator.sort for operator in plan.operators}
    within = OperatorSort.DEDUPLICATE_WITHIN_WATERMARK in sorts
    return within or (plan.output_mode == "append" and bool(sorts & _NEEDING))


def text_of(watermarks: Sequence[WatermarkPlan]) -> str:
    """Return watermarks for a person."""
    shown = (f"{each.column} {each.delay_ms / 1000:g} s" for each in watermarks)
    return ", ".join(shown) or "none"


def has_effect(plan: QueryPlan) -> bool:
    """Tell whether anything of a query is dropped by a watermark."""
    # Complete mode keeps every group, whatever its time; other state is dropped by time all the same.
    kept = OperatorSort.AGGREGATE if plan.output_mode == "complete" else None
    return any(operator.sort is not kept for operator in plan.operators)


def _rules(pair: Pair) -> set[Rule]:
    old, new = _delays(pair.old.watermarks), _delays(pair.new.watermarks)
    gone, come = old.keys() - new.keys(), new.keys() - old.keys()
    found = {
        LONGER if sum(new[name]) > sum(old[name]) else SHORTER
        for name in old.keys() & new.keys()
        if sorted(old[name]) != sorted(new[name])
    }
    if gone and come:
        found.add(COLUMN)
    elif come:
        found.add(ADDED)
    elif gone:
        found.add(NEEDED if not new and needs_watermark(pair.new) else REMOVED)
    return found


def _delays(watermarks: Sequence[WatermarkPlan]) -> dict[str, list[int]]:
    # Both sides of a join may have an event time of one name.
    found: dict[str, list[int]] = defaultdict(list)
    for each in watermarks:
        found[each.column].append(each.delay_ms)
    return found


def _key(watermark: WatermarkPlan) -> tuple[str, int]:
    return watermark.column, watermark.delay_ms
