"""
The hot standby of a stream: its state, and whether it may take over or must be replaced.

A hot standby is a driver that waits, warm, at the barrier. It has the right to wait and no epoch of
the stream; when the live driver is proved dead, the next epoch is created with the standby's token,
and this driver becomes that epoch's. A standby that ends costs only a warm start, so it is replaced
at the least doubt.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.model.durations import age_of
from airflow_streaming.model.observation import Observation, Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Launch
from airflow_streaming.model.spark.launchers import LOCAL
from airflow_streaming.model.status import DriverState, Status
from airflow_streaming.supervision.health import spawn_grace

SILENT_AFTER: Final = timedelta(seconds=60)
"""A standby whose heartbeat has stood still for that long is replaced; it beats every two seconds."""
BIRTH_PATIENCE: Final = timedelta(minutes=10)
"""How long one may take to the barrier; Spark may have packages to download."""
REST_WARM: Final = timedelta(seconds=15)
"""Least age of a standby that had come to the barrier and has ended, before the next is started."""
REST_COLD: Final = timedelta(minutes=5)
"""The same for a standby that never reached the barrier: its problem rarely passes at once."""
SETTLED_AFTER: Final = timedelta(seconds=60)
"""A driver that runs for that long without a batch is idle; its standby may be started."""
WARM_PATIENCE: Final = timedelta(minutes=5)
"""How long the replacement of a deployment waits for the standby of the new one."""


WITH_STANDBY: Final = frozenset({LOCAL})
"""Launchers that keep a standby; a promoted driver was tried with these only."""


class StandbyState(StrEnum):
    """How a standby stands."""

    STARTING = "starting"
    WARM = "warm"
    """It waits at the barrier."""
    SILENT = "silent"
    """Its process is there, and its heartbeat stands still."""
    AWAY = "away"
    """It cannot be seen from here, or is suspended, and its heartbeat rises or did a moment ago."""
    PROMOTED = "promoted"
    """It is the driver of the newest epoch."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyView:
    """
    The state of a lane's newest standby.

    :param epoch: Its record; the number is the standby's.
    :param has_come: It has reached the barrier.
    :param has_ended: It left an exit record, or a proof that it is gone.
    :param is_promoted: The newest epoch of the lane belongs to this driver.
    :param silent_for: How long its heartbeat has not risen.
    """

    epoch: Epoch
    process: Process
    launch: Launch | None = None
    status: Status | None = None
    has_come: bool = False
    has_ended: bool = False
    is_stopping: bool = False
    is_promoted: bool = False
    silent_for: timedelta = timedelta(0)


def state_of(standby: StandbyView, now: datetime) -> StandbyState:
    """Tell how a standby stands."""
    if standby.is_promoted:
        return StandbyState.PROMOTED
    if standby.has_ended or standby.is_stopping:
        return StandbyState.ENDED
    age = age_of(standby.epoch.created_at, now)
    is_unborn = standby.launch is None and standby.status is None
    if standby.process.state is ProcessState.GONE:
        # Another task may be between the record and the launch.
        is_coming = is_unborn and age < spawn_grace(standby.epoch)
        return StandbyState.STARTING if is_coming else StandbyState.ENDED
    if standby.status is not None and standby.silent_for >= SILENT_AFTER:
        return StandbyState.SILENT
    if standby.process.state is not ProcessState.RUNNING:
        return StandbyState.SILENT if age >= BIRTH_PATIENCE and is_unborn else StandbyState.AWAY
    status = standby.status
    if standby.has_come and status is not None and status.standby:
        is_ending = status.state is DriverState.STOPPING
        return StandbyState.ENDED if is_ending else StandbyState.WARM
    return StandbyState.SILENT if age >= BIRTH_PATIENCE else StandbyState.STARTING


def is_of(standby: StandbyView, deployment: int) -> bool:
    """
    Return whether a standby belongs to a deployment of the stream.

    An upgrade's standby is only that upgrade's: its proposed deployment may never have been
    created, and another one may have its number.
    """
    return standby.epoch.change is None and standby.epoch.deployment == deployment


def summary(standby: StandbyView | None, now: datetime) -> str:
    """Return a standby's state in a few words, empty without one."""
    if standby is None:
        return ""
    state = state_of(standby, now)
    if state is StandbyState.PROMOTED:
        return f"{standby.epoch.number} was promoted; none waits"
    seen = "" if state is StandbyState.ENDED else f", {standby.process.detail}"
    change = "" if standby.epoch.change is None else f", change {standby.epoch.change}"
    what = f"{standby.epoch.number} of deployment {standby.epoch.deployment}{change}"
    return f"{what}: {state}{seen}"


def can_take_over(standby: StandbyView | None, deployment: int, now: datetime) -> bool:
    """Tell whether the next epoch of a deployment may be this driver's."""
    return (
        standby is not None
        and is_of(standby, deployment)
        and state_of(standby, now) is StandbyState.WARM
    )


def reason_to_make(standby: StandbyView | None, deployment: int, now: datetime) -> str:
    """
    Return why a standby is to be started now, empty when none is.

    The next one's record fences the one before, which then ends itself.
    """
    if standby is None:
        return "The stream has no standby driver yet."
    number, state = standby.epoch.number, state_of(standby, now)
    if state is StandbyState.PROMOTED:
        return f"Standby {number} was promoted."
    if standby.epoch.change is not None:
        return f"Standby {number} is of change {standby.epoch.change}."
    if standby.epoch.deployment != deployment:
        return f"Standby {number} is of deployment {standby.epoch.deployment}, not {deployment}."
    if state is StandbyState.SILENT:
        return f"Standby {number} does not beat, or has not come to the barrier in time."
    rest = REST_WARM if standby.has_come else REST_COLD
    if state is StandbyState.ENDED and age_of(standby.epoch.created_at, now) >= rest:
        return f"Standby {number} has ended."
    return ""


def has_settled(live: Observation) -> bool:
    """Tell whether a live driver is past its start, so that another may use the machine."""
    status = live.status
    if status is None or status.standby or status.state is not DriverState.RUNNING:
        return False
    is_idle = status.at - status.started_at >= SETTLED_AFTER
    return status.first_progress_at is not None or is_idle


def is_worth_waiting_for(
    standby: StandbyView | None, deployment: int, since: datetime, now: datetime
) -> bool:
    """
    Tell whether the driver of an older deployment runs on until a standby of the new one is warm.

    :param since: When the new deployment was made.
    """
    if age_of(since, now) >= WARM_PATIENCE or can_take_over(standby, deployment, now):
        return False
    if standby is None or not is_of(standby, deployment):
        return True
    return state_of(standby, now) in {StandbyState.STARTING, StandbyState.AWAY}
