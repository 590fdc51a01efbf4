"""
Aggregations: their keys, their windows, and the aggregates that state is kept of.

Spark's own check compares the types of the state's columns in their order, and nothing else: a sum
that becomes a maximum, or a window of another length, goes on with the old state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.change.columns import plain_type, shown, signature
from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.change.pruning import kept_aggregates
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import OperatorPlan

_GUIDE: Final = "Structured Streaming guide, recovery semantics: streaming aggregation"
_ANEW: Final = "Start with a new checkpoint (blue-green), which makes the state anew."

KEYS: Final = Rule(
    name="aggregation.keys",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Grouping keys must keep their number, types, order and meaning.",
    source=f"{_GUIDE}; measured: STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE, and another key of the same "
    "type starts without a word",
    remedy=_ANEW,
)
AGGREGATES: Final = Rule(
    name="aggregation.aggregates",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Aggregates must keep their number, functions, arguments and order.",
    source=f"{_GUIDE}; measured: STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE, and sum to max starts "
    "without a word",
    remedy=_ANEW,
)
TYPES: Final = Rule(
    name="aggregation.types",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Aggregates must keep their types.",
    source=f"{_GUIDE}; measured: STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    remedy=f"{_ANEW} Or cast behind the aggregation.",
)
SHAPE: Final = Rule(
    name="aggregation.used",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The projection behind an aggregation decides which aggregates Spark keeps, and in "
    "which order; both must stay.",
    source="measured on 4.3: a dropped aggregate fails with STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE, "
    "and two columns that change places swap a sum and a count without a word",
    remedy="Keep the columns and their order in that projection, and choose among them further "
    "behind, e.g. in the function of foreachBatch.",
)
SHAPE_UNKNOWN: Final = Rule(
    name="aggregation.used_unknown",
    severity=GateDecision.UNKNOWN,
    sentence="What is behind the aggregation changes, and which aggregates Spark then keeps could "
    "not be followed.",
    source="measured on 4.3: what is not used behind an aggregation is not kept",
    remedy="Rehearse it.",
)
WINDOW: Final = Rule(
    name="aggregation.window",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A time window must keep its length, slide and start.",
    source="measured: 20 s to 30 s starts, and groups of both lengths are mixed",
    remedy=_ANEW,
)
GAP: Final = Rule(
    name="aggregation.session_gap",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A session window must keep its gap.",
    source="measured: 5 s to 9 s starts, and open sessions are merged by another rule",
    remedy=_ANEW,
)

RULES: Final = (KEYS, AGGREGATES, TYPES, SHAPE, SHAPE_UNKNOWN, WINDOW, GAP)

_WINDOWS: Final = ("window(", "session_window(", "windowexpression(", "time_window(")


def judge_aggregate(pair: Pair, number: int) -> Iterator[GateFinding]:
    """Compare an aggregation, of a session window too, by its number."""
    old, new = pair.old.operators[number], pair.new.operators[number]
    evidence = pair.shown_by_state(number)
    if old.window_us != new.window_us:
        yield WINDOW.found(old=_window(old), new=_window(new), evidence=pair.shown_by_plan)
    if old.gap != new.gap:
        yield GAP.found(old=old.gap, new=new.gap, evidence=pair.shown_by_plan)
    if _keys(old) != _keys(new):
        yield KEYS.found(old=_keys_text(old), new=_keys_text(new), evidence=evidence)
    yield from _judge_values(pair, number, evidence)


def _judge_values(pair: Pair, number: int, evidence: str) -> Iterator[GateFinding]:
    old, new = pair.old.operators[number], pair.new.operators[number]
    before, after = kept_aggregates(pair.old, number), kept_aggregates(pair.new, number)
    if before is None or after is None:
        if old.values != new.values:
            yield AGGREGATES.found(
                old=", ".join(old.values), new=", ".join(new.values), evidence=evidence
            )
        elif pair.old.steps != pair.new.steps and _behind(pair, number):
            yield SHAPE_UNKNOWN.found(evidence=pair.shown_by_plan)
    elif before != after:
        rule = SHAPE if old.values == new.values else AGGREGATES
        yield rule.found(old=", ".join(before), new=", ".join(after), evidence=evidence)
    if old.values == new.values and _types(old) != _types(new):
        yield TYPES.found(
            old=", ".join(old.value_types), new=", ".join(new.value_types), evidence=evidence
        )


def _behind(pair: Pair, number: int) -> bool:
    old = [step for step in pair.old.steps if step.below <= number]
    return old != [step for step in pair.new.steps if step.below <= number]


def _keys(operator: OperatorPlan) -> tuple[object, ...]:
    # A window is compared by its own figures; its text may hold them as well.
    expressions = tuple(
        "window" if text.lower().startswith(_WINDOWS) else text for text in operator.key_expressions
    )
    return signature(operator.keys), expressions


def _keys_text(operator: OperatorPlan) -> str:
    return f"{shown(operator.keys)} by {', '.join(operator.key_expressions) or 'name'}"


def _types(operator: OperatorPlan) -> tuple[str, ...]:
    return tuple(map(plain_type, operator.value_types))


def _window(operator: OperatorPlan) -> str:
    names = ("length", "slide", "start")
    figures = zip(names, operator.window_us, strict=False)
    return ", ".join(f"{name} {value / 1e6:g} s" for name, value in figures) or "none"
