"""
The boundary of an upgrade restored: checkpoints beside the present ones, and sinks in step.

The backup of the batch that the old deployment ended at is restored to a place of its own, under the
number of the change. The present checkpoints are left as they are, so that what went wrong can be
looked at. Then file sinks, and what the author's function knows, are put back to that batch.

Whoever dies leaves a checkpoint that no deployment names and sinks that are half back; asking again
goes on. The new driver has to be proved gone all the while, and the old one must not have been
started: with the first batch it writes, the boundary is history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_streaming.checkpoint.preparing import Prepared, prepare
from airflow_streaming.checkpoint.progress import Progress, no_progress
from airflow_streaming.checkpoint.restore import check_allowed, write
from airflow_streaming.checkpoint.sink_rewind import RewindPlan, SinkRewind
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.checkpoint.stream_place import (
    beside,
    checkpoints_at,
    place_of,
    with_claims,
)
from airflow_streaming.core.change import Change
from airflow_streaming.core.checkpoint.backup import Backup
from airflow_streaming.core.checkpoint.refusal import Circumstances
from airflow_streaming.core.checkpoint.replay import RefusalCode
from airflow_streaming.core.epoch import QueryClaim
from airflow_streaming.core.upgrade.rollback_sinks import SinkFacts, without_facts
from airflow_streaming.core.uris import join
from airflow_streaming.exceptions import CheckpointError, RestoreRefused, RestoreTaken
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.fate import driver_fate
from airflow_streaming.launch.port import Launcher
from airflow_streaming.launch.switching import location
from airflow_streaming.upgrade.restoring_need import newest_planned, why_restore

__all__ = ["Restored", "claim_restored", "restore_boundary", "why_restore"]

_EXPECTED = frozenset(
    {
        # The sinks are put in step right after.
        RefusalCode.SINK_GAP,
        # A query without a committed batch is in no backup: it starts from nothing, as it had.
        RefusalCode.QUERY_MISSING,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """
    What the old deployment goes on from.

    :param checkpoint: URI under which every query has a folder: the checkpoint of the deployment
        that is to be made.
    :param ids: Id of the Spark query in each folder.
    :param batches: The newest committed batch of each query.
    :param rewound: What became of the sinks.
    """

    checkpoint: str
    ids: Mapping[str, str | None]
    batches: Mapping[str, int]
    rewound: tuple[RewindPlan, ...] = ()


def restore_boundary(
    home: StreamHome,
    store: BackupStore,
    backup_id: str,
    change: Change,
    *,
    launcher: Launcher | None,
    sinks: Sequence[SinkFacts] = (),
    rewind: SinkRewind | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
    is_needed: Callable[[], bool] = lambda: True,
) -> Restored:
    """
    Restore the boundary backup to a place of its own and put the sinks in step.

    The driver has to be proved gone; that the stream is wanted running is nothing against it. Asking
    again after a kill goes on; after success it changes nothing and returns the same.

    :param launcher: How the driver's processes can be seen from here.
    :param sinks: Of the old deployment, which the backup is of: ``sink_facts_of`` its plans.
    :param rewind: Puts the sinks back; file sinks alone when not given.
    :param storage_options: Passed to fsspec for checkpoints and outputs that are no local folders.
    :param is_needed: Asked before every step that takes something away.
    :raises RestoreRefused: with every reason, e.g. a driver that is not proved gone, or a query of
        whose sink nothing is known; nothing was changed.
    :raises RestoreTaken: somebody else is at it now; ask again later.
    :raises CheckpointRefused: a sink cannot be put in step.
    :raises BackupNotFound: the store has no such backup.
    :raises BackupDamaged: it is not what was written.
    """
    backup = store.backup(backup_id)
    _check_covered(backup, sinks)
    sink_rewind = rewind or SinkRewind(storage_options=storage_options)
    with store.hold(backup.stream, "restore", backup.id):
        restoring = _Restoring(home, store, launcher, storage_options, progress)
        # Seen before anything is put back; the checkpoint stays as it is.
        newest = newest_planned(backup, sinks, storage_options)
        restored = restoring.run(backup, change)
        rewound = sink_rewind.run(store, backup, change.number, sinks, newest, is_needed=is_needed)
    return replace(restored, rewound=tuple(rewound))


def _check_covered(backup: Backup, sinks: Sequence[SinkFacts]) -> None:
    # A checkpoint that goes back alone loses the rows of every batch that its sink remembers.
    unknown = without_facts([query.folder for query in backup.queries], sinks)
    if unknown:
        raise RestoreRefused(
            f"Backup {backup.id} has query {', '.join(map(repr, unknown))}, and nothing is known of "
            "what it writes, so that its sink could not be put back in step. Nothing was changed. "
            "Put the sink back by hand, and restore the backup with 'airflow-streaming checkpoint "
            "restore'."
        )


class _Restoring:
    def __init__(
        self,
        home: StreamHome,
        store: BackupStore,
        launcher: Launcher | None,
        storage_options: Mapping[str, Any] | None,
        progress: Progress,
    ) -> None:
        self._home, self._store, self._launcher = home, store, launcher
        self._storage_options, self._progress = storage_options, progress

    def run(self, backup: Backup, change: Change) -> Restored:
        ready = self._prepare(backup, change)
        if not self._is_written(ready, backup):
            self._write(ready, backup)
        return Restored(
            checkpoint=ready.plan.target,
            ids=_ids(ready, backup),
            batches={ready.folders[query.folder]: query.batch for query in backup.queries},
        )

    def _prepare(self, backup: Backup, change: Change) -> Prepared:
        """Judge the restore as if its place were free, for what lies there may be its own work."""
        replaced = self._home.deployment(change.replaced)
        fate, detail = driver_fate(self._home, self._launcher)
        # That the stream is wanted running is the reason for all this, and the open change is it.
        known = Circumstances(stream=self._home.name, driver=fate, driver_detail=detail)
        known = with_claims(known, self._home, replaced)
        to = beside(self._home, replaced, change.number)
        place = place_of(backup, known, replaced, to, None, self._storage_options)
        ready = prepare(self._store, backup, place, known, _EXPECTED, self._progress)
        if not self._is_written(ready, backup):
            check_allowed(ready.plan)
            return ready
        others = tuple(
            refusal
            for refusal in ready.plan.refusals
            if refusal.code is not RefusalCode.TARGET_NOT_EMPTY
        )
        check_allowed(replace(ready.plan, refusals=others))
        return ready

    def _write(self, ready: Prepared, backup: Backup) -> None:
        try:
            write(ready, self._progress)
        except RestoreTaken:
            # Somebody else asked for the same; if it was faster, all is well.
            if not self._is_written(ready, backup):
                raise

    def _is_written(self, ready: Prepared, backup: Backup) -> bool:
        try:
            found = checkpoints_at(ready.plan.target, self._storage_options)
        except CheckpointError:
            return False
        return found == _ids(ready, backup)


def claim_restored(home: StreamHome, deployment: int, restored: Restored) -> None:
    """
    Record which query owns which restored checkpoint, before anything is launched there.

    A checkpoint that vanished before its first start is refused then, not started empty.
    """
    epoch = home.newest_epoch()
    for folder, query_id in restored.ids.items():
        if folder and query_id:
            before = home.claim_of(query_id)
            claim = QueryClaim(
                query=folder,
                query_id=query_id,
                checkpoint=location(join(restored.checkpoint, folder)),
                epoch=epoch.number if epoch else 0,
                batch_shift=before.batch_shift if before else 0,
                counts_from=before.counts_from if before else None,
            )
            home.add_claim(deployment, claim)


def _ids(ready: Prepared, backup: Backup) -> dict[str, str | None]:
    known = {query.folder: query.query_id for query in backup.queries}
    return {folder: known[name] for name, folder in ready.folders.items()}
