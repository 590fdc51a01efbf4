"""The input of an upgrade's next move, and the kinds of moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from airflow_streaming.changes import engine
from airflow_streaming.changes.judging.soak import SoakVerdict
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.change_table import facts_of
from airflow_streaming.model.records.control import Change
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, LaunchCause
from airflow_streaming.model.records.upgrade import RollbackMethod, UpgradeTerms
from airflow_streaming.model.records.upgrade_table import (
    UPGRADE,
    Stage,
    UpgradeEvent,
    UpgradeTransition,
    WarmUp,
)
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.standby import StandbyView

COPY: Final = "checkpoint"
"""Fact of a step: where the migrated copy is, or will be."""
OWNER: Final = "owner"
"""Fact of a step: the run that writes the copy."""
_AWAITED: Final = frozenset({Stage.READY, Stage.STOPPED, Stage.APPLYING, Stage.DEPLOYED})
_EXCHANGING: Final = frozenset({Stage.STOPPED, Stage.APPLYING, Stage.MIGRATED, Stage.DEPLOYED})


class Do(StrEnum):
    """Kinds of moves."""

    TAKE = "take"
    """Take the step of an event."""
    BACK_UP = "back_up"
    """Take and verify a backup while the old driver runs."""
    WARM_UP = "warm_up"
    """Start the new deployment's driver, which waits at the barrier."""
    REFRESH = "refresh"
    """
    While it waits: back up changes since the first backup, so that little is left to copy once the
    old driver has stopped.
    """
    STOP = "stop"
    """Ask the driver to stop."""
    KILL = "kill"
    FENCE = "fence"
    BACK_UP_AGAIN = "back_up_again"
    """Back up exactly the old driver's last state."""
    REPARTITION = "repartition"
    """Change the number of state partitions, as the one task that may."""
    MIGRATE = "migrate"
    """Write a migrated copy of the checkpoint, into a place of its own."""
    DEPLOY = "deploy"
    LAUNCH = "launch"
    RELEASE = "release"
    """Release the promoted driver; the task that promoted it died in between."""
    RETIRE = "retire"
    """Stop the warmed driver, which is no longer needed."""
    RESTORE = "restore"
    """Put checkpoint and sinks where the old deployment left them."""
    LEAVE = "leave"
    """Record that, by an operator's command, nothing is put back."""
    DEPLOY_OLD = "deploy_old"
    LAUNCH_OLD = "launch_old"
    CLOSE = "close"
    WAIT = "wait"
    """Look again later."""
    ASK = "ask"
    """Nothing continues until an operator acts."""
    NOTHING = "nothing"
    """The change is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(engine.Move[UpgradeEvent]):
    """
    A move of an upgrade.

    :param cause: For a launch: why.
    :param promotes: For a launch: the standby whose driver is the next epoch's, if any.
    """

    do: Do
    cause: LaunchCause = LaunchCause.UPGRADE
    promotes: int | None = None


class LaunchStatus(StrEnum):
    """Whether a driver was ever started for an epoch."""

    BORN = "born"
    AWAITED = "awaited"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeView:
    """
    The input of the next move.

    :param history: Its steps; the same before and after the look.
    :param soak: The judgment of the new driver's figures, once it was launched.
    :param has_committed: The new deployment has committed a batch, by its checkpoint; read if this
        ends the way back.
    :param is_repartitioned: All state has the new number of partitions, by its checkpoints; read
        during a repartition.
    :param is_migrated: The copy of the newest attempt to migrate is whole and proved.
    :param is_own_migration: That attempt was begun by the run that looks, whose worker is gone.
    :param is_held: The newest epoch is a promoted driver that was never released.
    """

    change: Change
    terms: UpgradeTerms
    situation: ReconcileInput
    history: Sequence[UpgradeTransition] = ()
    soak: SoakVerdict | None = None
    has_committed: bool = False
    is_repartitioned: bool = False
    is_migrated: bool = False
    is_own_migration: bool = False
    is_held: bool = False
    is_closed: bool = False

    @property
    def state(self) -> Stage:
        """Return the stage that it has come to."""
        return UPGRADE.state_of(self.history)

    @property
    def reached(self) -> Mapping[Stage, UpgradeTransition]:
        """Return by stage the step with which it came there; ``BEGUN`` has none."""
        return {step.after: step for step in self.history}

    def has(self, stage: Stage) -> bool:
        """Tell whether a stage was reached."""
        return stage is Stage.BEGUN or stage in self.reached

    @property
    def facts(self) -> dict[str, str]:
        """Return the facts of all steps together."""
        return facts_of(self.history)

    @property
    def epoch(self) -> Epoch | None:
        """Return the newest epoch."""
        return None if self.situation.seen is None else self.situation.seen.epoch

    @property
    def newest(self) -> int:
        """Return the number of the newest deployment."""
        return 0 if self.situation.deployment is None else self.situation.deployment.number

    @property
    def fence(self) -> Epoch | None:
        """Return the newest epoch if this upgrade took it as a fence, finished or not."""
        epoch = self.epoch
        is_ours = epoch is not None and epoch.change == self.change.number
        return epoch if epoch and is_ours and epoch.cause is LaunchCause.FENCE else None

    @property
    def is_fenced(self) -> bool:
        """
        Tell whether only the upgrade can start a driver now.

        Each decision has its own fence: a task that was about to launch when it was decided to roll
        back finds his number taken.
        """
        seen, fence = self.situation.seen, self.fence
        if seen is None or fence is None or seen.death is None or self.situation.stop is None:
            return False
        return not self.has(Stage.ROLLING_BACK) or fence.number > self.first_fence

    @property
    def first_fence(self) -> int:
        """Return the number of the epoch that fenced the old driver; 0 before that."""
        stopped = self.reached.get(Stage.STOPPED)
        return 0 if stopped is None else int(stopped.facts["fence"])

    @property
    def has_new_driver(self) -> bool:
        """Tell whether the newest epoch is one of the new deployment, alive or not."""
        epoch = self.epoch
        is_ours = epoch is not None and epoch.change == self.change.number
        return is_ours and epoch is not None and epoch.cause is LaunchCause.UPGRADE

    @property
    def standby(self) -> StandbyView | None:
        """Return the driver that was warmed for this upgrade; ``None`` before there was one."""
        standby = self.situation.standby
        is_ours = standby is not None and standby.epoch.change == self.change.number
        return standby if is_ours else None

    @property
    def warm_up(self) -> WarmUp | None:
        """Return the result of the warm-up; ``None`` while unknown."""
        ready = self.reached.get(Stage.READY)
        return None if ready is None else WarmUp(ready.facts["warm_up"])

    @property
    def keeps_standby(self) -> bool:
        """Tell whether the warmed driver may still become the new deployment's."""
        if self.state is Stage.BACKED_UP:
            return True
        return self.warm_up is WarmUp.WARM and (
            self.state in _AWAITED and not (self.state is Stage.DEPLOYED and self.has_new_driver)
        )

    @property
    def is_exchanging(self) -> bool:
        """Return whether the old driver was requested to stop and the new one is not started."""
        stop = self.situation.stop
        is_asked = stop is not None and stop.change == self.change.number
        is_stopping = self.state in (Stage.BACKED_UP, Stage.READY) and is_asked
        return is_stopping or self.state in _EXCHANGING

    @property
    def birth(self) -> LaunchStatus:
        """
        Return whether a driver of the newest epoch was ever started.

        A worker that is killed between the epoch and its driver has told nothing of the deployment.
        """
        seen = self.situation.seen
        if seen is None:
            return LaunchStatus.NEVER
        traces = (seen.launch, seen.status, seen.exit, seen.death)
        is_alive = seen.process.state in (ProcessState.RUNNING, ProcessState.SUSPENDED)
        if is_alive or any(trace is not None for trace in traces):
            return LaunchStatus.BORN
        has_ended = judge(seen, self.situation.rules).has_ended
        return LaunchStatus.NEVER if has_ended else LaunchStatus.AWAITED

    @property
    def is_overtaken(self) -> bool:
        """Tell whether another task has made a deployment in the place of ours."""
        newest = self.situation.deployment
        if newest is None or newest.number == self.change.replaced:
            return False
        if newest.number == self.change.deployment:
            return newest.fingerprint != self.proposed.fingerprint
        is_ours = self.has(Stage.RESTORED) and newest.number == self.back
        return not is_ours

    @property
    def proposed(self) -> Deployment:
        """Return the new deployment, on the migrated copy if there is one."""
        migrated = self.reached.get(Stage.MIGRATED)
        proposed = self.terms.proposed
        return replace(proposed, checkpoint=migrated.facts[COPY]) if migrated else proposed

    @property
    def must_migrate(self) -> bool:
        """Tell whether the state is still to be migrated."""
        return self.state is Stage.APPLYING and bool(self.terms.migrations)

    @property
    def attempts(self) -> int:
        """Return how often a migration of the state was begun."""
        return sum(step.event is UpgradeEvent.MIGRATE for step in self.history)

    @property
    def must_repartition(self) -> bool:
        """Tell whether the number of state partitions is still to be changed."""
        return self.state is Stage.APPLYING and self.terms.partitions > 0

    @property
    def leaves_checkpoint(self) -> bool:
        """
        Return whether the present checkpoint is dropped, and the backup restored.

        Its state was being repartitioned, and no driver has written since: the end may never have
        been seen, and the sinks are in step with the backup.
        """
        was_launched = self.epoch is None or self.epoch.number != self.first_fence + 1
        has_begun = self.has(Stage.REPARTITIONING)
        return has_begun and (not self.has(Stage.REPARTITIONED) or not was_launched)

    @property
    def back(self) -> int:
        """Return the number of the deployment that puts the old one back."""
        return self.change.deployment + 1

    @property
    def can_go_back(self) -> bool:
        """
        Return whether there is a way back from here.

        Reads the checkpoint: a driver may have committed a batch and died before its status showed
        it. If the checkpoint is missing, the driver's status may still show it.
        """
        if self.terms.rollback.way is not RollbackMethod.NONE:
            return True
        seen = self.situation.seen
        status = seen.status if seen is not None and self.has(Stage.LAUNCHED) else None
        return not self.has_committed and (status is None or not status.batches)
