"""
Rewind one file sink to a restored checkpoint.

The log entries of later batches are moved to ``<output>/_rolled_back/<change>-<backup>/log``, and
they name their data files there. So any process can continue a killed one: entries in the log are
still to move, and moved entries name the files to move. The log is moved first, because a reader
that finds an entry expects its files.

At intervals Spark compacts the log entries into one, and fails if one of them is missing. A query
that continues another one's batch numbers in an output of its own therefore gets a log in which the
earlier batches are empty.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from airflow_streaming.checkpoints.backup.live_copy import SINK_LOG
from airflow_streaming.checkpoints.read.file_logs import MAX_SINK_LOG_BYTES, SinkLogEntry
from airflow_streaming.checkpoints.restore.sink_log import (
    LogRewind,
    SinkRewound,
    batch_of_entry,
    files_of,
    log_rewind,
    oldest_file_ms,
    path_in_output,
)
from airflow_streaming.checkpoints.restore.sink_output import ASIDE, Move, Output, names_in
from airflow_streaming.exceptions import AlreadyExists, CheckpointRefused, RestoreTaken, closed
from airflow_streaming.model.names import numbered
from airflow_streaming.model.uris import join
from airflow_streaming.storage.fsspec_store import open_store

_NOTHING = b"v1"

SKEW: Final = timedelta(days=1)
"""
How far the clock of the files' store may be behind the backup host's.

A store in local time is off by up to 14 hours. An earlier log is days older.
"""
ADVICE: Final = (
    "Nothing was changed by this attempt. Look at the output; take the batches back by hand, or "
    "give the query a new output folder."
)

TOGETHER: Final = 100
"""Data files that are moved between two looks whether this is still needed."""


def begin_sink_log(output: str, batch: int, compact_interval: int, **access: Any) -> None:
    """
    Write a log in which every batch up to one is empty; idempotent.

    :param output: The sink's output; not yet in use.
    :param batch: The last batch before its first one.
    :param compact_interval: The number of batches Spark compacts; from an existing entry Spark
        derives a fitting interval, regardless of the configured interval.
    :param access: ``storage_options`` and ``filesystem``, as for a checkpoint.
    :raises HomeUnavailable: The output cannot be reached.
    """
    store = open_store(join(output, SINK_LOG), **access)
    *names, last = _empty_entries(batch, compact_interval)
    # The last one is written last: once it is there the sink may have begun, and no late process
    # may write beside it.
    if {str(batch), f"{batch}.compact"}.isdisjoint(store.names("")):
        for name in (*names, last):
            with contextlib.suppress(AlreadyExists):
                store.create(name, _NOTHING)


def _empty_entries(batch: int, interval: int) -> Iterator[str]:
    """Return the names of what Spark would read of a log up to a batch."""
    compacted = (batch + 1) // interval * interval - 1
    if compacted >= 0:
        yield f"{compacted}.compact"
    yield from map(str, range(compacted + 1, batch + 1))


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
        """Return the folder of the moved files, relative to the output."""
        return f"{ASIDE}/{numbered(self.change)}-{self.backup}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """
    The state of a sink's log.

    :param newest: The newest batch in the log when the first attempt began; -1 if empty.
    :param entries: Content of the entries to move.
    :param files: The data files to move, by their path in the output.
    """

    steps: LogRewind
    newest: int
    is_begun: bool
    entries: Mapping[str, bytes]
    files: Mapping[str, SinkLogEntry]


class SinkLook:
    """
    Looks at one file sink.

    :raises CheckpointRefused: see ``look``.
    """

    def __init__(self, output: Output, boundary: Boundary) -> None:
        self._output, self._to = output, boundary
        self._kept = boundary.kept or {}
        self._uri = f"{output.uri}/{SINK_LOG}"

    def look(self, begun: int | None) -> Found:
        """
        Read the log and the entries that were already moved aside.

        :param begun: The newest batch when another attempt began; ``None`` for the first.
        :raises CheckpointRefused: The log belongs to another sink, or another process writes to it.
        """
        names = names_in(self._output.folders, SINK_LOG)
        steps = log_rewind(self._kept, names, self._to.batch)
        newest = begun if begun is not None else -1 if steps.newest is None else steps.newest
        self._check_newest(steps.newest, newest)
        self._check_same_sink(names)
        # The log first: entries that another process moves meanwhile are found in the second place.
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
                f"The sink's log {self._uri} has batch {latest}, but query {self._to.query!r} is "
                f"at batch {expected if latest > expected else planned}: another process writes "
                f"to this output. {ADVICE}"
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
        # Spark has compacted and deleted all backed-up entries; read the files from the backup.
        known = files_of(self._entries(SINK_LOG, entries), self._uri)
        if known.keys().isdisjoint(files_of(self._kept, self._uri)):
            raise self._of_another("it knows no file that the backup knows")

    def _of_another(self, why: str) -> CheckpointRefused:
        return CheckpointRefused(
            f"The sink's log {self._uri} differs from the one in the backup: {closed(why)} {ADVICE}"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPlan:
    """
    The effect of rewinding one sink.

    :param output: The output folder, or the target of a sink that its author rewinds.
    :param batch: The newest batch that stays; ``batches`` the batches to take back, oldest first.
    :param files: Data files that are moved aside; ``size`` is their bytes.
    :param aside: Their new folder; empty if no file is moved.
    """

    query: str
    output: str
    batch: int
    batches: tuple[int, ...] = ()
    files: int = 0
    size: int = 0
    aside: str = ""
    is_done: bool = False


class FileSinkRewind:
    """Puts one file sink back."""

    def __init__(self, output: Output, boundary: Boundary) -> None:
        self._output, self._to = output, boundary
        self._kept = boundary.kept or {}
        self._uri = f"{output.uri}/{SINK_LOG}"

    def plan(self) -> RewindPlan:
        """
        Say what ``run`` would do.

        :raises CheckpointRefused: the log is of another sink, or another process writes to it.
        """
        done = self._mark("done")
        return self._done(done) if done is not None else self._planned(self._look())

    def run(self, is_needed: Callable[[], bool]) -> RewindPlan:
        """
        Put it back; asking again continues, and changes nothing after the end.

        :param is_needed: Asked before every step that takes something away.
        :raises CheckpointRefused: as ``plan``.
        :raises RestoreTaken: it is no longer needed: another process has finished it.
        """
        done = self._mark("done")
        if done is not None:
            return self._done(done)
        found = self._look()
        plan = self._planned(found)
        if not found.steps.remove and not found.is_begun:
            return plan
        self._create_mark("begun", found, plan)
        self._bring_back(found.steps, is_needed)
        for name in found.steps.remove:
            self._take_away(name, found.entries.get(name), is_needed)
        for moves in self._data_moves(found):
            self._check_needed(is_needed)
            self._output.move(moves)
        self._finish(found, plan)
        return plan

    def _look(self) -> Found:
        begun = self._mark("begun")
        return SinkLook(self._output, self._to).look(None if begun is None else begun.newest)

    def _bring_back(self, steps: LogRewind, is_needed: Callable[[], bool]) -> None:
        for name in steps.create:
            self._check_needed(is_needed)
            # A checksum that Hadoop left behind would be of other bytes.
            self._output.move([self._log_move(f".{name}.crc")])
            try:
                self._output.records.create(f"{SINK_LOG}/{name}", self._kept[name])
            except AlreadyExists:
                continue

    def _take_away(self, name: str, seen: bytes | None, is_needed: Callable[[], bool]) -> None:
        """Move an entry if it is unchanged since it was read."""
        self._check_needed(is_needed)
        present = self._output.folders.read(f"{SINK_LOG}/{name}", MAX_SINK_LOG_BYTES)
        if present is None or self._mark("done") is not None:
            return
        if present != seen:
            raise CheckpointRefused(
                f"Entry {name} of the sink's log {self._uri} was written anew while it was put "
                "back: another process writes to this output. Stop that, and ask again for the same "
                "to continue."
            )
        for one in (f".{name}.crc", name) if self._output.has_checksums else (name,):
            self._output.move([self._log_move(one)])

    def _check_needed(self, is_needed: Callable[[], bool]) -> None:
        if not is_needed():
            raise RestoreTaken(
                f"The sink of query {self._to.query!r} in {self._output.uri} was put back by "
                "another process meanwhile. This attempt leaves it alone."
            )

    def _data_moves(self, found: Found) -> Iterator[list[Move]]:
        paths = sorted(found.files)
        for start in range(0, len(paths), TOGETHER):
            moves: list[Move] = []
            for path in paths[start : start + TOGETHER]:
                folder, _, name = path.rpartition("/")
                checksum = f"{folder}/.{name}.crc".lstrip("/")
                for one in (checksum, path) if self._output.has_checksums else (path,):
                    moves.append((one, f"{self._to.aside}/data/{one}"))
            yield moves

    def _finish(self, found: Found, plan: RewindPlan) -> None:
        if self._mark("done") is None:
            self._check_done()
            self._create_mark("done", found, plan)

    def _check_done(self) -> None:
        names = names_in(self._output.folders, SINK_LOG)
        left = log_rewind(self._kept, names, self._to.batch)
        if left.remove or left.create:
            raise CheckpointRefused(
                f"The sink's log {self._uri} was written to while it was put back: it has "
                f"{', '.join(left.remove[:3]) or 'lost ' + left.create[0]}. Another process writes to "
                "this output. Stop that, and ask again for the same to continue."
            )

    def _log_move(self, name: str) -> Move:
        return f"{SINK_LOG}/{name}", f"{self._to.aside}/log/{name}"

    def _planned(self, found: Found) -> RewindPlan:
        batch = self._to.batch
        return RewindPlan(
            query=self._to.query,
            output=self._output.uri,
            batch=batch,
            batches=tuple(range(batch + 1, found.newest + 1)),
            files=len(found.files),
            size=sum(entry.size for entry in found.files.values()),
            aside=f"{self._output.uri}/{self._to.aside}" if found.newest > batch else "",
        )

    def _done(self, mark: SinkRewound) -> RewindPlan:
        return RewindPlan(
            query=mark.query,
            output=self._output.uri,
            batch=mark.batch,
            batches=tuple(range(mark.batch + 1, mark.newest + 1)),
            files=mark.files,
            size=mark.size,
            aside=f"{self._output.uri}/{self._to.aside}",
            is_done=True,
        )

    def _mark(self, name: str) -> SinkRewound | None:
        path = f"{self._to.aside}/{name}.json"
        data = self._output.records.read(path)
        if data is None:
            return None
        mark = SinkRewound.from_bytes(data)
        if (mark.stream, mark.query, mark.batch) != (
            self._to.stream,
            self._to.query,
            self._to.batch,
        ):
            raise CheckpointRefused(
                f"{self._output.uri}/{path} is of query {mark.query!r} of stream {mark.stream!r}, "
                f"which went back to batch {mark.batch}. {ADVICE}"
            )
        return mark

    def _create_mark(self, name: str, found: Found, plan: RewindPlan) -> None:
        mark = SinkRewound(
            stream=self._to.stream,
            query=self._to.query,
            change=self._to.change,
            backup=self._to.backup,
            batch=self._to.batch,
            newest=found.newest,
            files=plan.files,
            size=plan.size,
        )
        try:
            self._output.records.create(f"{self._to.aside}/{name}.json", mark.to_bytes())
        except AlreadyExists:
            self._mark(name)
