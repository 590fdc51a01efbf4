"""
Putting one file sink back: its log to what a backup says, its newer files aside.

The entries that go are moved to ``<output>/_rolled_back/<change>-<backup>/log`` and tell there which
files were theirs, so that whoever is killed can be followed by anybody: what is left is what still
lies in the log, and what was moved says which files still have to follow. The log goes first, for a
reader that meets an entry expects its files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoint.sink_rewind_look import ADVICE, Boundary, Found, SinkLook
from airflow_streaming.checkpoint.sink_rewind_output import Move, Output, names_in
from airflow_streaming.checkpoint.sources import SINK_LOG
from airflow_streaming.core.checkpoint.sinklog import MAX_SINK_LOG_BYTES
from airflow_streaming.core.upgrade.rollback_log import LogRewind, SinkRewound, log_rewind
from airflow_streaming.exceptions import AlreadyExists, CheckpointRefused, RestoreTaken

TOGETHER: Final = 100
"""Data files that are moved between two looks whether this is still needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPlan:
    """
    What putting one sink back does, or has done.

    :param output: The output folder, or the target of a sink that its author puts back.
    :param batch: The newest batch that stays; ``batches`` those that are taken back, oldest first.
    :param files: Data files that are moved aside; ``size`` is their bytes.
    :param aside: Where they go; empty when nothing is moved.
    :param is_done: It was done before.
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
    """
    Puts one file sink back.

    :param output: Its output folder.
    """

    def __init__(self, output: Output, boundary: Boundary) -> None:
        self._output, self._to = output, boundary
        self._kept = boundary.kept or {}
        self._uri = f"{output.uri}/{SINK_LOG}"

    def plan(self) -> RewindPlan:
        """
        Say what ``run`` would do.

        :raises CheckpointRefused: the log is of another sink, or somebody else writes to it.
        """
        done = self._mark("done")
        return self._done(done) if done is not None else self._planned(self._look())

    def run(self, is_needed: Callable[[], bool]) -> RewindPlan:
        """
        Put it back; asking again goes on, and changes nothing after the end.

        :param is_needed: Asked before every step that takes something away.
        :raises CheckpointRefused: as ``plan``.
        :raises RestoreTaken: it is no longer needed: somebody else has finished it.
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
        """Move an entry, if it is the very one that was looked at."""
        self._check_needed(is_needed)
        present = self._output.folders.read(f"{SINK_LOG}/{name}", MAX_SINK_LOG_BYTES)
        if present is None or self._mark("done") is not None:
            return
        if present != seen:
            raise CheckpointRefused(
                f"Entry {name} of the sink's log {self._uri} was written anew while it was put "
                "back: somebody else writes to this output. Stop that, and ask again for the same "
                "to go on."
            )
        for one in (f".{name}.crc", name) if self._output.has_checksums else (name,):
            self._output.move([self._log_move(one)])

    def _check_needed(self, is_needed: Callable[[], bool]) -> None:
        if not is_needed():
            raise RestoreTaken(
                f"The sink of query {self._to.query!r} in {self._output.uri} was put back by "
                "somebody else meanwhile. This attempt leaves it alone."
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
                f"{', '.join(left.remove[:3]) or 'lost ' + left.create[0]}. Somebody else writes to "
                "this output. Stop that, and ask again for the same to go on."
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
