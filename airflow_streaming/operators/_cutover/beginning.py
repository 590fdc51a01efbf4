"""Begins a cutover by its preflight's report: what was approved there, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_streaming.core.cutover.planning.course import Course
from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.terms import Pair, StartWay, SwitchWay
from airflow_streaming.core.cutover.transition import state_of
from airflow_streaming.core.upgrade.rollback_sinks import SinkFacts
from airflow_streaming.core.wire import decode
from airflow_streaming.cutover.pairs import Candidate, Facts, pair_of
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.operators._cutover.run import led_by

if TYPE_CHECKING:
    from airflow_streaming.core.change import Change
    from airflow_streaming.cutover.cutting_over import Cutover
    from airflow_streaming.operators._cutover.lanes import DagLanes


def begin(engine: Cutover, lanes: DagLanes, report: Mapping[str, Any]) -> Change:
    """
    Open the change, or find the one that was opened for the same.

    :raises CutoverRefused: something else is proposed, or runs, than the report was made for.
    """
    _retire_what_is_kept(engine, lanes)
    way = SwitchWay(report["way"])
    made = list(_pairs(lanes, report, way))
    course = decode(Course, report["course"], "course")
    terms = course.terms(way, tuple(pair for pair, _ in made), report["key"])
    sources = {pair.stream: source for pair, source in made}
    return engine.begin(terms, sources, f"Asked by a run of a dag: {report['key']}.")


def _retire_what_is_kept(engine: Cutover, lanes: DagLanes) -> None:
    """Give an earlier blue up, as the report has said: its lane is needed."""
    change = next(led_by(lanes.home), None)
    if change is not None and state_of(lanes.home.steps(change.number)) is CutoverState.FINALISED:
        engine.retire("The next cutover needs its lane.", change.number)


def _pairs(
    lanes: DagLanes, report: Mapping[str, Any], way: SwitchWay
) -> Iterator[tuple[Pair, bytes]]:
    told = {one["stream"]: one for one in report["pairs"]}
    for candidate in lanes.candidates():
        one = told.get(candidate.stream)
        if one is None:
            raise CutoverRefused(
                f"Stream {candidate.stream!r} was not in the report that was approved. Run the "
                "whole dag again."
            )
        yield _pair(candidate, one, way)


def _pair(candidate: Candidate, told: Mapping[str, Any], way: SwitchWay) -> tuple[Pair, bytes]:
    pair, source = pair_of(
        candidate,
        way,
        Facts(
            start=StartWay(told["start"]),
            replay_from=told["replay_from"],
            queries=tuple(told["queries"]),
            stateful=tuple(told["stateful"]),
            sinks=tuple(decode(SinkFacts, sink, "sink") for sink in told["sinks"]),
        ),
    )
    runs = (pair.blue, pair.blue_deployment)
    if runs != (told["blue"], told["replaced"]):
        raise CutoverRefused(
            f"Stream {pair.stream!r} runs deployment {pair.blue_deployment} in lane {pair.blue!r}, "
            f"and the report was made for {told['replaced']} in {told['blue']!r}. Run the whole dag "
            "again."
        )
    if pair.shadow.fingerprint != told["fingerprint"]:
        raise CutoverRefused(
            f"What the dag proposes for stream {pair.stream!r} has changed since the report was "
            "made, so it was not approved. Run the whole dag again."
        )
    return pair, source
