"""What the task does with a verdict on a driver that lives: tell, restart, stop; each once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.model.arguments.policies import Budget, RestartPolicy
from airflow_streaming.model.health_rules import HealthRules, Severity
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.model.records.control import CircuitState, DesiredState
from airflow_streaming.model.records.epoch import LaunchCause, Outcome
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.supervision.actions import StreamActions
from airflow_streaming.supervision.observer import Observer
from tests.unit.world import World

RESTARTING = HealthRules(stalled=Severity.RESTART)
STOPPING = HealthRules(stalled=Severity.STOP)
NO_RESTARTS = Budget(restarts=0, window=timedelta(hours=1))
ONE_RESTART = RestartPolicy(budgets=(Budget(restarts=1, window=timedelta(hours=1)),))


class Told(list[dict[str, Any]]):
    """A notifier that keeps what it is called with."""

    def __call__(self, context: dict[str, Any]) -> None:
        self.append(context)


@pytest.fixture
def told() -> Told:
    return Told()


def stall(world: World) -> None:
    """Let the newest driver stand still in a batch."""
    query = world.query(processing=True, planned_batch=7, batch_for_s=900.0, quiet_for_s=900.0)
    world.say(progressed_for=timedelta(hours=1), queries=(query,))


def test_a_stalled_stream_is_told_once_and_left_alone(world: World, told: Told) -> None:
    operator = world.operator()
    operator.on_unhealthy = told
    trigger = world.run(operator)
    stall(world)

    trigger = world.wake(trigger, operator)
    world.wake(trigger, operator)

    assert [context["alert"]["key"] for context in told] == ["stalled/revenue"]
    assert "Batch 7 of query 'revenue'" in told[0]["alert_body"]
    assert world.home.stop_request(1) is None
    assert world.epochs() == 1


def test_a_recovery_is_told(world: World, told: Told) -> None:
    operator = world.operator()
    operator.on_recovered = told
    trigger = world.run(operator)
    stall(world)
    trigger = world.wake(trigger, operator)
    world.say(beat=9, progressed_for=timedelta(hours=2))

    world.wake(trigger, operator)

    assert [context["alert"]["key"] for context in told] == ["stalled/revenue"]


def test_a_verdict_restarts_the_stream_and_is_charged_to_the_budget(world: World) -> None:
    operator = world.operator(health=RESTARTING, restart=ONE_RESTART)
    trigger = world.run(operator)
    stall(world)

    trigger = world.wake(trigger, operator)
    request = world.home.stop_request(1)
    assert request is not None
    assert request.verdict is Severity.RESTART
    world.last_words(Outcome.STOPPED)
    trigger = world.wake(trigger, operator)

    assert world.epoch().cause is LaunchCause.RESTART
    decision = world.home.restart_decision(1)
    assert decision is not None
    assert decision.failure_kind is FailureKind.UNHEALTHY
    assert "has shown no sign of work" in decision.reason

    stall(world)
    trigger = world.wake(trigger, operator)
    world.last_words(Outcome.STOPPED)
    with pytest.raises(AirflowFailException, match="budget of 1 restarts in 1 h"):
        world.wake(trigger, operator)
    assert world.epochs() == 2, "no verdict restarts a stream without bound"


def test_a_verdict_that_asks_for_a_stop_opens_the_circuit(world: World, told: Told) -> None:
    operator = world.operator(health=STOPPING)
    operator.on_gave_up = told
    trigger = world.run(operator)
    stall(world)
    trigger = world.wake(trigger, operator)
    world.last_words(Outcome.STOPPED)

    with pytest.raises(AirflowFailException, match="stays down"):
        world.wake(trigger, operator)

    circuit = world.home.circuit()
    assert circuit is not None
    assert circuit.state is CircuitState.OPEN
    assert [context["alert"]["alert"] for context in told] == [AlertKind.GAVE_UP]


def test_a_person_who_starts_the_stream_after_a_verdict_has_the_last_word(world: World) -> None:
    operator = world.operator(health=STOPPING)
    want(world, DesiredState.STOPPED, DesiredState.RUNNING)
    trigger = world.run(operator)
    stall(world)
    trigger = world.wake(trigger, operator)
    request = world.home.stop_request(1)
    assert request is not None
    assert (request.verdict, request.wish) == (Severity.STOP, 2)

    want(world, DesiredState.STOPPED)
    world.last_words(Outcome.STOPPED)
    trigger = world.wake(trigger, operator)
    assert world.epochs() == 1
    want(world, DesiredState.RUNNING)
    world.wake(trigger, operator)

    assert world.epoch().cause is LaunchCause.START
    assert world.home.circuit() is None
    assert world.home.restart_decision(1) is None


def want(world: World, *states: DesiredState) -> None:
    for state in states:
        world.home.want(state, by="kim", reason="I say so.", now=datetime.now(UTC))


def test_a_restart_is_told(world: World, told: Told) -> None:
    operator = world.operator()
    operator.on_restart = told
    trigger = world.run(operator)
    world.crash()

    world.wake(trigger, operator)

    assert world.epochs() == 2
    assert [context["alert"]["alert"] for context in told] == [AlertKind.RESTARTED]


def test_a_restart_that_fails_is_told(world: World, told: Told) -> None:
    operator = world.operator()
    operator.on_restart = told
    trigger = world.run(operator)
    world.crash()
    world.launcher.refusal = "no space left on device"

    with pytest.raises(Exception, match="no space left on device"):
        world.wake(trigger, operator)

    assert ["no space left on device" in context["alert_body"] for context in told] == [False, True]


def test_a_notifier_that_fails_does_not_keep_the_stream_down(world: World) -> None:
    def broken(context: Any) -> None:
        raise RuntimeError("the mail server is on fire")

    operator = world.operator()
    operator.on_restart = [broken]
    trigger = world.run(operator)
    world.crash()

    trigger = world.wake(trigger, operator)

    assert world.launcher.living() == [2]
    assert len(world.home.unsent_alerts()) == 1
    assert trigger.undelivered, "a worker is woken for it after a while"


def test_the_rules_of_the_dag_are_recorded_for_whoever_has_no_dag(world: World) -> None:
    world.run(world.operator(health=RESTARTING))
    world.run(world.operator(health=RESTARTING))

    recorded = world.home.supervision()
    assert (recorded.number, recorded.health) == (1, RESTARTING)


def test_a_restart_that_a_dead_task_decided_is_told_by_the_next(world: World, told: Told) -> None:
    operator = world.operator()
    operator.on_gave_up = told
    world.run(operator)
    world.crash()
    acts = StreamActions(world.home, world.launcher, by="a task that dies")
    acts.settle(
        Observer(
            world.home, world.launcher, policy=RestartPolicy(budgets=(NO_RESTARTS,))
        ).situation()
    )

    world.run(operator)

    assert [context["alert"]["alert"] for context in told] == [AlertKind.GAVE_UP]


def test_rules_of_a_newer_release_in_the_home_stop_nobody(world: World) -> None:
    world.run()
    world.home.store.create("orders/supervision/000002.json", b'{"kind": "from the future"}')

    world.run(world.operator(health=RESTARTING))

    recorded = world.home.supervision()
    assert (recorded.number, recorded.health) == (3, RESTARTING)
