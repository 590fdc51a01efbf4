"""
The decided end of an upgrade, carried through on a host that has no spec of the stream.

For a user whose dag run is gone. It stops the new driver, puts checkpoint and sinks back and makes
the old deployment the current one; the task that keeps the stream alive starts it when the change
is closed. It is the same engine with the same records, so it may be killed and called again, and
may continue beside a task of the dag.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from airflow_streaming.changes.engine import Engine
from airflow_streaming.changes.upgrade.acts import BackingUp, Committed, look
from airflow_streaming.changes.upgrade.begin import Recorder
from airflow_streaming.changes.upgrade.decide import next_move, why_only_dag
from airflow_streaming.changes.upgrade.engine import MOST_MOVES, Acts, UpgradeProgress
from airflow_streaming.changes.upgrade.finish import terms_for
from airflow_streaming.changes.upgrade.rollback import BoundaryBack
from airflow_streaming.changes.upgrade.state import Do, Move, UpgradeView
from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import BackupNotFound, UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher
from airflow_streaming.model.records.control import Change
from airflow_streaming.model.records.upgrade_table import Stage
from airflow_streaming.storage.folders import open_folders
from airflow_streaming.supervision.actions import StreamActions
from airflow_streaming.supervision.observer import Observer


class CarryingThrough:
    """
    Carries one upgrade through to the end that was decided, or is about to be.

    :param launcher: How the driver's processes are seen from here.
    :param store: Where the upgrade's backups lie.
    """

    def __init__(
        self,
        home: StreamHome,
        launcher: Launcher,
        store: BackupStore,
        change: Change,
        *,
        by: str,
        now: Callable[[], datetime],
        progress: Progress = no_progress,
    ) -> None:
        self._home, self._store, self._change = home, store, change
        self._observer = Observer(home, launcher, now=now)
        self._committed = Committed(home, open_folders)
        self._acts = Acts(
            home,
            StreamActions(home, launcher, by=by, now=now),
            Recorder(home, by=by, now=now),
            BackingUp(home, store, by=by, now=now),
            BoundaryBack(home, store, launcher, progress=progress),
            self._committed,
        )

    def check(self) -> None:
        """
        Check that the upgrade can be finished here; call it before recording the command.

        :raises UpgradeRefused: Only the DAG can finish it, or the boundary backup is not in this
            store.
        """
        stages, name = self._home.stages(self._change.number), self._home.name
        why = why_only_dag(terms_for(self._home, self._change), stages)
        if why:
            raise UpgradeRefused(f"The upgrade of stream {name!r} cannot be ended from here: {why}")
        stopped = stages.get(Stage.STOPPED)
        if stopped is None or Stage.RESTORED in stages:
            return
        try:
            self._store.backup(stopped.facts["boundary"], name)
        except BackupNotFound as err:
            raise UpgradeRefused(
                f"The upgrade of stream {name!r} cannot be ended from here: {err} Name the store of "
                "the dag (backup_store): --store URI"
            ) from err

    def go_on(self) -> UpgradeProgress:
        """
        Make moves until the upgrade is closed or must wait.

        :raises CheckpointError: Written batches cannot be taken back; the stream stays down.
        """
        terms = terms_for(self._home, self._change)
        engine: Engine[UpgradeView, Move] = Engine(
            look=lambda: look(self._home, self._observer, self._change, terms, self._committed),
            decide=_decided_only,
            act=self._acts.do,
            most_moves=MOST_MOVES,
        )
        return engine.advance(lambda view, _: view.is_closed)


def _decided_only(view: UpgradeView) -> Move:
    if view.is_closed or view.state.is_decided:
        return next_move(view)
    return Move(do=Do.ASK, reason="No decision is recorded yet: keep, roll back or abort it.")
