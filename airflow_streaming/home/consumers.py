"""
What consumers of a stream read, now and before, from the records of a home.

A look costs two listings and one read more than that of the lane alone. Readers need no lock. A
look during which the pointer moved is taken again, so what comes back was true as a whole at one
moment: never the lane of before with the output of after, and for several streams never one of
before beside one of after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Final, Self

from airflow_streaming.exceptions import HomeUnavailable, RecordError, SpecError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import counting_record, stream_of
from airflow_streaming.model.names import Color, color_of
from airflow_streaming.model.records.cutover import LiveRecord
from airflow_streaming.model.records.cutover_table import CutoverTransition
from airflow_streaming.model.spark.sink_place import SinkPlace, place_of

LOOKS: Final = 20
"""A pointer that moves during each of twenty looks is a fault, or an experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePeriod:
    """
    A time during which one lane was live.

    :param deployment: Number of the deployment with which it began; for the time before the first
        cutover that with which it ended.
    :param output: What that deployment wrote.
    :param since: ``None`` for the time before the first cutover.
    """

    lane: str
    deployment: int
    output: str
    since: datetime | None
    until: datetime

    @property
    def color(self) -> Color:
        """Return the color of the lane."""
        return color_of(self.lane)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOutput:
    """
    What consumers of a stream read.

    :param stream: The stream, which keeps its name whichever lane is live.
    :param lane: Name of the lane.
    :param deployment: Number of the lane's deployment.
    :param output: What it writes.
    :param number: Number of the record that makes the lane live, which rises with every move of the
        stream; 0 while it was never moved.
    :param since: When it became live; ``None`` while the stream was never moved, or it is not yet.
    :param history: What was live before, oldest first; empty unless it was asked for.
    :param places: What the lane's queries write by their newest plans, e.g. ``kafka orders-2 on a:9092``;
        empty where no plan names a place. ``live_together`` leaves them out.
    """

    stream: str
    lane: str
    deployment: int
    output: str
    number: int = 0
    since: datetime | None = None
    history: tuple[LivePeriod, ...] = ()
    places: tuple[str, ...] = ()

    @property
    def color(self) -> Color:
        """Return the color of the lane."""
        return color_of(self.lane)

    @classmethod
    def of(cls, record: LiveRecord, since: datetime | None = None) -> Self:
        """Return what a record makes live, also before it counts; what pointers are moved to."""
        return cls(
            stream=record.stream,
            lane=record.lane,
            deployment=record.deployment,
            output=record.output,
            number=record.number,
            since=since,
        )


def live(home: Home, stream: str, *, history: bool = False) -> LiveOutput:
    """
    Return what consumers of a stream read now.

    :param stream: Name of the stream, or of either lane.
    :param history: Also what was live before, which reads every record of the pointer.
    :raises SpecError: there is no such stream in the home.
    :raises RecordError: it was moved, and the records of that are lost or damaged.
    :raises HomeUnavailable: the home cannot be read, or moves faster than it can be looked at.
    """
    base = stream_of(stream)
    found = live_together(home, [base])[base]
    found = replace(found, places=_places(home, found))
    return replace(found, history=_history(home, base)) if history else found


def _places(home: Home, found: LiveOutput) -> tuple[str, ...]:
    """Return what the queries of the live lane write; nothing where a plan is damaged."""
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
    Return what is live of several streams at one and the same moment.

    :returns: By the names as they were given.
    :raises SpecError: one of them is not in the home.
    :raises HomeUnavailable: the home cannot be read, or moves faster than it can be looked at.
    """
    for _ in range(LOOKS):
        found = {stream: _look(home, stream_of(stream)) for stream in streams}
        # All looks lie between the first and this second pass. A pointer only ever moves to higher
        # numbers, so what has not moved now had not moved at any moment in between.
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
    """Return what was live until the first move: the base lane's deployment of that time."""
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
