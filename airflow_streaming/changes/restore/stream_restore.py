"""
Restore a stream, step by step: judge, record, back up, write, and switch.

A task that dies between two steps leaves the stream on its old checkpoint with a recorded change.
The next task with the same backup judges again, because the stream may have run meanwhile, uses a
finished folder as it is, and does the rest. Two tasks may work at once: the slower one uses the
faster one's result, and abandons only its own change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_streaming.changes.restore.sinks import RestoredSinks, rewound_words
from airflow_streaming.changes.restore.switch import (
    Switching,
    SwitchRequest,
    beside,
    checkpoints_at,
    location,
    place_of,
    with_claims,
)
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.checkpoints.restore.refusal import Circumstances
from airflow_streaming.checkpoints.restore.replay import Refusal, RefusalCode, RestorePlan
from airflow_streaming.checkpoints.restore.restore import Prepared, check_allowed, prepare, write
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import (
    CheckpointError,
    CheckpointRefused,
    RestoreRefused,
    RestoreTaken,
)
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.control import Change, ChangeKind
from airflow_streaming.model.records.deployment import Deployment

log: Final = logging.getLogger(__name__)
BackupBefore = Callable[[Deployment], str]
"""Backs up the checkpoints of the deployment that is being replaced; returns the backup's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """
    The result of a switch.

    :param deployment: The deployment of the checkpoint the stream continues from.
    :param plan: The effects of the restore; ``None`` for an undo, and if only the end of the switch
        was missing.
    """

    change: Change
    deployment: Deployment
    plan: RestorePlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """
    Options of a restore besides the backup.

    :param checkpoint: Folder of the new checkpoints; by default beside the present ones.
    :param accept: Accepted refusals, of ``replay.ACCEPTABLE``.
    :param sink_logs: URI of each file sink's ``_spark_metadata``, by the query's folder; by default
        from the backup.
    :param rewind: Rewind file sinks to the batches of the backup: later output is moved to
        ``<output>/_rolled_back/<change>-<backup>/``.
    """

    checkpoint: str | None = None
    accept: Collection[RefusalCode] = ()
    sink_logs: Mapping[str, str] | None = None
    rewind: bool = False
    storage_options: Mapping[str, Any] | None = None
    progress: Progress = no_progress


USUAL_RESTORE: Final = RestoreRequest()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """A judged restore, and whether its result exists already."""

    ready: Prepared
    is_restored: bool


class StreamRestore:
    """Restores one stream from one backup; the store must be held meanwhile."""

    def __init__(
        self,
        home: StreamHome,
        switching: Switching,
        store: BackupStore,
        backup: Backup,
        asked: RestoreRequest,
    ) -> None:
        self._home, self._switching = home, switching
        self._store, self._backup, self._asked = store, backup, asked

    def plan(self) -> RestorePlan:
        pending = self._pending()
        plan = self._judge(pending).ready.plan
        if pending is None or not self._switching.is_made(pending):
            return plan
        message = f"Change {pending.number} was made already; only its end is to be recorded."
        return replace(plan, refusals=(), warnings=(message, *plan.warnings))

    def run(self, reason: str, backup_before: BackupBefore | None) -> Switched:
        """
        Restore, or finish a restore of the same backup that was begun.

        :raises RestoreRefused: with every reason; the stream is as it was.
        """
        pending = self._pending()
        if pending is not None and self._switching.is_made(pending):
            return Switched(change=pending, deployment=self._make(pending, ""))
        if pending is not None:
            self._check_not_overtaken(pending)
        judged = self._judge(pending)
        check_allowed(judged.ready.plan)
        change = pending or self._switching.begin(self._switch_request(judged.ready, reason))
        taken = "" if backup_before is None else self._backed_up(backup_before)
        if not judged.is_restored:
            self._write(change, judged.ready, is_own=pending is None)
        made = self._make(change, taken)
        return Switched(change=change, deployment=made, plan=judged.ready.plan)

    def _pending(self) -> Change | None:
        """Return the unfinished change that is this very restore, if there is one."""
        found = self._home.unfinished_change()
        if found is None or found.what is not ChangeKind.RESTORE:
            return None
        place = self._asked.checkpoint
        is_there = place is None or _spelled(place) == _spelled(found.checkpoint)
        return found if is_there and found.backup == self._backup.id else None

    def _place(self) -> str:
        current, number = self._switching.current(), self._home.next_change()
        return self._asked.checkpoint or beside(self._home, current, number)

    def _switch_request(self, ready: Prepared, reason: str) -> SwitchRequest:
        return SwitchRequest(
            what=ChangeKind.RESTORE,
            checkpoint=ready.plan.target,
            backup=self._backup.id,
            queries=ready.folders,
            reason=reason or f"Restore of backup {self._backup.id}.",
            rewinds_sinks=self._asked.rewind,
        )

    def _judge(self, pending: Change | None) -> _Judged:
        ready = self._prepare(self._place() if pending is None else pending.checkpoint)
        if self._rewinds(pending):
            ready = replace(ready, plan=self._with_sinks(ready.plan, pending))
        if pending is None or not self._is_restored(pending):
            return _Judged(ready=ready, is_restored=False)
        # The existing folder is this restore's result; judge the rest as if it were absent.
        others = tuple(
            refusal
            for refusal in ready.plan.refusals
            if refusal.code is not RefusalCode.TARGET_NOT_EMPTY
        )
        plan = replace(ready.plan, refusals=others)
        return _Judged(ready=replace(ready, plan=plan), is_restored=True)

    def _rewinds(self, pending: Change | None) -> bool:
        return self._asked.rewind if pending is None else pending.rewinds_sinks

    def _with_sinks(self, plan: RestorePlan, pending: Change | None) -> RestorePlan:
        number = self._home.next_change() if pending is None else pending.number
        try:
            sinks = self._sinks(self._switching.current()).plan(number)
        except CheckpointRefused as err:
            refused = Refusal(code=RefusalCode.SINK_NOT_REWOUND, message=str(err))
            return replace(plan, refusals=(*plan.refusals, refused))
        return replace(plan, warnings=(*map(rewound_words, sinks), *plan.warnings))

    def _sinks(self, replaced: Deployment) -> RestoredSinks:
        return RestoredSinks(
            home=self._home,
            store=self._store,
            backup=self._backup,
            replaced=replaced,
            options=self._asked.storage_options,
        )

    def _prepare(self, to: str) -> Prepared:
        current, asked = self._switching.current(), self._asked
        known = with_claims(self._circumstances(), self._home, current)
        logs, options = asked.sink_logs, asked.storage_options
        place = place_of(self._home, self._backup, known, current, to, logs, options)
        return prepare(self._store, self._backup, place, known, asked.accept, asked.progress)

    def _circumstances(self) -> Circumstances:
        pending = self._pending()
        is_in_the_way = pending is None or self._switching.is_overtaken(pending)
        other = self._home.unfinished_change() if is_in_the_way else None
        known = self._switching.circumstances(other)
        return replace(known, rewinds_sinks=self._rewinds(pending))

    def _check_not_overtaken(self, change: Change) -> None:
        if self._switching.is_overtaken(change):
            self._switching.abandon(change, "Another task created a deployment.")
            raise RestoreRefused(
                f"Change {change.number} of stream {self._home.name!r} is aborted: another task created a "
                "deployment. Start the restore again."
            )

    def _write(self, change: Change, ready: Prepared, *, is_own: bool) -> None:
        try:
            write(ready, self._asked.progress)
        except RestoreTaken as err:
            if self._is_restored(change):
                # Another task asked for the same and was faster.
                return
            raise RestoreTaken(
                f"{err} Change {change.number} of stream {self._home.name!r} stays unfinished: repeat the "
                "same restore when no other task uses the checkpoint, or abandon it."
            ) from err
        except CheckpointError as err:
            # A retry will not help; an unreachable store may recover.
            if is_own:
                self._switching.abandon(change, str(err))
            raise

    def _make(self, change: Change, backup_before: str) -> Deployment:
        ids = self._ids(change)

        def make() -> Deployment:
            return self._switching.make(
                change, ids, backup_before=backup_before, before_end=lambda: self._rewind(change)
            )

        try:
            return make()
        except RestoreRefused:
            if not self._switching.is_made(change):
                raise
            # Another task made it while this one was looking whether it may be made.
            return make()

    def _rewind(self, change: Change) -> None:
        """
        Put the file sinks back; none of the stream's drivers is started before the change has ended.

        A task that finishes the change of another looks again: a start may have been recorded at the
        moment in which the deployment was made.
        """
        if change.rewinds_sinks:
            self._switching.check_stopped()
            sinks = self._sinks(self._home.deployment(change.replaced))
            for plan in sinks.run(change.number, lambda: self._is_open(change)):
                log.info("%s", rewound_words(plan))

    def _is_open(self, change: Change) -> bool:
        return self._home.change_end(change.number) is None

    def _backed_up(self, backup_before: BackupBefore) -> str:
        try:
            return backup_before(self._switching.current())
        except CheckpointError as err:
            # A damaged checkpoint is what restores are for, and it is not written to.
            log.warning(
                "Checkpoint not backed up before it was replaced; it stays at its path: %s", err
            )
            return ""

    def _is_restored(self, change: Change) -> bool:
        try:
            found = checkpoints_at(change.checkpoint, self._asked.storage_options)
        except CheckpointError:
            return False
        return found == self._ids(change)

    def _ids(self, change: Change) -> dict[str, str | None]:
        known = {query.folder: query.query_id for query in self._backup.queries}
        return {folder: known[name] for name, folder in change.queries.items()}


def _spelled(uri: str) -> str:
    """Return a place in the one spelling that can be compared."""
    return location(uri).rstrip("/")
