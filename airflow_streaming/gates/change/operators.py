"""
Stateful operators, watermarks and the output mode.

The watermark itself continues from the checkpoint and never goes back. State that the old delay has
dropped is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from airflow_streaming.gates.change.aggregation import judge_aggregate
from airflow_streaming.gates.change.joins import judge_deduplication, judge_join
from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.gates.change.user_state import judge_user_state
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.model.durations import seconds_text
from airflow_streaming.model.plan.text import texts_of
from airflow_streaming.model.plan.tree import ColumnRef, Tree
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan, WatermarkPlan

FIRST: Final = rule_named("operator.first")
LAST: Final = rule_named("operator.last")
ADDED: Final = rule_named("operator.added")
REMOVED: Final = rule_named("operator.removed")
ORDER: Final = rule_named("operator.order")
SORT: Final = rule_named("operator.sort")
LIMIT: Final = rule_named("operator.limit")
OTHER: Final = rule_named("operator.other")
RULES: Final = (FIRST, LAST, ADDED, REMOVED, ORDER, SORT, LIMIT, OTHER)
_Judge = Callable[[Pair, int], Iterator[GateFinding]]

STATEFUL: Final = rule_named("output_mode.stateful")
STATELESS: Final = rule_named("output_mode.stateless")
OUTPUT_MODE_RULES: Final = (STATEFUL, STATELESS)

LONGER: Final = rule_named("watermark.longer")
SHORTER: Final = rule_named("watermark.shorter")
WATERMARK_ADDED: Final = rule_named("watermark.added")
WATERMARK_REMOVED: Final = rule_named("watermark.removed")
NEEDED: Final = rule_named("watermark.needed")
COLUMN: Final = rule_named("watermark.column")
NO_EFFECT: Final = rule_named("watermark.no_effect")
WATERMARK_RULES: Final = (
    LONGER,
    SHORTER,
    WATERMARK_ADDED,
    WATERMARK_REMOVED,
    NEEDED,
    COLUMN,
    NO_EFFECT,
)
_NEEDING: Final = frozenset({OperatorKind.AGGREGATE, OperatorKind.SESSION_WINDOW})


def judge_operators(pair: Pair) -> Iterator[GateFinding]:
    """Compare the stateful operators of both plans."""
    old, new = sorts_of(pair.old.operators), sorts_of(pair.new.operators)
    if old != new:
        yield sorts_rule(old, new).found(
            old=", ".join(old) or "none",
            new=", ".join(new) or "none",
            evidence=_folders(pair),
        )
        return
    for number, operator in enumerate(pair.old.operators):
        yield from _JUDGES.get(operator.sort, _judge_other)(pair, number)


def same_operators(pair: Pair) -> bool:
    """Tell whether both plans have operators of the same sorts in the same order."""
    return sorts_of(pair.old.operators) == sorts_of(pair.new.operators)


def sorts_of(operators: tuple[OperatorPlan, ...]) -> list[str]:
    """Return the sorts of operators, the one nearest to the sink first."""
    return [operator.sort.value for operator in operators]


def sorts_rule(old: list[str], new: list[str]) -> Rule:
    """Return the rule that two lists of sorts break by being different."""
    if not old:
        return FIRST
    if not new:
        return LAST
    if len(old) != len(new):
        return ADDED if len(new) > len(old) else REMOVED
    return ORDER if sorted(old) == sorted(new) else SORT


def judge_output_mode(pair: Pair) -> Iterator[GateFinding]:
    """Compare the output modes."""
    old, new = pair.old.output_mode, pair.new.output_mode
    if old != new:
        is_refused = pair.is_stateful or "complete" in (old, new)
        rule = STATEFUL if is_refused else STATELESS
        yield rule.found(
            old=old,
            new=new,
            evidence=f"output mode in {pair.shown_by_plan}",
            about=("output_mode",),
        )


def judge_watermarks(pair: Pair) -> Iterator[GateFinding]:
    """Compare the watermarks of both plans."""
    old, new = pair.old.watermarks, pair.new.watermarks
    if sorted(map(_key, old)) == sorted(map(_key, new)):
        return
    at = pair.shown_at("watermarks")
    if not (has_effect(pair.old) or has_effect(pair.new)):
        yield NO_EFFECT.found(
            old=marks_text(old), new=marks_text(new), evidence=at, about=_places(pair)
        )
        return
    for rule in sorted(_rules(pair), key=lambda rule: rule.name):
        yield rule.found(old=marks_text(old), new=marks_text(new), evidence=at, about=_places(pair))


def needs_watermark(plan: QueryPlan) -> bool:
    """Tell whether Spark refuses a query that has no watermark."""
    sorts = {operator.sort for operator in plan.operators}
    within = OperatorKind.DEDUPLICATE_WITHIN_WATERMARK in sorts
    return within or (plan.output_mode == "append" and bool(sorts & _NEEDING))


def marks_text(watermarks: Sequence[WatermarkPlan]) -> str:
    """Return watermarks for readers."""
    shown = (f"{each.column} {seconds_text(each.delay_ms / 1000)}" for each in watermarks)
    return ", ".join(shown) or "none"


def has_effect(plan: QueryPlan) -> bool:
    """Tell whether anything of a query is dropped by a watermark."""
    # Complete mode keeps every group, whatever its time; other state is dropped by time all the same.
    kept = OperatorKind.AGGREGATE if plan.output_mode == "complete" else None
    return any(operator.sort is not kept for operator in plan.operators)


def _folders(pair: Pair) -> str:
    count = len(pair.checkpoint.operators) if pair.checkpoint else 0
    return ", ".join(f"state/{number}" for number in range(count)) or pair.shown_at("operators")


def _judge_limit(pair: Pair, number: int) -> Iterator[GateFinding]:
    old, new = pair.old.operators[number], pair.new.operators[number]
    if old != new:
        yield LIMIT.found(
            old=texts_of(old.values),
            new=texts_of(new.values),
            evidence=pair.shown_by_state(number),
        )


_JUDGES: Final[Mapping[OperatorKind, _Judge]] = {
    OperatorKind.AGGREGATE: judge_aggregate,
    OperatorKind.SESSION_WINDOW: judge_aggregate,
    OperatorKind.DEDUPLICATE: judge_deduplication,
    OperatorKind.DEDUPLICATE_WITHIN_WATERMARK: judge_deduplication,
    OperatorKind.JOIN: judge_join,
    OperatorKind.LIMIT: _judge_limit,
    OperatorKind.GROUPS_WITH_STATE: judge_user_state,
    OperatorKind.TRANSFORM_WITH_STATE: judge_user_state,
}


def _judge_other(pair: Pair, number: int) -> Iterator[GateFinding]:
    if pair.old.operators[number] != pair.new.operators[number]:
        yield OTHER.found(evidence=pair.shown_at(f"operators[{number}]"))


def _places(pair: Pair) -> list[str]:
    # Whether state ends follows from the watermark, and is judged by what else changes.
    count = len(pair.new.operators)
    return [
        "watermarks",
        *(f"operators[{number}].ends" for number in range(count)),
        *(f"nodes[{below}].watermark" for below in range(count + 1)),
        *(f"steps[{below}].order" for below in range(count + 1)),
    ]


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
        found.add(WATERMARK_ADDED)
    elif gone:
        found.add(NEEDED if not new and needs_watermark(pair.new) else WATERMARK_REMOVED)
    return found


def _delays(watermarks: Sequence[WatermarkPlan]) -> dict[Tree, list[int]]:
    # Both sides of a join may have an event time of one name.
    found: dict[Tree, list[int]] = defaultdict(list)
    for each in watermarks:
        found[each.time or ColumnRef(each.column)].append(each.delay_ms)
    return found


def _key(watermark: WatermarkPlan) -> tuple[str, int, str]:
    time = "" if watermark.time is None else watermark.time.digest
    return watermark.column, watermark.delay_ms, time
