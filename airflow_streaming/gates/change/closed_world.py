"""
Compare the recorded plan and the new one as a whole: an unexplained difference is never allowed.

A plan is split into leaves, each with a place such as ``steps[1].filter`` or
``sources[0].options.mode``. A finding names the places that it explains. A difference at any other
place makes the answer unknown, with this difference in the report. An opaque text is never equal to
itself, unless the script is known to be the same.

Left out are the name and place of the query, and its Spark; other rules decide these.

``judge_reads`` compares the inputs of Python code beside its text: files, packages, environment, time zone,
session. An equal digest is equal content. A piece that could not be read is never equal, unless the script is
known to be the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from airflow_streaming.gates.change.pair import Pair, plain_type
from airflow_streaming.gates.change.sources import place, reads
from airflow_streaming.gates.change.user_state import same_body
from airflow_streaming.gates.findings import GateDecision, GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.gates.spark_defaults import value_of
from airflow_streaming.model.spark.plan import (
    OPAQUE,
    STEP_KINDS,
    Column,
    OperatorPlan,
    QueryPlan,
    SourcePlan,
)

UNEXPLAINED: Final = rule_named("plan.unexplained")
OPAQUE_BEFORE: Final = rule_named("plan.opaque")
OPAQUE_BEHIND: Final = rule_named("plan.opaque_behind")
RULES: Final = (UNEXPLAINED, OPAQUE_BEFORE, OPAQUE_BEHIND)
_SOURCE: Final = ("source", "name", "format", "inferred")
_SINK: Final = ("sink", "format", "target", "partitioned_by", "code")
_MARKED: Final = ("steps[", "operators[")
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


def leaves(plan: QueryPlan) -> dict[str, Any]:
    """Return every leaf of a plan by its place, in one spelling."""
    found: dict[str, Any] = {
        "output_mode": plan.output_mode,
        "processing_trigger": plan.processing_trigger,
        "capture": plan.capture,
        "sources": tuple(source.name for source in plan.sources),
        "operators": tuple(operator.sort for operator in plan.operators),
        "watermarks": sorted((w.column, w.delay_ms, w.time) for w in plan.watermarks),
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
        found.setdefault(f"steps[{step.below}].{step.step}", []).append(step.text)
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


def _columns(columns: Iterable[Column]) -> list[tuple[str, str]]:
    return [(column.name, plain_type(column.type)) for column in columns]


def _nulls(columns: Iterable[Column]) -> list[tuple[str, bool]]:
    return [(column.name, column.nullable) for column in columns]


def differences(pair: Pair) -> Iterator[tuple[str, Any, Any]]:
    """Yield every place at which two plans differ, with both values."""
    old, new = leaves(pair.old), leaves(pair.new)
    unseen = {*_variables_not_seen(pair)}
    for at in sorted({*old, *new} - unseen):
        was, now = old.get(at), new.get(at)
        if was != now and not (pair.other_spark and _is_of_spark(pair, at, was, now)):
            yield at, was, now


def _variables_not_seen(pair: Pair) -> Iterator[str]:
    """Yield the variables of processors that plan mode alone has asked for, where code is the same."""
    for number, (old, new) in enumerate(zip(pair.old.operators, pair.new.operators, strict=False)):
        if "" in (old.state_schema, new.state_schema) and same_body(pair, number):
            yield f"operators[{number}].state_schema"


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


def judge_the_rest(pair: Pair, found: Iterable[GateFinding]) -> Iterator[GateFinding]:
    """
    Yield the differences that no rule's finding explains.

    Empty behind a refusal: it decides, and many other differences follow from it.
    """
    known = [*found]
    if not pair.same_code:
        yield from _judge_opaque(pair)
    if any(finding.severity is GateDecision.NOT_ALLOWED for finding in known):
        return
    explained = {about for finding in known for about in finding.about}
    for at, was, now in differences(pair):
        if not is_explained(at, explained):
            yield UNEXPLAINED.found(
                f"{at}: {UNEXPLAINED.sentence}",
                old="none" if was is None else str(was),
                new="none" if now is None else str(now),
                evidence=f"{at} in {pair.shown_by_plan}",
                about=(at,),
            )


def is_explained(at: str, explained: Iterable[str]) -> bool:
    """Return whether a place is in the list, or starts like an entry with a star at its end."""
    return any(at.startswith(one[:-1]) if one.endswith("*") else at == one for one in explained)


def _judge_opaque(pair: Pair) -> Iterator[GateFinding]:
    old = leaves(pair.old)
    for at, now in sorted(leaves(pair.new).items()):
        if at.startswith(_MARKED) and old.get(at) == now and OPAQUE in str(now):
            rule = OPAQUE_BEHIND if at.startswith("steps[0]") else OPAQUE_BEFORE
            text = str(now)
            yield rule.found(
                f"{at}: {rule.sentence}", old=text, new=text, evidence=f"{at} in the new plan"
            )


READS: Final = rule_named("code.reads")
BEFORE_STATE: Final = rule_named("code.reads_before_state")
UNREAD: Final = rule_named("code.reads_unread")
UNREAD_BEFORE_STATE: Final = rule_named("code.reads_unread_before_state")
READ_RULES: Final = (READS, BEFORE_STATE, UNREAD, UNREAD_BEFORE_STATE)


def judge_reads(pair: Pair) -> Iterator[GateFinding]:
    """Compare the inputs of the code of both plans; the inputs of a sink cannot change state."""
    yield from _judge_read(
        pair, pair.old.reads, pair.new.reads, "reads", has_state=pair.is_stateful
    )
    yield from _judge_read(
        pair, pair.old.sink.reads, pair.new.sink.reads, "sink.reads", has_state=False
    )


def _judge_read(
    pair: Pair, old: Mapping[str, str], new: Mapping[str, str], at: str, *, has_state: bool
) -> Iterator[GateFinding]:
    for name in sorted({*old, *new}):
        was, now = old.get(name, ""), new.get(name, "")
        is_unread = OPAQUE in was or OPAQUE in now
        if was == now and (pair.same_code or not is_unread):
            continue
        rule = _rule_of_read(is_unread=is_unread, has_state=has_state)
        yield rule.found(
            f"{name}: {rule.sentence}",
            old=was or "not read",
            new=now or "not read",
            evidence=f"{at}.{name} in {pair.shown_by_plan}",
            about=(f"{at}.{name}",),
        )


def _rule_of_read(*, is_unread: bool, has_state: bool) -> Rule:
    if is_unread:
        return UNREAD_BEFORE_STATE if has_state else UNREAD
    return BEFORE_STATE if has_state else READS
