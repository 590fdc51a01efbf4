"""
A person's word on an upgrade in progress: keep it, roll it back, give it up, or leave it.

A word is one record that only one can create, and needs nothing but the home. The task that works
on the upgrade follows it; a word that comes too late is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.ours import Open
from airflow_streaming.core.change import Change
from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.upgrade.deciding import stopping
from airflow_streaming.core.upgrade.stage import Stage, StageReached
from airflow_streaming.core.upgrade.state import newest_stage
from airflow_streaming.core.upgrade.terms import RollbackWay
from airflow_streaming.exceptions import RecordError, UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.upgrade.committed import Committed
from airflow_streaming.upgrade.ending import terms_for
from airflow_streaming.upgrade.recording import Recorder


def now_in_utc() -> datetime:
    """Return the time of day."""
    return datetime.now(UTC)


class Words:
    """
    Gives words on one stream's upgrades on behalf of one task or person.

    :param by: Who speaks, for the records.
    :param now: The time of day.
    :param open_folders: Opens the checkpoints, where it matters what was committed.
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

    def keep(self, change: Change, reason: str) -> None:
        """
        Say that the new deployment stays, whatever the soak says. From here on only forward.

        :raises UpgradeRefused: it does not run yet, or it is rolled back already.
        """
        stages = self._home.stages(change.number)
        if Stage.LAUNCHED not in stages and Stage.ROLLING_BACK not in stages:
            raise self._refused(change, "kept", "it does not run yet. Wait until it does.")
        self._decide(change, Stage.KEPT, reason, "kept")

    def roll_back(self, change: Change, reason: str) -> None:
        """
        Say that the old deployment comes back; before the new one is made, the same as ``abort``.

        :raises UpgradeRefused: it is kept already, or there is no way back.
        :raises RecordError: its terms cannot be read.
        """
        stages = self._home.stages(change.number)
        if Stage.APPLYING not in stages:
            if self._recorder.reach(change, Stage.ABORTED, reason).stage is Stage.ABORTED:
                self._close_untouched(change)
                return
            stages = self._home.stages(change.number)
        if Stage.ROLLING_BACK not in stages:
            self._check_way_back(change, stages)
        self._decide(change, Stage.ROLLING_BACK, reason, "rolled back")

    def abort(self, change: Change, reason: str) -> None:
        """
        Give it up before the new deployment is made.

        :raises UpgradeRefused: it is made, or being made; roll back instead.
        """
        self._decide(change, Stage.ABORTED, reason, "given up")
        self._close_untouched(change)

    def leave(self, change: Change, reason: str) -> None:
        """
        End a rollback of which nothing can be put back, with the stream wanted stopped.

        Checkpoint and sinks stay as they are, and the old deployment becomes the current one again.
        Somebody has to put them in order by hand before the stream is started.

        :raises UpgradeRefused: it is not being rolled back, or is put back already.
        """
        stages = self._home.stages(change.number)
        if Stage.APPLYING not in stages:
            raise self._refused(change, "left", "nothing was changed yet. Abort it instead.")
        if Stage.KEPT in stages or Stage.RESTORED in stages:
            stage = newest_stage(stages)
            raise self._refused(change, "left", f"it stands at {stage}, and goes on by itself.")
        if Stage.ROLLING_BACK not in stages and self._has_terms(change):
            raise self._refused(change, "left", "it is not rolled back. Roll it back first.")
        # First of all: what cannot be put in step must not be started.
        self._home.want(DesiredState.STOPPED, by=self._by, reason=reason, now=self._now())
        self._decide(change, Stage.ROLLING_BACK, reason, "left")
        self._recorder.reach(change, Stage.LEFT, reason)

    def _close_untouched(self, change: Change) -> None:
        # Before the driver was asked to stop there is nothing to bring back, so that nobody has to
        # come for it. A task that is about to ask is heeded by the one that keeps the stream alive.
        stages, epoch = self._home.stages(change.number), self._home.newest_epoch()
        stop = None if epoch is None else self._home.stop_request(epoch.number)
        is_fenced = Stage.STOPPED in stages or (epoch and epoch.change == change.number)
        if not is_fenced and (stop is None or stop.reason != stopping(change.number)):
            self._recorder.end(change, stages)

    def _check_way_back(self, change: Change, stages: Mapping[Stage, StageReached]) -> None:
        rollback = terms_for(self._home, change).rollback
        if rollback.way is RollbackWay.NONE and self._has_committed(stages):
            raise self._refused(change, "rolled back", f"there is no way back: {rollback.reason}")

    def _has_terms(self, change: Change) -> bool:
        try:
            self._home.terms(change)
        except RecordError:
            return False
        return True

    def _decide(self, change: Change, stage: Stage, reason: str, word: str) -> None:
        counts = self._recorder.reach(change, stage, reason)
        if counts.stage is not stage:
            advice = "" if counts.stage is not Stage.APPLYING else " Roll it back instead."
            raise self._refused(
                change, word, f"{counts.by} decided otherwise: {counts.stage}.{advice}"
            )

    def _has_committed(self, stages: Mapping[Stage, StageReached]) -> bool:
        if self._committed.since(stages):
            return True
        epoch = self._home.newest_epoch()
        status = None if epoch is None else self._home.status(epoch.number)
        return status is not None and status.batches > 0

    def _refused(self, change: Change, word: str, why: str) -> UpgradeRefused:
        return UpgradeRefused(
            f"Change {change.number} of stream {self._home.name!r} (upgrade to deployment "
            f"{change.deployment}) cannot be {word}: {why}"
        )
