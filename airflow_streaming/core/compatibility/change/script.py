"""Change of a script: which query goes on from which, and how the whole is deployed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.compatibility.change.judging import has_begun, judge_change
from airflow_streaming.core.compatibility.change.queries import (
    NONE_LEFT,
    PROBLEM,
    REMOVED,
    Matched,
    judge_queries,
    match,
)
from airflow_streaming.core.compatibility.finding import (
    GateDecision,
    GateFinding,
    GateReport,
    report_of,
)
from airflow_streaming.core.compatibility.pattern import pattern_of
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.compatibility.stored import StoreSchema
from airflow_streaming.core.plan.plan import QueryPlan

ABSENT: Final = Rule(
    name="checkpoint.absent",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="There is no checkpoint with a batch where the query's should be: it begins anew, "
    "where its sources say that reading begins.",
    source="a query's state and position are its checkpoint's",
    remedy="Look whether the place is the right one, if the query has run before.",
)

RULES: Final = (ABSENT,)


def judge_script(
    old: Sequence[QueryPlan],
    new: Sequence[QueryPlan],
    checkpoints: Mapping[str, Checkpoint | None],
    *,
    schemas: Mapping[str, Sequence[StoreSchema]] | None = None,
    same_code: bool = False,
    problem: str = "",
) -> GateReport:
    """
    Return the report on a whole script, with the pattern of its deployment.

    :param old: Plans of the running queries; empty when they are not known.
    :param checkpoints: By query; ``None`` where there was looked and is none.
    :param schemas: Columns of the checkpoints' state, by query.
    :param same_code: The script is known to be the same, byte for byte.
    :param problem: Why the new script came to no end in plan mode, if it did not.
    """
    matched = match(old, new)
    found = [*_judge_whole(new, problem), *judge_queries(matched, old)]
    if not old and not problem:
        found += _judge_left(new, checkpoints)
    stateful = {plan.query for plan in old if plan.is_stateful}
    for each in matched:
        name = _key(each, checkpoints)
        checkpoint = checkpoints.get(name)
        if each.old is not None and name in checkpoints and not _has_batch(checkpoint):
            found.append(ABSENT.found(query=each.new.query, evidence="no batch in offsets"))
        if _has_state(each, checkpoint):
            stateful.add(each.new.query)
        found += judge_change(
            each.old,
            each.new,
            checkpoint,
            schemas=(schemas or {}).get(name, ()),
            same_code=same_code,
        )
    return report_of(found, pattern_of(found, stateful=stateful, same_code=same_code))


def _judge_whole(new: Sequence[QueryPlan], problem: str) -> Iterator[GateFinding]:
    if problem:
        yield PROBLEM.found(f"{PROBLEM.sentence} {problem}", evidence="plan mode")
    elif not new:
        yield NONE_LEFT.found(evidence="plan mode")


def _judge_left(
    new: Sequence[QueryPlan], checkpoints: Mapping[str, Checkpoint | None]
) -> Iterator[GateFinding]:
    # Without old plans a checkpoint is all that shows that there was a query.
    names = {plan.query for plan in new}
    for query, checkpoint in checkpoints.items():
        if query not in names and _has_batch(checkpoint):
            yield REMOVED.found(query=query, old=query, evidence="a checkpoint without a query")


def _key(each: Matched, checkpoints: Mapping[str, Checkpoint | None]) -> str:
    before = each.old.query if each.old is not None else each.new.query
    return before if before in checkpoints else each.new.query


def _has_batch(checkpoint: Checkpoint | None) -> bool:
    return checkpoint is not None and has_begun(checkpoint)


def _has_state(each: Matched, checkpoint: Checkpoint | None) -> bool:
    if checkpoint is not None and checkpoint.is_stateful is not None:
        return checkpoint.is_stateful or bool(checkpoint.operators)
    return each.old is not None and each.old.is_stateful
