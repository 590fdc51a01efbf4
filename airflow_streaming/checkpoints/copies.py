"""
Copies of a backup, or of live checkpoints, for a rehearsal.

The original is only read. A copy is cut back if this makes a batch with input run again, so that
the new version is exercised even with an idle source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from airflow_streaming.checkpoints.backup.live_copy import sources_of
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.backup.stream_backup import (
    BackupRequest,
    begun_deployment,
    stream_sources,
)
from airflow_streaming.checkpoints.drill_cut import plan_cut
from airflow_streaming.checkpoints.progress import Progress
from airflow_streaming.checkpoints.read.journal import has_input
from airflow_streaming.checkpoints.restore.clone import clone
from airflow_streaming.checkpoints.restore.replay import ACCEPTABLE
from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.jobs.drill import DrilledQuery
from airflow_streaming.model.uris import local_path
from airflow_streaming.storage.folders import open_folders, walk


@dataclass(frozen=True, slots=True, kw_only=True)
class OfBackup:
    """A backup; it is verified while it is restored into the scratch."""

    store: BackupStore
    backup: Backup

    @property
    def subject(self) -> str:
        """Return what this is, in words."""
        return f"backup {self.backup.id} of stream {self.backup.stream!r}"

    def copies(self, folder: Path, progress: Progress) -> list[DrilledQuery]:
        """
        Restore all queries into a folder.

        :raises StreamingError: the backup cannot be read, or is damaged.
        """
        # Warnings of a restore concern the sink, which a rehearsal does not have.
        place = Place(to=str(folder))
        restored = restore(self.store, self.backup.id, place, accept=ACCEPTABLE, progress=progress)
        return [
            _planned(
                query.folder,
                query.checkpoint,
                Path(local_path(restored.checkpoints[query.folder])),
                query.batch,
            )
            for query in self.backup.queries
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfCheckpoints:
    """
    Live checkpoints, pinned while their queries continue.

    :param checkpoints: URI of each, by query; ``""`` names a single one.
    """

    checkpoints: Mapping[str, str]
    storage_options: Mapping[str, Any] | None = None

    @property
    def subject(self) -> str:
        """Return what this is, in words."""
        places = ", ".join(self.checkpoints.values())
        return f"a copy of {places}, taken at {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"

    def copies(self, folder: Path, progress: Progress) -> list[DrilledQuery]:
        """
        Copy all checkpoints into a folder.

        :raises StreamingError: one cannot be read, is damaged, or moved under every attempt.
        """
        return [
            self._copy(query, uri, folder / str(number), progress)
            for number, (query, uri) in enumerate(self.checkpoints.items())
        ]

    def _copy(self, query: str, uri: str, to: Path, progress: Progress) -> DrilledQuery:
        made = clone(uri, str(to), storage_options=self.storage_options, progress=progress)
        return _planned(query, uri, to, made.batch)


def checkpoints_at(uri: str, storage_options: Mapping[str, Any] | None = None) -> OfCheckpoints:
    found = sources_of(open_folders(uri, storage_options))
    return OfCheckpoints(
        checkpoints={source.folder: source.folders.uri for source in found},
        storage_options=storage_options,
    )


def checkpoints_of(
    home: StreamHome, storage_options: Mapping[str, Any] | None = None
) -> OfCheckpoints:
    """
    Return the checkpoints that a stream's queries use now.

    :raises NothingYet: The stream has committed no batch yet.
    :raises CheckpointError: Its checkpoint is missing.
    """
    deployment = begun_deployment(home)
    request = BackupRequest(
        origin=Origin.BEFORE_UPGRADE,
        by="a rehearsal",
        open_folders=partial(open_folders, storage_options=storage_options),
    )
    found = stream_sources(home, deployment, request)
    return OfCheckpoints(
        checkpoints={source.folder: source.folders.uri for source in found},
        storage_options=storage_options,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRestored:
    """
    Checkpoints that were restored from a backup, in a place where no query runs.

    :param checkpoints: URI of each, by the query's folder in the backup.
    :param replays: Cut the copy back by a batch with input, so that an idle query runs one, too.
    """

    backup: Backup
    checkpoints: Mapping[str, str]
    storage_options: Mapping[str, Any] | None = None
    replays: bool = False

    @property
    def subject(self) -> str:
        """Return what this is, in words."""
        return f"the restored backup {self.backup.id} of stream {self.backup.stream!r}"

    def copies(self, folder: Path, progress: Progress) -> list[DrilledQuery]:
        """
        Copy all checkpoints into a folder.

        :raises StreamingError: one cannot be read or copied.
        """
        found = []
        for number, query in enumerate(self.backup.queries):
            uri, to = self.checkpoints[query.folder], folder / str(number)
            clone(uri, str(to), storage_options=self.storage_options, progress=progress)
            planned = _planned if self.replays else _continued
            found.append(planned(query.folder, query.checkpoint, to, query.batch))
        return found


def _continued(query: str, uri: str, copy: Path, batch: int) -> DrilledQuery:
    """Return a copy that continues exactly where the checkpoint ends."""
    folders = open_folders(str(copy))
    is_planned = walk(folders).stat(f"offsets/{batch + 1}") is not None
    return DrilledQuery(
        folder=query,
        checkpoint=uri,
        copy=str(copy),
        batch=batch,
        runs=batch + 1 if is_planned else None,
        has_input=not is_planned or has_input(folders.read, batch + 1),
    )


def _planned(query: str, uri: str, copy: Path, batch: int) -> DrilledQuery:
    folders = open_folders(str(copy))
    cut = plan_cut(walk(folders), folders.read, batch, needs_input=True)
    return DrilledQuery(
        folder=query,
        checkpoint=uri,
        copy=str(copy),
        batch=batch,
        runs=cut.runs,
        has_input=cut.has_input,
        cut=cut.remove,
        run_note=cut.why_not,
    )
