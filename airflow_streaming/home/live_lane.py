"""
Which lane of a stream is live, and a cheap way to follow it.

The first answer costs two listings and, after a cutover, four reads, and two more for every change
since. One listing and two reads would do, but a lost pointer must not look like a pointer that
never moved, nor an older record like the newest.

A stream moves perhaps once a month, and its records never change. So a later answer costs one try
for a newer record, and nothing at all between two tries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from airflow_streaming.exceptions import HomeUnavailable, RecordError, SpecError
from airflow_streaming.home.cached import TRY_RARE_AFTER, CachedStream
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.names import base_of, check_stream_name, other_lane
from airflow_streaming.model.records.control import Change, ChangeKind, ChangeOutcome
from airflow_streaming.model.records.cutover import LiveRecord
from airflow_streaming.model.records.cutover_table import CutoverEvent, CutoverTransition
from airflow_streaming.model.storage import Store

_MOVED_BY: Final = {
    ChangeOutcome.DONE: CutoverEvent.SWITCHED,
    ChangeOutcome.ROLLED_BACK: CutoverEvent.UNDONE,
}
"""
The event that moved the pointer last, by the outcome of a cutover; an abandoned cutover has none.
"""

SELDOM: Final = TRY_RARE_AFTER
"""Seconds between two tries of those whom nothing depends on: a cutover tends its drivers itself
until long after the pointer has moved."""


def live_lane(home: Home, stream: str) -> str:
    """
    Return the name of the lane that is live; the stream's own before its first cutover.

    :param stream: Name of the stream, or of either lane.
    :raises RecordError: it was moved, and the records of that are lost or damaged.
    """
    base = stream_of(stream)
    found = counting_record(home.stream(base))
    return base if found is None else found[0].lane


def stream_of(lane: str) -> str:
    """
    Return the stream of a name: its own name or a lane's.

    :raises SpecError: the name cannot be a stream's, or is a lane of a lane.
    """
    base = base_of(check_stream_name(lane))
    if base != base_of(base):
        raise SpecError(
            f"Lane {lane!r} does not exist: {base!r} is a lane already. Name the stream "
            f"itself, {base_of(base)!r}."
        )
    return base


def counting_record(folder: StreamHome) -> tuple[LiveRecord, CutoverTransition] | None:
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
    # It has moved since the look, or a slow task recorded an earlier cutover late.
    if any(_move_of(record) == moved for record in folder.live_records()):
        return found
    leader, change, event = moved
    raise RecordError(
        f"The live lane of stream {folder.name!r} is unknown: cutover {change} of {leader!r} "
        f"has moved it ({event}), but {folder.store.uri}/{folder.name}/live has no record of "
        "it. Restore the original files; do not start the stream before."
    )


def _has_one_lane(folder: StreamHome) -> bool:
    return folder.beside(other_lane(folder.name)).newest_deployment() is None


def _newest_move(folder: StreamHome) -> tuple[str, int, CutoverEvent] | None:
    """Return which cutover has moved a stream last, and by which event; ``None`` before the first."""
    for number in range(folder.next_change() - 1, 0, -1):
        change = folder.change(number)
        if change.what is ChangeKind.CUTOVER and (event := _moved_by(folder, change)) is not None:
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


class LiveLaneCache:
    """
    Tells which lane of a stream is live.

    :param every: Seconds for which an answer is good enough; 0 for a new one each time.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        stream: str,
        *,
        every: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.base = CachedStream(store, stream, clock=clock)
        self._every, self._clock = every, clock
        self._answer: tuple[str, float] | None = None
        self._moves = 0

    def __call__(self) -> str:
        """
        Return the name of the lane.

        :raises RecordError: its records are lost or damaged.
        :raises HomeUnavailable: the home cannot be read, or lacks records that it had before.
        """
        now = self._clock()
        if self._answer is None or now - self._answer[1] >= self._every:
            self._answer = (self._look(), now)
        return self._answer[0]

    def _look(self) -> str:
        # Once is enough: a lost record is noticed below.
        is_first = self._answer is None
        found = counting_record(self.base) if is_first else self.base.live_record()
        moves = 0 if found is None else found[0].number
        if moves < self._moves:
            raise HomeUnavailable(
                f"{self.base.store.uri} no longer has the records that say which lane of stream "
                f"{self.base.name!r} is live. Perhaps the home is not mounted, or was restored."
            )
        self._moves = moves
        return self.base.name if found is None else found[0].lane

    def home(self, lane: str) -> CachedStream:
        """Return the records of a lane; the stream's own records are read once for both."""
        return self.base if lane == self.base.name else self.base.beside(lane)
