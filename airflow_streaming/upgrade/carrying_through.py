"""
The decided end of an upgrade, carried through on a host that has no spec of the stream.

For a person whose dag run is gone. It stops the new driver, puts checkpoint and sinks back and makes
the old deployment the current one; the task that keeps the stream alive starts it when the change
is closed. It is the same engine with the same records, so it may be killed and called again, and
may go on beside a task of the dag.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.progress import Progress, no_progress
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.core.change import Change
from airflow_streaming.core.upgrade.deciding import next_act
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.state import Act
from airflow_streaming.core.upgrade.without_dag import why_only_dag
from airflow_streaming.exceptions import BackupNotFound, UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.acts import StreamActs
from airflow_streaming.launch.port import Launcher
from airflow_streaming.observe.stream import Observer
from airflow_streaming.upgrade.acting import Acts
from airflow_streaming.upgrade.asked import Progress as Advanced
from airflow_streaming.upgrade.backing_up import BackingUp
from airflow_streaming.upgrade.committed import Committed
from airflow_streaming.upgrade.ending import terms_for
from airflow_streaming.upgrade.looking import look
from airflow_streaming.upgrade.recording import Recorder
from airflow_streaming.upgrade.taking_back import BoundaryBack

_DECIDED: Final = frozenset({Stage.ABORTED, Stage.KEPT, Stage.ROLLING_BACK})
_MOST_ACTS: Final = 40


class CarryingThrough:
    """
    Carries one upgrade through to the end that was decided, or is about to be.

    :param launcher: How the driver's processes are seen from here.
    :param store: Where the upgrade's backups lie.
    :param by: Who acts, for the records.
    :param now: The time of day.
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
            StreamActs(home, launcher, by=by, now=now),
            Recorder(home, by=by, now=now),
            BackingUp(home, store, by=by, now=now),
            BoundaryBack(home, store, launcher, progress=progress),
            self._committed,
        )

    def check(self) -> None:
        """
        Do nothing when it can be carried through here; ask before the word is given.

        :raises UpgradeRefused: only the dag can, or the backup to go back to is not in this store.
        :raises RecordError: its terms cannot be read, and nobody has said how it ends.
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

    def go_on(self) -> Advanced:
        """
        Do what is next until it is closed or something has to be waited for.

        :raises CheckpointError: what was written cannot be taken back; the stream stays down.
        :raises HomeUnavailable: a store could not be reached; call again.
        """
        terms, waiting, is_asking = terms_for(self._home, self._change), "", False
        for _ in range(_MOST_ACTS):
            state = look(self._home, self._observer, self._change, terms, self._committed)
            act = next_act(state)
            if state.is_closed:
                break
            if _DECIDED.isdisjoint(state.reached):
                waiting, is_asking = "Nobody has said how it ends.", True
                break
            passive = act.reason if act.is_passive else self._acts.do(state, act)
            if passive is not None:
                waiting, is_asking = passive, act.act in (Act.ASK, Act.KILL)
                break
        return Advanced(
            change=self._change.number,
            stage=state.stage,
            reason=act.reason,
            is_there=state.is_closed,
            waiting=waiting,
            needs_person=is_asking,
            facts=state.facts,
        )
