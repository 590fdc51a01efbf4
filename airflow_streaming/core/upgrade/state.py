"""State: everything that the next act of an upgrade depends on, and the acts there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from airflow_streaming.core.change import Change
from airflow_streaming.core.epoch import Epoch, LaunchCause
from airflow_streaming.core.health import judge
from airflow_streaming.core.observation import ProcessState
from airflow_streaming.core.situation import Situation
from airflow_streaming.core.upgrade.soak import SoakVerdict
from airflow_streaming.core.upgrade.stage import Stage, StageReached
from airflow_streaming.core.upgrade.terms import RollbackWay, UpgradeTerms


class Act(StrEnum):
    """What to do next."""

    BACK_UP = "back_up"
    """Take and verify a backup while the old driver runs."""
    STOP = "stop"
    """Ask the driver to stop."""
    KILL = "kill"
    FENCE = "fence"
    """Take the next epoch, so that nobody who looked earlier starts a driver."""
    BACK_UP_AGAIN = "back_up_again"
    """Back up exactly what the old driver left."""
    APPLY = "apply"
    """Decide that the new deployment is made; the rival of this decision is to abort."""
    DEPLOY = "deploy"
    LAUNCH = "launch"
    RECORD_LAUNCH = "record_launch"
    JUDGE = "judge"
    """Record what the soak has shown."""
    KEEP = "keep"
    """Decide that it stays; the rival of this decision is to roll back."""
    ROLL_BACK = "roll_back"
    RESTORE = "restore"
    """Put checkpoint and sinks where the old deployment left them."""
    DEPLOY_OLD = "deploy_old"
    LAUNCH_OLD = "launch_old"
    SETTLE = "settle"
    """Record that the old deployment is back."""
    ABORT = "abort"
    END = "end"
    """Close the change."""
    WAIT = "wait"
    """Look again later."""
    ASK = "ask"
    """Nothing goes on until a person acts."""
    NOTHING = "nothing"
    """The change is closed."""


PASSIVE: Final = frozenset({Act.WAIT, Act.ASK, Act.NOTHING})


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeAct:
    """
    One act.

    :param reason: Why, in words; what is waited for.
    :param cause: For a launch: why.
    """

    act: Act
    reason: str
    cause: LaunchCause = LaunchCause.UPGRADE

    @property
    def is_passive(self) -> bool:
        """Tell whether there is nothing to do now."""
        return self.act in PASSIVE


class Birth(StrEnum):
    """Whether a driver was ever started for an epoch."""

    BORN = "born"
    AWAITED = "awaited"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeState:
    """
    Everything the next act depends on.

    :param reached: The records of the stages, as they were found; ``BEGUN`` has none.
    :param situation: The stream as it was seen after the stages were read.
    :param soak: What the figures of the new driver say, once it was launched.
    :param has_committed: By its checkpoint the new deployment has committed a batch; looked at
        where there is no way back once it has.
    :param is_closed: The change has ended.
    """

    change: Change
    terms: UpgradeTerms
    situation: Situation
    reached: Mapping[Stage, StageReached] = field(default_factory=dict)
    soak: SoakVerdict | None = None
    has_committed: bool = False
    is_closed: bool = False

    def has(self, stage: Stage) -> bool:
        """Tell whether a stage was reached."""
        return stage is Stage.BEGUN or stage in self.reached

    @property
    def stage(self) -> Stage:
        """Return the stage that it has come to."""
        return newest_stage(self.reached)

    @property
    def since(self) -> datetime:
        """Return when that stage was reached."""
        found = self.reached.get(self.stage)
        return self.change.at if found is None else found.at

    @property
    def facts(self) -> dict[str, str]:
        """Return the facts of all stages together."""
        return facts_of(self.reached)

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
        Tell whether nobody but the upgrade can start a driver now.

        Each decision has its own fence: whoever was about to launch when it was decided to roll
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
    def birth(self) -> Birth:
        """
        Return whether a driver of the newest epoch was ever started.

        A worker that is killed between the epoch and its driver has told nothing of the deployment.
        """
        seen = self.situation.seen
        if seen is None:
            return Birth.NEVER
        traces = (seen.launch, seen.status, seen.exit, seen.death)
        is_alive = seen.process.state in (ProcessState.RUNNING, ProcessState.SUSPENDED)
        if is_alive or any(trace is not None for trace in traces):
            return Birth.BORN
        has_ended = judge(seen, self.situation.rules).has_ended
        return Birth.NEVER if has_ended else Birth.AWAITED

    @property
    def is_overtaken(self) -> bool:
        """Tell whether somebody else has made a deployment in the place of ours."""
        newest = self.situation.deployment
        if newest is None or newest.number == self.change.replaced:
            return False
        if newest.number == self.change.deployment:
            return newest.fingerprint != self.terms.proposed.fingerprint
        is_ours = self.has(Stage.RESTORED) and newest.number == self.back
        return not is_ours

    @property
    def back(self) -> int:
        """Return the number of the deployment that puts the old one back."""
        return self.change.deployment + 1

    @property
    def can_go_back(self) -> bool:
        """
        Tell whether there is a way back from where it stands now.

        The checkpoint is asked: a driver may have committed a batch and died before it said so. A
        checkpoint that cannot be found may still be told of by its driver.
        """
        if self.terms.rollback.way is not RollbackWay.NONE:
            return True
        seen = self.situation.seen
        status = seen.status if seen is not None and self.has(Stage.LAUNCHED) else None
        return not self.has_committed and (status is None or not status.batches)


def facts_of(reached: Mapping[Stage, StageReached]) -> dict[str, str]:
    """Return the facts of all stages together; those of a later one count."""
    facts: dict[str, str] = {}
    for stage in Stage:
        if stage in reached:
            facts.update(reached[stage].facts)
    return facts


def newest_stage(reached: Mapping[Stage, StageReached]) -> Stage:
    """Return the stage that an upgrade has come to."""
    return max(reached, key=tuple(Stage).index, default=Stage.BEGUN)
