"""
Beginning an upgrade: all that speaks against it is said before anything is written.

Script and terms are kept first, under names that hold their digests; the change's record opens the
upgrade. Whoever dies before that leaves two files in nobody's way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.upgrade.deciding import way_out
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.state import newest_stage
from airflow_streaming.core.upgrade.terms import RollbackWay, UpgradeTerms
from airflow_streaming.exceptions import AlreadyExists, RecordError, UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.keeper import Keeper
from airflow_streaming.launch.switching import words
from airflow_streaming.upgrade.asked import Asked


class Beginning:
    """
    Begins upgrades of one stream.

    :param by: Who acts, for the records.
    :param now: The time of day.
    """

    def __init__(
        self, home: StreamHome, keeper: Keeper, *, by: str, now: Callable[[], datetime]
    ) -> None:
        self._home, self._keeper = home, keeper
        self._by, self._now = by, now

    def begin(self, proposed: Deployment, source: bytes, asked: Asked) -> Change:
        """
        Open the change, or find the one that was opened for the same.

        :raises UpgradeRefused: with the reason; nothing was recorded.
        :raises SpecError: the old or the new deployment could not be launched now.
        """
        found = self._found(proposed, asked)
        if found is not None:
            return found
        current = self._check(proposed, asked)
        change = self._keep(replace(proposed, number=current.number + 1), source, asked, current)
        try:
            self._home.begin_change(change)
        except AlreadyExists as err:
            found = self._found(proposed, asked)
            if found is not None:
                return found
            raise UpgradeRefused(
                f"Somebody else began to change stream {self._home.name!r} at the same moment. "
                "Look what became of it before you ask again."
            ) from err
        return change

    def _found(self, proposed: Deployment, asked: Asked) -> Change | None:
        newest = self._home.newest_change()
        is_open = newest is not None and self._home.change_end(newest.number) is None
        if newest is None or (newest.what is not ChangeSort.UPGRADE and not is_open):
            return None
        if newest.what is not ChangeSort.UPGRADE:
            raise self._refused(f"it has an unfinished change: {words(newest)} Finish it first.")
        if asked.key and self._home.wish(newest) == asked.key:
            return newest
        if not is_open:
            return None
        if not asked.key and self._is_proposed(newest, proposed):
            return newest
        raise self._refused(f"it has an unfinished change: {words(newest)} {self._advice(newest)}")

    def _is_proposed(self, change: Change, proposed: Deployment) -> bool:
        try:
            return self._home.terms(change).proposed.fingerprint == proposed.fingerprint
        except RecordError:
            return False

    def _advice(self, change: Change) -> str:
        reached, name = self._home.stages(change.number), self._home.name
        if Stage.ROLLING_BACK in reached and Stage.ROLLED_BACK not in reached:
            return f"It is being rolled back: let it end, or clear its failed task. {way_out(name)}"
        if newest_stage(reached).is_end:
            return "Its end is decided and being carried out: ask again."
        verb = "keep or roll-back" if Stage.APPLYING in reached else "abort"
        return f"Let it end, or end it yourself: airflow-streaming upgrade {verb} {name}"

    def _check(self, proposed: Deployment, asked: Asked) -> Deployment:
        home, rollback = self._home, asked.rollback
        current, desired = home.newest_deployment(), home.desired()
        if current is None or home.newest_epoch() is None:
            raise self._refused("it has never run. Start it with the new deployment.")
        if desired is not None and desired.state is DesiredState.STOPPED:
            raise self._refused(
                "it is wanted stopped, and an upgrade is judged by what the stream does. Start it, "
                "or apply the new deployment with restart=True."
            )
        if proposed.checkpoint != current.checkpoint:
            raise self._refused(
                f"the new deployment names the checkpoint {proposed.checkpoint}, and it runs on "
                f"{current.checkpoint}. An upgrade in place keeps the checkpoint."
            )
        if (rollback.refused or rollback.way is RollbackWay.NONE) and not asked.accepts_no_way_back:
            raise self._refused(
                f"there is no sound way back: {rollback.refused or rollback.reason}"
            )
        if asked.soak.at_most < asked.soak.at_least:
            raise self._refused("its soak would end before it may: at_most is below at_least.")
        for deployment in (current, replace(proposed, number=current.number + 1)):
            self._keeper.check_can_launch(deployment)
        return current

    def _keep(
        self, proposed: Deployment, source: bytes, asked: Asked, current: Deployment
    ) -> Change:
        number = self._home.next_change()
        terms = UpgradeTerms(
            change=number,
            proposed=proposed,
            rollback=asked.rollback,
            soak=asked.soak,
            keeps_by_itself=asked.keeps_by_itself,
            stop_grace=asked.stop_grace,
            sinks=asked.sinks,
            key=asked.key,
        )
        self._home.keep_application(proposed, source)
        return Change(
            number=number,
            stream=self._home.name,
            what=ChangeSort.UPGRADE,
            replaced=current.number,
            deployment=proposed.number,
            checkpoint=current.checkpoint,
            by=self._by,
            reason=asked.reason or f"Upgrade of deployment {current.number}.",
            at=self._now(),
            terms=self._home.keep_terms(terms),
        )

    def _refused(self, why: str) -> UpgradeRefused:
        return UpgradeRefused(f"Stream {self._home.name!r} is not upgraded: {why}")
