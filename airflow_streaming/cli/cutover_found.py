"""Which cutover a person means by the name of a stream."""

from __future__ import annotations

from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.cutover.table import TABLE, CutoverEvent, CutoverState
from airflow_streaming.core.cutover.transition import state_of
from airflow_streaming.core.cutover.verbs import standing
from airflow_streaming.core.lanes import Colour, colour_of, other_lane
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.home.home import StreamHome


def led_by(home: StreamHome) -> Change | None:
    """
    Return the newest cutover that a stream leads; ``None`` when it has led none.

    :raises CutoverRefused: the stream moves with another one, which leads.
    """
    cutovers = [one for one in home.changes() if one.what is ChangeSort.CUTOVER]
    led = [one for one in cutovers if home.leads(one)]
    newest = cutovers[-1] if cutovers else None
    if newest is None or home.leads(newest):
        return newest
    if led and home.change_end(newest.number) is not None:
        return led[-1]
    leader, _, number = newest.leader.rpartition("/")
    raise CutoverRefused(
        f"Stream {home.name!r} is moved by cutover {number} of {leader!r}: ask that."
    )


def is_open_in(lane: StreamHome) -> tuple[int, str, CutoverState] | None:
    """Return number, leading stream and state of the cutover that is open in a lane."""
    change = lane.unfinished_change()
    if change is None or change.what is not ChangeSort.CUTOVER:
        return None
    leader, number = lane.leader_of(change)
    return number, leader.name, state_of(leader.steps(number))


def what_a_stop_does(lane: StreamHome) -> str:
    """Return what a wish to stop means for the cutover that is open; empty when nothing."""
    found = is_open_in(lane)
    if found is None or (found[2], CutoverEvent.STOP_WANTED) not in TABLE:
        return ""
    return (
        f"{standing(*found)}: this gives it up. Its task leads everything back to blue, and then "
        "stops blue too."
    )


def why_there_is_none(lane: StreamHome) -> str:
    """Return why a green lane has no deployment; empty when its stream is not there either."""
    if colour_of(lane.name) is not Colour.GREEN:
        return ""
    base = lane.beside(other_lane(lane.name))
    if base.newest_deployment() is None:
        return ""
    found = is_open_in(base)
    why = f"{standing(*found)}." if found else "It was never cut over."
    return f"The green lane of stream {base.name!r} has no deployment yet. {why}"
