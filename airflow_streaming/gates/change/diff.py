"""
Differences of two plans by path.

A plan is split into leaves, each with a place such as ``steps[1].filter`` or ``sources[0].options.mode``. Two
expressions that differ in one part are named by this part: ``AND[1].>[0]``.

Left out are the name and place of the query, and its Spark; other rules decide these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, Final, NamedTuple

from airflow_streaming.gates.change.pair import Pair, plain_type
from airflow_streaming.gates.change.sources import place, reads
from airflow_streaming.gates.change.user_state import same_body
from airflow_streaming.gates.spark_defaults import value_of
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.plan.text import step_text, text_of
from airflow_streaming.model.plan.tree import Expr, Tree
from airflow_streaming.model.spark.plan import (
    STEP_KINDS,
    OperatorPlan,
    QueryPlan,
    SourcePlan,
    WatermarkPlan,
)

_SOURCE: Final = ("source", "name", "format", "inferred")
_SINK: Final = ("sink", "format", "target", "partitioned_by", "code", "name")
_STEP_OF: Final = {
    "Project": "project",
    **STEP_KINDS,
    "LogicalRDD": "table",
    "LocalRelation": "table",
    "LogicalRelation": "table",
    "DataSourceV2Relation": "table",
    "HiveTableRelation": "table",
    "OneRowRelation": "table",
    "Range": "table",
    "EventTimeWatermark": "watermark",
    "UpdateEventTimeWatermarkColumn": "watermark",
}

TABLES: Final = frozenset(node for node, step in _STEP_OF.items() if step == "table")
"""Nodes that are tables, which have no node below them."""


class Part(NamedTuple):
    """
    The smallest part in which two expressions differ.

    :param path: Operations on the way to it with the number of an argument; empty for the whole.
    """

    path: str
    old: Tree
    new: Tree


def leaves(plan: QueryPlan) -> dict[str, Any]:
    """Return every leaf of a plan by its place, in one spelling."""
    found: dict[str, Any] = {
        "output_mode": plan.output_mode,
        "processing_trigger": plan.processing_trigger,
        "capture": plan.capture,
        "sources": tuple(source.name for source in plan.sources),
        "operators": tuple(operator.sort for operator in plan.operators),
        "watermarks": sorted(map(_watermark, plan.watermarks)),
        **{f"conf.{key}": value for key, value in plan.conf.items()},
        **{f"settings.{key}": value for key, value in plan.settings.items()},
        **{f"reads.{name}": value for name, value in plan.reads.items()},
    }
    for number, source in enumerate(plan.sources):
        found |= _of_source(source, f"sources[{source.name or number}]")
    for number, operator in enumerate(plan.operators):
        found |= _of_operator(operator, f"operators[{number}]")
    found |= _of_steps(plan)
    found |= _of_sink(plan)
    return found


def differences(pair: Pair) -> Iterator[tuple[str, Any, Any]]:
    """Yield every place at which two plans differ, with both values."""
    old, new = leaves(pair.old), leaves(pair.new)
    for found, core in zip((old, new), pair.cores, strict=True):
        found |= {f"core.{key}": value for key, value in core.items()}
    unseen = {*_variables_not_seen(pair)}
    for at in sorted({*old, *new} - unseen):
        was, now = old.get(at), new.get(at)
        if was != now and not (pair.other_spark and _is_of_spark(pair, at, was, now)):
            yield at, was, now


def is_explained(at: str, explained: Iterable[str]) -> bool:
    """Return whether a place is in the list, or starts like an entry with a star at its end."""
    return any(at.startswith(one[:-1]) if one.endswith("*") else at == one for one in explained)


def differing_part(old: Tree, new: Tree) -> Part:
    """Return the smallest part that explains why two expressions differ."""
    path = []
    while isinstance(old, Expr) and isinstance(new, Expr) and _own(old) == _own(new):
        pairs = [
            (n, a, b) for n, (a, b) in enumerate(zip(old.args, new.args, strict=True)) if a != b
        ]
        if len(pairs) != 1:
            break
        [(number, was, now)] = pairs
        path.append(f"{old.op}[{number}]")
        old, new = was, now
    return Part(".".join(path), old, new)


def shown(value: Any) -> str:
    """Return a leaf for readers."""
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    if isinstance(value, Tree):
        return step_text(value)
    return "none" if value is None else str(value)


def _of_source(source: SourcePlan, at: str) -> Iterator[tuple[str, Any]]:
    yield from ((f"{at}.{name}", getattr(source, name)) for name in _SOURCE)
    yield f"{at}.paths", reads(source)
    yield f"{at}.schema", _columns(source.schema)
    yield f"{at}.nullable", _nulls(source.schema)
    yield from ((f"{at}.options.{key}", value) for key, value in source.options.items())


def _of_operator(operator: OperatorPlan, at: str) -> Iterator[tuple[str, Any]]:
    for field in fields(operator):
        value = getattr(operator, field.name)
        if field.name in ("keys", "left", "right"):
            yield f"{at}.{field.name}", (_columns(value), _nulls(value))
        elif field.name != "sort":
            yield f"{at}.{field.name}", value


def _of_steps(plan: QueryPlan) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for step in plan.steps:
        found.setdefault(f"steps[{step.below}].{step.step}", []).append(step.tree)
        found.setdefault(f"steps[{step.below}].order", []).append(step.step)
    for node in plan.nodes:
        at = f"nodes[{node.below}].{_STEP_OF.get(node.node, node.node)}"
        found.setdefault(at, []).append((node.node, node.branch, node.digest))
    return found


def _of_sink(plan: QueryPlan) -> Iterator[tuple[str, Any]]:
    sink = plan.sink
    for name in _SINK:
        value = getattr(sink, name)
        yield f"sink.{name}", place(value) if name == "target" else value
    yield "sink.schema", _columns(sink.schema)
    yield "sink.nullable", _nulls(sink.schema)
    yield from ((f"sink.options.{key}", value) for key, value in sink.options.items())
    yield from ((f"sink.reads.{name}", value) for name, value in sink.reads.items())


def _watermark(mark: WatermarkPlan) -> tuple[str, int, str]:
    return mark.column, mark.delay_ms, "" if mark.time is None else text_of(mark.time)


def _columns(columns: Iterable[Column]) -> list[tuple[str, str]]:
    return [(column.name, plain_type(column.type)) for column in columns]


def _nulls(columns: Iterable[Column]) -> list[tuple[str, bool]]:
    return [(column.name, column.nullable) for column in columns]


def _variables_not_seen(pair: Pair) -> Iterator[str]:
    """Yield the variables of processors that plan mode alone has asked for, where code is the same."""
    for number, (old, new) in enumerate(zip(pair.old.operators, pair.new.operators, strict=False)):
        if () in (old.variables, new.variables) and same_body(pair, number):
            yield f"operators[{number}].variables"


def _is_of_spark(pair: Pair, at: str, was: Any, now: Any) -> bool:
    # A setting that only one of two Sparks knows is the version gate's; and of the same script
    # another Spark makes other nodes, which it then tests as well.
    if at.startswith("conf."):
        return was is None or now is None
    key = at.removeprefix("settings.")
    if key != at and value_of(pair.old, key) == value_of(pair.new, key):
        return True
    # Its runtime may have another Python, whose fingerprints differ.
    return pair.same_code and (at.startswith(("nodes[", "settings.")) or at.endswith(".code"))


def _own(tree: Expr) -> tuple[object, ...]:
    return tree.op, tree.type, tree.options, len(tree.args)
