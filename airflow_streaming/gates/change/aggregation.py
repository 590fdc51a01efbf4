"""
Aggregations: keys, windows, and the aggregates kept in state.

``sum(v)`` keeps ``sum``, ``avg(v)`` keeps ``sum`` and ``count``. Spark does not compare the names,
which distinguish a sum from a maximum. Of the summed expression they show only the type.

Spark's own check compares the types of the state's columns in their order, and nothing else: a sum
that becomes a maximum, or a window of another length, continues with the old state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.gates.change.pair import Pair, plain_type, shown, signature
from airflow_streaming.gates.change.projection import kept_aggregates, used_behind
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import rule_named
from airflow_streaming.model.durations import seconds_text
from airflow_streaming.model.plan.text import text_of, texts_of
from airflow_streaming.model.plan.tree import ALIAS, Expr, Tree, is_op, items_of
from airflow_streaming.model.spark.plan import OperatorPlan, QueryPlan

_BUFFERS: Final = {
    "sum": ("sum",),
    "try_sum": ("sum",),
    "count": ("count",),
    "avg": ("sum", "count"),
    "mean": ("sum", "count"),
    "max": ("max",),
    "min": ("min",),
    "first": ("first", "valueSet"),
    "last": ("last", "valueSet"),
    "first_value": ("first", "valueSet"),
    "last_value": ("last", "valueSet"),
    "collect_set": ("buf",),
    "collect_list": ("buf",),
    "stddev": ("n", "avg", "m2"),
    "stddev_samp": ("n", "avg", "m2"),
    "stddev_pop": ("n", "avg", "m2"),
    "variance": ("n", "avg", "m2"),
    "var_samp": ("n", "avg", "m2"),
    "variance_samp": ("n", "avg", "m2"),
    "variance_pop": ("n", "avg", "m2"),
    "var_pop": ("n", "avg", "m2"),
}
_OPTIONAL: Final = frozenset({"isEmpty"})
"""A decimal sum keeps it besides, where overflow gives null."""

KEYS: Final = rule_named("aggregation.keys")
AGGREGATES: Final = rule_named("aggregation.aggregates")
TYPES: Final = rule_named("aggregation.types")
SHAPE: Final = rule_named("aggregation.used")
SHAPE_UNKNOWN: Final = rule_named("aggregation.used_unknown")
WINDOW: Final = rule_named("aggregation.window")
GAP: Final = rule_named("aggregation.session_gap")
UNUSED: Final = rule_named("aggregation.unused")
RESULT: Final = rule_named("aggregation.result")
RULES: Final = (KEYS, AGGREGATES, TYPES, SHAPE, SHAPE_UNKNOWN, WINDOW, GAP, RESULT, UNUSED)
_NODE: Final = "Aggregate"
_WINDOWS: Final = ("window", "session_window", "time_window")


def function_of(value: Tree) -> str:
    """Return the name of an aggregate function; empty for a function that reads only some of the rows."""
    if is_op(value, "aggregate"):
        return function_of(value.args[0]) if len(value.args) == 1 else ""
    return value.op if isinstance(value, Expr) else ""


def buffers_of(values: Sequence[Tree]) -> list[str] | None:
    """Return the names of the columns that aggregates keep; ``None`` when one is not known."""
    found: list[str] = []
    for value in values:
        names = _BUFFERS.get(function_of(value))
        if names is None:
            return None
        found += names
    return found


def without_optional(names: Sequence[str]) -> list[str]:
    """Remove the names of columns that only some Spark releases store."""
    return [name for name in names if name not in _OPTIONAL]


def judge_aggregate(pair: Pair, number: int) -> Iterator[GateFinding]:
    """Compare an aggregation, of a session window too, by its number."""
    old, new = pair.old.operators[number], pair.new.operators[number]
    evidence = pair.shown_by_state(number)
    if old.window_us != new.window_us:
        at = pair.shown_at(f"operators[{number}].window_us")
        yield WINDOW.found(old=_window(old), new=_window(new), evidence=at)
    if old.gap != new.gap:
        at = pair.shown_at(f"operators[{number}].gap")
        yield GAP.found(old=_gap(old), new=_gap(new), evidence=at)
    before, after = _results(pair.old, number), _results(pair.new, number)
    if number == 0 and before != after:
        # In front of another operator's state it is unexplained, and so unknown.
        yield RESULT.found(
            old=texts_of(before),
            new=texts_of(after),
            evidence=f"operator {number} in {pair.shown_by_plan}",
            about=("operators[0].results", "operators[0].output_names", f"nodes[0].{_NODE}"),
        )
    if _keys(old) != _keys(new):
        yield KEYS.found(old=_keys_text(old), new=_keys_text(new), evidence=evidence)
    yield from _judge_values(pair, number, evidence)


def _results(plan: QueryPlan, number: int) -> list[Tree]:
    """Return what continues from an aggregation and is read behind it; all where that is not known."""
    results = plan.operators[number].results
    items = items_of(results)
    used = None if items is None else used_behind(plan, number, items)
    return (
        list(results)
        if items is None or used is None
        else [Expr(ALIAS, [items[name]], options={"name": name.name}) for name in used]
    )


def _judge_values(pair: Pair, number: int, evidence: str) -> Iterator[GateFinding]:
    old, new = pair.old.operators[number], pair.new.operators[number]
    before, after = kept_aggregates(pair.old, number), kept_aggregates(pair.new, number)
    if before is None or after is None:
        if old.values != new.values:
            yield AGGREGATES.found(
                old=texts_of(old.values), new=texts_of(new.values), evidence=evidence
            )
        elif pair.old.steps != pair.new.steps and _behind(pair, number):
            yield SHAPE_UNKNOWN.found(evidence=pair.shown_at(f"operators[{number}].values"))
    elif before == after and old.values != new.values:
        at = f"operators[{number}]"
        yield UNUSED.found(
            old=texts_of(old.values),
            new=texts_of(new.values),
            evidence=evidence,
            about=(
                *(f"{at}.{name}" for name in ("values", "value_types", "output_names", "results")),
                f"nodes[{number}].{_NODE}",
            ),
        )
    elif before != after:
        rule = SHAPE if old.values == new.values else AGGREGATES
        yield rule.found(old=texts_of(before), new=texts_of(after), evidence=evidence)
    if old.values == new.values and _types(old) != _types(new):
        yield TYPES.found(
            old=", ".join(old.value_types), new=", ".join(new.value_types), evidence=evidence
        )


def _behind(pair: Pair, number: int) -> bool:
    old = [step for step in pair.old.steps if step.below <= number]
    return old != [step for step in pair.new.steps if step.below <= number]


def _keys(operator: OperatorPlan) -> tuple[object, ...]:
    return signature(operator.keys), tuple(map(_without_measures, operator.key_expressions))


def _without_measures(key: Tree) -> Tree:
    # Length, slide and gap of a window have rules of their own; its time is part of the key.
    return Expr(key.op, key.args[:1]) if isinstance(key, Expr) and key.op in _WINDOWS else key


def _keys_text(operator: OperatorPlan) -> str:
    return f"{shown(operator.keys)} by {texts_of(operator.key_expressions) or 'name'}"


def _types(operator: OperatorPlan) -> tuple[str, ...]:
    return tuple(map(plain_type, operator.value_types))


def _gap(operator: OperatorPlan) -> str:
    return "none" if operator.gap is None else text_of(operator.gap)


def _window(operator: OperatorPlan) -> str:
    names = ("length", "slide", "start")
    figures = zip(names, operator.window_us, strict=False)
    return ", ".join(f"{name} {seconds_text(value / 1e6)}" for name, value in figures) or "none"
