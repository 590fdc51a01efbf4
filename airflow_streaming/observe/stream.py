"""
Home + launcher → Situation: one look at a stream.

An observer remembers how long it has seen a heartbeat stand still, because silence may only be
timed by the one who listens.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow_streaming.core.alerts.alerting import open_incidents
from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.epoch import Epoch
from airflow_streaming.core.health import HealthRules, judge
from airflow_streaming.core.observation import Observation, Process, ProcessState
from airflow_streaming.core.policy import RestartPolicy
from airflow_streaming.core.rules.rule import Finding
from airflow_streaming.core.situation import Situation
from airflow_streaming.core.status import Status
from airflow_streaming.core.supervision import Supervision
from airflow_streaming.core.verdict import VerdictState
from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher
from airflow_streaming.observe.changes import change_in_progress
from airflow_streaming.observe.figures import Figures
from airflow_streaming.observe.memory import Memory

log: Final = logging.getLogger(__name__)


class Observer:
    """
    Looks at the newest epoch of one stream.

    :param home: The stream's records.
    :param launcher: How the driver's processes can be seen from here.
    :param rules: What the judge judges by; default: what the home records of the stream.
    :param policy: The same for restarts.
    :param memory: Where another observer left off.
    :param live: Tells which lane of the stream is live, for whoever keeps that one; default: the
        lane of ``home`` is looked at, live or not.
    :param clock: Monotonic seconds.
    :param now: The time of day.
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
        """What the last look meant, for metrics; ``None`` before the first epoch."""
        self._heard, self._is_blind = clock(), False
        self._memory = Memory.from_event(memory, self._heard) if memory else None

    def lose_sight(self) -> None:
        """Take note that a look failed: the time until the next one that succeeds is no silence."""
        self._is_blind = True

    def memory(self) -> dict[str, Any] | None:
        """Return what was learnt, for the next observer."""
        return self._memory.to_event(self._clock()) if self._memory else None

    def situation(
        self,
        *,
        watched: int | None = None,
        run_started_at: datetime | None = None,
        rollover_after: timedelta | None = None,
        successor_waits: bool = False,
        tells: bool = False,
        asks_change: bool = True,
    ) -> Situation:
        """
        Look once.

        :param watched: The epoch the task has been watching.
        :param run_started_at: Start of the dag run, for rollover.
        :param successor_waits: Another run of the dag is queued.
        :param tells: The task that asks tells people what has not been told.
        :param asks_change: Also look for a change in hand; whoever has it in hand need not.
        :raises HomeUnavailable: the home could not be read; this says nothing of the stream.
        """
        now = self._now()
        rules, policy = self._judged_by()
        desired, epoch = self._home.desired(), self._home.newest_epoch()
        situation = Situation(
            desired=desired.state if desired else DesiredState.RUNNING,
            wish=desired.number if desired else 0,
            now=now,
            rules=rules,
            policy=policy,
            deployment=self._home.newest_deployment(),
            circuit=self._home.circuit(),
            watched=watched,
            run_age=now - run_started_at if run_started_at else timedelta(0),
            rollover_after=rollover_after,
            successor_waits=successor_waits,
            tells=tells,
            alerts=self._home.alerts() if tells else (),
            change=change_in_progress(self._home) if asks_change else None,
            follows=self._follows(),
        )
        return situation if epoch is None else self._with_epoch(situation, epoch)

    def _with_epoch(self, situation: Situation, epoch: Epoch) -> Situation:
        launch = self._home.launch(epoch.number)
        # The process is looked at before its last words: one that ends in between leaves an exit
        # record with a process still seen alive, which is "going down", never the reverse.
        process = self._launcher.probe(epoch, launch)
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
        self.state = judge(seen, situation.rules).state
        return replace(
            situation,
            seen=seen,
            decision=written.decision,
            stop=written.stop,
            stopping_for=_since(memory.stop_since, clock) or timedelta(0),
        )

    def _status(self, epoch: Epoch, process: Process) -> Status | None:
        try:
            return self._home.status(epoch.number)
        except RecordError as err:
            # Of one that lives, taking no status for "still starting" would end in a kill.
            if process.state is not ProcessState.GONE:
                raise
            log.warning("%s Its driver is gone, and is judged without it.", err)
            return None

    def _follows(self) -> str | None:
        live = self._live() if self._live is not None else self._home.name
        return None if live == self._home.name else live

    def _judged_by(self) -> tuple[HealthRules, RestartPolicy]:
        rules, policy = self._given_rules, self._given_policy
        if rules is None or policy is None:
            recorded = self._recorded()
            rules = rules or (recorded.health if recorded else HealthRules())
            policy = policy or (recorded.restart if recorded else RestartPolicy())
        return rules, policy

    def _recorded(self) -> Supervision | None:
        try:
            return self._home.supervision()
        except RecordError as err:
            log.warning("Stream %r is judged by the usual rules: %s", self._home.name, err)
            return None

    def _findings(
        self, epoch: int, status: Status | None, situation: Situation
    ) -> tuple[Finding, ...]:
        if status is None or not situation.rules.rules:
            return ()
        if self._figures is None or self._figures.epoch != epoch:
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
