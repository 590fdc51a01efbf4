"""
The live output of streams, now and before, from the records of a home.

``live`` costs three listings and one read more than ``live_lane``. Readers need no lock. A look during which the
pointer moved is repeated. A result is therefore consistent: it never combines a lane before a move with an output
after it, and never combines streams before and after a move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from airflow_streaming.exceptions import HomeUnavailable, RecordError, SpecError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import counting_record, stream_of
from airflow_streaming.model.products.live_output import LiveOutput, LivePeriod
from airflow_streaming.model.records.cutover import LiveRecord
from airflow_streaming.model.records.cutover_table import CutoverTransition
from airflow_streaming.model.spark.sink_place import SinkPlace, place_of

LOOKS: Final = 20
"""A pointer that moves during each of twenty looks is a fault, or an experiment."""


def live(home: Home, stream: str, *, history: bool = False) -> LiveOutput:
    """
    Return the present live output of a stream.

    :param stream: Name of the stream, or of either lane.
    :param history: Also return the earlier periods, which reads every record of the pointer.
    :raises SpecError: the home does not have the stream.
    :raises RecordError: it was moved, and the records of that are lost or damaged.
    :raises HomeUnavailable: the home cannot be read, or its pointers move during every look.
    """
    base = stream_of(stream)
    found = live_together(home, [base])[base]
    found = replace(found, places=_places(home, found))
    return replace(found, history=_history(home, base)) if history else found


def _places(home: Home, found: LiveOutput) -> tuple[str, ...]:
    """Return the places that the queries of the live lane write; empty where a plan is damaged."""
    try:
        plans = home.stream(found.lane).newest_plans(found.deployment)
    except RecordError:
        return ()
    sinks = [sink for plan in plans for sink in (plan.sink, *plan.writes)]
    places = [place for place in map(place_of, sinks) if place is not None]
    return tuple(dict.fromkeys(map(_text, places)))


def _text(place: SinkPlace) -> str:
    servers = ", ".join(sorted(place.servers))
    return f"{place} on {servers}" if servers else str(place)


def live_together(home: Home, streams: Sequence[str]) -> Mapping[str, LiveOutput]:
    """
    Return the live outputs of several streams at one moment.

    :returns: By the names of the call.
    :raises SpecError: the home does not have one of the streams.
    :raises HomeUnavailable: the home cannot be read, or its pointers move during every look.
    """
    for _ in range(LOOKS):
        found = {stream: _look(home, stream_of(stream)) for stream in streams}
        # All looks are between the first and this second pass. A pointer only ever moves to higher
        # numbers, so a pointer that has not moved now had not moved at any moment in between.
        if not any(_has_moved(home, one) for one in found.values()):
            return found
    raise HomeUnavailable(
        f"The live pointer of {' or '.join(map(repr, streams))} moved during each of {LOOKS} looks "
        f"in {home.store.uri}. Look again; if it stays so, see who moves it."
    )


def _look(home: Home, base: str) -> LiveOutput:
    folder = home.stream(base)
    found = counting_record(folder)
    if found is None:
        return _never_moved(home, folder)
    record, step = found
    newest = home.stream(record.lane).newest_deployment()
    if newest is None or newest.number < record.deployment:
        raise HomeUnavailable(
            f"Stream {base!r} is live in lane {record.lane!r}, and deployment {record.deployment} "
            f"of it is not in {home.store.uri}. Check that the home is mounted whole."
        )
    # An upgrade or a restore makes newer deployments in a lane that stays live.
    shown = replace(record, deployment=newest.number, output=newest.output)
    return LiveOutput.of(shown, since=step.at)


def _never_moved(home: Home, folder: StreamHome) -> LiveOutput:
    newest = folder.newest_deployment()
    if newest is None:
        raise SpecError(home.why_unknown(folder.name))
    return LiveOutput(
        stream=folder.name, lane=folder.name, deployment=newest.number, output=newest.output
    )


def _has_moved(home: Home, found: LiveOutput) -> bool:
    return home.stream(found.stream).live_record(after=found.number) is not None


def _history(home: Home, base: str) -> tuple[LivePeriod, ...]:
    folder = home.stream(base)
    found = [(record, folder.live_step(*_step_of(record))) for record in folder.live_records()]
    moves = [(r, step) for r, step in found if step is not None and step.event is r.event]
    if not moves:
        return ()
    first = moves[0][1]
    reigns = [_first_reign(folder, first)]
    for (record, step), (_, following) in pairwise(moves):
        reigns.append(
            LivePeriod(
                lane=record.lane,
                deployment=record.deployment,
                output=record.output,
                since=step.at,
                until=following.at,
            )
        )
    return tuple(reigns)


def _first_reign(folder: StreamHome, first: CutoverTransition) -> LivePeriod:
    """Return the output that was live until the first move: the base lane's deployment then."""
    shown = folder.deployment(1)
    for number in range(2, (folder.newest_deployment() or shown).number + 1):
        following = folder.deployment(number)
        if following.created_at > first.at:
            break
        shown = following
    return LivePeriod(
        lane=folder.name,
        deployment=shown.number,
        output=shown.output,
        since=None,
        until=first.at,
    )


def _step_of(record: LiveRecord) -> tuple[str, int, int]:
    return record.leader, record.change, record.step
