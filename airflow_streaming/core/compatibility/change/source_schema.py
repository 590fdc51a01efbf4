"""
Schema of a source: columns that come, go or change their type.

What an operator or the sink makes of it is judged there; here it is about what the source reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.change.columns import (
    ColumnChange,
    column_change,
    is_wider,
    shown,
    types_of,
)
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import Column, SourcePlan

_MEASURED: Final = "measured: a file source with another schema starts without a word"

ADDED: Final = Rule(
    name="source.column_added",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A column may be added; it is null in input that lacks it, and what was read before "
    "is not read again.",
    source=_MEASURED,
)
REMOVED: Final = Rule(
    name="source.column_removed",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A column may go, where nothing that keeps state was made of it.",
    source=_MEASURED,
)
WIDENED: Final = Rule(
    name="source.column_widened",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A column may get a wider type; input of the old type has to be readable as the new.",
    source=_MEASURED,
)
RETYPED: Final = Rule(
    name="source.column_type",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A column must keep its type: input that does not fit the new one becomes null, or "
    "fails, and earlier rows were read by the old one.",
    source=_MEASURED,
    remedy="Read the old type and cast it behind the source, or read it under a new name.",
)
RENAMED: Final = Rule(
    name="source.column_renamed",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A CSV column may get another name: it is read by its place, as before.",
    source="Spark's CSV source, enforceSchema; measured",
    remedy="See to it that the files' columns really are in that order.",
)
BY_PLACE: Final = Rule(
    name="source.column_places",
    severity=GateDecision.NOT_ALLOWED,
    sentence="CSV columns are read by their place: those that were there must stay where they are.",
    source="Spark's CSV source, enforceSchema",
    remedy="Add new columns at the end, and drop columns by a projection behind the source.",
)

RULES: Final = (ADDED, REMOVED, WIDENED, RETYPED, RENAMED, BY_PLACE)

_MATTER_BY_PLACE: Final = "csv"


def judge_schema(
    old: SourcePlan, new: SourcePlan, who: str, evidence: str
) -> Iterator[GateFinding]:
    """Compare the columns that a source gives."""
    change = column_change(old.schema, new.schema)
    if not change:
        return
    if old.format == _MATTER_BY_PLACE and not _is_kept(old, new):
        rule = RENAMED if _is_renamed(old, new) else BY_PLACE
        yield rule.found(
            f"{who}: {rule.sentence}",
            old=shown(old.schema),
            new=shown(new.schema),
            evidence=evidence,
        )
        return
    yield from _judge_columns(change, who, evidence)


def _judge_columns(change: ColumnChange, who: str, evidence: str) -> Iterator[GateFinding]:
    if change.added:
        yield ADDED.found(
            f"{who}: {ADDED.sentence}", old="none", new=shown(change.added), evidence=evidence
        )
    if change.removed:
        yield REMOVED.found(
            f"{who}: {REMOVED.sentence}", old=shown(change.removed), new="none", evidence=evidence
        )
    for was, now in change.retyped:
        yield _retyped(was, now).found(
            f"{who}: column {was.name} is {now.type} instead of {was.type}.",
            old=was.type,
            new=now.type,
            evidence=evidence,
        )


def _retyped(was: Column, now: Column) -> Rule:
    return WIDENED if is_wider(was.type, now.type) else RETYPED


def _is_kept(old: SourcePlan, new: SourcePlan) -> bool:
    before = [column.name for column in old.schema]
    return [column.name for column in new.schema][: len(before)] == before


def _is_renamed(old: SourcePlan, new: SourcePlan) -> bool:
    if len(new.schema) < len(old.schema):
        return False
    before = {column.name for column in old.schema}
    pairs = list(zip(old.schema, new.schema, strict=False))
    return types_of(was for was, _ in pairs) == types_of(now for _, now in pairs) and all(
        was.name == now.name or now.name not in before for was, now in pairs
    )
