"""
Joins of two streams: type, keys, condition, and the columns that each side keeps.

Spark's check sees another key or column by its type; that an inner join became an outer one, or
that rows are now kept for another time, it does not see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.core.compatibility.change.columns import same_columns, shown, signature
from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.change.pruning import used_behind
from airflow_streaming.core.compatibility.change.texts import names_in, tags_in
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import Column, OperatorPlan, QueryPlan

_GUIDE: Final = "Structured Streaming guide, recovery semantics: stream-stream join"
_ANEW: Final = "Start with a new checkpoint (blue-green), which makes the state anew."

TYPE: Final = Rule(
    name="join.type",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A join of two streams must keep its type.",
    source=f"{_GUIDE}; measured: inner to left outer starts, and rows kept so far lack what an "
    "outer join needs",
    remedy=_ANEW,
)
KEYS: Final = Rule(
    name="join.keys",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A join of two streams must keep the columns that are held equal.",
    source=f"{_GUIDE}; measured: STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    remedy=_ANEW,
)
CONDITION: Final = Rule(
    name="join.condition",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The rest of a join's condition must stay: rows that the old one has dropped, or "
    "matched, cannot be judged by the new one.",
    source=f"{_GUIDE}: ill-defined; measured: a time bound of 5 s to 9 s starts",
    remedy=_ANEW,
)
SIDES: Final = Rule(
    name="join.sides",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The sides of a join must not change places.",
    source="measured: key or value schema errors, or the state of one side taken for the other's",
    remedy="Put the sides back into the order they had.",
)
SCHEMA: Final = Rule(
    name="join.schema",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Both sides of a join must keep their columns: each row of them is state.",
    source=f"{_GUIDE}; measured: STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    remedy=_ANEW,
)
USED: Final = Rule(
    name="join.used",
    severity=GateDecision.NOT_ALLOWED,
    sentence="What is read behind a join decides which columns of its sides are kept; it must stay.",
    source="measured on 4.3: one column more behind the join fails with "
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    remedy="Keep reading the same columns of both sides, and drop or add them further behind, e.g. "
    "in the function of foreachBatch; else start with a new checkpoint (blue-green).",
)
USED_UNKNOWN: Final = Rule(
    name="join.used_unknown",
    severity=GateDecision.UNKNOWN,
    sentence="What is behind the join changes, and which columns Spark then keeps could not be "
    "followed.",
    source="measured on 4.3: what is not used behind a join is not kept",
    remedy="Rehearse it.",
)

RULES: Final = (TYPE, KEYS, CONDITION, SIDES, SCHEMA, USED, USED_UNKNOWN)


def judge_join(pair: Pair, number: int) -> Iterator[GateFinding]:
    """Compare a join of two streams by its number."""
    old, new = pair.old.operators[number], pair.new.operators[number]
    evidence, files = pair.shown_by_plan, pair.shown_by_state(number)
    if _is_swapped(old, new):
        yield SIDES.found(old=_sides(old), new=_sides(new), evidence=files)
        return
    if old.join_type != new.join_type:
        yield TYPE.found(old=old.join_type, new=new.join_type, evidence=evidence)
    if _keys(old) != _keys(new):
        yield KEYS.found(old=_keys_text(old), new=_keys_text(new), evidence=files)
    if old.condition != new.condition:
        yield CONDITION.found(old=old.condition, new=new.condition, evidence=evidence)
    yield from _judge_sides(pair, number, files)


def _judge_sides(pair: Pair, number: int, evidence: str) -> Iterator[GateFinding]:
    old, new = pair.old.operators[number], pair.new.operators[number]
    sides = (("left", old.left, new.left), ("right", old.right, new.right))
    for place, (side, was, now) in enumerate(sides):
        before, after = kept(pair.old, number, was, place), kept(pair.new, number, now, place)
        if before is None or after is None:
            if not same_columns(was, now):
                yield SCHEMA.found(old=shown(was), new=shown(now), evidence=evidence)
            elif pair.old.steps != pair.new.steps:
                yield USED_UNKNOWN.found(evidence=pair.shown_by_plan)
        elif not same_columns(before, after):
            rule = USED if same_columns(was, now) else SCHEMA
            yield rule.found(
                f"The {side} side keeps other columns. {rule.sentence}",
                old=shown(before),
                new=shown(after),
                evidence=evidence,
            )


def kept(plan: QueryPlan, number: int, side: Sequence[Column], place: int) -> list[Column] | None:
    """
    Return the columns of one side that Spark keeps: those used by the join and behind it.

    :param place: 0 for the left side, 1 for the right one.
    :return: ``None`` when it cannot be told.
    """
    operator, tag = plan.operators[number], _tag(plan, place)
    names = [f"{column.name}{tag}" for column in side]
    behind = used_behind(plan, number, names)
    own = names_in([operator.condition, *operator.key_expressions], names)
    if behind is None or own is None:
        return None
    return [
        column for column, name in zip(side, names, strict=True) if name in own or name in behind
    ]


def _tag(plan: QueryPlan, place: int) -> str:
    # Names that both sides have are numbered by source, the left ones first.
    texts = [step.text for step in plan.steps]
    for operator in plan.operators:
        texts += [*operator.key_expressions, *operator.values, operator.condition]
    tags = tags_in(texts)
    return f"@{tags[place]}" if len(tags) == 2 else ""


def _is_swapped(old: OperatorPlan, new: OperatorPlan) -> bool:
    before = signature(old.left), signature(old.right)
    after = signature(new.right), signature(new.left)
    return before == after and before[0] != before[1]


def _keys(operator: OperatorPlan) -> tuple[object, ...]:
    return signature(operator.keys), operator.key_expressions


def _keys_text(operator: OperatorPlan) -> str:
    return f"{shown(operator.keys)} by {', '.join(operator.key_expressions) or 'name'}"


def _sides(operator: OperatorPlan) -> str:
    return f"left: {shown(operator.left)}; right: {shown(operator.right)}"
