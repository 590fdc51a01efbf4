"""
The upgrade in place: which stage follows on which event, and the record of each step.

Two decisions are final, because only one of their events can be the next step: to apply or to
abort, and to keep or to roll back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.exceptions import UpgradeRefused
from airflow_streaming.model.records.change_table import ChangeTable, Command, Transition


class Stage(StrEnum):
    """How far an upgrade has come."""

    BEGUN = "begun"
    """The change is open: keep-alive looks on. Terms and proposed deployment are recorded."""
    BACKED_UP = "backed_up"
    """A verified backup of the running stream exists."""
    READY = "ready"
    """Of an upgrade that is pre-warmed: the new deployment's driver waits at the barrier, or it is
    decided that it is started cold; the fact ``warm_up`` says which."""
    STOPPED = "stopped"
    """The old driver is proved gone, and a backup of exactly the batch it ended at exists."""
    APPLYING = "applying"
    """The new deployment is being made: from here on giving up means rolling back."""
    REPARTITIONING = "repartitioning"
    """One Spark changes the number of state partitions; the step has its deadline."""
    REPARTITIONED = "repartitioned"
    """All state has the new number of partitions."""
    MIGRATING = "migrating"
    """Spark writes a migrated copy of the checkpoint; the step has its place and its deadline."""
    MIGRATED = "migrated"
    """The proof of the migrated copy is clean; the new deployment starts from it."""
    DEPLOYED = "deployed"
    """The new deployment is the current one."""
    LAUNCHED = "launched"
    """Its driver was started."""
    JUDGED = "judged"
    """The soak has a verdict; its facts say which."""
    KEPT = "kept"
    """Point of no return: the new deployment stays."""
    ROLLING_BACK = "rolling_back"
    """The new driver is stopped; checkpoint and sinks are put back."""
    LEFT = "left"
    """By an operator's command nothing is put back: the stream stays down until it is started."""
    RESTORED = "restored"
    """
    The new driver is proved gone; checkpoint and sinks are as the old deployment left them, or, by
    an operator's command, as they were found.
    """
    ROLLED_BACK = "rolled_back"
    """The old deployment runs again."""
    ABORTED = "aborted"
    """Given up before the new deployment was made; the old one runs, or starts again."""

    @property
    def is_end(self) -> bool:
        """Tell whether nothing comes after it."""
        return self in _ENDS

    @property
    def is_decided(self) -> bool:
        return self in _DECIDED


class UpgradeEvent(StrEnum):
    """An event or a command of an upgrade."""

    BACKUP_HOLDS = "backup_holds"
    """A backup of the running stream was taken and verified."""
    BACKUP_FAILED = "backup_failed"
    NEW_WARMED = "new_warmed"
    """The new deployment's driver waits at the barrier; nothing is written."""
    WARM_UP_FAILED = "warm_up_failed"
    """It could not be brought there: it is started cold, once the old one has stopped."""
    OLD_STOPPED = "old_stopped"
    """The old driver is dead behind a fence, and its last batch boundary is backed up."""
    APPLY = "apply"
    """All is ready for the new deployment."""
    REPARTITION = "repartition"
    """The number of state partitions is to be changed; the task that takes this step does it."""
    REPARTITION_DONE = "repartition_done"
    REPARTITION_FAILED = "repartition_failed"
    MIGRATE = "migrate"
    """The state is to be migrated; the task that takes this step does it, into a place of its own."""
    MIGRATION_DONE = "migration_done"
    MIGRATION_FAILED = "migration_failed"
    DEPLOYMENT_MADE = "deployment_made"
    NEW_STARTED = "new_started"
    SOAK_ENDED = "soak_ended"
    SOAK_PASSED = "soak_passed"
    """The terms keep a deployment whose soak was good."""
    NO_WAY_BACK = "no_way_back"
    """The soak was not good, and the new deployment cannot be taken back."""
    SOAK_FAILED = "soak_failed"
    NEW_FAILED = "new_failed"
    """Its driver cannot be launched, or has ended after a good soak."""
    DRIVER_CHANGED = "driver_changed"
    """Another task has started a driver."""
    SPEC_CHANGED = "spec_changed"
    """Another task has created a deployment."""
    STOP_WANTED = "stop_wanted"
    """The stream's desired state is "stopped"."""
    PUT_BACK = "put_back"
    """Checkpoint and sinks are in the state from which the old deployment resumes."""
    OLD_BACK = "old_back"
    """The old deployment is the current one; its driver is started, or wanted stopped."""
    KEEP = "keep"
    """A command: it stays, independent of the soak."""
    ROLL_BACK = "roll_back"
    ABORT = "abort"
    LEAVE = "leave"
    """A command: nothing is put back."""


class WarmUp(StrEnum):
    """The state of a pre-warmed upgrade's driver at the barrier."""

    WARM = "warm"
    """It came to the barrier; of a launched one: the epoch is its own."""
    NO_STANDBY = "no_standby"
    """Its launcher starts no standby drivers."""
    NOT_STARTED = "not_started"
    ENDED = "ended"
    """It ended before it came to the barrier."""
    SILENT = "silent"
    """Its heartbeat stands still."""
    TOO_LATE = "too_late"
    """It did not come to the barrier in time."""
    OLD_ENDED = "old_ended"
    """The old driver ended first, and nothing is won by waiting."""
    UNREADABLE = "unreadable"
    """A record of a standby driver is damaged."""
    LOST = "lost"
    """It came to the barrier, and could not be promoted after the stop: it had ended, or cannot be seen."""


class UpgradeCommand(StrEnum):
    """The commands for an upgrade in progress."""

    KEEP = "keep"
    ROLL_BACK = "roll-back"
    ABORT = "abort"
    LEAVE = "leave"
    """Put nothing back, and leave the stream wanted stopped."""


S, E, C = Stage, UpgradeEvent, UpgradeCommand
_ENDS: Final = frozenset({S.KEPT, S.ROLLED_BACK, S.ABORTED})
_DECIDED: Final = _ENDS | {S.ROLLING_BACK, S.LEFT, S.RESTORED}
_UNTOUCHED: Final = (S.BEGUN, S.BACKED_UP, S.READY, S.STOPPED)
_REPARTITION: Final = (S.REPARTITIONING, S.REPARTITIONED)
_MIGRATION: Final = (S.MIGRATING, S.MIGRATED)
_APPLIED: Final = (S.APPLYING, *_REPARTITION, *_MIGRATION, S.DEPLOYED, S.LAUNCHED, S.JUDGED)
_GIVING_UP: Final = (E.SPEC_CHANGED, E.STOP_WANTED, E.ABORT)
_GOING_BACK: Final = (E.SPEC_CHANGED, E.STOP_WANTED, E.ROLL_BACK)
_ROWS: Final[Mapping[tuple[Stage, UpgradeEvent], Stage]] = {
    (S.BEGUN, E.BACKUP_HOLDS): S.BACKED_UP,
    **{(S.BACKED_UP, event): S.READY for event in (E.NEW_WARMED, E.WARM_UP_FAILED)},
    **{(stage, E.OLD_STOPPED): S.STOPPED for stage in (S.BACKED_UP, S.READY)},
    (S.STOPPED, E.APPLY): S.APPLYING,
    (S.APPLYING, E.REPARTITION): S.REPARTITIONING,
    (S.REPARTITIONING, E.REPARTITION_DONE): S.REPARTITIONED,
    (S.REPARTITIONING, E.REPARTITION_FAILED): S.ROLLING_BACK,
    # A run whose worker was killed begins again, in another place.
    **{(stage, E.MIGRATE): S.MIGRATING for stage in (S.APPLYING, S.MIGRATING)},
    (S.MIGRATING, E.MIGRATION_DONE): S.MIGRATED,
    (S.MIGRATING, E.MIGRATION_FAILED): S.ROLLING_BACK,
    **{
        (stage, E.DEPLOYMENT_MADE): S.DEPLOYED
        for stage in (S.APPLYING, S.REPARTITIONED, S.MIGRATED)
    },
    (S.DEPLOYED, E.NEW_STARTED): S.LAUNCHED,
    (S.LAUNCHED, E.SOAK_ENDED): S.JUDGED,
    (S.LAUNCHED, E.KEEP): S.KEPT,
    **{(S.JUDGED, event): S.KEPT for event in (E.SOAK_PASSED, E.NO_WAY_BACK, E.KEEP)},
    (S.JUDGED, E.SOAK_FAILED): S.ROLLING_BACK,
    # Before anything was changed giving up costs nothing; afterwards it is the way back.
    **{(stage, E.BACKUP_FAILED): S.ABORTED for stage in (S.BEGUN, S.BACKED_UP, S.READY)},
    (S.STOPPED, E.DRIVER_CHANGED): S.ABORTED,
    **{(stage, event): S.ABORTED for stage in _UNTOUCHED for event in _GIVING_UP},
    (S.DEPLOYED, E.DRIVER_CHANGED): S.ROLLING_BACK,
    **{(stage, E.NEW_FAILED): S.ROLLING_BACK for stage in (S.DEPLOYED, S.JUDGED)},
    **{(stage, event): S.ROLLING_BACK for stage in _APPLIED for event in _GOING_BACK},
    (S.ROLLING_BACK, E.LEAVE): S.LEFT,
    **{(stage, E.PUT_BACK): S.RESTORED for stage in (S.ROLLING_BACK, S.LEFT)},
    # Another task's deployment meanwhile stays as it is.
    **{(at, E.SPEC_CHANGED): S.ROLLED_BACK for at in (S.ROLLING_BACK, S.LEFT, S.RESTORED)},
    (S.RESTORED, E.OLD_BACK): S.ROLLED_BACK,
}
_COMMANDS: Final[Mapping[str, Command[Stage, UpgradeEvent]]] = {
    C.KEEP: Command(
        events=(E.KEEP,),
        help="keep the new deployment, whatever its soak says; no rollback afterwards",
        reached=(S.KEPT,),
    ),
    C.ROLL_BACK: Command(
        events=(E.ROLL_BACK,),
        help="take the new deployment back; before it is made, the same as abort",
        instead=(E.ABORT,),
        reached=(S.ROLLING_BACK, S.LEFT, S.RESTORED, S.ROLLED_BACK, S.ABORTED),
    ),
    C.ABORT: Command(
        events=(E.ABORT,),
        help="give it up before the new deployment is made",
        reached=(S.ABORTED,),
    ),
    C.LEAVE: Command(
        events=(E.LEAVE,),
        help="end a rollback of which nothing can be put back, with the stream stopped",
        reached=(S.LEFT,),
    ),
}
UPGRADE: Final = ChangeTable(
    "upgrade", S.BEGUN, _ROWS, ends=_ENDS, commands=_COMMANDS, refused=UpgradeRefused
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeTransition(Transition[Stage, UpgradeEvent]):
    """A step of an upgrade, recorded beside its change."""

    KIND: ClassVar[str] = "upgrade_transition"

    before: Stage
    event: UpgradeEvent
    after: Stage
