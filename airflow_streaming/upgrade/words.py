"""
A person's word on an upgrade in progress: keep it, roll it back, or give it up.

A word is one record that only one can create, and needs nothing but the home. The task that works
on the upgrade follows it; a word that comes too late is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from airflow_streaming.core.change import Change
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.terms import RollbackWay
from airflow_streaming.exceptions import UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.upgrade.recording import Recorder


def now_in_utc() -> datetime:
    """Return the time of day."""
    return datetime.now(UTC)


class Words:
    """
    Gives words on one stream's upgrades on behalf of one task or person.

    :param by: Who speaks, for the records.
    :param now: The time of day.
    """

    def __init__(
        self, home: StreamHome, *, by: str, now: Callable[[], datetime] = now_in_utc
    ) -> None:
        self._home = home
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
        """
        stages = self._home.stages(change.number)
        if Stage.APPLYING not in stages:
            if self._recorder.reach(change, Stage.ABORTED, reason).stage is Stage.ABORTED:
                return
            stages = self._home.stages(change.number)
        rollback = self._home.terms(change).rollback
        is_new = Stage.ROLLING_BACK not in stages
        if rollback.way is RollbackWay.NONE and is_new and self._has_committed():
            raise self._refused(change, "rolled back", f"there is no way back: {rollback.reason}")
        self._decide(change, Stage.ROLLING_BACK, reason, "rolled back")

    def abort(self, change: Change, reason: str) -> None:
        """
        Give it up before the new deployment is made.

        :raises UpgradeRefused: it is made, or being made; roll back instead.
        """
        self._decide(change, Stage.ABORTED, reason, "given up")

    def _decide(self, change: Change, stage: Stage, reason: str, word: str) -> None:
        counts = self._recorder.reach(change, stage, reason)
        if counts.stage is not stage:
            advice = "" if counts.stage is not Stage.APPLYING else " Roll it back instead."
            raise self._refused(
                change, word, f"{counts.by} decided otherwise: {counts.stage}.{advice}"
            )

    def _has_committed(self) -> bool:
        epoch = self._home.newest_epoch()
        status = None if epoch is None else self._home.status(epoch.number)
        return status is not None and status.batches > 0

    def _refused(self, change: Change, word: str, why: str) -> UpgradeRefused:
        return UpgradeRefused(
            f"Change {change.number} of stream {self._home.name!r} (upgrade to deployment "
            f"{change.deployment}) cannot be {word}: {why}"
        )
