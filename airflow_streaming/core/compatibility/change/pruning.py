"""
Pruning: what of an operator's columns the rest of the query uses.

Spark drops what is not used before it makes state: an aggregate that a later projection leaves out
is not kept, and of a join's sides only the columns that are read on. A projection right behind an
aggregation even decides the order in which the aggregates are kept. So a projection far away from
the state can change its shape, which was measured to fail, or to swap two sums without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from airflow_streaming.core.compatibility.change.texts import items_of, names_in, pattern_of
from airflow_streaming.core.plan.plan import OperatorPlan, OperatorSort, QueryPlan, StepPlan

AGGREGATES: Final = frozenset({OperatorSort.AGGREGATE, OperatorSort.SESSION_WINDOW})

_OPAQUE: Final = frozenset(
    {OperatorSort.GROUPS_WITH_STATE, OperatorSort.TRANSFORM_WITH_STATE, OperatorSort.OTHER}
)
"""Functions of the user see every column."""

_OPAQUE_STEPS: Final = frozenset({"map", "other", "union"})


def used_behind(plan: QueryPlan, operator: int, names: Iterable[str]) -> list[str] | None:
    """
    Return those of an operator's columns that something behind it uses, in the order given.

    :param operator: Its number; those behind it have smaller ones.
    :return: ``None`` when it cannot be told.
    """
    texts: list[str] | None = [column.name for column in plan.sink.schema]
    for number in range(operator + 1):
        for step in steps_at(plan, number):
            texts = _in_front_of_step(step, texts)
        if number < operator:
            texts = _in_front_of_operator(plan.operators[number], texts)
    listed = list(names)
    found = None if texts is None else names_in(texts, listed)
    return None if found is None else [name for name in listed if name in found]


def kept_aggregates(plan: QueryPlan, operator: int) -> tuple[str, ...] | None:
    """
    Return the aggregates that Spark keeps state of, in the order it keeps them.

    :return: ``None`` when it cannot be told.
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


def _outputs(operator: OperatorPlan) -> dict[str, list[str]] | None:
    # One column may be made of several aggregates, and one aggregate be in several columns.
    if len(operator.outputs) != len(operator.values):
        return None
    found: dict[str, list[str]] = {}
    for value, names in zip(operator.values, operator.outputs, strict=True):
        for name in filter(None, names.split(",")):
            found.setdefault(name, []).append(value)
    return found


def _order_behind(plan: QueryPlan, operator: int, outputs: list[str]) -> list[str] | None:
    # Spark merges the projections that lie right on an aggregation into it; any other step keeps
    # them apart. Steps are told from the sink up, so those right on it are the last.
    order: dict[str, list[str]] = {name: [name] for name in outputs}
    for step in reversed(steps_at(plan, operator)):
        if step.step != "project":
            break
        items = items_of(step.text)
        if items is None:
            return None
        order = {name: _named(text, order) for name, text in items.items()}
    return list(dict.fromkeys(name for made_of in order.values() for name in made_of))


def _named(text: str, order: Mapping[str, Sequence[str]]) -> list[str]:
    places = {name: match.start() for name in order if (match := pattern_of(name).search(text))}
    return [each for name in sorted(places, key=places.__getitem__) for each in order[name]]


def _in_front_of_step(step: StepPlan, texts: list[str] | None) -> list[str] | None:
    if texts is None or step.step in _OPAQUE_STEPS:
        return None
    if step.step != "project":
        return [*texts, step.text]
    items = items_of(step.text)
    live = None if items is None else names_in(texts, items)
    if items is None or live is None:
        return None
    return [items[name] for name in items if name in live]


def _in_front_of_operator(operator: OperatorPlan, texts: list[str] | None) -> list[str] | None:
    if texts is None or operator.sort in _OPAQUE:
        return None
    own = [*(key.name for key in operator.keys), *operator.key_expressions, operator.condition]
    if operator.sort not in AGGREGATES:
        return [*texts, *own]
    outputs = _outputs(operator)
    live = names_in(texts, outputs) if outputs is not None else None
    if outputs is None or live is None:
        return [*own, *operator.values]
    return [*own, *(value for name in live for value in outputs[name])]
