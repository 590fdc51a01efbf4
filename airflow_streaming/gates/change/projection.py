"""
The columns that arrive at the sink, and the state columns that the query still uses.

Spark drops unused columns before it makes state: an aggregate that a later projection drops is not
kept, and of a join's sides only the columns that are used later. A projection directly behind an
aggregation even decides the order in which the aggregates are kept. So a projection far away from
the state can change its shape, which was measured to fail, or to swap two sums silently.

Files that name their columns accept added and removed columns; files without names do not. Kafka
has columns of its own. How a function handles another schema only its author knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from airflow_streaming.gates.change.pair import (
    ColumnChange,
    Pair,
    column_change,
    shown,
)
from airflow_streaming.gates.change.sinks import FOREACH
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.plan.tree import ColumnRef, Tree, columns_in, items_of, used_in
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan, StepPlan

AGGREGATES: Final = frozenset({OperatorKind.AGGREGATE, OperatorKind.SESSION_WINDOW})
SEEING_ALL: Final = frozenset(
    {OperatorKind.GROUPS_WITH_STATE, OperatorKind.TRANSFORM_WITH_STATE, OperatorKind.OTHER}
)
"""Functions of the user see every column."""
_OPAQUE_STEPS: Final = frozenset({"map", "other", "union"})

ADDED: Final = rule_named("projection.column_added")
REMOVED: Final = rule_named("projection.column_removed")
RETYPED: Final = rule_named("projection.column_type")
REORDERED: Final = rule_named("projection.column_order")
BY_PLACE: Final = rule_named("projection.column_places")
KAFKA: Final = rule_named("projection.kafka")
KAFKA_VALUE: Final = rule_named("projection.kafka_value")
FUNCTION: Final = rule_named("projection.function")
VIEW: Final = rule_named("projection.view")
NULLS: Final = rule_named("projection.nullability")
OTHER: Final = rule_named("projection.other_sink")
RULES: Final = (
    ADDED,
    REMOVED,
    RETYPED,
    REORDERED,
    BY_PLACE,
    KAFKA,
    KAFKA_VALUE,
    FUNCTION,
    VIEW,
    NULLS,
    OTHER,
)
_PLACES: Final = ("sink.schema", "sink.nullable")
_PLACED: Final = frozenset({"csv", "text"})


def used_behind(
    plan: QueryPlan, operator: int, names: Iterable[ColumnRef]
) -> list[ColumnRef] | None:
    """
    Return the columns of an operator that later steps use, in the order given.

    :param operator: Its number; later operators have smaller ones.
    :return: ``None`` if unknown.
    """
    trees: list[Tree] | None = [ColumnRef(column.name) for column in plan.sink.schema]
    for number in range(operator + 1):
        for step in steps_at(plan, number):
            trees = _in_front_of_step(step, trees)
        if number < operator:
            trees = _in_front_of_operator(plan.operators[number], trees)
    listed = list(names)
    found = None if trees is None else used_in(trees, listed)
    return None if found is None else [name for name in listed if name in found]


def kept_aggregates(plan: QueryPlan, operator: int) -> tuple[Tree, ...] | None:
    """
    Return the aggregates that Spark keeps in state, in order.

    :return: ``None`` if unknown.
    """
    outputs = _outputs(plan.operators[operator])
    if outputs is None:
        return None
    used = used_behind(plan, operator, outputs)
    order = _order_behind(plan, operator, list(outputs))
    if used is None or order is None:
        return None
    kept = [value for name in order if name in used for value in outputs[name]]
    return tuple(dict.fromkeys(kept))


def steps_at(plan: QueryPlan, below: int) -> list[StepPlan]:
    """Return the steps in front of so many operators, the one nearest to the sink first."""
    return [step for step in plan.steps if step.below == below]


def trees_of_keys(operator: OperatorPlan) -> list[Tree]:
    """Return how the keys of an operator are computed, and the condition of a join."""
    condition = [] if operator.condition is None else [operator.condition]
    return [*operator.key_expressions, *condition]


def judge_projection(pair: Pair) -> Iterator[GateFinding]:
    """Compare what arrives at the sink."""
    old, new = pair.old.sink, pair.new.sink
    if new.sink == "kafka" and new.schema and all(c.name != "value" for c in new.schema):
        yield KAFKA_VALUE.found(new=shown(new.schema), evidence="sink.schema in the new plan")
    if old.sink == new.sink and old.schema != new.schema and not column_change(*_schemas(pair)):
        yield NULLS.found(
            old=_nulls(old.schema),
            new=_nulls(new.schema),
            evidence=f"sink.schema in {pair.shown_by_plan}",
            about=("sink.nullable",),
        )
    change = column_change(old.schema, new.schema)
    if not change or old.sink != new.sink:
        # Another sink starts with any schema.
        return
    if new.sink == "file" and new.format not in _PLACED:
        yield from _judge_files(pair, change)
        return
    rule = _rule(new.sink, change)
    yield rule.found(
        old=shown(old.schema),
        new=shown(new.schema),
        evidence=f"sink.schema in {pair.shown_by_plan}",
        about=_PLACES,
    )


def _outputs(operator: OperatorPlan) -> dict[ColumnRef, list[Tree]] | None:
    # A column may use several aggregates, and an aggregate may be in several columns.
    if len(operator.output_names) != len(operator.values):
        return None
    found: dict[ColumnRef, list[Tree]] = {}
    for value, names in zip(operator.values, operator.output_names, strict=True):
        for name in names:
            found.setdefault(ColumnRef(name), []).append(value)
    return found


def _order_behind(
    plan: QueryPlan, operator: int, outputs: list[ColumnRef]
) -> list[ColumnRef] | None:
    # Spark merges the projections directly on an aggregation into it; any other step keeps them
    # apart. Steps are listed from the sink up, so these projections are the last.
    order: dict[ColumnRef, list[ColumnRef]] = {name: [name] for name in outputs}
    for step in reversed(steps_at(plan, operator)):
        if step.step != "project":
            break
        items = items_of(step.tree.args)
        ways = {} if items is None else {name: columns_in([way]) for name, way in items.items()}
        if items is None or None in ways.values():
            return None
        order = {name: _made_of(way or [], order) for name, way in ways.items()}
    return list(dict.fromkeys(name for made_of in order.values() for name in made_of))


def _made_of(
    columns: Sequence[ColumnRef], order: Mapping[ColumnRef, Sequence[ColumnRef]]
) -> list[ColumnRef]:
    named = (name for column in columns for name in order if name.may_be(column))
    return [each for name in dict.fromkeys(named) for each in order[name]]


def _in_front_of_step(step: StepPlan, trees: list[Tree] | None) -> list[Tree] | None:
    if trees is None or step.step in _OPAQUE_STEPS:
        return None
    if step.step != "project":
        return [*trees, step.tree]
    items = items_of(step.tree.args)
    live = None if items is None else used_in(trees, items)
    if items is None or live is None:
        return None
    return [items[name] for name in items if name in live]


def _in_front_of_operator(operator: OperatorPlan, trees: list[Tree] | None) -> list[Tree] | None:
    if trees is None or operator.sort in SEEING_ALL:
        return None
    own = [*(ColumnRef(key.name) for key in operator.keys), *trees_of_keys(operator)]
    if operator.sort not in AGGREGATES:
        return [*trees, *own]
    outputs = _outputs(operator)
    live = used_in(trees, outputs) if outputs is not None else None
    if outputs is None or live is None:
        return [*own, *operator.values]
    return [*own, *(value for name in live for value in outputs[name])]


def _schemas(pair: Pair) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    return pair.old.sink.schema, pair.new.sink.schema


def _nulls(schema: Iterable[Column]) -> str:
    return ", ".join(column.name for column in schema if column.nullable) or "none"


def _judge_files(pair: Pair, change: ColumnChange) -> Iterator[GateFinding]:
    for finding in _of_files(pair, change, f"sink.schema in {pair.shown_by_plan}"):
        yield replace(finding, about=_PLACES)


def _of_files(pair: Pair, change: ColumnChange, evidence: str) -> Iterator[GateFinding]:
    if change.added:
        yield ADDED.found(old="none", new=shown(change.added), evidence=evidence)
    if change.removed:
        yield REMOVED.found(old=shown(change.removed), new="none", evidence=evidence)
    for was, now in change.retyped:
        yield RETYPED.found(old=shown([was]), new=shown([now]), evidence=evidence)
    if change.is_reordered:
        yield REORDERED.found(
            old=shown(pair.old.sink.schema), new=shown(pair.new.sink.schema), evidence=evidence
        )


def _rule(sink: str, change: ColumnChange) -> Rule:
    if sink in FOREACH:
        return FUNCTION
    if sink in ("console", "noop"):
        return VIEW
    if sink == "kafka":
        moved = change.added or change.removed or change.retyped
        return KAFKA if moved else REORDERED
    return BY_PLACE if sink == "file" else OTHER
