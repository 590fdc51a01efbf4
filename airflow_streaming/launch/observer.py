"""
Home + launcher → Situation: one look at a stream.

An observer remembers how long it has seen a heartbeat stand still, because silence may only be
timed by the one who listens. What it remembers fits in a small dict, which a trigger hands to its
task in the event, so that the task need not wait as long again to come to the same verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.epoch import Epoch
from airflow_streaming.core.health import HealthRules, Observation, Process
from airflow_streaming.core.restart import RestartPolicy
from airflow_streaming.core.status import Status
from airflow_streaming.core.steering import Situation
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """
    What an observer knows of the past of one epoch.

    :param beat: The heartbeat as last seen; 0 before the first.
    :param since: When it was first seen so, by the observer's monotonic clock.
    :param cpu: CPU seconds of the driver at that moment.
    :param beating: The heartbeat has been seen to rise.
    :param stop_since: When the stop request was first seen.
    """

    epoch: int
    beat: int
    since: float
    cpu: float | None = None
    beating: bool = False
    stop_since: float | None = None

    def to_event(self, clock: float) -> dict[str, Any]:
        """Return the memory as ages in seconds, for another process to go on from."""
        return {
            "epoch": self.epoch,
            "beat": self.beat,
            "silent_for": clock - self.since,
            "cpu": self.cpu,
            "stopping_for": None if self.stop_since is None else clock - self.stop_since,
        }

    @classmethod
    def from_event(cls, data: dict[str, Any], clock: float) -> Self:
        """Go on from another process's memory."""
        stopping = data.get("stopping_for")
        return cls(
            epoch=int(data["epoch"]),
            beat=int(data["beat"]),
            since=clock - float(data["silent_for"]),
            cpu=data.get("cpu"),
            stop_since=None if stopping is None else clock - float(stopping),
        )


class Observer:
    """
    Looks at the newest epoch of one stream.

    :param home: The stream's records.
    :param launcher: How the driver's processes can be seen from here.
    :param rules: Handed on to the judge.
    :param policy: Handed on to the steering.
    :param memory: Where another observer left off.
    :param clock: Monotonic seconds.
    :param now: The time of day.
    """

    def __init__(
        self,
        home: StreamHome,
        launcher: Launcher,
        *,
        rules: HealthRules,
        policy: RestartPolicy,
        memory: dict[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._home, self._launcher = home, launcher
        self._rules, self._policy = rules, policy
        self._clock, self._now = clock, now
        self._memory = Memory.from_event(memory, clock()) if memory else None

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
    ) -> Situation:
        """
        Look once.

        :param watched: The epoch the task has been watching.
        :param run_started_at: Start of the dag run, for rollover.
        :param successor_waits: Another run of the dag is queued.
        :raises HomeUnavailable: the home could not be read; this says nothing of the stream.
        """
        now = self._now()
        desired, epoch = self._home.desired(), self._home.newest_epoch()
        situation = Situation(
            desired=desired.state if desired else DesiredState.RUNNING,
            now=now,
            rules=self._rules,
            policy=self._policy,
            deployment=self._home.newest_deployment(),
            circuit=self._home.circuit(),
            watched=watched,
            run_age=now - run_started_at if run_started_at else timedelta(0),
            rollover_after=rollover_after,
            successor_waits=successor_waits,
        )
        return situation if epoch is None else self._with_epoch(situation, epoch)

    def _with_epoch(self, situation: Situation, epoch: Epoch) -> Situation:
        launch = self._home.launch(epoch.number)
        # The process is looked at before its last words: one that ends in between leaves an exit
        # record with a process still seen alive, which is "going down", never the reverse.
        process = self._launcher.probe(epoch, launch)
        status, stop = self._home.status(epoch.number), self._home.stop_request(epoch.number)
        memory = self._remember(epoch, status, process, has_stop=stop is not None)
        clock = self._clock()
        seen = Observation(
            epoch=epoch,
            process=process,
            now=situation.now,
            launch=launch,
            status=status,
            exit=self._home.exit(epoch.number),
            death=self._home.death(epoch.number),
            silent_for=timedelta(seconds=clock - memory.since),
            cpu_in_silence=_used(memory.cpu, process.cpu_seconds),
            beating=memory.beating,
        )
        return replace(
            situation,
            seen=seen,
            decision=self._home.restart_decision(epoch.number),
            stop=stop,
            stopping_for=timedelta(
                seconds=clock - memory.stop_since if memory.stop_since is not None else 0
            ),
        )

    def _remember(
        self, epoch: Epoch, status: Status | None, process: Process, *, has_stop: bool
    ) -> Memory:
        beat, clock = status.beat if status else 0, self._clock()
        memory = self._memory
        if memory is None or memory.epoch != epoch.number:
            memory = Memory(epoch=epoch.number, beat=beat, since=clock, cpu=process.cpu_seconds)
        elif memory.beat != beat:
            memory = replace(memory, beat=beat, since=clock, cpu=process.cpu_seconds, beating=True)
        if has_stop and memory.stop_since is None:
            memory = replace(memory, stop_since=clock)
        self._memory = memory
        return memory


def _used(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
