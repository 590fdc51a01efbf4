"""
Stream-stream joins and deduplication.

Spark's check notices another key or column by its type. It does not notice that an inner join
became an outer one, or that rows are kept for another time.

The order follows the state's key, from Spark 4.3 on in every case. Two columns of one type that
change places make every row look new, and Spark does not notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.gates.change.pair import Pair, same_columns, shown, signature
from airflow_streaming.gates.change.projection import trees_of_keys, used_behind
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import rule_named
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.plan.text import text_of, texts_of
from airflow_streaming.model.plan.tree import ColumnRef, Tree, used_in
from airflow_streaming.model.spark.plan import OperatorPlan, QueryPlan

TYPE: Final = rule_named("join.type")
KEYS: Final = rule_named("join.keys")
CONDITION: Final = rule_named("join.condition")
SIDES: Final = rule_named("join.sides")
SCHEMA: Final = rule_named("join.schema")
USED: Final = rule_named("join.used")
USED_UNKNOWN: Final = rule_named("join.used_unknown")
RULES: Final = (TYPE, KEYS, CONDITION, SIDES, SCHEMA, USED, USED_UNKNOWN)

COLUMNS: Final = rule_named("deduplication.columns")
ORDER: Final = rule_named("deduplication.order")
DEDUPLICATION_RULES: Final = (COLUMNS, ORDER)


def judge_join(pair: Pair, number: int) -> Iterator[GateFinding]:
    """Compare a join of two streams by its number."""
    old, new = pair.old.operators[number], pair.new.operators[number]
    at, files = f"operators[{number}]", pair.shown_by_state(number)
    if _is_swapped(old, new):
        yield SIDES.found(old=_sides(old), new=_sides(new), evidence=files)
        return
    if (old.join_type, old.run_as) != (new.join_type, new.run_as):
        # A filter behind an outer join may make it an inner one, once Spark has optimized the plan.
        was, now = old.run_as or old.join_type, new.run_as or new.join_type
        yield TYPE.found(
            old=f"{old.join_type}, run as {was}",
            new=f"{new.join_type}, run as {now}",
            evidence=pair.shown_at(f"{at}.join_type"),
        )
    if _keys(old) != _keys(new):
        yield KEYS.found(old=_keys_text(old), new=_keys_text(new), evidence=files)
    if old.condition != new.condition:
        yield CONDITION.found(
            old=_text(old.condition),
            new=_text(new.condition),
            evidence=pair.shown_at(f"{at}.condition"),
        )
    yield from _judge_sides(pair, number, files)


def kept(plan: QueryPlan, number: int, side: Sequence[Column], place: int) -> list[Column] | None:
    """
    Return the columns of one side that Spark keeps: the columns used by the join and after it.

    :param place: 0 for the left side, 1 for the right one. :return: ``None`` if unknown.
    """
    operator, source = plan.operators[number], _source(plan, place)
    names = [ColumnRef(column.name, source) for column in side]
    behind = used_behind(plan, number, names)
    own = used_in(trees_of_keys(operator), names)
    if behind is None or own is None:
        return None
    return [
        column for column, name in zip(side, names, strict=True) if name in own or name in behind
    ]


def judge_deduplication(pair: Pair, number: int) -> Iterator[GateFinding]:
    """Compare a deduplication by its number."""
    old, new = pair.old.operators[number], pair.new.operators[number]
    before, after = signature(old.keys), signature(new.keys)
    if before == after and old.key_expressions == new.key_expressions:
        return
    rule = ORDER if sorted(before) == sorted(after) else COLUMNS
    yield rule.found(old=shown(old.keys), new=shown(new.keys), evidence=pair.shown_by_state(number))


def _judge_sides(pair: Pair, number: int, evidence: str) -> Iterator[GateFinding]:
    old, new = pair.old.operators[number], pair.new.operators[number]
    sides = (("left", old.left, new.left), ("right", old.right, new.right))
    for place, (side, was, now) in enumerate(sides):
        before, after = kept(pair.old, number, was, place), kept(pair.new, number, now, place)
        if before is None or after is None:
            if not same_columns(was, now):
                yield SCHEMA.found(old=shown(was), new=shown(now), evidence=evidence)
            elif pair.old.steps != pair.new.steps:
                yield USED_UNKNOWN.found(evidence=pair.shown_at(f"operators[{number}].{side}"))
        elif not same_columns(before, after):
            rule = USED if same_columns(was, now) else SCHEMA
            yield rule.found(
                f"The {side} side keeps other columns. {rule.sentence}",
                old=shown(before),
                new=shown(after),
                evidence=evidence,
            )


def _source(plan: QueryPlan, place: int) -> int | None:
    # Names that both sides have are numbered by source, the left ones first.
    trees = [step.tree for step in plan.steps]
    for operator in plan.operators:
        trees += [*trees_of_keys(operator), *operator.values]
    found = {
        one.source
        for tree in trees
        for one in tree.walk()
        if isinstance(one, ColumnRef) and one.source is not None
    }
    return sorted(found)[place] if len(found) == 2 else None


def _text(condition: Tree | None) -> str:
    return "none" if condition is None else text_of(condition)


def _is_swapped(old: OperatorPlan, new: OperatorPlan) -> bool:
    before = signature(old.left), signature(old.right)
    after = signature(new.right), signature(new.left)
    return before == after and before[0] != before[1]


def _keys(operator: OperatorPlan) -> tuple[object, ...]:
    return signature(operator.keys), operator.key_expressions


def _keys_text(operator: OperatorPlan) -> str:
    return f"{shown(operator.keys)} by {texts_of(operator.key_expressions) or 'name'}"


def _sides(operator: OperatorPlan) -> str:
    return f"left: {shown(operator.left)}; right: {shown(operator.right)}"
