"""
A user's word on an upgrade in progress: keep it, roll it back, give it up, or leave it.

A word is one record that only one can create, and needs nothing but the home. The task that works
on the upgrade follows it; a word that comes too late is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from airflow_streaming.changes.engine import RecordedChange
from airflow_streaming.changes.restore.switch import now_in_utc
from airflow_streaming.changes.upgrade.acts import Committed
from airflow_streaming.changes.upgrade.begin import Recorder
from airflow_streaming.changes.upgrade.finish import terms_for
from airflow_streaming.checkpoints.backup.stream_backup import Open
from airflow_streaming.exceptions import RecordError, UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.control import Change, DesiredState
from airflow_streaming.model.records.upgrade import RollbackMethod
from airflow_streaming.model.records.upgrade_table import (
    UPGRADE,
    Stage,
    UpgradeCommand,
    UpgradeEvent,
    UpgradeTransition,
)
from airflow_streaming.storage.folders import open_folders


class UpgradeCommands:
    """
    Commands for one stream's upgrades, for one task or user.

    :param open_folders: Opens the checkpoints, to see the committed batches.
    """

    def __init__(
        self,
        home: StreamHome,
        *,
        by: str,
        now: Callable[[], datetime] = now_in_utc,
        open_folders: Open = open_folders,
    ) -> None:
        self._home, self._by, self._now = home, by, now
        self._committed = Committed(home, open_folders)
        self._recorder = Recorder(home, by=by, now=now)

    def give(self, change: Change, command: UpgradeCommand, reason: str) -> None:
        """
        Record a command; the task that works on the upgrade follows it.

        ``roll-back`` before the new deployment is made is the same as ``abort``. ``leave`` ends a
        rollback that cannot rewind: the desired state becomes stopped, checkpoint and sinks stay
        unchanged, and an operator must repair them before the stream is started.

        :raises UpgradeRefused: Not possible in this stage, or there is no way back.
        :raises RecordError: Its terms cannot be read, and a rollback needs them.
        """

        def look() -> RecordedChange[Stage, UpgradeEvent]:
            history = self._home.upgrade_steps(change.number)
            return RecordedChange(change=change, history=history, table=UPGRADE)

        def check(view: RecordedChange[Stage, UpgradeEvent], event: UpgradeEvent) -> None:
            if event is UpgradeEvent.ROLL_BACK:
                self._check_way_back(change, stages_of(view))
            if event is UpgradeEvent.LEAVE:
                self._want_stopped(reason)

        if command is UpgradeCommand.LEAVE and self._is_lost(change, look()):
            # Without its terms no other command leads to where it can be left.
            self._want_stopped(reason)
            self._recorder.take(look(), UpgradeEvent.ROLL_BACK, reason)
        self._recorder.give(command.value, look, reason, check=check)
        if look().state is Stage.ABORTED:
            self._close_untouched(look())

    def _want_stopped(self, reason: str) -> None:
        # First of all: what cannot be put in step must not be started.
        self._home.want(DesiredState.STOPPED, by=self._by, reason=reason, now=self._now())

    def _is_lost(self, change: Change, view: RecordedChange[Stage, UpgradeEvent]) -> bool:
        """Tell whether a new deployment is made of which the terms cannot be read."""
        is_made = UPGRADE.allows(view.state, UpgradeEvent.ROLL_BACK)
        return is_made and not self._has_terms(change)

    def _close_untouched(self, view: RecordedChange[Stage, UpgradeEvent]) -> None:
        # Before the stop request there is nothing to bring back, so no task needs to run. The
        # keep-alive task notices the command before it stops the driver.
        change, epoch = view.change, self._home.newest_epoch()
        stop = None if epoch is None else self._home.stop_request(epoch.number)
        is_fenced = Stage.STOPPED in stages_of(view) or (epoch and epoch.change == change.number)
        if not is_fenced and (stop is None or stop.change != change.number):
            self._recorder.close(view)

    def _check_way_back(self, change: Change, stages: Mapping[Stage, UpgradeTransition]) -> None:
        rollback = terms_for(self._home, change).rollback
        if rollback.way is RollbackMethod.NONE and self._has_committed(stages):
            raise UpgradeRefused(
                f"Change {change.number} of stream {self._home.name!r} (upgrade to deployment "
                f"{change.deployment}) cannot be rolled back: a rollback is not possible: "
                f"{rollback.reason}"
            )

    def _has_terms(self, change: Change) -> bool:
        try:
            self._home.terms(change)
        except RecordError:
            return False
        return True

    def _has_committed(self, stages: Mapping[Stage, UpgradeTransition]) -> bool:
        if self._committed.since(stages):
            return True
        epoch = self._home.newest_epoch()
        status = None if epoch is None else self._home.status(epoch.number)
        return status is not None and status.batches > 0


def stages_of(view: RecordedChange[Stage, UpgradeEvent]) -> dict[Stage, UpgradeTransition]:
    """Return by stage the step with which an upgrade came to it."""
    return {step.after: step for step in view.history if isinstance(step, UpgradeTransition)}
