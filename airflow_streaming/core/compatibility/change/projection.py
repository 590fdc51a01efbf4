"""
Projection: what arrives at the sink. Another schema is allowed where the sink takes it.

Files that name their columns take columns that come and go; files without names do not. Kafka has
columns of its own. What a function does with another schema only its author knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.change.columns import (
    ColumnChange,
    column_change,
    shown,
)
from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.change.sinks import FOREACH
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule

_GUIDE: Final = "Structured Streaming guide, recovery semantics: if the sink allows the change"
_NEW_OUTPUT: Final = "Keep the schema, or write to a new output with a new checkpoint."

ADDED: Final = Rule(
    name="projection.column_added",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Files with named columns may gain one; readers find it null in the files that are "
    "there.",
    source=_GUIDE,
)
REMOVED: Final = Rule(
    name="projection.column_removed",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Files with named columns may lose one; readers find it null in new files.",
    source=_GUIDE,
    remedy="Tell the readers of the output.",
)
RETYPED: Final = Rule(
    name="projection.column_type",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A column of files must keep its type: readers fail on files of both, or misread them.",
    source=_GUIDE,
    remedy=f"{_NEW_OUTPUT} Or write the new type under a new name.",
)
REORDERED: Final = Rule(
    name="projection.column_order",
    severity=GateDecision.ALLOWED,
    sentence="Columns that are found by name may change places.",
    source=_GUIDE,
)
BY_PLACE: Final = Rule(
    name="projection.column_places",
    severity=GateDecision.NOT_ALLOWED,
    sentence="CSV and text files know columns by their place: the schema must stay as it is.",
    source=_GUIDE,
    remedy=_NEW_OUTPUT,
)
KAFKA: Final = Rule(
    name="projection.kafka",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Kafka takes rows with or without key, topic, partition and headers; consumers and "
    "the choice of partitions may depend on them.",
    source="Structured Streaming and Kafka integration guide",
    remedy="Tell the consumers.",
)
KAFKA_VALUE: Final = Rule(
    name="projection.kafka_value",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Kafka needs a column named value, of text or bytes.",
    source="Structured Streaming and Kafka integration guide",
    remedy="Name the column that is to be sent value.",
)
FUNCTION: Final = Rule(
    name="projection.function",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="The function of the sink gets another schema: it, and the table it writes, have to "
    "take it. A rehearsal redirects the output and does not try that.",
    source=_GUIDE,
    remedy="See to it that the function and its table take the new schema.",
)
VIEW: Final = Rule(
    name="projection.view",
    severity=GateDecision.ALLOWED,
    sentence="A sink that shows or drops rows takes any schema.",
    source=_GUIDE,
)
OTHER: Final = Rule(
    name="projection.other_sink",
    severity=GateDecision.UNKNOWN,
    sentence="Whether this sink takes another schema is decided by the sink.",
    source=_GUIDE,
    remedy="Ask the sink's documentation, and rehearse it; or keep the schema.",
)

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
    OTHER,
)

_PLACED: Final = frozenset({"csv", "text"})


def judge_projection(pair: Pair) -> Iterator[GateFinding]:
    """Compare what arrives at the sink."""
    old, new = pair.old.sink, pair.new.sink
    if new.sink == "kafka" and new.schema and all(c.name != "value" for c in new.schema):
        yield KAFKA_VALUE.found(new=shown(new.schema), evidence="the new plan")
    change = column_change(old.schema, new.schema)
    if not change or old.sink != new.sink:
        # Another sink begins with whatever schema it is given.
        return
    if new.sink == "file" and new.format not in _PLACED:
        yield from _judge_files(pair, change)
        return
    rule = _rule(new.sink, change)
    yield rule.found(old=shown(old.schema), new=shown(new.schema), evidence=pair.shown_by_plan)


def _judge_files(pair: Pair, change: ColumnChange) -> Iterator[GateFinding]:
    evidence = pair.shown_by_plan
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
