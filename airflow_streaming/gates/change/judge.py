"""
Judge the change of a script and of each of its queries by every rule.

Unknown parts without a plan of the old code are never treated as equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.change import (
    aggregation,
    closed_world,
    joins,
    json_fields,
    operators,
    projection,
    settings,
    sinks,
    source_options,
    sources,
    steps,
    topics,
    user_state,
)
from airflow_streaming.gates.change.checkpoint import (
    held_operators,
    held_output_mode,
    held_sources,
    held_watermarks,
)
from airflow_streaming.gates.change.closed_world import judge_reads, judge_the_rest
from airflow_streaming.gates.change.json_fields import without_added_fields
from airflow_streaming.gates.change.operators import (
    judge_operators,
    judge_output_mode,
    judge_watermarks,
    same_operators,
)
from airflow_streaming.gates.change.pair import Pair, SameFiles, offsets_file
from airflow_streaming.gates.change.projection import judge_projection
from airflow_streaming.gates.change.settings import (
    judge_conf,
    judge_core,
    judge_real_time,
    judge_settings,
    judge_trigger,
    pinned_against,
)
from airflow_streaming.gates.change.sinks import (
    FOREACH,
    VIEWS,
    judge_sink,
    judge_sink_evolution,
    judge_sink_name,
    judge_skipping,
)
from airflow_streaming.gates.change.sources import (
    judge_source_remarks,
    judge_sources,
    offer_names,
    place,
)
from airflow_streaming.gates.change.steps import EXCEPT_KEPT, judge_except, judge_steps
from airflow_streaming.gates.findings import (
    GateDecision,
    GateFinding,
    GateReport,
    pattern_of,
    report_of,
)
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.gates.start_checks.judge import StartRefusal, refusals_of, source_refusals
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.model.spark.plan import OperatorKind, QueryPlan, RefusedSource

SOURCES: Final = rule_named("unseen.sources")
SINK: Final = rule_named("unseen.sink")
STEPS: Final = rule_named("unseen.steps")
OUTPUT_MODE: Final = rule_named("unseen.output_mode")
AGGREGATION: Final = rule_named("unseen.aggregation")
JOIN: Final = rule_named("unseen.join")
DEDUPLICATION: Final = rule_named("unseen.deduplication")
USER_STATE: Final = rule_named("unseen.user_state")
OTHER: Final = rule_named("unseen.operator")
STATE_COLUMNS: Final = rule_named("unseen.state_columns")
STATE: Final = rule_named("unseen.state")
SPARK: Final = rule_named("unseen.spark")
UNSEEN_RULES: Final = (
    SOURCES,
    SINK,
    STEPS,
    OUTPUT_MODE,
    AGGREGATION,
    JOIN,
    DEDUPLICATION,
    USER_STATE,
    OTHER,
    STATE_COLUMNS,
    STATE,
    SPARK,
)
_BY_SORT: Final = {
    OperatorKind.AGGREGATE: AGGREGATION,
    OperatorKind.SESSION_WINDOW: AGGREGATION,
    OperatorKind.JOIN: JOIN,
    OperatorKind.DEDUPLICATE: DEDUPLICATION,
    OperatorKind.DEDUPLICATE_WITHIN_WATERMARK: DEDUPLICATION,
    OperatorKind.GROUPS_WITH_STATE: USER_STATE,
    OperatorKind.TRANSFORM_WITH_STATE: USER_STATE,
}

ADDED: Final = rule_named("query.added")
REMOVED: Final = rule_named("query.removed")
RENAMED: Final = rule_named("query.renamed")
LOST_NAME: Final = rule_named("query.renamed_without_checkpoint")
SAME_SINK: Final = rule_named("query.replaced")
PERHAPS: Final = rule_named("query.perhaps_renamed")
MOVED: Final = rule_named("query.checkpoint_moved")
SHARED: Final = rule_named("query.shared_checkpoint")
NONE_LEFT: Final = rule_named("script.no_query")
OLD_PROBLEM: Final = rule_named("script.old_problem")
PROBLEM: Final = rule_named("script.problem")
NOTE: Final = rule_named("plan.note")
CAPTURED: Final = rule_named("plan.capture")
QUERY_RULES: Final = (
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
    CAPTURED,
)

CONTRADICTION: Final = rule_named("checkpoint.contradiction")
UNSOUND: Final = rule_named("checkpoint.unsound")
REFUSES: Final = rule_named("spark.refuses")
JUDGING_RULES: Final = (CONTRADICTION, UNSOUND, REFUSES)

ABSENT: Final = rule_named("checkpoint.absent")
NOT_GIVEN: Final = rule_named("checkpoint.not_given")
SCRIPT_RULES: Final = (ABSENT, NOT_GIVEN)

CHANGE_RULES: Final[tuple[Rule, ...]] = (
    *closed_world.RULES,
    *QUERY_RULES,
    *SCRIPT_RULES,
    *JUDGING_RULES,
    *sources.RULES,
    *source_options.RULES,
    *sources.SOURCE_REMARK_RULES,
    *sources.SOURCE_SCHEMA_RULES,
    *topics.RULES,
    *operators.RULES,
    *aggregation.RULES,
    *joins.DEDUPLICATION_RULES,
    *joins.RULES,
    *user_state.RULES,
    *user_state.VARIABLE_RULES,
    *steps.RULES,
    *steps.STEPS_BEFORE_RULES,
    *json_fields.RULES,
    *operators.OUTPUT_MODE_RULES,
    *operators.WATERMARK_RULES,
    *projection.RULES,
    *sinks.RULES,
    *sinks.SINK_OPTION_RULES,
    *sinks.NAME_RULES,
    *settings.PROCESSING_TRIGGER_RULES,
    *settings.RULES,
    *closed_world.READ_RULES,
    *UNSEEN_RULES,
)


def judge_unseen(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    """Yield a finding for each part that is unknown without the plan of the old code."""
    evidence = offsets_file(checkpoint)
    for rule in (SOURCES, SINK, STEPS):
        yield rule.found(evidence=evidence)
    if checkpoint.is_stateful is None:
        yield STATE.found(evidence="no folder state")
    if not plan.operators:
        return
    if not any("outputMode" in operator.state for operator in checkpoint.operators):
        yield OUTPUT_MODE.found(evidence=evidence)
    for rule in sorted({_BY_SORT.get(o.sort, OTHER) for o in plan.operators}, key=lambda r: r.name):
        yield rule.found(evidence="state")
    with_schema = {schema.operator for schema in schemas}
    for operator in checkpoint.operators:
        if operator.id not in with_schema:
            yield STATE_COLUMNS.found(evidence=f"state/{operator.id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """
    Which old query a new one continues from.

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


def judge_queries(
    matched: Sequence[Matched], old: Sequence[QueryPlan], *, is_whole: bool = True
) -> Iterator[GateFinding]:
    """
    Judge which queries come, go and move, not their content.

    :param is_whole: The new script finished. Else it may start the missing queries.
    """
    kept = {each.old.query for each in matched if each.old is not None}
    gone = [plan for plan in old if plan.query not in kept]
    for each in matched:
        if each.old is None:
            yield from _judge_lost(each.new, gone)
            continue
        if each.old.query != each.new.query:
            yield RENAMED.found(
                query=each.new.query,
                old=each.old.query,
                new=each.new.query,
                evidence="the queries' names and checkpoint locations in both plans",
            )
        if place(each.old.checkpoint) != place(each.new.checkpoint):
            yield MOVED.found(
                query=each.new.query,
                old=each.old.checkpoint or "by the query's name",
                new=each.new.checkpoint or "by the query's name",
                evidence="the checkpoint locations in the recorded plan and the new one",
            )
    for plan in gone if is_whole else ():
        yield REMOVED.found(query=plan.query, old=plan.query, evidence="the new plan")
    yield from _judge_shared([each.new for each in matched])


def judge_notes(plans: Mapping[str, QueryPlan | None]) -> Iterator[GateFinding]:
    """Report the unreadable parts of plans, by a word for each plan, e.g. ``new``."""
    for which, plan in plans.items():
        for note in plan.notes if plan is not None else ():
            yield NOTE.found(f"The {which} plan: {note}", evidence=f"the {which} plan", new=note)


def judge_change(
    old: QueryPlan | None,
    new: QueryPlan,
    checkpoint: Checkpoint | None,
    *,
    schemas: Sequence[StoreSchema] = (),
    same_code: bool = False,
    same_files: SameFiles = frozenset(),
) -> list[GateFinding]:
    """
    Return the effects of a query's new plan on its checkpoint, unordered.

    :param old: The plan that the checkpoint was made by; ``None`` for a query we never launched,
        which is then compared with its checkpoint and is at best unknown.
    :param checkpoint: ``None`` if it was not read; without an old plan: it does not exist.
    :param schemas: Columns of the checkpoint's state.
    :param same_code: The script is byte for byte the same, so functions are not new.
    :param same_files: As in ``Pair``.
    """
    found = [*judge_notes({"recorded": old, "new": new}), *_soundness(checkpoint)]
    known = checkpoint if checkpoint is not None and has_begun(checkpoint) else None
    found += _refusals(new, old if known is not None else None)
    if _is_unread(new):
        return [replace(finding, query=new.query) for finding in found]
    found += [
        *judge_skipping(new, known),
        *judge_source_remarks(new),
        *judge_real_time(new, known),
        *judge_sink_evolution(new),
    ]
    if old is not None and old.capture != new.capture:
        found.append(CAPTURED.found(old=str(old.capture), new=str(new.capture), evidence="capture"))
        if known is not None:
            found += _against_checkpoint(new, known, schemas)
    elif old is not None and not _is_unread(old):
        pair = Pair(
            old=old,
            new=new,
            checkpoint=known,
            schemas=tuple(schemas),
            same_code=same_code,
            same_files=same_files,
        )
        found += [*_against_plan(pair), *_against_record(pair)]
    elif known is not None:
        found += _against_checkpoint(new, known, schemas)
        found += pinned_against(new, known.conf, offsets_file(known))
        found += judge_unseen(new, known, schemas)
    else:
        found.append(ADDED.found(new=new.query, evidence="no checkpoint with a batch"))
        found += offer_names(new)
    return [replace(finding, query=new.query) for finding in found]


def has_begun(checkpoint: Checkpoint) -> bool:
    """Tell whether a query has planned a batch, from which on its checkpoint binds it."""
    return checkpoint.last_planned_batch is not None or checkpoint.last_committed_batch is not None


def judge_script(
    old: Sequence[QueryPlan],
    new: Sequence[QueryPlan],
    checkpoints: Mapping[str, Checkpoint | None],
    *,
    schemas: Mapping[str, Sequence[StoreSchema]] | None = None,
    same_code: bool = False,
    same_files: SameFiles = frozenset(),
    problem: str = "",
    old_problem: str = "",
    refused: Sequence[RefusedSource] = (),
    spark: str = "",
) -> GateReport:
    """
    Return the report on a whole script, with the pattern of its deployment.

    :param old: Plans of the running queries; empty if unknown.
    :param checkpoints: By query; ``None`` if it does not exist.
    :param schemas: Columns of the checkpoints' state, by query.
    :param same_code: The script is known to be the same, byte for byte.
    :param same_files: As of ``Pair``.
    :param problem: Why the new script did not finish in plan mode, if so; ``old_problem`` likewise.
    :param refused: Sources that Spark did not open for it in plan mode.
    :param spark: Its version.
    """
    matched = match(old, new)
    closed = _judge_closed(refused, spark) if problem else []
    found = [
        *(closed or _judge_whole(new, problem)),
        *_judge_old(old_problem),
        *judge_queries(matched, old, is_whole=not problem),
    ]
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
            same_files=same_files,
        )
    goes_on = any(_goes_on(each, checkpoints) for each in matched)
    pattern = pattern_of(found, stateful=stateful, same_code=same_code, goes_on=goes_on)
    return report_of(found, pattern)


def checkpoint_name(each: Matched, checkpoints: Collection[str]) -> str:
    """Return the name of the checkpoint that a query continues from; it may have had another name."""
    before = each.old.query if each.old is not None else each.new.query
    return before if before in checkpoints else each.new.query


def has_batch(checkpoint: Checkpoint | None) -> bool:
    """Tell whether there is a checkpoint, with a batch in it."""
    return checkpoint is not None and has_begun(checkpoint)


def _judge_lost(new: QueryPlan, gone: Sequence[QueryPlan]) -> Iterator[GateFinding]:
    # A new query beside a removed one may be the same, renamed and changed.
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


def _refusals(new: QueryPlan, running: QueryPlan | None) -> Iterator[GateFinding]:
    """
    Yield the reasons why Spark refuses to start a query.

    :param running: The plan of a query that has run batches; Spark accepts all of its parts.
    """
    checked = refusals_of(new, () if running is None else (running,))
    yield from map(_refused, checked)
    kept = [*judge_except(new, running)]
    yield from kept
    # Plan mode knows no checkpoint, which keeps what its Spark refuses of a new query.
    is_kept = any(finding.rule == EXCEPT_KEPT.name for finding in kept) and "EXCEPT" in new.refusal
    if new.refusal and not is_kept and not any(refusal.at == "sink" for refusal in checked):
        sentence = f"{REFUSES.sentence} {new.refusal.rstrip('.')}."
        yield REFUSES.found(sentence, evidence="plan mode")


def _refused(refusal: StartRefusal, why: str = "") -> GateFinding:
    check = refusal.check
    reason = f" Spark says: {why.rstrip('.')}." if why else ""
    return REFUSES.found(
        f"{REFUSES.sentence} {check.says}{reason}",
        new=refusal.found,
        evidence=f"{refusal.at}; {check.source}",
        remedy=f"Change the {check.part.value}: {check.says}",
    )


def _is_unread(plan: QueryPlan) -> bool:
    # Every streaming query has a source, so a plan without one tells nothing but its notes.
    return bool(plan.notes) and not plan.sources


def _against_plan(pair: Pair) -> list[GateFinding]:
    pair, added = without_added_fields(pair)
    found = [*added, *_by_rules(pair)]
    return [*found, *judge_the_rest(pair, found)]


def _by_rules(pair: Pair) -> Iterator[GateFinding]:
    yield from judge_sources(pair)
    yield from judge_operators(pair)
    if same_operators(pair):
        # With other operators, steps lie in front of other state, and cannot be matched.
        yield from judge_steps(pair)
    yield from judge_output_mode(pair)
    yield from judge_watermarks(pair)
    yield from judge_sink(pair)
    yield from judge_sink_name(pair)
    yield from judge_projection(pair)
    yield from judge_trigger(pair)
    yield from judge_conf(pair)
    yield from judge_settings(pair)
    yield from judge_core(pair)
    yield from judge_reads(pair)


def _against_record(pair: Pair) -> Iterator[GateFinding]:
    """Hold the old plan against the checkpoint; when it is another's, hold the new one too."""
    if pair.checkpoint is None:
        return
    contrary = [
        finding
        for finding in _against_checkpoint(pair.old, pair.checkpoint, pair.schemas)
        if finding.severity is GateDecision.NOT_ALLOWED
    ]
    for finding in contrary:
        yield CONTRADICTION.found(
            f"{CONTRADICTION.sentence} {finding.rule}: {finding.message}",
            old=finding.old,
            new=finding.new,
            evidence=finding.evidence,
        )
    if contrary:
        yield from _against_checkpoint(pair.new, pair.checkpoint, pair.schemas)


def _against_checkpoint(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    yield from held_sources(plan, checkpoint)
    yield from held_operators(plan, checkpoint, schemas)
    yield from held_watermarks(plan, checkpoint, schemas)
    yield from held_output_mode(plan, checkpoint)


def _soundness(checkpoint: Checkpoint | None) -> Iterator[GateFinding]:
    for problem in checkpoint.problems if checkpoint is not None else ():
        yield UNSOUND.found(f"{UNSOUND.sentence} {problem.message}", evidence=problem.path)


def _judge_old(problem: str) -> Iterator[GateFinding]:
    if problem:
        yield OLD_PROBLEM.found(f"{OLD_PROBLEM.sentence} {problem}", evidence="plan mode")


def _judge_whole(new: Sequence[QueryPlan], problem: str) -> Iterator[GateFinding]:
    if problem:
        yield PROBLEM.found(f"{PROBLEM.sentence} {problem}", evidence="plan mode")
    elif not new:
        yield NONE_LEFT.found(evidence="plan mode")


def _judge_closed(refused: Sequence[RefusedSource], spark: str) -> list[GateFinding]:
    """Return why Spark did not open a source, where that is its own check and not this host's doing."""
    return [
        _refused(refusal, one.why)
        for one in refused
        for refusal in source_refusals(one.source, spark)
    ]


def _judge_left(
    new: Sequence[QueryPlan], checkpoints: Mapping[str, Checkpoint | None]
) -> Iterator[GateFinding]:
    # Without old plans, only a checkpoint shows that there was a query.
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
        # A query without any plan is new, unless it may have written one of the remaining
        # checkpoints.
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


def _has_state(each: Matched, checkpoint: Checkpoint | None) -> bool:
    if checkpoint is not None and checkpoint.is_stateful is not None:
        return checkpoint.is_stateful or bool(checkpoint.operators)
    return each.old is not None and each.old.is_stateful
