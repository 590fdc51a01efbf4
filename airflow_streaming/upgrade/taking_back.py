"""
The seam between the upgrade and the way back: what the engine asks when it has to undo.

The engine decides when; what is behind this puts checkpoint and sinks where the old deployment
left them. Everything may be asked twice, and by two tasks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from airflow_streaming.checkpoint.progress import Progress, no_progress
from airflow_streaming.checkpoint.sink_rewind import SinkRewind
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.core.change import Change
from airflow_streaming.core.upgrade.terms import UpgradeTerms
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher
from airflow_streaming.upgrade.restoring import claim_restored, restore_boundary, why_restore


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """
    What has to be undone; the new driver is proved gone and fenced.

    :param boundary: Id of the backup of exactly the batch the old deployment ended at.
    :param deployment: Number of the deployment that will go on from what is put back.
    :param is_needed: False as soon as somebody else has finished it: to be asked right before every
        step that removes or overwrites. From then on the old deployment may write there again.
    """

    change: Change
    terms: UpgradeTerms
    boundary: str
    deployment: int
    is_needed: Callable[[], bool]


class TakingBack(Protocol):
    """Puts checkpoint and sinks back to what the old deployment left."""

    def why(self, undo: Undo) -> str:
        """
        Return why anything has to be put back, in words.

        Empty when the new deployment left nothing that the old one must not go on from: it failed
        at once and committed nothing.
        """

    def rewind(self, undo: Undo) -> str:
        """
        Put checkpoint and sinks back; return the URI of the checkpoint the old one goes on from.

        :raises RestoreTaken: somebody else is at it now; ask again later.
        :raises StreamingError: it cannot be done; the stream stays down until a person acts.
        """


class BoundaryBack:
    """
    Goes back to the boundary backup.

    :param store: Where the backups lie.
    :param launcher: How the driver's processes can be seen from here.
    :param rewind: Puts sinks in step; only needed where a sink is not a file sink.
    :param storage_options: Passed to fsspec for checkpoints that are no local folders.
    """

    def __init__(
        self,
        home: StreamHome,
        store: BackupStore,
        launcher: Launcher,
        *,
        rewind: SinkRewind | None = None,
        storage_options: Mapping[str, Any] | None = None,
        progress: Progress = no_progress,
    ) -> None:
        self._home, self._store, self._launcher = home, store, launcher
        self._rewind, self._options, self._progress = rewind, storage_options, progress

    def why(self, undo: Undo) -> str:
        """Return why anything has to be put back; see ``TakingBack``."""
        return why_restore(
            self._home,
            self._store,
            undo.boundary,
            sinks=undo.terms.sinks,
            storage_options=self._options,
        )

    def rewind(self, undo: Undo) -> str:
        """Put checkpoint and sinks back; see ``TakingBack``."""
        restored = restore_boundary(
            self._home,
            self._store,
            undo.boundary,
            undo.change,
            launcher=self._launcher,
            sinks=undo.terms.sinks,
            rewind=self._rewind,
            storage_options=self._options,
            progress=self._progress,
            is_needed=undo.is_needed,
        )
        claim_restored(self._home, undo.deployment, restored)
        return restored.checkpoint
