"""
Looking at one file sink before it is put back: whether it is the one in the backup, and what goes.

Whoever was killed has left entries aside; what they say of files counts like what the log says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.checkpoint.sink_rewind_output import Output, names_in
from airflow_streaming.checkpoint.sources import SINK_LOG
from airflow_streaming.core.checkpoint.sinklog import MAX_SINK_LOG_BYTES, SinkLogEntry
from airflow_streaming.core.names import numbered
from airflow_streaming.core.upgrade.rollback_log import (
    LogRewind,
    batch_of_entry,
    files_of,
    log_rewind,
    oldest_file_ms,
    path_in_output,
)
from airflow_streaming.exceptions import CheckpointRefused

ASIDE: Final = "_rolled_back"
"""Folder of an output for what was taken back; Spark passes over names that begin like this."""

SKEW: Final = timedelta(days=1)
"""
How far the clock of the files' store may be behind that of whoever took the backup.

One that keeps local time is off by up to 14 hours. A log that was there before is days older.
"""

ADVICE: Final = (
    "Nothing was changed by this attempt. Look at the output; take the batches back by hand, or "
    "give the query a new output folder."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """
    To where one sink goes back.

    :param batch: The newest batch that stays; -1 for none.
    :param planned: The newest batch that the present checkpoint has planned; ``None`` if unknown.
    :param kept: The log in the backup, by name; ``None`` when the query had committed nothing yet,
        so that the backup does not have it.
    :param since: When the backup was begun.
    """

    stream: str
    query: str
    change: int
    backup: str
    batch: int
    planned: int | None
    kept: Mapping[str, bytes] | None
    since: datetime

    @property
    def aside(self) -> str:
        """Return the folder of what is taken back, relative to the output."""
        return f"{ASIDE}/{numbered(self.change)}-{self.backup}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """
    What a look found.

    :param newest: The newest batch that the log knew when the first attempt began; -1 for none.
    :param entries: Content of the entries that are to go, as it was looked at.
    :param files: The data files of what goes, by their path in the output.
    """

    steps: LogRewind
    newest: int
    is_begun: bool
    entries: Mapping[str, bytes]
    files: Mapping[str, SinkLogEntry]


class SinkLook:
    """
    Looks at one file sink.

    :param output: Its output folder.
    :raises CheckpointRefused: see ``look``.
    """

    def __init__(self, output: Output, boundary: Boundary) -> None:
        self._output, self._to = output, boundary
        self._kept = boundary.kept or {}
        self._uri = f"{output.uri}/{SINK_LOG}"

    def look(self, begun: int | None) -> Found:
        """
        Look at the log and at what was moved aside already.

        :param begun: The newest batch when another attempt began; ``None`` for the first.
        :raises CheckpointRefused: the log is of another sink, or somebody else writes to it.
        """
        names = names_in(self._output.folders, SINK_LOG)
        steps = log_rewind(self._kept, names, self._to.batch)
        newest = begun if begun is not None else -1 if steps.newest is None else steps.newest
        self._check_newest(steps.newest, newest)
        self._check_same_sink(names)
        # The log first: what somebody else moves meanwhile is met in the second place.
        present = self._entries(SINK_LOG, steps.remove)
        gone = names_in(self._output.folders, f"{self._to.aside}/log")
        taken = {**present, **self._entries(f"{self._to.aside}/log", gone)}
        if self._to.kept is None:
            self._check_young(taken)
        staying = files_of(self._kept, self._uri)
        files = {
            path_in_output(path, self._output.uri): entry
            for path, entry in files_of(taken, self._uri).items()
            if path not in staying
        }
        return Found(
            steps=steps,
            newest=newest,
            is_begun=begun is not None,
            entries=present,
            files=files,
        )

    def _check_newest(self, present: int | None, expected: int) -> None:
        latest = -1 if present is None else present
        planned = self._to.planned
        if latest > expected or (planned is not None and latest > planned):
            raise CheckpointRefused(
                f"The sink's log {self._uri} knows batch {latest}, and query {self._to.query!r} "
                f"has got to batch {expected if latest > expected else planned}: somebody else "
                f"writes to this output. {ADVICE}"
            )
        ended = max((batch_of_entry(name) or 0 for name in self._kept), default=-1)
        if latest < ended:
            raise CheckpointRefused(
                f"The sink's log {self._uri} ends at batch {latest}, and in the backup it ends at "
                f"{ended}: entries were lost. {ADVICE}"
            )

    def _check_same_sink(self, names: Sequence[str]) -> None:
        entries = [name for name in names if batch_of_entry(name) is not None]
        common = [name for name in entries if name in self._kept]
        for name, data in self._entries(SINK_LOG, common).items():
            if data != self._kept[name]:
                raise self._of_another(f"entry {name} differs from the one in the backup")
        if common or not entries:
            return
        if not self._kept:
            if any((batch_of_entry(name) or 0) <= self._to.batch for name in entries):
                raise self._of_another("the backup has none of its entries")
            return
        # Spark has compacted and deleted all that the backup has; the files must still be known.
        known = files_of(self._entries(SINK_LOG, entries), self._uri)
        if known.keys().isdisjoint(files_of(self._kept, self._uri)):
            raise self._of_another("it knows no file that the backup knows")

    def _of_another(self, why: str) -> CheckpointRefused:
        return CheckpointRefused(
            f"The sink's log {self._uri} is not the one that was backed up: {why}. {ADVICE}"
        )

    def _check_young(self, taken: Mapping[str, bytes]) -> None:
        since = (self._to.since - SKEW).timestamp() * 1000
        times = filter(None, map(oldest_file_ms, taken.values()))
        if min(times, default=since) < since:
            raise CheckpointRefused(
                f"The sink's log {self._uri} has files from before backup {self._to.backup}, which "
                f"has nothing of query {self._to.query!r}. {ADVICE}"
            )

    def _entries(self, folder: str, names: Sequence[str]) -> dict[str, bytes]:
        found = {}
        for name in names:
            if batch_of_entry(name) is None:
                continue
            data = self._output.folders.read(f"{folder}/{name}", MAX_SINK_LOG_BYTES)
            if data is not None:
                found[name] = data
        return found
