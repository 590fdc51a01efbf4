"""Small checkpoints to be backed up and restored, and a process that dies at any durable step."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import sources_of
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.read.formats import PINNED_SINCE, newer_than
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.restore import local_target
from airflow_streaming.checkpoints.restore.replay import RefusalCode
from airflow_streaming.checkpoints.vault.store import BackupStore, open_backup_store
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.storage.folders import open_folders

# What Spark 4.1 pins in every plan, by its names alone.
PINNED = {key: "true" for key, since in PINNED_SINCE.items() if not newer_than(since, "4.1")}
PLAN = {
    "batchWatermarkMs": 0,
    "batchTimestampMs": 1,
    "conf": {
        **PINNED,
        "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
        "spark.sql.shuffle.partitions": "2",
    },
}


def run_batches(folder: Path, last: int, query_id: str = "1-0-0-0-1") -> Path:
    """Write the checkpoint of a query without state up to a committed batch."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": query_id}))
    for batch in range(last + 1):
        offset = json.dumps({"orders": {"0": 10 * (batch + 1)}})
        (folder / "offsets" / str(batch)).write_text(f"v1\n{json.dumps(PLAN)}\n{offset}")
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    # What Spark was writing when it was killed once.
    (folder / "offsets" / f".{last}.0b54e4a1-7f6c-4c2e-9d3a-2f3b0c6d7e8f.tmp").write_bytes(b"v1")
    return folder


def new_store(folder: Path) -> BackupStore:
    return open_backup_store(str(folder / "store"), create=True)


def back_up(store: BackupStore, checkpoint: Path, stream: str = "orders") -> Backup:
    sources = sources_of(open_folders(str(checkpoint)))
    return take_backup(sources, store, stream=stream, origin=Origin.MANUAL, by="test")


def is_sound_at(checkpoint: Path, batch: int) -> bool:
    found = inspect(str(checkpoint))
    return found.is_sound and found.last_committed_batch == batch


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def codes(refusals: Any) -> list[RefusalCode]:
    return [refusal.code for refusal in refusals]


class Killed(BaseException):
    """What a process is that is no more: nothing catches it, nothing is done after it."""


class Life:
    """
    Counts durable steps and ends before one of them; whatever comes afterwards is not done either.

    :param last: The step that is no longer done; ``None`` to live on.
    """

    def __init__(self, last: int | None = None) -> None:
        self.steps = 0
        self._last = last

    def step(self) -> None:
        self.steps += 1
        if self._last is not None and self.steps >= self._last:
            raise Killed

    def around(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def limited(*args: Any, **kwargs: Any) -> Any:
            self.step()
            return act(*args, **kwargs)

        return limited


def limit_local(monkeypatch: pytest.MonkeyPatch, life: Life) -> None:
    """Have every step on this machine's disk that a restore makes counted."""
    monkeypatch.setattr(local_target, "_write_all", life.around(local_target._write_all))
    monkeypatch.setattr(os, "sync", life.around(lambda: None))
    monkeypatch.setattr(shutil, "rmtree", life.around(shutil.rmtree))
    for name in ("mkdir", "rename"):
        monkeypatch.setattr(Path, name, life.around(getattr(Path, name)))


class Memory(MemoryFileSystem):
    """An object store of a test's own, whose writing steps are counted."""

    cachable = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]
        self.life = Life()

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        self.life.step()
        super().pipe_file(path, value, mode=mode, **options)

    def rm_file(self, path: str) -> None:
        self.life.step()
        super().rm_file(path)
