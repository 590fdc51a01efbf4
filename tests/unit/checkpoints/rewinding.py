"""A file sink and its checkpoint, of which newer batches are taken back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoints.backup.live_copy import Source
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.restore import sink_rewind
from airflow_streaming.checkpoints.restore.sink_output import Move, Output, open_output
from airflow_streaming.checkpoints.restore.sink_rewind import SinkRewind
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.records.upgrade import SinkFacts
from airflow_streaming.storage.folders import open_folders
from tests.unit.checkpoints.filesink import FileSink
from tests.unit.checkpoints.restoring import Life
from tests.unit.checkpoints.running import back_up, new_checkpoint

BOUNDARY = 4
CHANGE = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A query with a file sink, backed up at batch 4, and what the new deployment added."""

    sink: FileSink
    store: BackupStore
    backup: Backup
    before: list[str]

    def facts(self, **changes: Any) -> SinkFacts:
        told: dict[str, Any] = {
            "query": "counts",
            "sink": "file",
            "habit": SinkReplaySemantics.FILE_LOG,
            "target": str(self.sink.root),
        }
        return SinkFacts(**told | changes)

    def rewind(self, rewind: SinkRewind | None = None, **asked: Any) -> Any:
        given = {"sinks": [self.facts()], "newest": {"counts": 12}, "change": CHANGE, **asked}
        one = rewind or SinkRewind()
        return one.run(self.store, self.backup, **given)


def make_world(folder: Path, store: BackupStore, *, interval: int = 4) -> World:
    checkpoint = new_checkpoint(folder)
    sink = FileSink(folder / "out put", interval=interval)
    for batch in range(BOUNDARY + 1):
        sink.write(batch)
    source = Source(
        folder="counts",
        folders=open_folders(str(checkpoint)),
        sink_log=open_folders(str(sink.log)),
    )
    backup = back_up(store, source)
    return World(sink=sink, store=store, backup=backup, before=sink.read())


def write_new(sink: FileSink, last: int, **asked: Any) -> None:
    for batch in range(BOUNDARY + 1, last + 1):
        sink.write(batch, by="new", **asked)


class DyingOutput:
    """An output whose user dies before a durable step; every file that is moved is one."""

    def __init__(self, output: Output, life: Life, watch: Callable[[], None]) -> None:
        self.uri, self.folders = output.uri, output.folders
        self.has_checksums = output.has_checksums
        self._output, self._life, self._watch = output, life, watch
        self.records: Any = self

    def read(self, path: str) -> bytes | None:
        return self._output.records.read(path)

    def create(self, path: str, data: bytes) -> None:
        self._step()
        self._output.records.create(path, data)

    def move(self, moves: Iterable[Move]) -> None:
        for move in moves:
            self._step()
            self._output.move([move])

    def _step(self) -> None:
        self._life.step()
        self._watch()


def dying(monkeypatch: pytest.MonkeyPatch, life: Life, watch: Callable[[], None]) -> None:
    monkeypatch.setattr(
        sink_rewind, "open_output", lambda *a: DyingOutput(open_output(*a), life, watch)
    )
