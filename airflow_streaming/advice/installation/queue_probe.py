"""Looks at the queues of triggerers in a home: how many streams each has, and whether a trigger watches them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from airflow_streaming.advice.installation.queue_checks import SeenQueue
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import Home
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.fleet.trigger_queues import TriggerQueues
from airflow_streaming.model.names import base_of
from airflow_streaming.model.records.control import DesiredState

MOST_LOOKS: Final = 20
"""Most streams to look at in a queue without a row."""


def look_at_queues(
    home: Home, queues: TriggerQueues, watched: Collection[str]
) -> tuple[SeenQueue, ...]:
    """
    Count the streams of each queue.

    :param watched: Streams with a row that a reader may believe.
    :raises StreamingError: the home cannot be read.
    """
    shared: dict[str | None, list[str]] = {name: [] for name in queues.names}
    streams = sorted({base_of(lane) for lane in home.streams()}) if queues.names else []
    for stream in streams:
        labels = home.stream(stream).labels() if queues.label else {}
        shared[queues.queue_of(stream, labels)].append(stream)
    return tuple(_seen(home, name, shared[name], watched) for name in queues.names)


def _seen(home: Home, name: str, streams: list[str], watched: Collection[str]) -> SeenQueue:
    found = [stream for stream in streams if stream in watched]
    others = [] if found else streams[:MOST_LOOKS]
    waiting = next((stream for stream in others if _should_run(home, stream)), "")
    return SeenQueue(name=name, streams=len(streams), watched=len(found), unwatched=waiting)


def _should_run(home: Home, stream: str) -> bool:
    try:
        lane = home.stream(live_lane(home, stream))
        desired, circuit, epoch = lane.desired(), lane.circuit(), lane.newest_epoch()
    except StreamingError:
        return False  # its own commands name the damage
    is_stopped = desired is not None and desired.state is DesiredState.STOPPED
    is_given_up = epoch and circuit is not None and circuit.holds(epoch.number)
    return epoch is not None and not is_stopped and not is_given_up
