"""
Home and launcher to situation: one look at a stream.

The memory fits in a small dict, which a trigger hands to its task in the event, so that the task
reaches the same verdict without listening as long again.

An observer remembers how long it has seen a heartbeat stand still, because silence may only be
timed by the one who listens.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Self

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.driver_end import DriverEnd
from airflow_streaming.launch.port import Launcher, open_driver_end
from airflow_streaming.model.arguments.autoscale import Autoscale
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import Finding, HealthRules
from airflow_streaming.model.observation import (
    CpuIdle,
    Observation,
    Process,
    ProcessState,
    VerdictState,
)
from airflow_streaming.model.records.control import Desired, DesiredState
from airflow_streaming.model.records.epoch import Epoch, Launch
from airflow_streaming.model.status import Status
from airflow_streaming.supervision.alerts.alerting import open_incidents
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.epoch_figures import Figures
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.open_change import change_in_progress
from airflow_streaming.supervision.rules.states import RuleStates, rule_states
from airflow_streaming.supervision.scaling.sizing import SizeObserver
from airflow_streaming.supervision.standby_observer import StandbyObserver

log: Final = logging.getLogger(__name__)
_ALIVE: Final = frozenset({ProcessState.RUNNING, ProcessState.SUSPENDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """
    The observer's memory, by its monotonic clock.

    :param beat: The last heartbeat; 0 before the first.
    :param since: When it was first seen so.
    :param still: The driver's CPU time; ``None`` if it cannot be seen.
    :param suspended_since: When its processes were first seen suspended.
    :param beating: The heartbeat has been seen to rise.
    :param stop_since: When the stop request was first seen.
    """

    epoch: int
    beat: int
    since: float
    still: CpuIdle | None = None
    suspended_since: float | None = None
    beating: bool = False
    stop_since: float | None = None

    def look(self, clock: float, *, beat: int, process: Process, has_stop: bool) -> Memory:
        """Return the memory after one more look."""
        rises = beat != self.beat
        is_suspended = process.state is ProcessState.SUSPENDED
        return replace(
            self,
            beat=beat,
            since=clock if rises else self.since,
            still=_still(self.still, clock, process.cpu_seconds),
            suspended_since=_first(self.suspended_since, clock) if is_suspended else None,
            beating=self.beating or rises,
            stop_since=_first(self.stop_since, clock) if has_stop else None,
        )

    def without(self, blind: float) -> Memory:
        """Return the memory without the last seconds, in which the stream could not be read."""
        return replace(
            self,
            since=self.since + blind,
            # A driver that could not be observed could not read a stop request either.
            stop_since=None if self.stop_since is None else self.stop_since + blind,
            suspended_since=None if self.suspended_since is None else self.suspended_since + blind,
        )

    def to_event(self, clock: float) -> dict[str, Any]:
        """Return the memory as ages in seconds, from which another process continues."""
        return {
            "epoch": self.epoch,
            "beat": self.beat,
            "silent_for": clock - self.since,
            "flat_for": None if self.still is None else clock - self.still.since,
            "cpu": None if self.still is None else self.still.cpu,
            "suspended_for": _age(self.suspended_since, clock),
            "stopping_for": _age(self.stop_since, clock),
        }

    @classmethod
    def from_event(cls, data: dict[str, Any], clock: float) -> Self:
        """Continue from another process's memory."""
        flat_for, cpu = data.get("flat_for"), data.get("cpu")
        return cls(
            epoch=int(data["epoch"]),
            beat=int(data["beat"]),
            since=clock - float(data["silent_for"]),
            still=None
            if flat_for is None or cpu is None
            else CpuIdle(at=clock, cpu=float(cpu), since=clock - float(flat_for)),
            suspended_since=_moment(data.get("suspended_for"), clock),
            stop_since=_moment(data.get("stopping_for"), clock),
        )


def _still(before: CpuIdle | None, clock: float, cpu: float | None) -> CpuIdle | None:
    if cpu is None:
        return None
    return CpuIdle.begin(clock, cpu) if before is None else before.look(clock, cpu)


def _first(before: float | None, clock: float) -> float:
    return clock if before is None else before


def _age(moment: float | None, clock: float) -> float | None:
    return None if moment is None else clock - moment


def _moment(age: Any, clock: float) -> float | None:
    return None if age is None else clock - float(age)


def is_other_home(home: StreamHome, newest: Epoch | None, watched: int | None, mark: str) -> bool:
    """
    Return whether the home was replaced by another one since a task watched an epoch.

    :param newest: The newest epoch here.
    :param mark: The mark of the watched epoch, see ``Epoch.mark``; empty if unknown.
    """
    if newest is None or watched is None or not mark or newest.number < watched:
        return False  # a place that lacks the epoch is judged by that
    if newest.number == watched:
        return newest.mark != mark
    try:
        return home.epoch(watched).mark != mark
    except RecordError:
        return False  # pruned or damaged


class Observer:
    """
    Observes the newest epoch of one stream.

    :param launcher: Sees the driver's processes from here.
    :param rules: Health rules in place of the recorded ones.
    :param policy: Restart policy in place of the recorded one.
    :param live: Returns the live lane of the stream, for its keep-alive task; default: the lane of
        ``home``, live or not.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        home: StreamHome,
        launcher: Launcher,
        *,
        rules: HealthRules | None = None,
        policy: RestartPolicy | None = None,
        memory: dict[str, Any] | None = None,
        live: Callable[[], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._home, self._launcher = home, launcher
        self._given_rules, self._given_policy = rules, policy
        self._figures: Figures | None = None
        self._live = live
        self._clock, self._now = clock, now
        self.state: VerdictState | None = None
        """The state of the last look, for metrics; ``None`` before the first epoch."""
        self.rule_states: RuleStates = {}
        """Whether each rule fires, by the last look."""
        self._alive: tuple[Epoch, Launch | None] | None = None
        self._heard, self._is_blind = clock(), False
        self._memory = Memory.from_event(memory, self._heard) if memory else None
        self._standbys: StandbyObserver | None = None
        self._standby_memory = memory
        self._sizes: SizeObserver | None = None

    def lose_sight(self) -> None:
        self._is_blind = True

    def driver_end(self) -> DriverEnd | None:
        """
        Watch for the end of the driver that the last look saw alive.

        :returns: ``None`` without such a driver, or if its launcher cannot notice the end.
        """
        return None if self._alive is None else open_driver_end(self._launcher, *self._alive)

    def memory(self) -> dict[str, Any] | None:
        """Return the memory for the next observer."""
        if self._memory is None:
            return None
        standby = self._standbys.to_event() if self._standbys is not None else {}
        return {**self._memory.to_event(self._clock()), **standby}

    def situation(
        self,
        *,
        watched: int | None = None,
        mark: str = "",
        run_started_at: datetime | None = None,
        rollover_after: timedelta | None = None,
        successor_waits: bool = False,
        tells: bool = False,
        asks_change: bool = True,
        wants_standby: bool = False,
        autoscale: Autoscale | None = None,
    ) -> ReconcileInput:
        """
        Look once.

        :param watched: The epoch the task has been watching; ``mark`` is its mark.
        :param run_started_at: Start of the dag run, for rollover.
        :param successor_waits: Another run of the dag is queued.
        :param tells: The calling task sends unsent alerts.
        :param asks_change: Also look for an open change; the task that runs the change need not.
        :param wants_standby: The spec has a hot standby, and this task manages it.
        :param autoscale: The DAG's size policy, if this task manages it.
        :raises HomeUnavailable: the home could not be read; the stream's state is unknown.
        """
        now = self._now()
        rules, policy = self._judged_by()
        desired, epoch = self._home.desired(), self._home.newest_epoch()
        situation = ReconcileInput(
            desired=desired.state if desired else DesiredState.RUNNING,
            desired_number=desired.number if desired else 0,
            is_stop_over=self._is_over(desired, now),
            now=now,
            rules=rules,
            policy=policy,
            deployment=self._home.newest_deployment(),
            circuit=self._home.circuit(),
            watched=watched,
            mark=mark,
            is_other_home=is_other_home(self._home, epoch, watched, mark),
            run_age=now - run_started_at if run_started_at else timedelta(0),
            rollover_after=rollover_after,
            successor_waits=successor_waits,
            tells=tells,
            alerts=self._home.alerts() if tells else (),
            change=change_in_progress(self._home) if asks_change else None,
            follows=self._follows(),
        )
        if wants_standby:
            situation = self._with_standby(situation, epoch)
        if epoch is None:
            return situation
        return self._with_size(self._with_epoch(situation, epoch), autoscale)

    def _is_over(self, desired: Desired | None, now: datetime) -> bool:
        # A restore needs the stream down until its end.
        is_over = desired is not None and desired.is_over(now)
        return is_over and self._home.unfinished_change() is None

    def _with_size(self, situation: ReconcileInput, policy: Autoscale | None) -> ReconcileInput:
        deployment, seen = situation.deployment, situation.seen
        is_asked = policy is not None and situation.stop is None and situation.change is None
        if policy is None or not is_asked or deployment is None or seen is None:
            return situation
        if seen.status is None or seen.epoch.deployment != deployment.number:
            return situation
        if self._sizes is None:
            self._sizes = SizeObserver(self._home, policy, self._clock)
        return replace(situation, size=self._sizes.look(deployment, seen, situation.policy))

    def _with_epoch(self, situation: ReconcileInput, epoch: Epoch) -> ReconcileInput:
        launch = self._home.launch(epoch.number)
        # The process is observed before its exit record: an end in between leaves an exit
        # record with a process still seen alive, which is "going down", never the reverse.
        heartbeat = partial(self._home.heartbeat, epoch.number)
        process = self._launcher.probe(epoch, launch, heartbeat)
        self._alive = (epoch, launch) if process.state in _ALIVE else None
        status, written = self._status(epoch, process), self._home.aftermath(epoch.number)
        memory = self._remember(epoch, status, process, has_stop=written.stop is not None)
        clock = self._clock()
        seen = Observation(
            epoch=epoch,
            process=process,
            now=situation.now,
            launch=launch,
            status=status,
            exit=written.exit,
            death=written.death,
            silent_for=timedelta(seconds=clock - memory.since),
            flat_for=_seconds(None if memory.still is None else memory.still.flat_for),
            suspended_for=_since(memory.suspended_since, clock),
            beating=memory.beating,
            findings=self._findings(epoch.number, status, situation),
        )
        verdict = judge(seen, situation.rules)
        queries = [query.name for query in status.queries] if status else []
        self.state = verdict.state
        self.rule_states = rule_states(verdict, seen.findings, queries)
        return replace(
            situation,
            seen=seen,
            decision=written.decision,
            stop=written.stop,
            stopping_for=_since(memory.stop_since, clock) or timedelta(0),
            is_unreleased=epoch.promotes is not None
            and written.exit is None
            and not self._home.is_released(epoch.number),
        )

    def _status(self, epoch: Epoch, process: Process) -> Status | None:
        try:
            return self._home.status(epoch.number)
        except RecordError as err:
            # For a living driver, reading a missing status as "still starting" would end in a kill.
            if process.state is not ProcessState.GONE:
                raise
            log.warning(
                "Driver is dead and its last status is unreadable; continuing without it: %s", err
            )
            return None

    def _with_standby(self, situation: ReconcileInput, live: Epoch | None) -> ReconcileInput:
        if self._standbys is None:
            self._standbys = StandbyObserver(
                self._home, self._launcher, memory=self._standby_memory, clock=self._clock
            )
        try:
            standby = self._standbys.look(live)
        except RecordError as err:
            # The live driver is looked after all the same; of the standby nothing is believed.
            log.warning(
                "Stream %r: a record of its hot standby is unreadable, so none is started or "
                "promoted; restore or remove the record: %s",
                self._home.name,
                err,
            )
            return replace(situation, wants_standby=True, is_standby_unreadable=True)
        return replace(situation, wants_standby=True, standby=standby)

    def _follows(self) -> str | None:
        live = self._live() if self._live is not None else self._home.name
        return None if live == self._home.name else live

    def _judged_by(self) -> tuple[HealthRules, RestartPolicy]:
        rules, policy = self._given_rules, self._given_policy
        if rules is not None and policy is not None:
            return rules, policy
        recorded = self._home.supervision()
        return rules or recorded.health, policy or recorded.restart

    def _findings(
        self, epoch: int, status: Status | None, situation: ReconcileInput
    ) -> tuple[Finding, ...]:
        if status is None or not situation.rules.rules:
            return ()
        if self._figures is None or not self._figures.are_of(epoch, situation.rules):
            incidents = {
                alert.key: alert.at
                for alert in open_incidents(situation.alerts)
                if alert.epoch == epoch
            }
            self._figures = Figures(self._home, epoch, situation.rules, incidents=incidents)
        return self._figures.findings(status, self._clock())

    def _remember(
        self, epoch: Epoch, status: Status | None, process: Process, *, has_stop: bool
    ) -> Memory:
        beat, clock = status.beat if status else 0, self._clock()
        memory = self._memory
        if memory is None or memory.epoch != epoch.number:
            memory = Memory(epoch=epoch.number, beat=beat, since=clock)
        elif self._is_blind:
            # A store that was away was away for the driver too: it could not write its beats.
            memory = memory.without(clock - self._heard)
        self._heard, self._is_blind = clock, False
        self._memory = memory.look(clock, beat=beat, process=process, has_stop=has_stop)
        return self._memory


def _since(moment: float | None, clock: float) -> timedelta | None:
    return _seconds(None if moment is None else clock - moment)


def _seconds(duration: float | None) -> timedelta | None:
    return None if duration is None else timedelta(seconds=duration)
