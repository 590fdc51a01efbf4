"""
What happened to a stream, for people: its timeline, and the progress of its batches.

Nothing here is read to decide anything. So a fault in it costs a line of history, never a restart.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterator
from datetime import UTC
from typing import Final

from airflow_streaming.core.control import Event
from airflow_streaming.core.names import number_of, numbered
from airflow_streaming.core.progress import BatchProgress
from airflow_streaming.core.wire import decode, parse_json
from airflow_streaming.exceptions import RecordError, StreamingError
from airflow_streaming.home.folder import StreamFolder

log: Final = logging.getLogger(__name__)

MAX_LINE_BYTES: Final = 16 * 1024
"""A line of progress has nine figures and is about 300 bytes long."""

_EVENT_FILE: Final = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{8}\.json")


class Timeline(StreamFolder):
    """Read and add to the history of one stream."""

    def add_event(self, event: Event) -> None:
        """Add a line to the timeline; a home that cannot take it is logged, not raised."""
        moment = event.at.astimezone(UTC)
        name = f"{moment:%Y%m%dT%H%M%S.%f}Z-{uuid.uuid4().hex[:8]}.json"
        try:
            self.store.create(f"{self._layout.events()}/{name}", event.to_bytes())
        except StreamingError as err:
            log.warning("The timeline of stream %s misses %s: %s", self.name, event.event, err)

    def events(self, limit: int = 50) -> list[Event]:
        """Return the last events, the newest last."""
        folder = self._layout.events()
        names = [name for name in self.store.names(folder) if _EVENT_FILE.fullmatch(name)]
        found = (self._event(f"{folder}/{name}") for name in names[-max(limit, 1) :])
        return [event for event in found if event is not None]

    def read_progress(self, epoch: int, limit: int = 500) -> list[BatchProgress]:
        """Return the figures of an epoch's last batches, over all its queries, the newest last."""
        newest_first: list[BatchProgress] = []
        for number in reversed(self.progress_chunks(epoch)[-max(limit, 1) :]):
            newest_first.extend(reversed(self.progress_rows(epoch, number)[0]))
            if len(newest_first) >= limit:
                break
        return newest_first[:limit][::-1]

    def progress_chunks(self, epoch: int) -> list[int]:
        """Return the numbers of an epoch's chunks of progress, the newest last."""
        return sorted(
            number
            for name in self.store.names(self._layout.progress(epoch))
            if name.endswith(".jsonl") and (number := number_of(name[:-1])) is not None
        )

    def progress_rows(
        self, epoch: int, chunk: int, *, skip: int = 0
    ) -> tuple[list[BatchProgress], int]:
        """
        Return the rows of one chunk, and how many lines it has.

        :param skip: Lines that were read before; a chunk only grows.
        """
        path = f"{self._layout.progress(epoch)}/{numbered(chunk)}.jsonl"
        try:
            lines = (self.store.read(path) or b"").splitlines()
        except RecordError as err:
            log.info("Left out of the progress history: %s", err)
            return [], skip
        return [*self._rows(lines, path, skip)], len(lines)

    def _event(self, path: str) -> Event | None:
        try:
            return self._read(Event, path)
        except RecordError as err:
            log.info("Left out of the timeline: %s", err)
            return None

    def _rows(self, lines: list[bytes], path: str, skip: int) -> Iterator[BatchProgress]:
        for number, line in enumerate(lines[skip:], start=skip + 1):
            where = f"{self._shown(path)} line {number}"
            try:
                yield decode(BatchProgress, parse_json(line, limit=MAX_LINE_BYTES), where)
            except RecordError as err:
                log.debug("Left out of the progress history: %s: %s", where, err)
