"""
Status of a stream: records and observation to standing.

A verdict judges a driver. The standing judges the stream: it may be stopped on purpose, wait for its
restart, or have been given up. Command line, page and sensors show this one value, and the exit code
of ``status`` follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Final

from airflow_streaming.exceptions import closed
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.codec import format_time
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import Observation, Verdict, VerdictState
from airflow_streaming.model.records.alert import Alert
from airflow_streaming.model.records.control import (
    ChangeInProgress,
    Circuit,
    Desired,
    DesiredState,
)
from airflow_streaming.model.records.deployment import Deployment, Deviation, difference_to_dag
from airflow_streaming.model.records.restart_decision import RestartAction, RestartDecision
from airflow_streaming.model.status import DataLoss
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.restart import (
    Progress,
    fails_alike,
    failures_in_a_row,
    remedy_of,
)

RESTART_OVERDUE: Final = timedelta(minutes=5)
"""After a restart was due, its task has had this long to start a driver."""


class Level(StrEnum):
    """How urgently a stream needs a user, the most urgent first."""

    DOWN = "down"
    """It should run and does not, and no task brings it back."""
    BAD = "bad"
    """Its driver does not work, or is out of sight."""
    WARN = "warn"
    """It works and an incident is open, or its restart is due."""
    BUSY = "busy"
    """It starts, stops or is being changed."""
    WELL = "well"
    OFF = "off"
    """It is down on purpose."""

    @property
    def rank(self) -> int:
        """Return its place among all levels, the most urgent first."""
        return [*Level].index(self)

    @property
    def is_all_right(self) -> bool:
        """Tell whether the stream works, or is down on purpose."""
        return self in (Level.WELL, Level.OFF)


class Standing(StrEnum):
    """Standings that no verdict has a word for."""

    GAVE_UP = "gave_up"
    OFF = "off"
    NEVER_RUN = "never_run"
    RESTARTING = "restarting"
    RESTART_OVERDUE = "restart_overdue"


_LEVELS: Final = {
    VerdictState.FAILED: Level.DOWN,
    VerdictState.DEAD: Level.DOWN,
    VerdictState.HUNG: Level.BAD,
    VerdictState.STALLED: Level.BAD,
    VerdictState.UNREACHABLE: Level.BAD,
    VerdictState.DEGRADED: Level.WARN,
    VerdictState.SLOW: Level.WARN,
    # Wanted running: its task starts the next driver.
    VerdictState.STOPPED: Level.WARN,
    VerdictState.STARTING: Level.BUSY,
    VerdictState.STOPPING: Level.BUSY,
    VerdictState.PAUSED: Level.BUSY,
    VerdictState.HEALTHY: Level.WELL,
    VerdictState.IDLE: Level.WELL,
    VerdictState.COMPLETED: Level.OFF,
}


def level_of(state: VerdictState) -> Level:
    """Return how urgently a verdict alone needs a user."""
    return _LEVELS[state]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStanding:
    """
    Where a stream stands.

    :param word: A verdict's state or a ``Standing``.
    :param remedy: The next act of a user; empty where none is needed.
    """

    word: str
    level: Level
    reason: str
    since: datetime | None = None
    remedy: str = ""

    @property
    def words(self) -> str:
        """Return the word as people read it."""
        return self.word.replace("_", " ")


class KeptDown(StrEnum):
    """Why a stream stays down until a user starts it."""

    STOPPED = "stopped"
    CIRCUIT = "circuit"


def kept_down_by(
    desired: DesiredState, circuit: Circuit | None, epoch: int | None
) -> KeptDown | None:
    """
    Return what keeps a stream down, ``None`` where it may run.

    :param epoch: Number of the newest epoch.
    """
    if desired is DesiredState.STOPPED:
        return KeptDown.STOPPED
    return KeptDown.CIRCUIT if circuit is not None and circuit.holds(epoch) else None


@dataclass(frozen=True, kw_only=True)
class StreamStatus:
    """
    The records of a stream, and one observation of its newest epoch.

    :param stream: The name of the lane.
    :param decisions: The newest decision about a failed epoch since a user last closed the circuit; empty
        without one, and where a driver has made healthy progress since.
    :param progress: Of every driver since then.
    :param restarts_24h: Automatic restarts decided within 24 hours; ``None`` where a record is damaged.
    :param incidents: Alerts that are not over, oldest first.
    :param is_live: Consumers read this lane.
    :param deviation: The newest record of how the DAG differs from a live deployment.
    :param unread: Errors of damaged records that the status does without.
    """

    stream: str
    now: datetime
    rules: HealthRules
    policy: RestartPolicy
    seen: Observation | None
    desired: Desired | None
    circuit: Circuit | None
    deployment: Deployment | None
    decisions: tuple[RestartDecision, ...] = ()
    progress: tuple[Progress, ...] = ()
    restarts_24h: int | None = 0
    incidents: tuple[Alert, ...] = ()
    change: ChangeInProgress | None = None
    is_live: bool = True
    unread: tuple[str, ...] = ()
    deviation: Deviation | None = None

    @property
    def dag_differs(self) -> str:
        """Return how the DAG differs from the live deployment, as a sentence; empty where it does not."""
        if self.deployment is None or not self.is_live:
            return ""
        return difference_to_dag(self.deployment, self.deviation)

    @cached_property
    def verdict(self) -> Verdict | None:
        """Return the verdict on the newest epoch; ``None`` when the stream has never run."""
        return judge(self.seen, self.rules) if self.seen else None

    @property
    def epoch(self) -> int | None:
        """Return the number of the newest epoch."""
        return self.seen.epoch.number if self.seen else None

    @property
    def wants_to_run(self) -> bool:
        """Tell whether the stream should run: no user stopped it, or the end of the stop has come."""
        desired = self.desired
        return desired is None or desired.state is DesiredState.RUNNING or desired.is_over(self.now)

    @property
    def circuit_is_open(self) -> bool:
        """Tell whether the circuit keeps the stream down."""
        return self.circuit is not None and self.circuit.holds(self.epoch)

    @property
    def decision(self) -> RestartDecision | None:
        """Return the decision about the newest epoch, if it failed."""
        newest = self.decisions[-1] if self.decisions else None
        return newest if newest is not None and newest.epoch == self.epoch else None

    @property
    def next_attempt_at(self) -> datetime | None:
        """Return when a restart is due; ``None`` when none is decided."""
        return self.decision.next_attempt_at if self.decision is not None else None

    @property
    def is_backing_off(self) -> bool:
        """Tell whether a restart is decided and waits."""
        return self.decision is not None and self.decision.is_waiting(self.now)

    @property
    def failures_in_a_row(self) -> int:
        """Return the failures since a driver last made healthy progress."""
        return failures_in_a_row(self.decisions, self.progress, self.policy)

    @property
    def same_copy_would_fail(self) -> bool:
        """Return whether a start would launch the failed copy again."""
        if not self.circuit_is_open or self.seen is None or self.deployment is None:
            return False
        return fails_alike(self.decision, self.seen.epoch.deployment, self.deployment.number)

    @property
    def loss(self) -> DataLoss | None:
        """Return the first unread data that a source removes, as the newest driver saw it last."""
        return None if self.seen is None or self.seen.status is None else self.seen.status.loss

    @property
    def is_all_right(self) -> bool:
        """Tell whether the stream works, or is down on purpose."""
        return self.standing.level.is_all_right

    @cached_property
    def standing(self) -> StreamStanding:
        """Return where the stream stands."""
        if self.verdict is None or self.verdict.has_ended:
            return _without_driver(self, self.verdict)
        return _with_driver(self, self.verdict)


def _without_driver(s: StreamStatus, verdict: Verdict | None) -> StreamStanding:
    state = DesiredState.RUNNING if s.wants_to_run else DesiredState.STOPPED
    match kept_down_by(state, s.circuit, s.epoch):
        case KeptDown.STOPPED if s.desired is not None:
            return _stopped(s, s.desired)
        case KeptDown.CIRCUIT if s.circuit is not None:
            return _gave_up(s, s.circuit)
    if not s.is_live:
        return _off(f"{s.stream} is not the live lane.")
    if verdict is None:
        reason = "The stream has never run."
        return StreamStanding(word=Standing.NEVER_RUN, level=Level.BUSY, reason=reason)
    if s.next_attempt_at is not None and s.decision is not None:
        return _restarting(s, s.decision, s.next_attempt_at)
    return StreamStanding(
        word=verdict.state.value,
        level=level_of(verdict.state),
        reason=verdict.reason,
        since=verdict.since,
        remedy=_remedy(s.incidents, verdict) or _remedy_of_exit(s.seen),
    )


def _remedy_of_exit(seen: Observation | None) -> str:
    exit = None if seen is None else seen.exit
    if exit is None or exit.failure_kind is None or not exit.failure_kind.needs_a_person:
        return ""
    return exit.remedy


def _with_end(stop: Desired) -> str:
    if stop.until is None:
        return stop.reason
    return f"{closed(stop.reason)} The stream starts again at {stop.until:%Y-%m-%d %H:%M %Z}."


def _stopped(s: StreamStatus, stop: Desired) -> StreamStanding:
    """Return the standing of a stream that a user stopped; a stop that costs data needs a user again."""
    found, loss = _off(_with_end(stop), stop.at), s.loss
    if loss is None or not s.is_live or not loss.is_near(s.now):
        return found
    left = loss.at - s.now
    when = f"in {duration_text(left)}" if left > timedelta(0) else "by now"
    return replace(
        found,
        level=Level.WARN,
        reason=f"{closed(found.reason)} {loss.source} removes unread data of query {loss.query!r} {when}.",
        remedy=f"Start the stream: airflow-streaming start {s.stream} --reason TEXT. Or lengthen the retention of the "
        "source.",
    )


def _off(reason: str, since: datetime | None = None) -> StreamStanding:
    return StreamStanding(word=Standing.OFF, level=Level.OFF, reason=reason, since=since)


def _gave_up(s: StreamStatus, circuit: Circuit) -> StreamStanding:
    is_decided = s.decision is not None and s.decision.action is RestartAction.GIVE_UP
    told = next((one.remedy for one in reversed(s.incidents) if one.remedy), "")
    return StreamStanding(
        word=Standing.GAVE_UP,
        level=Level.DOWN,
        reason=circuit.reason,
        since=circuit.at,
        remedy=remedy_of(s.decision, s.stream) if s.decision and is_decided else told,
    )


def _restarting(s: StreamStatus, decision: RestartDecision, due: datetime) -> StreamStanding:
    restarting = StreamStanding(
        word=Standing.RESTARTING,
        level=Level.WARN,
        reason=decision.reason,
        since=decision.decided_at,
    )
    if s.change is not None or s.now - due < RESTART_OVERDUE:
        return restarting
    return replace(
        restarting,
        word=Standing.RESTART_OVERDUE,
        level=Level.DOWN,
        reason=f"{closed(decision.reason)} The restart was due at {format_time(due)}, and no task "
        "has started a driver.",
        remedy="Unpause the stream's DAG, and look whether its run waits for a worker slot.",
    )


def _with_driver(s: StreamStatus, verdict: Verdict) -> StreamStanding:
    level, since = level_of(verdict.state), verdict.since
    if since is None and verdict.healthy_for:
        since = s.now - verdict.healthy_for
    found = StreamStanding(
        word=verdict.state.value,
        level=level,
        reason=verdict.reason,
        since=since,
        remedy=_remedy(s.incidents, verdict),
    )
    if not s.wants_to_run and level is not Level.BAD and s.desired is not None:
        return replace(
            found,
            word=VerdictState.STOPPING.value,
            level=Level.BUSY,
            reason=f'Desired state is "stopped": {closed(s.desired.reason)} Its driver has not '
            f"ended yet. {verdict.reason}",
            since=s.desired.at,
        )
    if not verdict.is_well:
        return found
    return _with_incidents(s, found)


def _with_incidents(s: StreamStatus, found: StreamStanding) -> StreamStanding:
    # The task that keeps the stream watches figures; one look at the records does not.
    word, level = VerdictState.DEGRADED.value, Level.WARN
    if s.incidents:
        newest = s.incidents[-1]
        return StreamStanding(
            word=word, level=level, reason=newest.reason, since=newest.at, remedy=newest.remedy
        )
    if s.unread:
        return replace(found, word=word, level=level, reason=s.unread[0], since=None)
    return found


def _remedy(incidents: Sequence[Alert], verdict: Verdict) -> str:
    return next((one.remedy for one in incidents if one.rule == verdict.rule), "")
