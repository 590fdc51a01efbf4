"""A query that runs on while its checkpoint is backed up, and what the backup then holds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.index import LARGE
from airflow_streaming.checkpoints.backup.live_copy import Source
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.storage.folders import Folders, open_folders

NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
PLAN = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"2"}}'


def new_checkpoint(folder: Path) -> Path:
    """Make the checkpoint of a query that reads Kafka and has committed batches 0 to 4."""
    root = folder / "checkpoint"
    (root / "offsets").mkdir(parents=True)
    (root / "commits").mkdir()
    (root / "sources/0").mkdir(parents=True)
    (root / "metadata").write_text('{"id":"2bdda8fd-e87c-45a2-aaf7-915c2c320f7e"}')
    (root / "sources/0/0").write_text("v1\n{}")
    for batch in range(5):
        run(root, batch)
    return root


def run(root: Path, batch: int) -> None:
    plan(root, batch)
    write(root / f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')


def plan(root: Path, batch: int) -> None:
    write(root / f"offsets/{batch}", f'v1\n{PLAN}\n{{"orders":{{"0":{batch}}}}}')


def write(path: Path, text: str) -> None:
    """Write a file as Spark does: under another name first."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    temporary.rename(path)


def back_up(store: BackupStore, *sources: Source, attempts: int = 5) -> Backup:
    ticks = count()
    return take_backup(
        sources,
        store,
        stream="orders",
        origin=Origin.SCHEDULED,
        by="the test",
        attempts=attempts,
        clock=lambda: NOW + timedelta(seconds=next(ticks)),
    )


def of(folders: Folders, folder: str = "") -> Source:
    return Source(folder=folder, folders=folders)


def at(root: Path) -> Source:
    return of(open_folders(str(root)))


def content(store: BackupStore, backup: Backup) -> dict[str, str]:
    return {member.path: member.sha256 for member in store.members(backup)}


def digests(root: Path) -> dict[str, str]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}


def once(path: str, change: Callable[[], object]) -> Callable[[str], object]:
    """Return what makes a change when a path is about to be read for the first time."""
    waiting = [change]

    def happen(read: str) -> None:
        if read == path and waiting:
            waiting.pop()()

    return happen


def large(checkpoint: Path) -> Path:
    path = checkpoint / "sources/0/large"
    path.write_bytes(os.urandom(LARGE + 5))
    return path
