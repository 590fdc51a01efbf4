"""
Which lane of a stream is live, from the records of a home.

It costs two listings and, once there was a cutover, four reads, and two more for every change since.
One listing and two reads would do, but a pointer that was lost must not be taken for one that never
moved, nor an older record for the newest.
"""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.change import Change, ChangeOutcome, ChangeSort
from airflow_streaming.core.cutover.live import LiveRecord
from airflow_streaming.core.cutover.table import CutoverEvent
from airflow_streaming.core.cutover.transition import Transition
from airflow_streaming.core.lanes import base_of, other_lane
from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.home.home import Home, StreamHome

_MOVED_BY: Final = {
    ChangeOutcome.DONE: CutoverEvent.SWITCHED,
    ChangeOutcome.ROLLED_BACK: CutoverEvent.UNDONE,
}
"""What moved the pointer last in a cutover that has ended so; one that was abandoned has not."""


def live_lane(home: Home, stream: str) -> str:
    """
    Return the name of the lane that is live; the stream's own before its first cutover.

    :param stream: Name of the stream, or of either lane.
    :raises RecordError: it was moved, and the records of that are lost or damaged.
    :raises HomeUnavailable: the home cannot be read.
    """
    base = stream_of(stream)
    found = counting_record(home.stream(base))
    return base if found is None else found[0].lane


def stream_of(lane: str) -> str:
    """
    Return the stream that a name means, whether it is its own or that of a lane.

    :raises SpecError: it is a lane of a lane, which there is not.
    """
    base = base_of(lane)
    if base != base_of(base):
        raise SpecError(
            f"There is no lane {lane!r}: {base!r} is a lane already. Name the stream itself, "
            f"{base_of(base)!r}."
        )
    return base


def counting_record(folder: StreamHome) -> tuple[LiveRecord, Transition] | None:
    """
    Return the record of the live pointer that counts, and the step that made it count.

    :param folder: Records of the base lane.
    :returns: ``None`` while the stream was never moved: its base lane is live.
    :raises RecordError: the record of the newest move is lost.
    """
    found = folder.live_record()
    if found is None and _has_one_lane(folder):
        return None
    moved = _newest_move(folder)
    if moved is None or (found is not None and _move_of(found[0]) == moved):
        return found
    # It has moved since the look, or somebody who had slept recorded an earlier cutover late.
    if any(_move_of(record) == moved for record in folder.live_records()):
        return found
    leader, change, event = moved
    raise RecordError(
        f"Which lane of stream {folder.name!r} is live cannot be told: cutover {change} of {leader!r} "
        f"has moved it ({event}), and no record of that is in {folder.store.uri}/{folder.name}/live. "
        "Put back what was there; do not start the stream before."
    )


def _has_one_lane(folder: StreamHome) -> bool:
    return folder.beside(other_lane(folder.name)).newest_deployment() is None


def _newest_move(folder: StreamHome) -> tuple[str, int, CutoverEvent] | None:
    """Return which cutover has moved a stream last, and by which event; ``None`` before the first."""
    for number in range(folder.next_change() - 1, 0, -1):
        change = folder.change(number)
        if change.what is ChangeSort.CUTOVER and (event := _moved_by(folder, change)) is not None:
            leader, led = folder.leader_of(change)
            return leader.name, led, event
    return None


def _moved_by(folder: StreamHome, change: Change) -> CutoverEvent | None:
    """Return the event with which a cutover has moved a stream last, if it has."""
    end = folder.change_end(change.number)
    if end is not None:
        return _MOVED_BY.get(end.outcome)
    leader, number = folder.leader_of(change)
    steps = reversed(leader.steps(number))
    return next((step.event for step in steps if step.makes_live), None)


def _move_of(record: LiveRecord) -> tuple[str, int, CutoverEvent]:
    return record.leader, record.change, record.event
