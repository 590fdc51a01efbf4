"""
Restore: a verified backup → new checkpoints in a new place.

Nothing is ever restored over an old checkpoint: state files of the timeline that is abandoned would
be loaded again without a word. So the target has to be missing or empty, and it becomes a checkpoint
in one last step. A restore that was killed is finished by asking for it again, which writes all of
it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from airflow_streaming.checkpoint.preparing import Place, Prepared, prepare
from airflow_streaming.checkpoint.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.checkpoint.writing import give_up, read_back, write_checkpoint
from airflow_streaming.core.checkpoint.integrity.chains import Depth
from airflow_streaming.core.checkpoint.refusal import Circumstances
from airflow_streaming.core.checkpoint.replay import RefusalCode, RestorePlan
from airflow_streaming.exceptions import RestoreRefused

__all__ = ["Place", "Restored", "plan_restore", "restore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """
    What a restore wrote.

    :param checkpoints: URI of each query's new checkpoint, by the query's folder in the backup.
    :param resumed: A restore that had been killed was finished.
    """

    plan: RestorePlan
    checkpoints: Mapping[str, str]
    files: int
    size: int
    resumed: bool = False


def plan_restore(
    store: BackupStore,
    backup_id: str,
    place: Place,
    *,
    circumstances: Circumstances | None = None,
    accept: Collection[RefusalCode] = (),
    progress: Progress = no_progress,
) -> RestorePlan:
    """
    Return what a restore would do; nothing is written (the dry run).

    The whole backup is verified for it, and its checkpoints are read.

    :param circumstances: What else speaks for or against it: the runtime, the stream's claims, its
        driver; nothing does for a plain restore.
    :param accept: Reasons against it that are accepted, of ``replay.ACCEPTABLE``.
    :raises BackupNotFound: the store has no such backup.
    :raises BackupDamaged: it is not what was written.
    :raises ValueError: a reason that nobody can accept.
    """
    backup = store.backup(backup_id)
    with store.hold(backup.stream, "restore", backup_id):
        return prepare(store, backup, place, circumstances, accept, progress).plan


def restore(
    store: BackupStore,
    backup_id: str,
    place: Place,
    *,
    circumstances: Circumstances | None = None,
    accept: Collection[RefusalCode] = (),
    progress: Progress = no_progress,
) -> Restored:
    """
    Restore a backup into a new place; the parameters are those of ``plan_restore``.

    :raises RestoreRefused: with every reason; nothing was written.
    :raises BackupNotFound: the store has no such backup.
    :raises BackupDamaged: it is not what was written.
    """
    backup = store.backup(backup_id)
    with store.hold(backup.stream, "restore", backup_id):
        ready = prepare(store, backup, place, circumstances, accept, progress)
        check_allowed(ready.plan)
        return write(ready, progress)


def check_allowed(plan: RestorePlan) -> None:
    """
    Refuse a restore whose plan has reasons against it.

    :raises RestoreRefused: with every reason.
    """
    if plan.is_refused:
        raise RestoreRefused(" ".join(refusal.message for refusal in plan.refusals))


def write(ready: Prepared, progress: Progress = no_progress) -> Restored:
    """
    Write a prepared restore that is not refused; the store has to be held meanwhile.

    :raises RestoreTaken: somebody else has the place; nothing of theirs was touched.
    :raises RestoreRefused: what was written is not sound.
    :raises BackupDamaged: the backup was damaged meanwhile.
    """
    target, plan = ready.target, ready.plan
    resumed = target.begin(plan.backup, sorted(ready.folders.values()), ready.paths())
    files = size = 0
    try:
        for replay in plan.queries:
            tell = _Telling(progress, replay.folder, files, size, plan)
            written = write_checkpoint(
                target, ready.folders[replay.folder], ready.moved[replay.folder].files(), tell
            )
            files, size = files + written.files, size + written.size
        for replay in plan.queries:
            progress(ProgressNow(phase=Phase.CHECK, subject=replay.folder))
            read_back(
                target.written().below(ready.folders[replay.folder]),
                ready.uris[replay.folder],
                batch=replay.batch,
                query_id=replay.query_id,
                depth=Depth.COPIED if resumed else Depth.NAMES,
            )
        target.finish()
    except BaseException as err:
        give_up(target, err)
        raise
    return Restored(plan=plan, checkpoints=ready.uris, files=files, size=size, resumed=resumed)


class _Telling:
    """Tells of files written, over all queries."""

    def __init__(
        self, progress: Progress, subject: str, files: int, size: int, plan: RestorePlan
    ) -> None:
        self._progress, self._subject = progress, subject
        self._files, self._size, self._plan = files, size, plan

    def __call__(self, files: int, size: int) -> None:
        self._progress(
            ProgressNow(
                Phase.WRITE,
                self._subject,
                self._files + files,
                self._plan.files,
                self._size + size,
                self._plan.size,
            )
        )
