"""
Malformed records, and which of them a query lets through to its state.

Spark parses them partly: a JSON record with a fault in a field outside the schema is null as a
whole; with the field in the schema, only this field is null. So a change of the schema changes the
values of such records, unless they are filtered out in front of all state, or the field is not read
at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.model.plan.tree import (
    ColumnRef,
    Tree,
    conjuncts,
    is_op,
    items_of,
    used_in,
    way_of,
)
from airflow_streaming.model.spark.plan import OperatorKind, QueryPlan, SourcePlan, StepPlan

CORRUPT: Final = "_corrupt_record"
"""Spark's own name for the column of corrupt records, where no option or setting gives another."""
_CORRUPT_SETTING: Final = "spark.sql.columnNameOfCorruptRecord"
_CORRUPT_OF_SOURCE: Final = "columnnameofcorruptrecord"
_STRICT: Final = frozenset({"dropmalformed", "failfast"})
_MARKED_UP: Final = frozenset({"json", "xml"})
_PRUNED: Final = frozenset({OperatorKind.AGGREGATE, OperatorKind.SESSION_WINDOW})
"""Operators below which Spark reads no column that is not named."""
_IS_NULL: Final = ("is_null", "isnull")
STEPS: Final = frozenset({"project", "filter"})
"""Steps that take a row apart by names."""


def reads_faulty_records_otherwise(
    pair: Pair, old: SourcePlan, new: SourcePlan, names: Collection[str]
) -> bool:
    """
    Return whether malformed records may be parsed differently when columns come or go.

    A JSON record with a fault in a column outside the schema is null as a whole; with the column in
    the schema, only this column is null. Spark does not parse columns that the query does not read.
    A CSV record with more or fewer values than columns is malformed as a whole.
    """
    if not pair.is_stateful or not any(_reads(plan, names) for plan in (pair.old, pair.new)):
        return False
    sides = ((pair.old, old), (pair.new, new))
    strict = [one.options.get("mode", "").lower() in _STRICT for _, one in sides]
    if old.format == "csv":
        keeps_them = any(_corrupt_of(plan, one) for plan, one in sides)
        return len(old.schema) != len(new.schema) and (any(strict) or keeps_them)
    if old.format not in _MARKED_UP or all(strict):
        return False
    return not all(_leaves_faulty_out(plan, one) for plan, one in sides)


def computed_in(step: StepPlan) -> list[Tree]:
    """Return the expressions of a step, of a projection without the columns that it only passes on."""
    if step.step != "project":
        return [step.tree]
    return [way_of(item) for item in step.tree.args if not isinstance(item, ColumnRef)]


def are_null_before_state(
    plan: QueryPlan, steps: Sequence[StepPlan], tested: Collection[Tree]
) -> bool:
    """
    Tell whether a filter in front of all state lets only rows pass in which a column is null.

    :param steps: Of the plan, the last one first.
    :param tested: How the column is written where it is made; a projection may give it a name.
    """
    made = projections(steps)
    columns = made_only_as(made, tested)
    return any(
        column in tested
        or (column in columns and any(column in items for items in made[place + 1 :]))
        for place, step in enumerate(steps)
        if step.step == "filter" and step.below == len(plan.operators)
        for column in _asked_to_be_null(step.tree)
    )


def projections(steps: Sequence[StepPlan]) -> list[dict[ColumnRef, Tree]]:
    """Return each step's columns with their expressions; empty for other steps than projections."""
    return [(items_of(step.tree.args) if step.step == "project" else None) or {} for step in steps]


def corrupt_column(plan: QueryPlan, options: Mapping[str, str]) -> str:
    """
    Return the name of the column for corrupt records, by a call's options or the session.

    Empty if the name in the options cannot be read.
    """
    # Spark ignores the case of option names.
    for key, value in options.items():
        if key.lower().rpartition(".")[2] == _CORRUPT_OF_SOURCE:
            return value
        if _CORRUPT_OF_SOURCE in value.lower():
            return ""
    setting = plan.settings.get(_CORRUPT_SETTING) or plan.conf.get(_CORRUPT_SETTING)
    return setting or CORRUPT


def made_only_as(
    made: Sequence[Mapping[ColumnRef, Tree]], ways: Collection[Tree]
) -> set[ColumnRef]:
    """Return the columns that no projection makes in any other way."""
    names = {name for items in made for name, way in items.items() if way in ways}
    return {
        name
        for name in names
        if all(items[name] in (*ways, name) for items in made if name in items)
    }


def trees_in(value: Any) -> Iterator[Tree]:
    """Yield every expression of some parts of a plan."""
    if isinstance(value, Tree):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from trees_in(one)
    elif is_dataclass(value):
        for one in fields(value):
            yield from trees_in(getattr(value, one.name))


def _leaves_faulty_out(plan: QueryPlan, source: SourcePlan) -> bool:
    corrupt = _corrupt_of(plan, source)
    column = ColumnRef(corrupt)
    made = projections(plan.steps)
    return (
        bool(corrupt)
        and all(items.get(column, column) == column for items in made)
        and are_null_before_state(plan, plan.steps, {column})
    )


def _corrupt_of(plan: QueryPlan, source: SourcePlan) -> str:
    """Return the column of a source that keeps faulty records; empty when it has none."""
    name = source.options.get(_CORRUPT_OF_SOURCE) or corrupt_column(plan, {})
    return name if any(column.name == name for column in source.schema) else ""


def _reads(plan: QueryPlan, names: Collection[str]) -> bool:
    if any(column.name in names for column in plan.sink.schema) or not (
        all(operator.sort in _PRUNED for operator in plan.operators)
        and all(step.step in STEPS for step in plan.steps)
    ):
        return True
    trees = [*trees_in((plan.operators, plan.watermarks))]
    trees += [ColumnRef(one.name) for operator in plan.operators for one in operator.keys]
    trees += [ColumnRef(mark.column) for mark in plan.watermarks]
    trees += [tree for step in plan.steps for tree in computed_in(step)]
    found = used_in(trees, map(ColumnRef, names))
    return found is None or bool(found)


def _asked_to_be_null(step: Tree) -> list[Tree]:
    return [
        one.args[0]
        for condition in step.args
        for one in conjuncts(condition)
        if is_op(one, *_IS_NULL) and one.args
    ]
