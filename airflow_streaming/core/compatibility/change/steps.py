"""
Steps that keep no state: filters, projections, maps, joins with tables.

Behind all state, and in a query without any, they may change: rows from now on follow the new code,
and those written are not revised. In front of an operator that keeps state they decide what its
state was made of, and Spark compares nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.change.steps_before import rule_before
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import StepPlan

_GUIDE: Final = "Structured Streaming guide, recovery semantics: projections, filters and maps"

FILTER: Final = Rule(
    name="step.filter",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A filter may be added, changed and removed; rows already written are not revised.",
    source=f"{_GUIDE}; measured",
)
PROJECT: Final = Rule(
    name="step.project",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A projection may change; rows already written are not revised.",
    source=f"{_GUIDE}; measured",
)
FUNCTION: Final = Rule(
    name="step.function",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A user's function may change; rows already written are not revised.",
    source=_GUIDE,
)
TABLE: Final = Rule(
    name="step.table_join",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A join with a table keeps no state and may change; rows already written are not "
    "revised.",
    source=_GUIDE,
)
PARTITIONING: Final = Rule(
    name="step.partitioning",
    severity=GateDecision.ALLOWED,
    sentence="Rows may be spread over tasks in another way; state has a spread of its own.",
    source="measured: repartition behind a projection starts and gives the same rows",
)
OTHER: Final = Rule(
    name="step.other",
    severity=GateDecision.UNKNOWN,
    sentence="What this step does to a query that goes on is not known.",
    source="no rule covers it",
    remedy="Rehearse it.",
)
ORDER: Final = Rule(
    name="step.order",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Steps may change places; where one reads what another makes it then reads something "
    "else, and rows already written are not revised.",
    source=_GUIDE,
)

RULES: Final = (FILTER, PROJECT, FUNCTION, TABLE, PARTITIONING, OTHER, ORDER)

_BEHIND: Final = {
    "project": PROJECT,
    "filter": FILTER,
    "generate": PROJECT,
    "map": FUNCTION,
    "join": TABLE,
    "union": PROJECT,
}
_SPREADING: Final = ("Repartition", "RebalancePartitions")


def judge_steps(pair: Pair) -> Iterator[GateFinding]:
    """Compare the steps of both plans, those in front of each operator by themselves."""
    places = sorted({step.below for step in (*pair.old.steps, *pair.new.steps)})
    for below in places:
        sorts = {s.step for s in (*pair.old.steps, *pair.new.steps) if s.below == below}
        found = [finding for sort in sorted(sorts) for finding in _judge_place(pair, below, sort)]
        yield from found or _judge_order(pair, below)


def _judge_place(pair: Pair, below: int, sort: str) -> Iterator[GateFinding]:
    old, new = _texts(pair.old.steps, below, sort), _texts(pair.new.steps, below, sort)
    if old == new:
        return
    gone, come = _difference(old, new), _difference(new, old)
    rule = _BEHIND.get(sort, OTHER)
    if rule is OTHER and all(text.startswith(_SPREADING) for text in (*gone, *come)):
        rule = PARTITIONING
    elif below and rule is not OTHER:
        rule = rule_before(pair, below, sort, old, new) or rule
    where = " in front of state" if below else ""
    yield rule.found(
        f"The {sort} step{where} changes. {rule.sentence}",
        old="; ".join(gone) or "none",
        new="; ".join(come) or "none",
        evidence=pair.shown_by_plan,
    )


def _judge_order(pair: Pair, below: int) -> Iterator[GateFinding]:
    old, new = (
        [f"{step.step} {step.text}" for step in plan.steps if step.below == below]
        for plan in (pair.old, pair.new)
    )
    if old != new:
        # In front of state it matters as another filter does: other rows, or rows made otherwise.
        rule = rule_before(pair, below, "filter", old, new) if below else None
        yield (rule or ORDER).found(
            f"Steps change places. {(rule or ORDER).sentence}",
            old="; ".join(old),
            new="; ".join(new),
            evidence=pair.shown_by_plan,
        )


def _texts(steps: tuple[StepPlan, ...], below: int, sort: str) -> list[str]:
    return [step.text for step in steps if step.step == sort and step.below == below]


def _difference(one: list[str], other: list[str]) -> list[str]:
    return list((Counter(one) - Counter(other)).elements()) or (one if one != other else [])
