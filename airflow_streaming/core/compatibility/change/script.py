"""Change of a script: which query goes on from which, and how the whole is deployed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.compatibility.change.judging import has_begun, judge_change
from airflow_streaming.core.compatibility.change.queries import (
    NONE_LEFT,
    OLD_PROBLEM,
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

NOT_GIVEN: Final = Rule(
    name="checkpoint.not_given",
    severity=GateDecision.UNKNOWN,
    sentence="None of the checkpoints that were looked at is the query's.",
    source=ABSENT.source,
    remedy="Give the query's own checkpoint, or correct the name of query or folder.",
)

RULES: Final = (ABSENT, NOT_GIVEN)


def judge_script(
    old: Sequence[QueryPlan],
    new: Sequence[QueryPlan],
    checkpoints: Mapping[str, Checkpoint | None],
    *,
    schemas: Mapping[str, Sequence[StoreSchema]] | None = None,
    same_code: bool = False,
    problem: str = "",
    old_problem: str = "",
) -> GateReport:
    """
    Return the report on a whole script, with the pattern of its deployment.

    :param old: Plans of the running queries; empty when they are not known.
    :param checkpoints: By query; ``None`` where there was looked and is none.
    :param schemas: Columns of the checkpoints' state, by query.
    :param same_code: The script is known to be the same, byte for byte.
    :param problem: Why the new script came to no end in plan mode, if it did not; ``old_problem``
        the same of the old one.
    """
    matched = match(old, new)
    found = [*_judge_whole(new, problem, old_problem), *judge_queries(matched, old)]
    if not old and not problem:
        found += _judge_left(new, checkpoints)
    found += _judge_not_given(matched, checkpoints)
    stateful = {plan.query for plan in old if plan.is_stateful}
    for each in matched:
        name = checkpoint_name(each, checkpoints)
        checkpoint = checkpoints.get(name)
        if each.old is not None and name in checkpoints and not has_batch(checkpoint):
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
    goes_on = any(_goes_on(each, checkpoints) for each in matched)
    pattern = pattern_of(found, stateful=stateful, same_code=same_code, goes_on=goes_on)
    return report_of(found, pattern)


def _judge_whole(new: Sequence[QueryPlan], problem: str, old_problem: str) -> Iterator[GateFinding]:
    if old_problem:
        yield OLD_PROBLEM.found(f"{OLD_PROBLEM.sentence} {old_problem}", evidence="plan mode")
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
        if query not in names and has_batch(checkpoint):
            yield REMOVED.found(query=query, old=query, evidence="a checkpoint without a query")


def _judge_not_given(
    matched: Sequence[Matched], checkpoints: Mapping[str, Checkpoint | None]
) -> Iterator[GateFinding]:
    names = {checkpoint_name(each, checkpoints) for each in matched}
    left = [name for name, found in checkpoints.items() if name not in names and has_batch(found)]
    for each in matched:
        if checkpoint_name(each, checkpoints) in checkpoints:
            continue
        # A query that nobody knows is new, unless it may have made one of those that are left.
        if checkpoints if each.old is not None else left:
            there = ", ".join(name or "one without a name" for name in checkpoints)
            yield NOT_GIVEN.found(
                f"{NOT_GIVEN.sentence} Those are of: {there}.",
                query=each.new.query,
                evidence="the names of the checkpoints",
            )


def _goes_on(each: Matched, checkpoints: Mapping[str, Checkpoint | None]) -> bool:
    name = checkpoint_name(each, checkpoints)
    if name in checkpoints:
        return has_batch(checkpoints[name])
    return each.old is not None


def checkpoint_name(each: Matched, checkpoints: Collection[str]) -> str:
    """Return the name of the checkpoint that a query goes on from; it may have had another name."""
    before = each.old.query if each.old is not None else each.new.query
    return before if before in checkpoints else each.new.query


def has_batch(checkpoint: Checkpoint | None) -> bool:
    """Tell whether there is a checkpoint, with a batch in it."""
    return checkpoint is not None and has_begun(checkpoint)


def _has_state(each: Matched, checkpoint: Checkpoint | None) -> bool:
    if checkpoint is not None and checkpoint.is_stateful is not None:
        return checkpoint.is_stateful or bool(checkpoint.operators)
    return each.old is not None and each.old.is_stateful
