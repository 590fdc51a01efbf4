"""
The live pointer of a stream, as records in the home of its base lane.

``orders/live/000003.json`` says that a lane becomes live with one step of a cutover, and counts as
soon as that step exists with that event (``core.cutover.live``). So the records of several streams
are written beforehand, one after another, and all begin to count in the one moment in which the
step is created.

A record has to be written before its step is taken. Whoever finds one for the same step and event
takes that, however long he slept before: so a slow task cannot put an old word behind a newer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_streaming.core.cutover.live import LiveRecord, effective
from airflow_streaming.core.cutover.transition import Transition
from airflow_streaming.core.names import Layout, numbered
from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable
from airflow_streaming.home.folder import APPEND_TRIES, StreamFolder


class LivePointer(StreamFolder):
    """Read and move the live pointer of one stream; use it on the home of the base lane."""

    def live_records(self) -> list[LiveRecord]:
        """Return all records, oldest first, those included that never came to count."""
        return [self._numbered(LiveRecord, "live", number) for number in self._numbers("live")]

    def live_record(self, *, after: int = 0) -> tuple[LiveRecord, Transition] | None:
        """
        Return the record that counts, and the step that made it count.

        :param after: Look only at records with a higher number: did the pointer move since?
        :returns: ``None`` while the stream has never been moved: its base lane is live.
        """
        for record in self._newest_live_first(after):
            step = self.live_step(record.leader, record.change, record.step)
            if step is not None and step.event is record.event:
                return record, step
        return None

    def live_step(self, leader: str, change: int, step: int) -> Transition | None:
        """Return a step of a cutover, of whichever stream; ``None`` when it was not taken yet."""
        path = Layout(leader).change_file(change, f"steps/{numbered(step)}.json")
        return self._read(Transition, path, change=change, number=step)

    def point(self, record: LiveRecord) -> LiveRecord:
        """
        Record that a lane becomes live with a step that is about to be taken.

        :param record: Its number is not read: the next one is given.
        :returns: The record that stands for this step and event, perhaps somebody else's. Its
            number rises with every move of the stream and is what pointers outside are told.
        :raises HomeUnavailable: it could not be recorded.
        """
        for _ in range(APPEND_TRIES):
            numbers = self._numbers("live")
            found = self._same(record)
            if found is not None:
                return found
            new = replace(record, number=numbers[-1] + 1 if numbers else 1)
            try:
                self.store.create(self._layout.record("live", new.number), new.to_bytes())
            except AlreadyExists:
                continue
            return new
        raise HomeUnavailable(
            f"The live pointer of stream {self.name!r} was not moved: {APPEND_TRIES} times another "
            "record was there first. Check that the store lists its newest files."
        )

    def _same(self, wanted: LiveRecord) -> LiveRecord | None:
        """Return the record for the same step and event."""
        for record in self._newest_live_first():
            if _key(record) == _key(wanted):
                return record
            # What counts of an earlier cutover was written before this one began, and so was all
            # that lies before it; of another leader's numbers nothing can be said.
            is_earlier = record.leader == wanted.leader and record.change < wanted.change
            if is_earlier and effective([record], self.live_step) is not None:
                return None
        return None

    def _newest_live_first(self, after: int = 0) -> Iterator[LiveRecord]:
        for number in reversed(self._numbers("live")):
            if number <= after:
                return
            yield self._numbered(LiveRecord, "live", number)


def _key(record: LiveRecord) -> tuple[str, int, int, str]:
    return record.leader, record.change, record.step, record.event.value
