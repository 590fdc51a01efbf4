"""
Operators that start without state, because their old state holds other rows or groups.

The sources keep their positions, and the operators beneath keep their state. The operators above start anew, too: their
state was made of results that the query will not write again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_streaming.gates.change import aggregation, joins, settings, steps
from airflow_streaming.gates.change import source_options as sources
from airflow_streaming.gates.change import user_state as users
from airflow_streaming.model.spark.plan import OperatorKind, QueryPlan, StepPlan

_INPUT: Final = "the old state holds rows that other code has read or filtered"
_GROUPS: Final = "the old state holds other groups"
_ROWS: Final = "the state of a join holds whole rows, matched by the old condition"
_USER: Final = "only the author of the function knows the meaning of its old state"
_BY_STEP: Final = {
    rule.name: _INPUT
    for rule in (
        *(steps.FILTER_BEFORE_ENDLESS, steps.BEFORE_ENDLESS),
        *(steps.COLUMN_BEFORE, steps.TANGLED_BEFORE),
    )
}
_BY_OPERATOR: Final = {
    steps.PUSHED_ENDLESS.name: _INPUT,
    **{rule.name: _GROUPS for rule in (aggregation.WINDOW, aggregation.GAP)},
    **{
        rule.name: _ROWS
        for rule in (
            *(joins.TYPE, joins.KEYS, joins.CONDITION, joins.SIDES, joins.SCHEMA, joins.USED),
        )
    },
    **{
        rule.name: _USER
        for rule in (
            *(users.KEYS, users.SCHEMA, users.TIMEOUT, users.TIME_MODE, users.FUNCTION),
            *(users.CHANGED, users.RENAMED, users.FIELD_RENAMED),
        )
    },
}
_BY_QUERY: Final = {
    rule.name: _INPUT
    for rule in (sources.READING_BEFORE_ENDLESS, settings.MEANING_ENDLESS, settings.TIME_ZONE)
}
RESTARTING: Final[Mapping[str, str]] = {**_BY_STEP, **_BY_OPERATOR, **_BY_QUERY}
"""Rules whose refusal a start without state lifts, with the reason for it."""
_EFFECTS: Final = {
    OperatorKind.AGGREGATE: "its groups hold only rows that are read after the migration",
    OperatorKind.SESSION_WINDOW: "its sessions hold only rows that are read after the migration",
    OperatorKind.DEDUPLICATE: "a row that repeats a row from before the migration passes once more",
    OperatorKind.DEDUPLICATE_WITHIN_WATERMARK: "a row that repeats a row from before the migration passes once more",
    OperatorKind.JOIN: "rows from before the migration find no partner any more, and an outer join does not write them",
    OperatorKind.GROUPS_WITH_STATE: "the function sees each key for the first time",
    OperatorKind.TRANSFORM_WITH_STATE: "the function sees each key for the first time, and its timers are gone",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The old and the new plan of a query with operators of the same kinds."""

    old: QueryPlan
    new: QueryPlan

    @property
    def size(self) -> int:
        return len(self.new.operators)

    def reach(self, rule: str) -> int:
        """Return how many operators the change behind a finding reaches, counted from the sink."""
        reached: Iterable[int] = ()
        if rule in _BY_STEP:
            places = {step.below for step in (*self.old.steps, *self.new.steps)}
            reached = (at for at in places if _steps(self.old, at) != _steps(self.new, at))
        elif rule in _BY_OPERATOR:
            pairs = zip(self.old.operators, self.new.operators, strict=True)
            reached = (at + 1 for at, (one, other) in enumerate(pairs) if one != other)
        return max(reached, default=self.size)


def restarted(change: Change, rules: Iterable[str]) -> dict[int, str]:
    """
    Return the operators that start without state, with the reason of each.

    :param rules: Rules of findings that a start without state lifts.
    """
    found: dict[int, str] = {}
    for rule in rules:
        found = with_restart(found, change.reach(rule), RESTARTING[rule])
    return found


def with_restart(known: Mapping[int, str], reach: int, why: str) -> dict[int, str]:
    """Return restarts with so many operators more, counted from the sink."""
    return {**dict.fromkeys(range(reach), why), **known}


def effect_of(sort: OperatorKind) -> str:
    """Return the effect of a start without state on the output."""
    return _EFFECTS.get(sort, "it knows no earlier row")


def _steps(plan: QueryPlan, below: int) -> list[StepPlan]:
    return [step for step in plan.steps if step.below == below]
