"""
Restoring a stream, step by step: judge, record, back up, write, and make the change.

Whoever dies between two steps leaves the stream on its old checkpoint with a change on record. The
next one that asks for the same backup takes a finished folder as it is, and does the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_streaming.checkpoint.preparing import Prepared, prepare
from airflow_streaming.checkpoint.progress import Progress
from airflow_streaming.checkpoint.restore import check_allowed, write
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.checkpoint.stream_place import (
    beside,
    checkpoints_at,
    place_of,
    with_claims,
)
from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.checkpoint.backup import Backup
from airflow_streaming.core.checkpoint.refusal import Circumstances
from airflow_streaming.core.checkpoint.replay import RefusalCode, RestorePlan
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.exceptions import CheckpointError, RestoreRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.switching import Switching, Wish, words

log: Final = logging.getLogger(__name__)

BackupBefore = Callable[[Deployment], str]
"""Backs up the checkpoints of the deployment that is being replaced; returns the backup's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """
    What became of a switch.

    :param deployment: The deployment that names the checkpoint the stream goes on from.
    :param plan: What the restore meant; ``None`` for an undo, and where a killed switch had only to
        be finished.
    """

    change: Change
    deployment: Deployment
    plan: RestorePlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for besides the backup; see ``switch.plan_switch``."""

    to: str | None
    accept: Collection[RefusalCode]
    sink_logs: Mapping[str, str] | None
    storage_options: Mapping[str, Any] | None
    progress: Progress


class StreamRestore:
    """
    Restores one stream from one backup; the store has to be held meanwhile.

    :param switching: Acts on the stream.
    """

    def __init__(
        self,
        home: StreamHome,
        switching: Switching,
        store: BackupStore,
        backup: Backup,
        asked: Asked,
    ) -> None:
        self._home, self._switching = home, switching
        self._store, self._backup, self._asked = store, backup, asked

    def plan(self) -> RestorePlan:
        """Say what a restore would do."""
        pending = self._pending()
        return self._prepare(pending.checkpoint if pending else self._place()).plan

    def run(self, reason: str, backup_before: BackupBefore | None) -> Switched:
        """
        Restore, or finish a restore of the same backup that was begun.

        :raises RestoreRefused: with every reason; the stream is as it was.
        """
        pending = self._pending()
        if pending is not None:
            return self._go_on(pending, backup_before)
        to = self._place()
        ready = self._prepare(to)
        check_allowed(ready.plan)
        wish = Wish(
            what=ChangeSort.RESTORE,
            checkpoint=to,
            backup=self._backup.id,
            queries=ready.folders,
            reason=reason or f"Restore of backup {self._backup.id}.",
        )
        return self._carry_out(self._switching.begin(wish), ready, backup_before)

    def _pending(self) -> Change | None:
        """Return the unfinished change that is this very restore, if there is one."""
        found = self._home.unfinished_change()
        if found is None or found.what is not ChangeSort.RESTORE:
            return None
        return found if found.backup == self._backup.id else None

    def _place(self) -> str:
        current, number = self._switching.current(), self._home.next_change()
        return self._asked.to or beside(self._home, current, number)

    def _prepare(self, to: str) -> Prepared:
        current, asked = self._switching.current(), self._asked
        known = with_claims(self._circumstances(), self._home, current)
        place = place_of(self._backup, known, current, to, asked.sink_logs, asked.storage_options)
        return prepare(self._store, self._backup, place, known, asked.accept, asked.progress)

    def _circumstances(self) -> Circumstances:
        other = None if self._pending() else self._home.unfinished_change()
        return circumstances(self._switching, other)

    def _go_on(self, change: Change, backup_before: BackupBefore | None) -> Switched:
        """Finish what was begun: whatever is whole is taken as it is."""
        if self._switching.is_made(change) or self._is_restored(change):
            ids = self._ids(change)
            return Switched(change=change, deployment=self._switching.make(change, ids))
        if self._switching.is_overtaken(change):
            self._switching.abandon(change, "Another deployment was made meanwhile.")
            raise RestoreRefused(
                f"Change {change.number} of stream {self._home.name!r} was overtaken by another "
                "deployment and is given up. Ask again to restore."
            )
        ready = self._prepare(change.checkpoint)
        check_allowed(ready.plan)
        return self._carry_out(change, ready, backup_before)

    def _carry_out(
        self, change: Change, ready: Prepared, backup_before: BackupBefore | None
    ) -> Switched:
        taken = "" if backup_before is None else self._backed_up(backup_before)
        try:
            write(ready, self._asked.progress)
        except CheckpointError as err:
            # It will not get better by asking again; what a store says of itself may.
            self._switching.abandon(change, str(err))
            raise
        made = self._switching.make(change, self._ids(change), backup_before=taken)
        return Switched(change=change, deployment=made, plan=ready.plan)

    def _backed_up(self, backup_before: BackupBefore) -> str:
        try:
            return backup_before(self._switching.current())
        except CheckpointError as err:
            # A damaged checkpoint is what restores are for, and it is not written to.
            log.warning("What is given up was not backed up; it stays where it is: %s", err)
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


def circumstances(switching: Switching, pending: Change | None) -> Circumstances:
    """Return what speaks against a change, another unfinished one included."""
    known = switching.circumstances()
    return known if pending is None else replace(known, pending=words(pending))
