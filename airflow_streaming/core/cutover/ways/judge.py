"""
Ways: which ways of switching are sound for a stream, and what each brings.

Parallel outputs ask little: green has to write elsewhere. A handover on one sink asks that green's
state can be brought to blue's very position, and that what the sink remembers of batch ids can go on.
Every answer is a finding by a rule of a catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_streaming.core.compatibility.finding import (
    GateDecision,
    GateFinding,
    GateReport,
    report_of,
)
from airflow_streaming.core.cutover.terms import StartWay, SwitchWay
from airflow_streaming.core.cutover.ways import rules
from airflow_streaming.core.cutover.ways.handover import FOREACH_BATCH, judge_handover
from airflow_streaming.core.plan.plan import QueryPlan, SinkPlan
from airflow_streaming.core.upgrade.rollback_sinks import KAFKA, SinkFacts
from airflow_streaming.core.uris import in_full

_NOWHERE: Final = frozenset({"console", "memory", "noop"})
_UNSEEN: Final = frozenset({FOREACH_BATCH, "foreach"})
_STARTING: Final = ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysReport:
    """
    What was found of each way; worst findings first.

    :param parallel: Of parallel outputs.
    :param handover: Of a handover on one sink.
    """

    parallel: GateReport = field(default_factory=GateReport)
    handover: GateReport = field(default_factory=GateReport)

    def of(self, way: SwitchWay) -> GateReport:
        """Return what was found of one way."""
        return self.parallel if way is SwitchWay.PARALLEL else self.handover

    @property
    def sound(self) -> tuple[SwitchWay, ...]:
        """Return the ways that are not refused."""
        refused = GateDecision.NOT_ALLOWED
        return tuple(way for way in SwitchWay if self.of(way).decision is not refused)


def switch_ways(
    old: Sequence[QueryPlan],
    new: Sequence[QueryPlan],
    sinks: Sequence[SinkFacts],
    start: StartWay,
    *,
    output: str = "",
    shadow_output: str = "",
) -> WaysReport:
    """
    Judge both ways for one stream.

    :param old: Plans of blue's queries, as its drivers recorded them; empty when they are not known.
    :param new: Plans of the new script, made with green's arguments: its own output.
    :param sinks: Of blue, see ``sink_facts_of``.
    :param start: What green begins with.
    :param output: What ``{output}`` stands for in blue's deployment; ``shadow_output`` the same of
        green's first one.
    """
    before = {plan.query: plan for plan in old}
    facts = {one.query: one for one in sinks}
    shared = [*_unknown(old), *_own_checkpoints(sinks)]
    for plan in new:
        found = _side_by_side(plan, before.get(plan.query), output, shadow_output)
        shared += (replace(one, query=plan.query) for one in (*found, *_starts(plan, start)))
    is_other = bool(old) and before.keys() != {plan.query for plan in new}
    parallel = [*shared, *(rules.QUERIES_DIFFER.found() for _ in range(is_other))]
    parallel.append((rules.REPLAYED if start is StartWay.FRESH else rules.HISTORY).found())
    handover = [*shared, rules.STAYS.found(), *(rules.QUERIES.found() for _ in range(is_other))]
    for plan in new:
        if (was := before.get(plan.query)) is not None:
            judged = judge_handover(was, plan, facts.get(plan.query), start)
            place = _lands_elsewhere(was.sink, plan.sink, output, shadow_output)
            handover += (replace(one, query=plan.query) for one in (*judged, *place))
    return WaysReport(parallel=report_of(parallel), handover=report_of(handover))


def _unknown(old: Sequence[QueryPlan]) -> Iterator[GateFinding]:
    if not old:
        yield rules.UNKNOWN_PLANS.found()


def _own_checkpoints(sinks: Sequence[SinkFacts]) -> Iterator[GateFinding]:
    for one in sinks:
        if one.own_checkpoint:
            yield rules.OWN_CHECKPOINT.found(query=one.query, old=one.own_checkpoint)


def _side_by_side(
    plan: QueryPlan, old: QueryPlan | None, output: str, shadow_output: str
) -> Iterator[GateFinding]:
    """Judge what two lanes that run at once would fight over."""
    sink = plan.sink
    if sink.sink not in _NOWHERE:
        if not sink.target or sink.sink in _UNSEEN:
            yield rules.OUTPUT_UNSEEN.found(new=sink.sink)
        elif _is_shared(sink, old, output, shadow_output):
            yield rules.OUTPUT_SHARED.found(new=sink.target)
    for source in plan.sources:
        if source.options.get("cleansource", "off").lower() != "off":
            yield rules.CLEAN_SOURCE.found(new=source.options["cleansource"])
        group = source.options.get("kafka.group.id", "")
        groups = {one.options.get("kafka.group.id") for one in old.sources} if old else set()
        if source.source == "socket" or (group and group in groups):
            yield rules.ONE_READER.found(new=group or source.source)


def _is_shared(sink: SinkPlan, old: QueryPlan | None, output: str, shadow_output: str) -> bool:
    target = in_full(sink.target)
    if output and shadow_output and shadow_output in target:
        return False
    if old is not None and old.sink.target:
        return target == in_full(old.sink.target)
    return bool(output) and output in target


def _lands_elsewhere(
    old: SinkPlan, new: SinkPlan, output: str, shadow_output: str
) -> Iterator[GateFinding]:
    """Judge whether a sink comes to be blue's when green's output does."""
    target, theirs = in_full(new.target), in_full(old.target)
    is_seen = target and theirs and output and shadow_output and new.sink not in _UNSEEN
    if is_seen and target.replace(shadow_output, output) != theirs:
        yield rules.PLACE.found(old=theirs, new=target)


def _starts(plan: QueryPlan, start: StartWay) -> Iterator[GateFinding]:
    if start is StartWay.CARRIED and plan.is_stateful:
        yield rules.CARRIED_STATE.found()
    for source in plan.sources:
        named = any(source.options.get(option, "latest") != "latest" for option in _STARTING)
        if start is StartWay.FRESH and source.source == KAFKA and not named:
            yield rules.LATEST.found()
