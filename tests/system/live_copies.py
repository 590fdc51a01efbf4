"""The ways in which ``live_backups`` copies a checkpoint that is in use."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import SINK_LOG, Source
from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.contents import contents
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.storage.folders import open_folders

A_FILE: Final = 0.15
"""Seconds that a slow copy takes for a file: a hundred files in the time of a dozen batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """
    A query that runs.

    :param output: Where it writes; a file sink keeps its log in there.
    """

    name: str
    shape: str
    store: str
    input: Path
    checkpoint: Path
    output: Path

    @property
    def sink_log(self) -> Path | None:
        """The file sink's log, where the query has one."""
        return self.output / "_spark_metadata" if self.shape == "files" else None


class Way(Protocol):
    """A way to copy a checkpoint; whatever it raises means that there is no copy."""

    def copy(self, query: Query, number: int) -> str:
        """Copy the checkpoint now; return the name of the copy."""

    def put_back(self, name: str, query: Query, to: Path, output: Path) -> None:
        """Put a copy into a new folder, and the log of a file sink into a new output folder."""


class PinnedBackup:
    """
    Ours: into a backup store and back.

    :param store: Where all backups of a run lie, so that later ones build on earlier ones.
    """

    def __init__(self, store: BackupStore) -> None:
        self._store = store

    def copy(self, query: Query, number: int) -> str:
        log = open_folders(str(query.sink_log)) if query.sink_log else None
        source = Source(folder="", folders=open_folders(str(query.checkpoint)), sink_log=log)
        return take_backup(
            [source], self._store, stream=query.name, origin=Origin.MANUAL, by="live_backups"
        ).id

    def put_back(self, name: str, query: Query, to: Path, output: Path) -> None:
        logs = None
        if query.sink_log is not None:
            self._put_back_log(name, output)
            logs = {"": str(output / SINK_LOG)}
        restore(self._store, name, Place(to=str(to), sink_logs=logs))

    def _put_back_log(self, name: str, output: Path) -> None:
        for file in contents(self._store, self._store.backup(name), ""):
            if file.path.startswith(f"{SINK_LOG}/"):
                path = output / file.path
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(b"".join(file.chunks))


class PlainCopy:
    """
    What people do: a recursive copy.

    :param copies: Folder for the copies.
    :param pause: Seconds to wait before each file; 0 for as fast as it goes.
    """

    def __init__(self, copies: Path, pause: float) -> None:
        self._copies, self._pause = copies, pause

    def copy(self, query: Query, number: int) -> str:
        name = f"{query.name}-{number}-{'slow' if self._pause else 'fast'}"
        shutil.copytree(query.checkpoint, self._copies / name, copy_function=self._copy)
        if query.sink_log is not None:
            shutil.copytree(query.sink_log, self._copies / f"{name}-sink", copy_function=self._copy)
        return name

    def put_back(self, name: str, query: Query, to: Path, output: Path) -> None:
        shutil.copytree(self._copies / name, to)
        if query.sink_log is not None:
            shutil.copytree(self._copies / f"{name}-sink", output / "_spark_metadata")

    def _copy(self, file: str, to: str) -> None:
        time.sleep(self._pause)
        try:
            shutil.copy2(file, to)
        except FileNotFoundError:
            # Like cp and rsync, which say that a file has vanished and go on.
            return


def newest_commit(checkpoint: Path) -> int | None:
    """Return the newest batch that a copy has committed."""
    found = (path.name for path in (checkpoint / "commits").glob("*"))
    return max((int(name) for name in found if name.isdigit()), default=None)
