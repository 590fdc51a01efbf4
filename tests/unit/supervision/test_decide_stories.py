"""
Everything dies at some time, and the next look still comes to a good end.

A small model of the world: records that are created once, one host with processes on it, and a
task that dies between any two of its acts. Random misfortunes happen to it. Whatever they were, no
second driver is ever started while one lives, and once they cease the stream runs, or is down for a
reason that a person can read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import Observation, Process, ProcessState
from airflow_streaming.model.records.control import Circuit, CircuitState, DesiredState
from airflow_streaming.model.records.epoch import (
    Epoch,
    Exit,
    Launch,
    LaunchCause,
    Outcome,
    StopRequest,
    TerminationProof,
)
from airflow_streaming.model.records.restart_decision import Failure, RestartAction, RestartDecision
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.status import Status
from airflow_streaming.supervision.decide import Action, ReconcileInput, Step, decide
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.restart import decide_restart
from tests.unit.supervision.builders import (
    NOW,
    a_deployment,
    a_launch,
    a_status,
    a_stop,
    an_epoch,
    an_exit,
    minutes,
    seconds,
)

POLICY = RestartPolicy(half_open_after=minutes(30))
RULES = HealthRules()


class TaskDied(Exception):
    """The task was killed between two of its acts."""


@dataclass
class Life:
    """One epoch: its records, and when its driver last beat."""

    epoch: Epoch
    launch: Launch | None = None
    status: Status | None = None
    stop: StopRequest | None = None
    exit: Exit | None = None
    death: TerminationProof | None = None
    decision: RestartDecision | None = None
    last_beat: datetime = NOW
    stop_seen: datetime = NOW


@dataclass
class World:
    """The home, the processes, and the clock."""

    now: datetime = NOW
    desired: DesiredState = DesiredState.RUNNING
    deployment: int = 3
    circuit: Circuit | None = None
    lives: list[Life] = field(default_factory=list)
    alive: set[int] = field(default_factory=set)
    hung: set[int] = field(default_factory=set)
    host_is_seen: bool = True
    overridden: bool = False
    acts_left: int | None = None

    # What happens.

    def pass_time(self, duration: timedelta) -> None:
        self.now += duration
        for life in self.lives:
            if life.epoch.number in self.alive - self.hung:
                self._live(life)

    def _live(self, life: Life) -> None:
        if life.stop is not None or life is not self.lives[-1]:
            self._end(life, Outcome.STOPPED if life.stop is not None else Outcome.FENCED)
            return
        life.status = life.status or a_status(epoch=life.epoch.number)
        life.last_beat = self.now

    def _end(self, life: Life, outcome: Outcome | None, *, retryable: bool = True) -> None:
        if life.epoch.number in self.alive:
            self.alive.discard(life.epoch.number)
            self.hung.discard(life.epoch.number)
            if outcome is not None:
                life.exit = an_exit(outcome, epoch=life.epoch.number, retryable=retryable)

    def end_newest(self, outcome: Outcome | None, *, retryable: bool = True) -> None:
        if self.lives:
            self._end(self.lives[-1], outcome, retryable=retryable)

    def hang(self) -> None:
        self.hung |= self.alive

    def reboot(self) -> None:
        self.alive.clear()
        self.hung.clear()

    def want(self, state: DesiredState) -> None:
        self.desired = state

    def deploy(self) -> None:
        self.deployment += 1

    def show_host(self, *, seen: bool) -> None:
        self.host_is_seen = seen

    def close_circuit(self) -> None:
        if self.circuit is not None:
            self._set_circuit(CircuitState.CLOSED, len(self.lives))

    def declare_dead(self) -> None:
        if self.lives:
            self.overridden, newest = True, self.lives[-1]
            newest.death = newest.death or _death(newest.epoch.number, override=True)

    # What a task does.

    def look(self, watched: int | None) -> ReconcileInput:
        life = self.lives[-1] if self.lives else None
        situation: dict[str, Any] = {
            "desired": self.desired,
            "now": self.now,
            "rules": RULES,
            "policy": POLICY,
            "deployment": a_deployment(number=self.deployment),
            "circuit": self.circuit,
            "watched": watched,
        }
        if life is None:
            return ReconcileInput(**situation)
        return ReconcileInput(
            **situation,
            seen=Observation(
                epoch=life.epoch,
                process=self._process(life.epoch.number),
                now=self.now,
                launch=life.launch,
                status=life.status,
                exit=life.exit,
                death=life.death,
                silent_for=self.now - life.last_beat,
            ),
            decision=life.decision,
            stop=life.stop,
            stopping_for=self.now - life.stop_seen if life.stop else timedelta(0),
        )

    def _process(self, number: int) -> Process:
        if not self.host_is_seen:
            return Process.unseen("another host")
        if number in self.alive:
            return Process(state=ProcessState.RUNNING, detail="a process")
        return Process.gone("no process")

    def task(self, *, dies_after: int | None) -> Step:
        """Look and act until there is nothing to do; die after that many acts."""
        self.acts_left, watched = dies_after, None
        try:
            for _ in range(12):
                situation = self.look(watched)
                watched = self.lives[-1].epoch.number if self.lives else None
                step = decide(situation)
                if step.is_passive or step.action in (Action.BLOCKED, Action.FINISH):
                    return step
                self._do(step, situation)
        except TaskDied:
            return step
        raise AssertionError(f"The task goes round in circles: {step}")

    def _do(self, step: Step, situation: ReconcileInput) -> None:
        if step.action is Action.LAUNCH:
            self._launch(step)
            return
        life = self.lives[-1]
        match step.action:
            case Action.STOP:
                self._act()
                life.stop, life.stop_seen = a_stop(epoch=life.epoch.number), self.now
            case Action.KILL:
                assert self.host_is_seen
                self._act()
                self._end(life, None)
                self._act()
                life.death = _death(life.epoch.number, override=False)
            case Action.SETTLE:
                self._settle(life, situation)

    def _launch(self, step: Step) -> None:
        assert self.overridden or not self.alive, "a second driver"
        number = len(self.lives) + 1
        self._act()
        epoch = an_epoch(
            number=number,
            deployment=self.deployment,
            cause=step.cause,
            created_at=self.now,
        )
        self.lives.append(Life(epoch=epoch, last_beat=self.now))
        self._act()
        self.alive.add(number)
        self._act()
        self.lives[-1].launch = a_launch(epoch=number)

    def _settle(self, life: Life, situation: ReconcileInput) -> None:
        assert situation.seen is not None
        number = life.epoch.number
        if life.decision is None:
            made = decide_restart(
                Failure(
                    epoch=number,
                    reason=judge(situation.seen, RULES).reason,
                    kind=FailureKind.KILLED,
                    retryable=life.exit is None or life.exit.retryable,
                    trial=life.epoch.cause is LaunchCause.TRIAL,
                ),
                earlier=self._held_against(number),
                policy=POLICY,
                now=self.now,
                chance=1.0,
            )
            self._act()
            life.decision = made
        if life.decision.action is RestartAction.GIVE_UP:
            self._act()
            if self.circuit is None or self.circuit.epoch < number:
                self._set_circuit(CircuitState.OPEN, number)

    def _held_against(self, number: int) -> list[RestartDecision]:
        closed = self.circuit is not None and self.circuit.state is CircuitState.CLOSED
        forgiven = self.circuit.epoch if self.circuit is not None and closed else 0
        return [
            life.decision
            for life in self.lives
            if life.decision is not None and forgiven < life.epoch.number < number
        ]

    def _set_circuit(self, state: CircuitState, epoch: int) -> None:
        number = self.circuit.number + 1 if self.circuit else 1
        self.circuit = Circuit(
            number=number, state=state, epoch=epoch, by="kim", reason="So.", at=self.now
        )

    def _act(self) -> None:
        if self.acts_left is not None:
            if self.acts_left == 0:
                raise TaskDied
            self.acts_left -= 1


def _death(epoch: int, *, override: bool) -> TerminationProof:
    return TerminationProof(
        epoch=epoch, evidence="It is.", by="kim", override=override, declared_at=NOW
    )


MISFORTUNES: Final[dict[str, Callable[[World], None]]] = {
    "wait a little": lambda world: world.pass_time(seconds(10)),
    "wait long": lambda world: world.pass_time(minutes(11)),
    "stop": lambda world: world.want(DesiredState.STOPPED),
    "start": lambda world: world.want(DesiredState.RUNNING),
    "deploy": World.deploy,
    "close the circuit": World.close_circuit,
    "the host is out of sight": lambda world: world.show_host(seen=False),
    "the host is in sight": lambda world: world.show_host(seen=True),
    "the driver is killed": lambda world: world.end_newest(None),
    "the driver fails": lambda world: world.end_newest(Outcome.FAILED),
    "the driver refuses": lambda world: world.end_newest(Outcome.FAILED, retryable=False),
    "the script completes": lambda world: world.end_newest(Outcome.COMPLETED),
    "somebody sends a SIGTERM": lambda world: world.end_newest(Outcome.STOPPED),
    "the driver hangs": World.hang,
    "the host reboots": World.reboot,
}
Story = list[tuple[str, int | None]]
stories = st.lists(
    st.tuples(st.sampled_from(sorted(MISFORTUNES)), st.none() | st.integers(0, 5)), max_size=20
)
quick = settings(max_examples=40, deadline=None, database=None)


def live_through(story: Story) -> World:
    world = World()
    for misfortune, dies_after in story:
        MISFORTUNES[misfortune](world)
        world.task(dies_after=dies_after)
        assert len(world.alive) <= 1
    return world


def calm_down(world: World) -> Step:
    """Let a quarter of an hour pass in which nothing happens; return the last step."""
    for _ in range(30):
        world.pass_time(seconds(30))
        step = world.task(dies_after=None)
    return step


@quick
@given(story=stories)
def test_once_misfortunes_cease_the_stream_runs_or_is_down_for_a_reason(story: Story) -> None:
    world = live_through(story)
    world.show_host(seen=True)

    step = calm_down(world)

    if step.action is Action.WATCH:
        assert world.desired is DesiredState.RUNNING
        assert world.alive == {world.lives[-1].epoch.number}
        assert world.lives[-1].epoch.deployment == world.deployment
    else:
        assert step.action is Action.PARK
        assert not world.alive
        down = 'is "stopped"' if world.desired is DesiredState.STOPPED else "circuit is open"
        assert down in step.reason


@quick
@given(story=stories)
def test_a_person_can_always_bring_the_stream_back(story: Story) -> None:
    world = live_through(story)
    world.show_host(seen=True)
    world.want(DesiredState.RUNNING)
    calm_down(world)
    world.close_circuit()

    step = calm_down(world)

    assert step.action is Action.WATCH
    assert world.alive == {world.lives[-1].epoch.number}


@quick
@given(story=stories)
def test_a_lost_host_blocks_the_stream_until_a_person_declares_its_driver_dead(
    story: Story,
) -> None:
    world = live_through(story)
    world.want(DesiredState.RUNNING)
    world.show_host(seen=True)
    calm_down(world)
    if not world.alive:
        return
    world.hang()
    world.show_host(seen=False)

    assert calm_down(world).action is Action.BLOCKED

    world.declare_dead()
    world.task(dies_after=None)
    world.show_host(seen=True)  # from here on the task sees the host of the new driver
    world.close_circuit()  # the lost driver may have been the one try of a half-open circuit
    assert calm_down(world).action is Action.WATCH
    assert world.alive - world.hung == {world.lives[-1].epoch.number}


@pytest.mark.parametrize("pause", [5, 12, 29])
def test_a_stream_that_only_fails_is_tried_five_times_more_and_then_once_in_half_an_hour(
    pause: int,
) -> None:
    world = World()
    launched_at = []
    for _ in range(4 * 3600 // pause):
        before = len(world.lives)
        world.task(dies_after=None)
        launched_at += [world.now] * (len(world.lives) - before)
        world.end_newest(Outcome.FAILED)
        world.pass_time(seconds(pause))

    assert launched_at[5] - launched_at[0] < minutes(10)
    causes = [life.epoch.cause for life in world.lives]
    assert causes[:6] == [LaunchCause.FIRST, *[LaunchCause.RESTART] * 5]
    assert set(causes[6:]) == {LaunchCause.TRIAL}
    pauses = [later - earlier for earlier, later in itertools.pairwise(launched_at[5:])]
    assert all(minutes(30) <= gap <= minutes(32) for gap in pauses)
    assert len(pauses) in (6, 7)
