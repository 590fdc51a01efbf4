"""
Which methods of switching are sound for a stream, and why.

State is bounded by the watermark: windows that end after it, keys and rows that are younger. So the
oldest relevant row follows from the watermark and the length of windows and join ranges; the
watermark's delay is in the watermark itself. Without a watermark state is as old as the stream, and
so is a session, which may have begun at any time.

Parallel outputs require only another output for green. A handover on one sink requires that green's
state can be brought to blue's exact position, and that the sink's memory of batch ids can continue.
Every answer is a finding by a rule of a catalog.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_streaming.changes.judging.compared_columns import COMPARED_COLUMNS, judge_compared
from airflow_streaming.changes.judging.outputs import (
    OUTPUT_RULES,
    OutputFolders,
    judge_outputs,
    judge_used,
)
from airflow_streaming.checkpoints.restore.refusal import FOREACH_BATCH
from airflow_streaming.exceptions import closed
from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, report_of
from airflow_streaming.gates.rules import rule_named
from airflow_streaming.model.arguments.choices import SinkReplaySemantics, StartWay, SwitchMethod
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.durations import duration_text, seconds_text
from airflow_streaming.model.plan.text import text_of
from airflow_streaming.model.plan.tree import LITERAL, Expr
from airflow_streaming.model.records.upgrade import FILE, SinkFacts
from airflow_streaming.model.spark.plan import (
    KAFKA,
    OperatorKind,
    OperatorPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
)
from airflow_streaming.model.uris import in_full

UNKNOWN_PLANS: Final = rule_named("cutover.unknown_plans")
OWN_CHECKPOINT: Final = rule_named("cutover.own_checkpoint")
CLEAN_SOURCE: Final = rule_named("cutover.clean_source")
ONE_READER: Final = rule_named("cutover.one_reader")
CARRIED_STATE: Final = rule_named("cutover.carried_state")
NO_CHECKPOINT: Final = rule_named("cutover.no_checkpoint")
LATEST: Final = rule_named("cutover.latest")
HISTORY: Final = rule_named("cutover.history")
REPLAYED: Final = rule_named("cutover.replayed")
QUERIES: Final = rule_named("cutover.queries")
QUERIES_DIFFER: Final = rule_named("cutover.queries_differ")
SOURCES: Final = rule_named("cutover.sources")
INCOMPARABLE: Final = rule_named("cutover.incomparable")
STATE_DIFFERS: Final = rule_named("cutover.state_differs")
SINK: Final = rule_named("cutover.sink")
PLACE: Final = rule_named("cutover.place")
SINK_SCHEMA: Final = rule_named("cutover.sink_schema")
FILE_SINK: Final = rule_named("cutover.file_sink_state")
IDS: Final = rule_named("cutover.ids")
IDS_SHIFTED: Final = rule_named("cutover.ids_shifted")
OPEN_BY_NEW_CODE: Final = rule_named("cutover.open_by_new_code")
LATE_IN_SESSIONS: Final = rule_named("cutover.late_in_sessions")
OWN_STATE: Final = rule_named("cutover.own_state")
STAYS: Final = rule_named("cutover.stays")
WAY_RULES: Final = (
    *(UNKNOWN_PLANS, *OUTPUT_RULES, OWN_CHECKPOINT, CLEAN_SOURCE, ONE_READER),
    *(
        CARRIED_STATE,
        NO_CHECKPOINT,
        LATEST,
        HISTORY,
        REPLAYED,
        QUERIES,
        QUERIES_DIFFER,
        SOURCES,
        INCOMPARABLE,
    ),
    *(STATE_DIFFERS, SINK, PLACE, SINK_SCHEMA, FILE_SINK, IDS, IDS_SHIFTED, OPEN_BY_NEW_CODE),
    *(LATE_IN_SESSIONS, OWN_STATE, STAYS, COMPARED_COLUMNS),
)
"""Every rule of the ways of switching."""
_INTERVAL: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*(day|hour|minute|second|millisecond|microsecond)s?\b", re.IGNORECASE
)
_MICROSECONDS: Final = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_OF_MONTHS: Final = frozenset({"month", "year"})
_LONGEST_MONTH: Final = 31 * 86_400_000_000
_FOREVER: Final[Mapping[OperatorKind, str]] = {
    OperatorKind.SESSION_WINDOW: "a session that is open now may have begun at any time",
    OperatorKind.LIMIT: "a limit counts all rows that there ever were",
    OperatorKind.GROUPS_WITH_STATE: "the plan does not show the content of the author's own state",
    OperatorKind.TRANSFORM_WITH_STATE: (
        "the plan does not show the content of the author's own state"
    ),
    OperatorKind.OTHER: "what this operator keeps is not known",
}

_WITHOUT_IDS: Final = frozenset({SinkReplaySemantics.APPENDS, SinkReplaySemantics.NOTHING})
_BY_CODE: Final = frozenset({OperatorKind.GROUPS_WITH_STATE, OperatorKind.TRANSFORM_WITH_STATE})
_TRIGGER_INTERVAL: Final = re.compile(r"interval [^()]*", re.IGNORECASE)

_OF_TOPIC: Final = (
    "A topic has no folder of {output} in its name: use parallel outputs with {stream} and {deployment} in the "
    "topic's name, and let consumers follow `airflow-streaming live` or a pointer."
)
_UNSEEN: Final = frozenset({FOREACH_BATCH, "foreach"})
_STARTING: Final = ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStart:
    """
    Where reading must begin.

    :param at: Rows of this event time and later are needed; ``None`` for the sources' beginning.
    :param reason: Explanation, or why there is no such time.
    :param complete_from: Results that are closed after this event time are complete; earlier ones
        may lack rows. ``None`` if all are.
    :param reach: How far before the watermark ``at`` lies.
    """

    at: datetime | None
    reason: str
    complete_from: datetime | None = None
    reach: timedelta | None = None


def replay_start(plans: Sequence[QueryPlan], watermark_ms: Mapping[str, int]) -> ReplayStart:
    """
    Return from when a new, empty checkpoint must read.

    :param plans: Of the new script; the query that reaches furthest back decides.
    :param watermark_ms: Watermark of the running queries by name, in milliseconds since 1970; 0 or
        missing for none.
    """
    stateful = [plan for plan in plans if plan.is_stateful]
    if not stateful:
        return ReplayStart(at=None, reason="No query keeps state, so none needs earlier rows.")
    found = [_of(plan, watermark_ms.get(plan.query, 0)) for plan in stateful]
    unbounded = next((one for one in found if one.at is None), None)
    if unbounded is not None:
        return unbounded
    latest = max(one.complete_from for one in found if one.complete_from)
    first = min(found, key=lambda one: one.at or latest)
    return ReplayStart(at=first.at, reason=first.reason, complete_from=latest, reach=first.reach)


def _of(plan: QueryPlan, watermark_ms: int) -> ReplayStart:
    try:
        reach = timedelta(microseconds=sum(_reach(plan, one) for one in plan.operators))
    except _Unbounded as why:
        return _from_the_beginning(plan, str(why))
    if watermark_ms <= 0:
        return _from_the_beginning(plan, "it has no watermark yet")
    watermark = datetime.fromtimestamp(watermark_ms / 1000, UTC)
    at = watermark - reach
    reason = (
        f"Query {plan.query!r} has emitted all results before its watermark, {_shown(watermark)}, "
        f"and its open results reach {duration_text(reach)} further back: rows from {_shown(at)} "
        "on are needed. Results that close before the watermark may lack rows."
    )
    return ReplayStart(at=at, reason=reason, complete_from=watermark, reach=reach)


def _from_the_beginning(plan: QueryPlan, why: str) -> ReplayStart:
    reason = f"Query {plan.query!r} must read from the sources' beginning: {closed(why)}"
    return ReplayStart(at=None, reason=reason)


def _reach(plan: QueryPlan, operator: OperatorPlan) -> int:
    """Return how many microseconds before the watermark the oldest row of an operator's state lies."""
    if operator.sort in _FOREVER:
        raise _Unbounded(_FOREVER[operator.sort])
    if not plan.watermarks:
        raise _Unbounded("it has no watermark, so its state is as old as the stream")
    if plan.output_mode == "complete":
        raise _Unbounded("complete mode keeps all results for ever")
    if operator.window_us:
        return operator.window_us[0]
    if operator.sort is OperatorKind.JOIN:
        return _range_of(plan, operator)
    if operator.sort is OperatorKind.DEDUPLICATE_WITHIN_WATERMARK:
        return max(one.delay_ms for one in plan.watermarks) * 1000
    if _has_event_time(plan, operator):
        return 0
    raise _Unbounded(
        "the keys of its state have no column with a watermark, so they are kept for ever"
    )


def _range_of(plan: QueryPlan, operator: OperatorPlan) -> int:
    found = [_microseconds(one) for one in _intervals(operator)]
    if found:
        # Bounds of both sides: together they are never less than either.
        return round(sum(found))
    if _has_event_time(plan, operator):
        return 0
    raise _Unbounded("its join has no range in time, so rows wait for ever")


def _intervals(operator: OperatorPlan) -> list[Expr]:
    """Return the literal intervals in the condition of a join."""
    tree = operator.condition
    return [
        one
        for one in (tree.walk() if tree is not None else ())
        if isinstance(one, Expr) and one.op == LITERAL and one.type.startswith("interval")
    ]


def _microseconds(interval: Expr) -> float:
    # Intervals of SQL are numbers of microseconds or months; older ones are texts.
    value = interval.options.get("value", "")
    if value.lstrip("-").isdecimal():
        unit = _LONGEST_MONTH if _OF_MONTHS & {*interval.type.split()} else 1
        return abs(int(value)) * unit
    return sum(
        float(number) * _MICROSECONDS[unit.lower()] for number, unit in _INTERVAL.findall(value)
    )


def _has_event_time(plan: QueryPlan, operator: OperatorPlan) -> bool:
    times = {one.column for one in plan.watermarks}
    return any(key.name in times for key in operator.keys)


def _shown(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="seconds")


class _Unbounded(Exception):
    """State is as old as the stream; says why."""


def judge_handover(
    old: QueryPlan, new: QueryPlan, facts: SinkFacts | None, start: StartWay
) -> Iterator[GateFinding]:
    """Judge one query that is to continue in the other's sink."""
    if [*map(_place, old.sources)] != [*map(_place, new.sources)]:
        yield SOURCES.found()
    yield from _sinks(old.sink, new.sink)
    if not (old.is_stateful or new.is_stateful):
        return
    if old.capture == new.capture:
        yield from _state(old, new)
    else:
        yield UNKNOWN_PLANS.found(old=f"recorded in form {old.capture}", new=f"{new.capture}")
    yield from _sources(new, start)
    yield from _ids(new.sink, facts)


def _place(source: SourcePlan) -> tuple[str, str, str, tuple[str, ...]]:
    return (source.source, source.name, source.format, source.paths)


def _sinks(old: SinkPlan, new: SinkPlan) -> Iterator[GateFinding]:
    before, after = ((sink.sink, sink.format, sink.partitioned_by) for sink in (old, new))
    if before != after:
        yield SINK.found(old=_sink_text(old), new=_sink_text(new))
    if old.schema != new.schema and old.schema and new.schema:
        yield SINK_SCHEMA.found(old=_columns(old), new=_columns(new))


def _state(old: QueryPlan, new: QueryPlan) -> Iterator[GateFinding]:
    before, after = _opens(old), _opens(new)
    if before != after:
        differing = [one for one in before if before[one] != after[one]]
        yield STATE_DIFFERS.found(
            f"{STATE_DIFFERS.sentence} Here these differ: {', '.join(differing)}.",
            old="; ".join(f"{one}: {before[one]}" for one in differing),
            new="; ".join(f"{one}: {after[one]}" for one in differing),
        )
    if old.operators != new.operators or old.steps != new.steps:
        yield OPEN_BY_NEW_CODE.found()
    sorts = {one.sort for one in new.operators}
    if OperatorKind.SESSION_WINDOW in sorts:
        yield LATE_IN_SESSIONS.found()
    if sorts & _BY_CODE:
        yield OWN_STATE.found()


def _opens(plan: QueryPlan) -> dict[str, str]:
    """Return what decides when a result is closed."""
    return {
        "state": ", ".join(one.sort.value for one in plan.operators) or "none",
        "windows and ranges": ", ".join(map(_extent, plan.operators)),
        "watermarks": ", ".join(sorted(f"{w.column} {w.delay_ms} ms" for w in plan.watermarks)),
        "output mode": plan.output_mode,
    }


def _extent(operator: OperatorPlan) -> str:
    gap = () if operator.gap is None else (operator.gap,)
    ranges = map(text_of, (*gap, *_intervals(operator)))
    window = "/".join(seconds_text(micros / 1e6) for micros in operator.window_us)
    return " ".join(filter(None, (window, *ranges))) or "-"


def _sources(new: QueryPlan, start: StartWay) -> Iterator[GateFinding]:
    for number, source in enumerate(new.sources):
        is_shared_rate = source.source.startswith("rate") and start.is_copy
        if source.source not in {FILE, KAFKA} and not is_shared_rate:
            yield INCOMPARABLE.found(new=f"source {number}: {source.source}")


def _ids(sink: SinkPlan, facts: SinkFacts | None) -> Iterator[GateFinding]:
    if sink.sink == FILE:
        yield FILE_SINK.found(new=_sink_text(sink))
    elif sink.sink == FOREACH_BATCH:
        yield IDS_SHIFTED.found()
    elif facts is None or facts.habit not in _WITHOUT_IDS:
        yield IDS.found(new=_sink_text(sink))


def _sink_text(sink: SinkPlan) -> str:
    by = f" by {', '.join(sink.partitioned_by)}" if sink.partitioned_by else ""
    return " ".join(filter(None, (sink.sink, sink.format))) + by


def _columns(sink: SinkPlan) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in sink.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysReport:
    """
    Findings on each method, worst first.

    :param parallel: Of parallel outputs.
    :param handover: Of a handover on one sink.
    """

    parallel: GateReport = field(default_factory=GateReport)
    handover: GateReport = field(default_factory=GateReport)

    def of(self, way: SwitchMethod) -> GateReport:
        return self.parallel if way is SwitchMethod.PARALLEL else self.handover

    @property
    def sound(self) -> tuple[SwitchMethod, ...]:
        """Return the ways that are not refused."""
        refused = GateDecision.NOT_ALLOWED
        return tuple(way for way in SwitchMethod if self.of(way).decision is not refused)


def switch_ways(
    old: Sequence[QueryPlan],
    new: Sequence[QueryPlan],
    sinks: Sequence[SinkFacts],
    start: StartWay,
    *,
    output: str = "",
    shadow_output: str = "",
    others: Mapping[str, Sequence[QueryPlan] | None] | None = None,
    absent: Collection[str] = (),
    earlier: Sequence[QueryPlan] = (),
    real_outputs: tuple[str, str] = ("", ""),
    compared: Sequence[CompareTerms] = (),
) -> WaysReport:
    """
    Judge both ways for one stream.

    :param old: Plans of blue's queries, as its drivers recorded them; empty if unknown.
    :param new: Plans of the new script, made with green's arguments: its own output.
    :param sinks: Of blue, see ``sink_facts_of``.
    :param start: Green's start.
    :param output: Value of ``{output}`` in blue's deployment; ``shadow_output`` likewise in green's
        first one.
    :param others: Plans of the other streams of the home, see ``judge_outputs``.
    :param absent: Queries for which blue has no checkpoint with a committed batch.
    :param earlier: Plans of the earlier deployments of green's lane.
    :param real_outputs: Where both outputs lead through symbolic links, blue's first; see
        ``OutputFolders``.
    :param compared: How the outputs of this stream are compared.
    """
    before = {plan.query: plan for plan in old}
    facts = {one.query: one for one in sinks}
    shared = [*_unknown(old), *_own_checkpoints(sinks)]
    folders = OutputFolders(
        blue=output,
        green=shadow_output,
        real_blue=real_outputs[0],
        real_green=real_outputs[1],
    )
    shared += judge_outputs(new, old, others or {}, folders)
    shared += judge_used(new, earlier)
    shared += judge_compared(old, new, compared)
    for plan in new:
        found = (*_readers(plan, old), *_starts(plan, start, before, absent))
        shared += (replace(one, query=plan.query) for one in found)
    is_other = bool(old) and before.keys() != {plan.query for plan in new}
    parallel = [*shared, *(QUERIES_DIFFER.found() for _ in range(is_other))]
    parallel.append((REPLAYED if start is StartWay.FRESH else HISTORY).found())
    handover = [*shared, STAYS.found(), *(QUERIES.found() for _ in range(is_other))]
    for plan in new:
        if (was := before.get(plan.query)) is not None:
            judged = judge_handover(was, plan, facts.get(plan.query), start)
            place = _lands_elsewhere(was.sink, plan.sink, output, shadow_output)
            handover += (replace(one, query=plan.query) for one in (*judged, *place))
    return WaysReport(parallel=report_of(parallel), handover=report_of(handover))


def _unknown(old: Sequence[QueryPlan]) -> Iterator[GateFinding]:
    if not old:
        yield UNKNOWN_PLANS.found()


def _own_checkpoints(sinks: Sequence[SinkFacts]) -> Iterator[GateFinding]:
    for one in sinks:
        if one.own_checkpoint:
            yield OWN_CHECKPOINT.found(query=one.query, old=one.own_checkpoint)


def _readers(plan: QueryPlan, blue: Sequence[QueryPlan]) -> Iterator[GateFinding]:
    """Judge the sources that two lanes which run at once would take from each other."""
    groups = {one.options.get("kafka.group.id") for other in blue for one in other.sources}
    for source in plan.sources:
        if source.options.get("cleansource", "off").lower() != "off":
            yield CLEAN_SOURCE.found(new=source.options["cleansource"])
        group = source.options.get("kafka.group.id", "")
        if source.source == "socket" or (group and group in groups):
            yield ONE_READER.found(new=group or source.source)


def _lands_elsewhere(
    old: SinkPlan, new: SinkPlan, output: str, shadow_output: str
) -> Iterator[GateFinding]:
    """Judge whether a sink comes to be blue's when green's output does."""
    target, theirs = in_full(new.target), in_full(old.target)
    is_seen = target and theirs and output and shadow_output and new.sink not in _UNSEEN
    if is_seen and target.replace(shadow_output, output) != theirs:
        found = PLACE.found(old=theirs, new=target)
        yield replace(found, remedy=_OF_TOPIC) if new.sink == KAFKA else found


def _starts(
    plan: QueryPlan, start: StartWay, blue: Mapping[str, QueryPlan], absent: Collection[str]
) -> Iterator[GateFinding]:
    if start is StartWay.CARRIED and plan.is_stateful:
        yield CARRIED_STATE.found()
    is_lacking = plan.query in absent or (blue and plan.query not in blue)
    if start is not StartWay.FRESH and is_lacking:
        yield NO_CHECKPOINT.found(old=", ".join(sorted(blue)), new=plan.query)
    for source in plan.sources:
        named = any(source.options.get(option, "latest") != "latest" for option in _STARTING)
        if start is StartWay.FRESH and source.source == KAFKA and not named:
            yield LATEST.found()
