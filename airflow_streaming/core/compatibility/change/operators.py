"""Stateful operators: as many, of the same sorts, in the same order; then each by its own rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from airflow_streaming.core.compatibility.change.aggregation import judge_aggregate
from airflow_streaming.core.compatibility.change.deduplication import judge_deduplication
from airflow_streaming.core.compatibility.change.joins import judge_join
from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.change.user_state import judge_user_state
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import OperatorPlan, OperatorSort

_GUIDE: Final = "Structured Streaming guide, recovery semantics: stateful operations"
_ANEW: Final = "Start with a new checkpoint (blue-green): there is no state for the new operator."

FIRST: Final = Rule(
    name="operator.first",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A query without state must not get a stateful operator on its checkpoint.",
    source="measured: STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY (4.2 and newer); older "
    "Sparks begin with empty state",
    remedy="Start with a new checkpoint that goes on at the old one's offsets.",
)
LAST: Final = Rule(
    name="operator.last",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A query must not lose all of its state on its checkpoint.",
    source="measured: STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA; older Sparks start "
    "and drop what is open",
    remedy="Start with a new checkpoint; what the state still holds is never written.",
)
ADDED: Final = Rule(
    name="operator.added",
    severity=GateDecision.NOT_ALLOWED,
    sentence="No stateful operator may be added.",
    source=f"{_GUIDE}; measured: STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    remedy=_ANEW,
)
REMOVED: Final = Rule(
    name="operator.removed",
    severity=GateDecision.NOT_ALLOWED,
    sentence="No stateful operator may be removed.",
    source=f"{_GUIDE}; measured: STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    remedy=_ANEW,
)
ORDER: Final = Rule(
    name="operator.order",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Stateful operators must keep their order: state is found by number.",
    source="Spark numbers operators from the sink; state/<number>",
    remedy="Put them back into the order they had, or start with a new checkpoint (blue-green).",
)
SORT: Final = Rule(
    name="operator.sort",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A stateful operator must not become one of another sort.",
    source="measured: STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA; Spark 3.5 keeps no "
    "names and does not notice",
    remedy=_ANEW,
)
LIMIT: Final = Rule(
    name="operator.limit",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A limit must stay: its state is the number of rows that have passed.",
    source="Spark's StreamingGlobalLimit",
    remedy=_ANEW,
)
OTHER: Final = Rule(
    name="operator.other",
    severity=GateDecision.UNKNOWN,
    sentence="What a change of this operator does to its state is not known.",
    source="no rule covers it",
    remedy="Rehearse it, and compare its rows.",
)

RULES: Final = (FIRST, LAST, ADDED, REMOVED, ORDER, SORT, LIMIT, OTHER)

_Judge = Callable[[Pair, int], Iterator[GateFinding]]


def judge_operators(pair: Pair) -> Iterator[GateFinding]:
    """Compare the stateful operators of both plans."""
    old, new = sorts_of(pair.old.operators), sorts_of(pair.new.operators)
    if old != new:
        yield sorts_rule(old, new).found(
            old=", ".join(old) or "none",
            new=", ".join(new) or "none",
            evidence=_folders(pair),
        )
        return
    for number, operator in enumerate(pair.old.operators):
        yield from _JUDGES.get(operator.sort, _judge_other)(pair, number)


def same_operators(pair: Pair) -> bool:
    """Tell whether both plans have operators of the same sorts in the same order."""
    return sorts_of(pair.old.operators) == sorts_of(pair.new.operators)


def sorts_of(operators: tuple[OperatorPlan, ...]) -> list[str]:
    """Return the sorts of operators, the one nearest to the sink first."""
    return [operator.sort.value for operator in operators]


def sorts_rule(old: list[str], new: list[str]) -> Rule:
    """Return the rule that two lists of sorts break by being different."""
    if not old:
        return FIRST
    if not new:
        return LAST
    if len(old) != len(new):
        return ADDED if len(new) > len(old) else REMOVED
    return ORDER if sorted(old) == sorted(new) else SORT


def _folders(pair: Pair) -> str:
    count = len(pair.checkpoint.operators) if pair.checkpoint else 0
    return ", ".join(f"state/{number}" for number in range(count)) or pair.shown_by_plan


def _judge_limit(pair: Pair, number: int) -> Iterator[GateFinding]:
    old, new = pair.old.operators[number], pair.new.operators[number]
    if old != new:
        yield LIMIT.found(
            old=", ".join(old.values),
            new=", ".join(new.values),
            evidence=pair.shown_by_state(number),
        )


def _judge_other(pair: Pair, number: int) -> Iterator[GateFinding]:
    if pair.old.operators[number] != pair.new.operators[number]:
        yield OTHER.found(evidence=pair.shown_by_plan)


_JUDGES: Final[Mapping[OperatorSort, _Judge]] = {
    OperatorSort.AGGREGATE: judge_aggregate,
    OperatorSort.SESSION_WINDOW: judge_aggregate,
    OperatorSort.DEDUPLICATE: judge_deduplication,
    OperatorSort.DEDUPLICATE_WITHIN_WATERMARK: judge_deduplication,
    OperatorSort.JOIN: judge_join,
    OperatorSort.LIMIT: _judge_limit,
    OperatorSort.GROUPS_WITH_STATE: judge_user_state,
    OperatorSort.TRANSFORM_WITH_STATE: judge_user_state,
}
