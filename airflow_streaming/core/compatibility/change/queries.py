"""Queries of a script: which are new, gone or renamed, and on which checkpoint each goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.core.compatibility.change.sinks import FOREACH, VIEWS
from airflow_streaming.core.compatibility.change.sources import place
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import QueryPlan

_CHECKPOINT: Final = "a query's state and position are its checkpoint's"

ADDED: Final = Rule(
    name="query.added",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A new query begins with an empty checkpoint, where its sources say that reading "
    "begins.",
    source=_CHECKPOINT,
)
REMOVED: Final = Rule(
    name="query.removed",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="The query is no longer run: its output gets nothing more, and what its state holds "
    "is not written. Its checkpoint stays where it is.",
    source=_CHECKPOINT,
)
RENAMED: Final = Rule(
    name="query.renamed",
    severity=GateDecision.ALLOWED,
    sentence="A query may be renamed where the script keeps its checkpoint's location.",
    source=f"measured: starts; {_CHECKPOINT}",
)
LOST_NAME: Final = Rule(
    name="query.renamed_without_checkpoint",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The query's checkpoint is found by its name: under another one it begins anew, "
    "without its state and position.",
    source=_CHECKPOINT,
    remedy="Keep the name, or have the script choose the location of the checkpoint it has.",
)
SAME_SINK: Final = Rule(
    name="query.replaced",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A new query writes where one wrote that is gone. Without that one's checkpoint it "
    "begins anew: rows come twice, and a file sink drops the batches whose numbers it has seen.",
    source=f"{_CHECKPOINT}; measured: the log of a file sink drops batches that it has",
    remedy="Keep the query's name and checkpoint if it is the same one; else give the new query a "
    "sink of its own.",
)
PERHAPS: Final = Rule(
    name="query.perhaps_renamed",
    severity=GateDecision.UNKNOWN,
    sentence="One query goes and another comes. If it is the same one under another name, it begins "
    "anew, without its state and position.",
    source=_CHECKPOINT,
    remedy="Keep the name and the checkpoint if it is the same query; if it is another one, take "
    "the old one out in a step of its own.",
)
MOVED: Final = Rule(
    name="query.checkpoint_moved",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The script asks for another checkpoint: the query would begin anew, without its "
    "state and position.",
    source=_CHECKPOINT,
    remedy="Keep the location in the script. A checkpoint that was moved, by a restore, is switched "
    "to by the stream's deployment.",
)
SHARED: Final = Rule(
    name="query.shared_checkpoint",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Two queries must not have one checkpoint.",
    source="measured: CONCURRENT_STREAM_LOG_UPDATE after both have written",
    remedy="Give each query a location of its own.",
)
NONE_LEFT: Final = Rule(
    name="script.no_query",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The new script starts no query.",
    source="plan mode",
    remedy="Look whether it starts them only under a condition, e.g. for arguments that it was not "
    "given here.",
)
OLD_PROBLEM: Final = Rule(
    name="script.old_problem",
    severity=GateDecision.UNKNOWN,
    sentence="The old script came to no end in plan mode: what it would have started after that is "
    "not known.",
    source="plan mode",
    remedy="Plan the old script anew, with what it needs there, and ask again.",
)
PROBLEM: Final = Rule(
    name="script.problem",
    severity=GateDecision.UNKNOWN,
    sentence="The new script came to no end in plan mode.",
    source="plan mode",
    remedy="Repair it, or give it what it needs there, and ask again.",
)
NOTE: Final = Rule(
    name="plan.note",
    severity=GateDecision.UNKNOWN,
    sentence="Part of a plan could not be read, and is not taken for equal.",
    source="plan mode",
    remedy="Rehearse it.",
)

RULES: Final = (
    ADDED,
    REMOVED,
    RENAMED,
    LOST_NAME,
    SAME_SINK,
    PERHAPS,
    MOVED,
    SHARED,
    NONE_LEFT,
    OLD_PROBLEM,
    PROBLEM,
    NOTE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """
    Which old query a new one goes on from.

    :param old: ``None`` for a query that was not there.
    """

    old: QueryPlan | None
    new: QueryPlan


def match(old: Sequence[QueryPlan], new: Sequence[QueryPlan]) -> list[Matched]:
    """Return the old query of each new one: by checkpoint where the script chose it, or by name."""
    by_name = {plan.query: plan for plan in old}
    by_place = {place(plan.checkpoint): plan for plan in old if plan.checkpoint}
    found = []
    for plan in new:
        before = by_place.get(place(plan.checkpoint)) if plan.checkpoint else None
        found.append(Matched(old=before or by_name.get(plan.query), new=plan))
    return found


def judge_queries(matched: Sequence[Matched], old: Sequence[QueryPlan]) -> Iterator[GateFinding]:
    """Judge which queries come, go and move; not what is in them."""
    kept = {each.old.query for each in matched if each.old is not None}
    gone = [plan for plan in old if plan.query not in kept]
    for each in matched:
        if each.old is None:
            yield from _judge_lost(each.new, gone)
            continue
        if each.old.query != each.new.query:
            yield RENAMED.found(query=each.new.query, old=each.old.query, new=each.new.query)
        if place(each.old.checkpoint) != place(each.new.checkpoint):
            yield MOVED.found(
                query=each.new.query,
                old=each.old.checkpoint or "by the query's name",
                new=each.new.checkpoint or "by the query's name",
                evidence="the recorded plan and the new one",
            )
    for plan in gone:
        yield REMOVED.found(query=plan.query, old=plan.query, evidence="the new plan")
    yield from _judge_shared([each.new for each in matched])


def judge_notes(plans: Mapping[str, QueryPlan | None]) -> Iterator[GateFinding]:
    """Report what could not be read of plans, given by a word for each, e.g. ``new``."""
    for which, plan in plans.items():
        for note in plan.notes if plan is not None else ():
            yield NOTE.found(f"The {which} plan: {note}", evidence=f"the {which} plan", new=note)


def _judge_lost(new: QueryPlan, gone: Sequence[QueryPlan]) -> Iterator[GateFinding]:
    # One that is new beside one that is gone may be the same under another name, and changed too.
    for plan in gone:
        rule = _rule_lost(plan, new)
        yield rule.found(query=new.query, old=plan.query, new=new.query, evidence="the new plan")


def _rule_lost(gone: QueryPlan, new: QueryPlan) -> Rule:
    alike = (gone.sources, gone.operators) == (new.sources, new.operators)
    if alike and gone.sources and gone.sink.sink == new.sink.sink:
        return LOST_NAME
    target = "" if new.sink.sink in FOREACH | VIEWS else place(new.sink.target)
    if target and (gone.sink.sink, place(gone.sink.target)) == (new.sink.sink, target):
        return SAME_SINK
    return PERHAPS


def _judge_shared(plans: Sequence[QueryPlan]) -> Iterator[GateFinding]:
    seen: dict[str, str] = {}
    for plan in plans:
        where = place(plan.checkpoint) if plan.checkpoint else f"by name: {plan.query}"
        if where in seen:
            yield SHARED.found(query=plan.query, old=seen[where], new=plan.query, evidence=where)
        seen[where] = plan.query
