"""The upgrade in place: another deployment on the same checkpoint."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from airflow_streaming.changes.engine import Engine, Pace, Progress
from airflow_streaming.changes.judging.soak import firing
from airflow_streaming.changes.restore.migrated_copy import Migrator, copy_place
from airflow_streaming.changes.restore.switch import now_in_utc
from airflow_streaming.changes.upgrade.acts import FACT, BackingUp, Committed, look, written_lately
from airflow_streaming.changes.upgrade.begin import Beginning, Recorder, UpgradeTermsRequest
from airflow_streaming.changes.upgrade.commands import UpgradeCommands
from airflow_streaming.changes.upgrade.decide import cold_start, next_move, settled, way_out
from airflow_streaming.changes.upgrade.finish import Ending, terms_for
from airflow_streaming.changes.upgrade.repartition import Repartitioner
from airflow_streaming.changes.upgrade.rollback import BoundaryBack, TakingBack, Undo
from airflow_streaming.changes.upgrade.state import COPY, OWNER, Do, Move, UpgradeView
from airflow_streaming.checkpoints.backup.stream_backup import Open
from airflow_streaming.checkpoints.progress import Progress as Narrated
from airflow_streaming.checkpoints.progress import no_progress
from airflow_streaming.checkpoints.restore.sink_rewind import SinkRewind
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import (
    CheckpointBusy,
    CheckpointError,
    CheckpointRefused,
    HomeError,
    HomeUnavailable,
    RecordError,
    RestoreTaken,
    SpecError,
    StreamingError,
    UpgradeRefused,
)
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import Level, SinkReplaySemantics
from airflow_streaming.model.jobs.upkeep import RepartitionAnswer
from airflow_streaming.model.records.control import Change, ChangeKind
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade import RollbackMethod, UpgradeTerms
from airflow_streaming.model.records.upgrade_table import (
    UPGRADE,
    Stage,
    UpgradeCommand,
    UpgradeEvent,
    WarmUp,
)
from airflow_streaming.storage.folders import open_folders
from airflow_streaming.supervision.actions import StreamActions
from airflow_streaming.supervision.controller import StreamController
from airflow_streaming.supervision.decide import Action, Step
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.supervision.standby import WITH_STANDBY

MOST_MOVES: Final = 40
"""In one go; the whole way there and back needs about twenty."""
EXCHANGE_PACE: Final = Pace(at_most=30.0, clock=time.monotonic, sleep=time.sleep)
"""Of a task that waits for the stop in its worker: nothing is committed meanwhile."""
log: Final = logging.getLogger(__name__)
_PUT_BACK: Final = frozenset({Stage.RESTORED, Stage.LEFT})
"""Stages from which on nothing is taken away any more."""

__all__ = ["UpgradeInPlace", "UpgradeProgress", "UpgradeTermsRequest"]
UpgradeProgress = Progress[Stage]
E = UpgradeEvent


class Acts:
    """
    Does one action after another.

    :param controller: Acts on the stream; without a ``StreamController`` it has no spec and starts no
        driver.
    :param migrator: Writes migrated copies of the checkpoints, if requested.
    """

    def __init__(
        self,
        home: StreamHome,
        controller: StreamActions,
        recorder: Recorder,
        backups: BackingUp,
        back: TakingBack,
        committed: Committed,
        repartitioner: Repartitioner | None = None,
        migrator: Migrator | None = None,
    ) -> None:
        self._repartitioner, self._migrator = repartitioner, migrator
        self._home, self._controller, self._recorder = home, controller, recorder
        self._backups, self._back, self._committed = backups, back, committed
        self._ending: Final = Ending(home, controller, recorder)
        self._acts: Final[dict[Do, Callable[[UpgradeView, Move], str | None]]] = {
            Do.BACK_UP: self._back_up,
            Do.WARM_UP: self._warm_up,
            Do.REFRESH: self._refresh,
            Do.STOP: self._stop,
            Do.KILL: self._kill,
            Do.BACK_UP_AGAIN: self._back_up_again,
            Do.REPARTITION: self._repartition,
            Do.MIGRATE: self._migrate,
            Do.LAUNCH: self._launch,
            Do.RELEASE: self._release,
            Do.RESTORE: self._restore,
            Do.LAUNCH_OLD: self._launch_old,
            **self._ending.acts,
        }

    def do(self, view: UpgradeView, move: Move) -> str | None:
        """Make one move; return the reason to wait, or ``None`` if it was made."""
        return self._acts[move.do](view, move)

    def _back_up(self, state: UpgradeView, _: Move) -> None:
        change, seen = state.change, state.situation.seen
        try:
            backup = self._backups.take(change, state.terms, Level.FULL)
        except CheckpointBusy:
            raise  # the stream runs on meanwhile, and trying again may help
        except (CheckpointError, SpecError) as err:
            self._recorder.take(state, E.BACKUP_FAILED, f"It could not be backed up: {err}")
            return
        fired = frozenset[str]() if seen is None else firing(judge(seen, state.situation.rules))
        facts = {"backup": backup, "firing": "\n".join(sorted(fired))}
        if seen is not None:
            facts["wrote"] = written_lately(self._home, seen.epoch.number)
        self._recorder.take(state, E.BACKUP_HOLDS, f"Backup {backup} holds.", facts)

    def _warm_up(self, state: UpgradeView, act: Move) -> None:
        controller, terms = self._controller, state.terms
        if (
            not isinstance(controller, StreamController)
            or controller.launcher.kind not in WITH_STANDBY
        ):
            self._go_cold(state, WarmUp.NO_STANDBY, "No standby driver can be started from here.")
            return
        queries, change = terms.soak.queries, state.change.number
        try:
            controller.warm_up(state.situation, act.reason, terms.proposed, queries, change)
        except HomeUnavailable:
            raise
        except StreamingError as err:
            reason = f"The new deployment could not be warmed up: {err}"
            self._go_cold(state, WarmUp.NOT_STARTED, reason)

    def _go_cold(self, state: UpgradeView, code: WarmUp, reason: str) -> None:
        move = cold_start(code, reason)
        self._recorder.take(state, E.WARM_UP_FAILED, move.reason, move.facts)

    def _refresh(self, state: UpgradeView, act: Move) -> None:
        facts = {"warm_up": WarmUp.WARM.value}
        if state.standby is not None:
            facts["standby"] = str(state.standby.epoch.number)
        try:
            facts["refreshed"] = self._backups.take(state.change, state.terms, Level.QUICK)
        except (CheckpointError, SpecError) as err:
            # The backup of the boundary copies more then.
            log.warning("The backup was not brought up to date before the stop: %s", err)
        self._recorder.take(state, E.NEW_WARMED, act.reason, facts)

    def _release(self, state: UpgradeView, act: Move) -> str | None:
        if not isinstance(self._controller, StreamController) or state.epoch is None:
            return "The task of the upgrade releases the warmed driver."
        try:
            self._controller.release(state.epoch)
        except HomeError:
            raise
        except StreamingError as err:
            return str(err)
        return None

    def _stop(self, state: UpgradeView, act: Move) -> None:
        if state.situation.seen is not None:
            change, grace = state.change.number, state.terms.stop_grace
            self._controller.stop(state.situation.seen, act.reason, grace, change=change)

    def _kill(self, state: UpgradeView, act: Move) -> str | None:
        seen = state.situation.seen
        if seen is None or self._controller.kill(seen, act.reason):
            return None
        return f"The driver of epoch {seen.epoch.number} could not be killed. {act.reason}"

    def _back_up_again(self, state: UpgradeView, _: Move) -> None:
        fence = state.fence
        try:
            boundary = self._backups.take(state.change, state.terms, Level.QUICK)
            committed = self._committed.told() if _has_no_way(state.terms) else ""
        except StreamingError as err:
            # The stream is down: what cannot be done now is not waited for.
            reason = f"The old driver's last state could not be backed up: {err}"
            self._recorder.take(state, E.BACKUP_FAILED, reason)
            return
        facts = {"boundary": boundary, "fence": str(fence.number if fence else 0)}
        facts |= {FACT: committed} if committed else {}
        reason = f"The old driver is dead; backup {boundary} holds its last batch boundary."
        self._recorder.take(state, E.OLD_STOPPED, reason, facts)

    def _repartition(self, state: UpgradeView, act: Move) -> str | None:
        spark, partitions = self._repartitioner, state.terms.partitions
        if spark is None:
            return "The task that upgrades the stream changes the number of its state partitions."
        # Only one Spark may do it to a checkpoint: the one of the task whose step this is.
        if not self._recorder.take(state, E.REPARTITION, act.reason):
            return None
        try:
            answer = spark.run(partitions)
        except StreamingError as err:
            # Its Spark, if there was one, went with it.
            answer = RepartitionAnswer(condition=type(err).__name__, failed=str(err))
        newest = self._newest(state)
        if newest.state is not Stage.REPARTITIONING:
            return None
        if not answer.condition:
            reason = f"All state has {partitions} partitions."
            self._recorder.take(newest, E.REPARTITION_DONE, reason)
            return None
        self._recorder.take(
            newest,
            E.REPARTITION_FAILED,
            f"State did not get {partitions} partitions: {answer.failed}",
            {"condition": answer.condition},
        )
        return None

    def _migrate(self, state: UpgradeView, act: Move) -> str | None:
        migrator, change = self._migrator, state.change
        if migrator is None:
            return "The task that upgrades the stream migrates its state."
        replaced = self._home.deployment(change.replaced)
        to = copy_place(self._home, replaced, change.number, state.attempts + 1)
        facts = {COPY: to, OWNER: migrator.owner}
        if not self._recorder.take(state, E.MIGRATE, act.reason, facts):
            return None
        try:
            rows = migrator.run(to, state.terms.migrations)
        except HomeUnavailable:
            raise  # the next look begins another attempt
        except StreamingError as err:
            self._end_migration(
                state,
                E.MIGRATION_FAILED,
                f"The state was not migrated: {err}",
                {"condition": type(err).__name__},
            )
            return None
        self._end_migration(
            state, E.MIGRATION_DONE, "The migrated copy is proved.", {COPY: to, **rows}
        )
        return None

    def _end_migration(
        self, view: UpgradeView, event: UpgradeEvent, reason: str, facts: Mapping[str, str]
    ) -> None:
        """Record the end of an attempt, unless a command or another attempt was faster."""
        newest = self._newest(view)
        if newest.state is Stage.MIGRATING:
            self._recorder.take(newest, event, reason, facts)

    def _newest(self, view: UpgradeView) -> UpgradeView:
        return replace(view, history=tuple(self._home.upgrade_steps(view.change.number)))

    def _launch(self, state: UpgradeView, act: Move) -> None:
        try:
            self._begin(state, act)
        except SpecError as err:
            reason = f"The new deployment could not be launched: {err}"
            self._recorder.take(state, E.NEW_FAILED, reason)

    def _restore(self, state: UpgradeView, act: Move) -> str | None:
        change = state.change
        undo = Undo(
            change=change,
            terms=state.terms,
            boundary=state.facts["boundary"],
            deployment=state.back,
            is_needed=lambda: _PUT_BACK.isdisjoint(self._home.stages(change.number)),
        )
        if state.leaves_checkpoint:
            # No driver has written since the backup, so every sink is in step with it.
            quiet = (replace(one, habit=SinkReplaySemantics.NOTHING) for one in undo.terms.sinks)
            undo = replace(undo, terms=replace(undo.terms, sinks=tuple(quiet)))
        try:
            if state.leaves_checkpoint:
                why = "The checkpoint was restored, with the number of state partitions it had."
                checkpoint = self._back.rewind(undo)
            else:
                why, checkpoint = self._taken_back(undo, state)
        except RestoreTaken as err:
            return str(err)
        except CheckpointError as err:
            raise type(err)(f"{err} {way_out(change.stream)}") from err
        facts = {"checkpoint": checkpoint}
        reason = why or "No restore was needed."
        if not self._recorder.take(state, E.PUT_BACK, reason, facts):
            self._take_after_leave(state, reason, facts)
        return None

    def _take_after_leave(self, view: UpgradeView, reason: str, facts: Mapping[str, str]) -> None:
        # The operator's ``leave`` came during the rewind: record the result anyway.
        newest = self._newest(view)
        if newest.state is Stage.LEFT:
            self._recorder.take(newest, E.PUT_BACK, reason, facts)

    def _taken_back(self, undo: Undo, state: UpgradeView) -> tuple[str, str]:
        present = self._home.deployment(undo.change.replaced).checkpoint
        if not _was_launched(state):
            return "", present
        if state.has(Stage.MIGRATED):
            why = "The new deployment ran on a migrated copy, so the sinks may be ahead."
            return why, self._back.rewind(undo)
        if undo.terms.rollback.way is RollbackMethod.RESUME:
            return "The old deployment resumes where the new one ended.", present
        why = self._back.why(undo)
        if why and _has_no_way(undo.terms):
            # The sink may have batches of the new deployment that cannot be removed.
            raise CheckpointRefused(
                f"{why} A rollback is not possible: {undo.terms.rollback.reason}"
            )
        return (why, self._back.rewind(undo)) if why else ("", present)

    def _launch_old(self, state: UpgradeView, act: Move) -> None:
        try:
            self._begin(state, act)
        except SpecError as err:
            # The task that keeps the stream alive meets the same, and tells people of it.
            log.warning("The old deployment is not started from here: %s", err)
            if state.has(Stage.ABORTED):
                self._recorder.close(state)
            else:
                back = settled(state, act.reason)
                self._recorder.take(state, E.OLD_BACK, back.reason, back.facts)

    def _begin(self, state: UpgradeView, act: Move) -> None:
        """Take the next epoch and start its driver; the next look sees the result."""
        if not isinstance(self._controller, StreamController):
            raise SpecError("The task that keeps the stream alive starts it.")
        step = Step(action=Action.LAUNCH, reason=act.reason, cause=act.cause, promotes=act.promotes)
        try:
            self._controller.begin(state.situation, step, change=state.change.number)
        except (SpecError, HomeError):
            raise
        except StreamingError as err:
            log.warning("The driver was not started: %s", err)
            if self._home.newest_epoch() == state.epoch:
                raise HomeUnavailable(f"No epoch was launched: {err}") from err


def _has_no_way(terms: UpgradeTerms) -> bool:
    return terms.rollback.way is RollbackMethod.NONE


def _was_launched(state: UpgradeView) -> bool:
    # At most one epoch is between the old driver's fence and the rollback's.
    epoch = state.epoch
    return epoch is None or epoch.number != state.first_fence + 1


class UpgradeInPlace:
    """
    Upgrades one stream for one task or user.

    :param controller: Acts on the stream; its spec gives the secrets of both deployments, and its
        ``propose`` makes the proposed one.
    :param observer: Observes the stream, with its memory.
    :param rewind: Takes batches back out of sinks other than file sinks.
    :param open_folders: Opens the checkpoints and outputs for a backup.
    :param back: Rewinds checkpoint and sinks; by default from the boundary backup.
    :param migrator: Writes migrated copies of the checkpoints, if requested.
    :param progress: Receives the progress of backups and restores.
    :param pace: How often to look between the stop and the new driver's start; by default
        ``advance`` returns at once.
    """

    def __init__(
        self,
        home: StreamHome,
        controller: StreamController,
        observer: Observer,
        store: BackupStore,
        *,
        by: str,
        rewind: SinkRewind | None = None,
        open_folders: Open = open_folders,
        storage_options: Mapping[str, Any] | None = None,
        back: TakingBack | None = None,
        repartitioner: Repartitioner | None = None,
        migrator: Migrator | None = None,
        progress: Narrated = no_progress,
        pace: Pace | None = None,
        now: Callable[[], datetime] = now_in_utc,
    ) -> None:
        self._home, self._observer, self._pace = home, observer, pace
        self._beginning = Beginning(home, controller, by=by, now=now)
        self._words = UpgradeCommands(home, by=by, now=now, open_folders=open_folders)
        self._committed = Committed(home, open_folders)
        self._acts = Acts(
            home,
            controller,
            Recorder(home, by=by, now=now),
            BackingUp(home, store, by=by, now=now, open_folders=open_folders, progress=progress),
            back
            or BoundaryBack(
                *(home, store, controller.launcher),
                rewind=rewind,
                storage_options=storage_options,
                progress=progress,
            ),
            self._committed,
            repartitioner,
            migrator,
        )
        self._repartitioner, self._migrator = repartitioner, migrator

    def begin(self, proposed: Deployment, source: bytes, request: UpgradeTermsRequest) -> Change:
        """
        Open the change, or find the open one for the same upgrade.

        Also finishes an earlier upgrade whose end was decided.

        :param proposed: From ``StreamController.propose``; it gets a new number.
        :raises UpgradeRefused: With a sentence; no change was opened.
        :raises SpecError: The old or the new deployment could not be launched with the DAG's
            present values.
        """
        self._carry_out(request.key)
        return self._beginning.begin(proposed, source, request)

    def current(self) -> tuple[Change, UpgradeTerms] | None:
        """Return the open upgrade of the stream, if there is one."""
        change = self._home.open_upgrade()
        return None if change is None else (change, self._home.terms(change))

    def advance(self, until: Stage, change: int | None = None) -> UpgradeProgress:
        """
        Make moves until a stage or an end is reached, or the upgrade must wait.

        ``Stage.READY`` is the last stage before the stop: without a warm-up it is ``BACKED_UP``.
        ``Stage.JUDGED`` stops after the soak: read ``facts["verdict"]``, run checks, and call
        ``keep`` or ``roll_back``. Any end stage continues to the end on its own: it keeps a good
        soak if the terms allow it and rolls a bad one back.

        :param change: Number of the upgrade; default: the newest.
        :raises UpgradeRefused: The stream has no such upgrade.
        :raises RecordError: Its terms cannot be read, and no command has decided its end.
        :raises CheckpointBusy: The running stream could not be backed up; call again.
        """
        found = self._find(change)
        terms = terms_for(self._home, found)
        if until is Stage.READY and not terms.prewarm:
            until = Stage.BACKED_UP
        engine: Engine[UpgradeView, Move] = Engine(
            look=lambda: look(
                *(self._home, self._observer, found, terms, self._committed),
                repartitioned=lambda: self._has(terms.partitions),
                migrator=self._migrator,
            ),
            decide=next_move,
            act=self._acts.do,
            most_moves=MOST_MOVES,
        )
        return engine.advance(
            lambda view, _: is_there(view, until),
            pace=self._pace,
            is_in_haste=lambda view: view.is_exchanging,
        )

    def _has(self, partitions: int) -> bool:
        return self._repartitioner is not None and self._repartitioner.is_done(partitions)

    def command(
        self, command: UpgradeCommand, reason: str, change: int | None = None
    ) -> UpgradeProgress:
        """
        Record an operator's command, and make moves until the upgrade must wait.

        :raises UpgradeRefused: Not possible in this stage, or there is no way back.
        """
        found = self._find(change)
        self._words.give(found, command, reason)
        return self.advance(Stage.KEPT, found.number)

    def _carry_out(self, key: str) -> None:
        """Finish an earlier upgrade whose end was decided, until it must wait."""
        found = self._home.open_upgrade()
        if found is None or (key and self._home.request_key(found) == key):
            return
        if not UPGRADE.state_of(self._home.upgrade_steps(found.number)).is_decided:
            return
        try:
            self.advance(Stage.KEPT, found.number)
        except (CheckpointError, RecordError, SpecError) as err:
            raise UpgradeRefused(
                f"Stream {self._home.name!r} is not upgraded: change {found.number} must finish first, "
                f"but finishing it failed: {err}"
            ) from err

    def _find(self, number: int | None) -> Change:
        upgrades = (one for one in self._home.changes() if one.what is ChangeKind.UPGRADE)
        wanted = [one for one in upgrades if number in (None, one.number)]
        if not wanted:
            which = "no upgrade" if number is None else f"no upgrade with the number {number}"
            raise UpgradeRefused(f"Stream {self._home.name!r} has {which}. Begin one first.")
        return wanted[-1]


def is_there(view: UpgradeView, until: Stage) -> bool:
    """Tell whether an upgrade has come to a stage, or to its end."""
    if view.is_closed:
        return True
    is_on_the_way = not view.state.is_decided or until is view.state
    return view.has(until) and not until.is_end and is_on_the_way
