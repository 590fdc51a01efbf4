"""
The acts of an upgrade: what is decided in ``core.upgrade.deciding`` is done here.

Every act may be done twice and by two tasks at once. What must happen once is an exclusive create,
and whoever loses it looks again. No act records a stage before all of its work is done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from airflow_streaming.core.checkpoint.backup import Level
from airflow_streaming.core.health import judge
from airflow_streaming.core.steering import Action, Step
from airflow_streaming.core.upgrade.deciding import way_out
from airflow_streaming.core.upgrade.soak import firing
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.state import Act, UpgradeAct, UpgradeState
from airflow_streaming.core.upgrade.terms import RollbackWay, UpgradeTerms
from airflow_streaming.exceptions import (
    CheckpointBusy,
    CheckpointError,
    CheckpointRefused,
    HomeError,
    HomeUnavailable,
    RestoreTaken,
    SpecError,
    StreamingError,
)
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.acts import StreamActs
from airflow_streaming.launch.keeper import Keeper
from airflow_streaming.upgrade.backing_up import BackingUp
from airflow_streaming.upgrade.committed import FACT, Committed
from airflow_streaming.upgrade.ending import Ending
from airflow_streaming.upgrade.recording import Recorder
from airflow_streaming.upgrade.taking_back import TakingBack, Undo

log: Final = logging.getLogger(__name__)

_PUT_BACK: Final = frozenset({Stage.RESTORED, Stage.LEFT})
"""Stages from which on nothing is taken away any more."""


class Acts:
    """
    Does one act after another.

    :param keeper: Acts on the stream; who is no ``Keeper`` has no spec and starts no driver.
    :param recorder: Writes down what was reached.
    :param backups: Takes the backups.
    :param back: Puts checkpoint and sinks back.
    :param committed: Looks what the stream has committed.
    """

    def __init__(
        self,
        home: StreamHome,
        keeper: StreamActs,
        recorder: Recorder,
        backups: BackingUp,
        back: TakingBack,
        committed: Committed,
    ) -> None:
        self._home, self._keeper, self._recorder = home, keeper, recorder
        self._backups, self._back, self._committed = backups, back, committed
        self._ending: Final = Ending(home, keeper, recorder)
        self._acts: Final[dict[Act, Callable[[UpgradeState, UpgradeAct], str | None]]] = {
            Act.BACK_UP: self._back_up,
            Act.STOP: self._stop,
            Act.KILL: self._kill,
            Act.BACK_UP_AGAIN: self._back_up_again,
            Act.APPLY: self._reaches(Stage.APPLYING),
            Act.LAUNCH: self._launch,
            Act.RECORD_LAUNCH: self._record_launch,
            Act.JUDGE: self._judge,
            Act.KEEP: self._reaches(Stage.KEPT),
            Act.ROLL_BACK: self._reaches(Stage.ROLLING_BACK),
            Act.RESTORE: self._restore,
            Act.LAUNCH_OLD: self._launch_old,
            Act.ABORT: self._reaches(Stage.ABORTED),
            **self._ending.acts,
        }

    def do(self, state: UpgradeState, act: UpgradeAct) -> str | None:
        """
        Do one act; return what has to be waited for, ``None`` when it was done.

        :raises HomeUnavailable: a store could not be reached; the act is done again later.
        """
        return self._acts[act.act](state, act)

    def _reaches(self, stage: Stage) -> Callable[[UpgradeState, UpgradeAct], None]:
        def reach(state: UpgradeState, act: UpgradeAct) -> None:
            self._recorder.reach(state.change, stage, act.reason)

        return reach

    def _back_up(self, state: UpgradeState, _: UpgradeAct) -> None:
        change, seen = state.change, state.situation.seen
        try:
            backup = self._backups.take(change, state.terms, Level.FULL)
        except CheckpointBusy:
            raise  # the stream runs on meanwhile, and trying again may help
        except (CheckpointError, SpecError) as err:
            self._recorder.reach(change, Stage.ABORTED, f"It could not be backed up: {err}")
            return
        fired = frozenset[str]() if seen is None else firing(judge(seen, state.situation.rules))
        facts = {"backup": backup, "firing": "\n".join(sorted(fired))}
        self._recorder.reach(change, Stage.BACKED_UP, f"Backup {backup} holds.", facts)

    def _stop(self, state: UpgradeState, act: UpgradeAct) -> None:
        if state.situation.seen is not None:
            self._keeper.stop(state.situation.seen, act.reason, state.terms.stop_grace)

    def _kill(self, state: UpgradeState, act: UpgradeAct) -> str | None:
        seen = state.situation.seen
        if seen is None or self._keeper.kill(seen, act.reason):
            return None
        return f"The driver of epoch {seen.epoch.number} could not be killed. {act.reason}"

    def _back_up_again(self, state: UpgradeState, _: UpgradeAct) -> None:
        fence = state.fence
        try:
            boundary = self._backups.take(state.change, state.terms, Level.QUICK)
            committed = self._committed.told() if _has_no_way(state.terms) else ""
        except StreamingError as err:
            # The stream is down: what cannot be done now is not waited for.
            reason = f"What the old driver left could not be backed up: {err}"
            self._recorder.reach(state.change, Stage.ABORTED, reason)
            return
        facts = {"boundary": boundary, "fence": str(fence.number if fence else 0)}
        facts |= {FACT: committed} if committed else {}
        reason = f"The old driver is gone; backup {boundary} is what it left."
        self._recorder.reach(state.change, Stage.STOPPED, reason, facts)

    def _record_launch(self, state: UpgradeState, act: UpgradeAct) -> None:
        number = state.epoch.number if state.epoch else 0
        facts = {"epoch": str(number)}
        reason = f"{act.reason} It is epoch {number}."
        self._recorder.reach(state.change, Stage.LAUNCHED, reason, facts)

    def _launch(self, state: UpgradeState, act: UpgradeAct) -> None:
        try:
            self._begin(state, act)
        except SpecError as err:
            reason = f"The new deployment could not be launched: {err}"
            self._recorder.reach(state.change, Stage.ROLLING_BACK, reason)

    def _judge(self, state: UpgradeState, act: UpgradeAct) -> None:
        soak = state.soak
        if soak is None:
            return
        figures = {f"soak.{query}": told for query, told in soak.figures.items()}
        facts = {"verdict": soak.result.value, **figures}
        self._recorder.reach(state.change, Stage.JUDGED, act.reason, facts)

    def _restore(self, state: UpgradeState, act: UpgradeAct) -> str | None:
        change = state.change
        if state.has(Stage.LEFT):
            self._ending.leave(state)
            return None
        undo = Undo(
            change=change,
            terms=state.terms,
            boundary=state.facts["boundary"],
            deployment=state.back,
            is_needed=lambda: _PUT_BACK.isdisjoint(self._home.stages(change.number)),
        )
        try:
            why, checkpoint = self._taken_back(undo, was_launched=_was_launched(state))
        except RestoreTaken as err:
            return str(err)
        except CheckpointError as err:
            raise type(err)(f"{err} {way_out(change.stream)}") from err
        facts = {"checkpoint": checkpoint}
        self._recorder.reach(change, Stage.RESTORED, why or "Nothing had to be put back.", facts)
        return None

    def _taken_back(self, undo: Undo, *, was_launched: bool) -> tuple[str, str]:
        present = self._home.deployment(undo.change.replaced).checkpoint
        if not was_launched:
            return "", present
        if undo.terms.rollback.way is RollbackWay.RESUME:
            return "The old deployment goes on where the new one ended.", present
        why = self._back.why(undo)
        if why and _has_no_way(undo.terms):
            # What the new deployment has begun is in the sink perhaps, and nothing takes it out.
            raise CheckpointRefused(f"{why} There is no way back: {undo.terms.rollback.reason}")
        return (why, self._back.rewind(undo)) if why else ("", present)

    def _launch_old(self, state: UpgradeState, act: UpgradeAct) -> None:
        try:
            self._begin(state, act)
        except SpecError as err:
            # The task that keeps the stream alive meets the same, and tells people of it.
            log.warning("The old deployment is not started from here: %s", err)
            if state.has(Stage.ABORTED):
                self._ending.end(state, act)
            else:
                self._ending.settle(state, act)

    def _begin(self, state: UpgradeState, act: UpgradeAct) -> None:
        """Take the next epoch and start its driver; what becomes of it is seen by the next look."""
        if not isinstance(self._keeper, Keeper):
            raise SpecError("The task that keeps the stream alive starts it.")
        step = Step(action=Action.LAUNCH, reason=act.reason, cause=act.cause)
        try:
            self._keeper.begin(state.situation, step, change=state.change.number)
        except (SpecError, HomeError):
            raise
        except StreamingError as err:
            log.warning("The driver was not started: %s", err)
            if self._home.newest_epoch() == state.epoch:
                raise HomeUnavailable(f"No epoch was begun: {err}") from err


def _has_no_way(terms: UpgradeTerms) -> bool:
    return terms.rollback.way is RollbackWay.NONE


def _was_launched(state: UpgradeState) -> bool:
    # Between the fence of the old driver and that of the way back there is one epoch or none.
    epoch = state.epoch
    return epoch is None or epoch.number != state.first_fence + 1
