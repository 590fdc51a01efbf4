"""The two backups of an upgrade: one while the stream runs, and one of exactly what it left."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.ours import Asked, Open, backup_before
from airflow_streaming.checkpoint.progress import Progress, no_progress
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.checkpoint.verify import verify
from airflow_streaming.core.change import Change
from airflow_streaming.core.checkpoint.backup import Level, Origin
from airflow_streaming.core.checkpoint.for_change import facts_for
from airflow_streaming.core.upgrade.terms import UpgradeTerms
from airflow_streaming.exceptions import CheckpointError, CheckpointRefused
from airflow_streaming.home.home import StreamHome

_MOST_PROBLEMS = 3


class BackingUp:
    """
    Takes and verifies the backups of an upgrade.

    :param by: Who acts, for the records.
    :param open_folders: Opens the checkpoints and outputs.
    :param now: The time of day.
    """

    def __init__(
        self,
        home: StreamHome,
        store: BackupStore,
        *,
        by: str,
        now: Callable[[], datetime],
        open_folders: Open = open_folders,
        progress: Progress = no_progress,
    ) -> None:
        self._home, self._store = home, store
        self._by, self._now = by, now
        self._open, self._progress = open_folders, progress

    def take(self, change: Change, terms: UpgradeTerms, level: Level) -> str:
        """
        Take a backup, verify it, and return its id.

        :param level: Every byte is read while the stream runs; while it is down names and sizes
            have to do, since a restore checks every byte anyway.
        :raises CheckpointError: there is nothing to back up, or it cannot be done.
        """
        asked = Asked(
            origin=Origin.BEFORE_UPGRADE,
            by=self._by,
            note=f"Change {change.number}: {change.reason}",
            facts=facts_for(self._home.store.uri, change.number),
            sink_logs=terms.sink_logs,
            open_folders=self._open,
            progress=self._progress,
            clock=self._now,
        )
        backup = backup_before(self._home, self._store, asked)
        if not backup:
            raise CheckpointRefused(
                f"Stream {self._home.name!r} has committed no batch yet, so there is nothing to go "
                "back to. Wait for its first batch, or apply the deployment with restart=True."
            )
        found = verify(
            self._store, backup, level, by=self._by, now=self._now(), stream=self._home.name
        )
        if not found.holds:
            raise CheckpointError(
                f"Backup {backup} of stream {self._home.name!r} does not hold: "
                f"{' '.join(found.problems[:_MOST_PROBLEMS])}"
            )
        return backup
