"""
The upgrade in place: another deployment on the same checkpoint, soaked, and kept or taken back.

It observes, decides, records and acts like everything here. Whoever dies between two steps leaves
enough behind for the next one, who may be another task, to go on; two at it at once do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.ours import Open
from airflow_streaming.checkpoint.progress import Progress as Narrated
from airflow_streaming.checkpoint.progress import no_progress
from airflow_streaming.checkpoint.sink_rewind import SinkRewind
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.upgrade.deciding import next_act
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.state import Act, UpgradeState
from airflow_streaming.core.upgrade.terms import UpgradeTerms
from airflow_streaming.exceptions import CheckpointError, RecordError, SpecError, UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.keeper import Keeper
from airflow_streaming.observe.stream import Observer
from airflow_streaming.upgrade.acting import Acts
from airflow_streaming.upgrade.asked import Asked, Progress
from airflow_streaming.upgrade.backing_up import BackingUp
from airflow_streaming.upgrade.beginning import Beginning
from airflow_streaming.upgrade.committed import Committed
from airflow_streaming.upgrade.ending import terms_for
from airflow_streaming.upgrade.looking import look
from airflow_streaming.upgrade.recording import Recorder
from airflow_streaming.upgrade.taking_back import BoundaryBack, TakingBack
from airflow_streaming.upgrade.words import Words, now_in_utc

__all__ = ["Asked", "Progress", "UpgradeInPlace"]

MOST_ACTS: Final = 40
"""Acts in one go; the whole way there and back needs about twenty."""

_DECIDED: Final = frozenset({Stage.ABORTED, Stage.KEPT, Stage.ROLLING_BACK})


class UpgradeInPlace:
    """
    Upgrades one stream on behalf of one task or person.

    Everything may be called again, by anybody and at any time: what was done is found and not done
    twice.

    :param home: The stream's records.
    :param keeper: Acts on the stream; its spec gives the secrets of both deployments, and its
        ``propose`` makes the proposed one.
    :param observer: Looks at the stream, with the memory of the looks before.
    :param store: Where the backups lie.
    :param by: Who acts, for the records.
    :param rewind: Takes batches back out of sinks that are no file sinks.
    :param open_folders: Opens the checkpoints and outputs for a backup.
    :param storage_options: Passed to fsspec for checkpoints that are no local folders.
    :param back: Puts checkpoint and sinks back; by default from the boundary backup.
    :param progress: Told how far backups and restores are.
    :param now: The time of day.
    """

    def __init__(
        self,
        home: StreamHome,
        keeper: Keeper,
        observer: Observer,
        store: BackupStore,
        *,
        by: str,
        rewind: SinkRewind | None = None,
        open_folders: Open = open_folders,
        storage_options: Mapping[str, Any] | None = None,
        back: TakingBack | None = None,
        progress: Narrated = no_progress,
        now: Callable[[], datetime] = now_in_utc,
    ) -> None:
        self._home, self._observer = home, observer
        self._beginning = Beginning(home, keeper, by=by, now=now)
        self._words = Words(home, by=by, now=now, open_folders=open_folders)
        self._committed = Committed(home, open_folders)
        self._acts = Acts(
            home,
            keeper,
            Recorder(home, by=by, now=now),
            BackingUp(home, store, by=by, now=now, open_folders=open_folders, progress=progress),
            back
            or BoundaryBack(
                *(home, store, keeper.launcher),
                rewind=rewind,
                storage_options=storage_options,
                progress=progress,
            ),
            self._committed,
        )

    def begin(self, proposed: Deployment, source: bytes, asked: Asked) -> Change:
        """
        Open the change, or find the one that was opened for the same.

        Where the end of an earlier one was decided and nobody has carried it out, this does.

        :param proposed: As ``Keeper.propose`` made it; its number is given anew here.
        :raises UpgradeRefused: with a sentence; nothing was recorded.
        :raises SpecError: the old or the new deployment could not be launched with what the dag
            gives now.
        """
        self._carry_out(asked.key)
        return self._beginning.begin(proposed, source, asked)

    def current(self) -> tuple[Change, UpgradeTerms] | None:
        """Return the open upgrade of the stream, if there is one."""
        change = self._home.open_upgrade()
        return None if change is None else (change, self._home.terms(change))

    def advance(self, until: Stage, change: int | None = None) -> Progress:
        """
        Do what is next until a stage or an end is reached, or something has to be waited for.

        ``Stage.JUDGED`` stops after the soak: look at ``facts["verdict"]``, run checks, and call
        ``keep`` or ``roll_back``. Any end stage goes on to the end by itself: it keeps a good soak
        when the terms say so and rolls a bad one back.

        :param change: Which upgrade; the newest one when not given.
        :raises UpgradeRefused: the stream has no such upgrade.
        :raises RecordError: its terms cannot be read, and nobody has said how it ends.
        :raises CheckpointBusy: the running stream could not be backed up; call again.
        :raises HomeUnavailable: a store could not be reached; call again.
        """
        found = self._find(change)
        terms = terms_for(self._home, found)
        for _ in range(MOST_ACTS):
            state = look(self._home, self._observer, found, terms, self._committed)
            act = next_act(state)
            if _is_there(state, until):
                return _progress(state, is_there=True)
            waiting = act.reason if act.is_passive else self._acts.do(state, act)
            if waiting is not None:
                needs_person = act.act in (Act.ASK, Act.KILL)
                return _progress(state, waiting=waiting, needs_person=needs_person)
        return _progress(state, waiting=f"{MOST_ACTS} acts came to nothing; the last: {act.reason}")

    def keep(self, reason: str, change: int | None = None) -> Progress:
        """
        Say that the new deployment stays, whatever its soak says: the point of no return.

        :raises UpgradeRefused: it does not run yet, or it is rolled back already.
        """
        found = self._find(change)
        self._words.keep(found, reason)
        return self.advance(Stage.KEPT, found.number)

    def roll_back(self, reason: str, change: int | None = None) -> Progress:
        """
        Say that it goes back, and go as far as nothing has to be waited for; ``advance`` goes on.

        Before the new deployment is made this is the same as ``abort``.

        :raises UpgradeRefused: it is kept already, or there is no way back.
        """
        found = self._find(change)
        self._words.roll_back(found, reason)
        return self.advance(Stage.ROLLED_BACK, found.number)

    def abort(self, reason: str, change: int | None = None) -> Progress:
        """
        Give it up before the new deployment is made; the old driver runs on or is started again.

        :raises UpgradeRefused: the new deployment is made already; roll back instead.
        """
        found = self._find(change)
        self._words.abort(found, reason)
        return self.advance(Stage.ABORTED, found.number)

    def leave(self, reason: str, change: int | None = None) -> Progress:
        """
        End a rollback of which nothing can be put back; the stream is wanted stopped from now on.

        :raises UpgradeRefused: it is not being rolled back, or is put back already.
        """
        found = self._find(change)
        self._words.leave(found, reason)
        return self.advance(Stage.ROLLED_BACK, found.number)

    def _carry_out(self, key: str) -> None:
        """Do what was decided of an earlier upgrade, as far as nothing has to be waited for."""
        found = self._home.open_upgrade()
        if found is None or (key and self._home.wish(found) == key):
            return
        if _DECIDED.isdisjoint(self._home.stages(found.number)):
            return
        try:
            self.advance(Stage.KEPT, found.number)
        except (CheckpointError, RecordError, SpecError) as err:
            raise UpgradeRefused(
                f"Stream {self._home.name!r} is not upgraded: change {found.number} has to come to "
                f"its end first, and could not be taken there: {err}"
            ) from err

    def _find(self, number: int | None) -> Change:
        upgrades = (one for one in self._home.changes() if one.what is ChangeSort.UPGRADE)
        wanted = [one for one in upgrades if number in (None, one.number)]
        if not wanted:
            which = "no upgrade" if number is None else f"no upgrade with the number {number}"
            raise UpgradeRefused(f"Stream {self._home.name!r} has {which}. Begin one first.")
        return wanted[-1]


def _is_there(state: UpgradeState, until: Stage) -> bool:
    if state.is_closed:
        return True
    is_over = state.has(Stage.ABORTED) or state.has(Stage.KEPT) or state.has(Stage.ROLLING_BACK)
    return state.has(until) and not until.is_end and (not is_over or until is state.stage)


def _progress(
    state: UpgradeState, *, is_there: bool = False, waiting: str = "", needs_person: bool = False
) -> Progress:
    found = state.reached.get(state.stage)
    return Progress(
        change=state.change.number,
        stage=state.stage,
        reason=state.change.reason if found is None else found.reason,
        is_there=is_there,
        waiting=waiting,
        needs_person=needs_person,
        facts=state.facts,
    )
