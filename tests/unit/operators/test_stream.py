"""The task that keeps a stream alive: every way in which it may be called again."""

from __future__ import annotations

import dataclasses
import logging
from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import StreamingError
from airflow_streaming.model.arguments.policies import Budget, RestartPolicy
from airflow_streaming.model.records.control import CircuitState, DesiredState
from airflow_streaming.model.records.epoch import Host, LaunchCause, Outcome
from airflow_streaming.supervision.decide import Action, Step
from tests.unit.world import World

ANOTHER_HOST = Host(name="worker-2", machine="machine-2", boot="boot-9", pid_space="pid:[1]")
NO_BUDGET = RestartPolicy(budgets=(Budget(restarts=0, window=timedelta(hours=1)),))


def now() -> datetime:
    return datetime.now(UTC)


def test_the_first_run_deploys_launches_and_defers(world: World) -> None:
    trigger = world.run()

    assert world.epochs() == 1
    assert world.epoch().cause is LaunchCause.FIRST
    assert world.launcher.living() == [1]
    assert trigger.watched == 1
    assert world.home.application(1) == world.script.read_bytes()
    assert world.ti.xcoms == {}


def test_the_driver_is_recorded_where_the_next_attempt_looks_for_it(world: World) -> None:
    world.run()

    launch = world.home.launch(1)
    assert launch is not None
    assert launch.token == world.epoch().token
    command = world.launcher.launched[0].command
    assert command[command.index("--token") + 1] == world.epoch().mark
    assert world.epoch().token not in str(command)


@pytest.mark.parametrize("what", ["cleared", "retried", "new run"])
def test_a_running_driver_is_adopted(world: World, what: str) -> None:
    world.run()
    world.ti.try_number += what == "retried"
    world.ti.run_id = "run-2" if what == "new run" else world.ti.run_id

    world.run()

    assert world.epochs() == 1
    assert len(world.launcher.launched) == 1


def test_a_driver_whose_launcher_died_before_recording_it_is_adopted(world: World) -> None:
    world.run()
    (world.folder / "home/orders/epochs/000001/launch.json").unlink()

    world.run()

    assert len(world.launcher.launched) == 1


def test_a_killed_driver_is_restarted_in_the_same_slice(world: World) -> None:
    trigger = world.run()
    world.crash()

    trigger = world.wake(trigger)

    assert world.epochs() == 2
    assert world.epoch().cause is LaunchCause.RESTART
    assert world.launcher.living() == [2]
    assert trigger.watched == 2


def test_the_log_says_once_why_a_stream_is_restarted(
    world: World, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    trigger = world.run()
    world.last_words(Outcome.FAILED)
    capsys.readouterr()

    world.wake(trigger, action="settle", reason="The test says failed.")

    # The operator's logger writes to the standard output here, the others to the log.
    log = capsys.readouterr().out + caplog.text
    assert world.launcher.living() == [2]
    assert log.count("The test says failed.") == 1
    assert "Epoch 2 launched (restart)." in log


def test_the_restart_is_recorded_before_it_is_made(world: World) -> None:
    trigger = world.run()
    world.crash()
    world.launcher.refusal = "no more processes"

    with pytest.raises(Exception, match="no more processes"):
        world.wake(trigger)

    decision = world.home.restart_decision(1)
    assert decision is not None
    assert world.epochs() == 2
    assert list((world.folder / "drivers").rglob("*.conf")) == [], "no secret is left behind"
    death = world.home.death(2)
    assert death is not None
    assert "could not be started" in death.evidence


def test_a_failed_launch_waits_before_the_next_try(world: World) -> None:
    trigger = world.run()
    world.crash()
    world.launcher.refusal = "no more processes"
    with pytest.raises(Exception, match="no more processes"):
        world.wake(trigger)
    world.launcher.refusal = None

    operator = world.operator(
        restart=RestartPolicy(first_delay=timedelta(minutes=5), max_delay=timedelta(minutes=5))
    )
    world.run(operator)

    decision = world.home.restart_decision(2)
    assert decision is not None
    assert decision.consecutive_failures == 2
    assert world.epochs() == 2, "the second restart waits, deferred"


def test_two_tasks_that_wake_for_one_failure_start_one_driver(world: World) -> None:
    trigger = world.run()
    world.crash()

    world.wake(trigger)
    world.wake(trigger)

    assert world.epochs() == 2
    assert world.launcher.living() == [2]


def test_a_task_that_lost_the_race_for_the_epoch_starts_nothing(world: World) -> None:
    trigger = world.run()
    world.crash()
    world.wake(trigger)
    rival = world.epoch()
    world.crash()
    operator = world.operator()
    hook = operator.open_hook(world.context())
    situation = hook.observer().situation()
    world.home.create_epoch(dataclasses.replace(rival, number=3, created_at=now()))

    begun = hook.controller.begin(situation, Step(action=Action.LAUNCH, reason="late"))

    assert begun is None
    assert len(world.launcher.launched) == 2


def test_a_driver_that_appears_late_is_killed_before_the_next_one_starts(world: World) -> None:
    world.run()
    token = world.epoch().token
    world.crash()
    hook = world.operator().open_hook(world.context())
    situation = hook.observer().situation()
    driver = world.launcher.drivers[token]
    driver.has_leader = driver.has_child = True

    hook.controller.begin(situation, Step(action=Action.LAUNCH, reason="restart"))

    assert world.launcher.killed == [1]
    assert world.launcher.living() == [2]


def test_an_epoch_that_got_no_driver_does_not_hide_the_one_before_it(world: World) -> None:
    world.run()
    token = world.epoch().token
    world.crash()
    hook = world.operator().open_hook(world.context())
    situation = hook.observer().situation()
    driver = world.launcher.drivers[token]
    driver.has_leader, world.launcher.is_unkillable = True, True
    step = Step(action=Action.LAUNCH, reason="restart")
    for _ in range(2):
        with pytest.raises(StreamingError, match=r"Driver of epoch 1 .* is still there"):
            hook.controller.begin(hook.observer().situation(), step)

    assert world.launcher.living() == [1]
    assert situation.seen is not None
    assert not [p for p in (world.folder / "drivers").rglob("*.conf") if "000001" not in p.name]
    world.launcher.is_unkillable = False
    hook.controller.begin(hook.observer().situation(), step)
    assert world.launcher.living() == [world.epochs()]


def test_a_spent_budget_fails_the_task_and_opens_the_circuit(world: World) -> None:
    operator = world.operator(restart=NO_BUDGET)
    trigger = world.run(operator)
    world.crash()

    with pytest.raises(
        AirflowFailException,
        match=r"budget of 0 restarts in 1 h for infra.* is spent.*airflow-streaming start orders",
    ):
        operator.execute_complete(world.context(), {"watched": trigger.watched})

    circuit = world.home.circuit()
    assert circuit is not None
    assert circuit.state is CircuitState.OPEN
    assert world.launcher.living() == []


def test_the_run_after_a_spent_budget_parks(world: World) -> None:
    operator = world.operator(restart=NO_BUDGET)
    trigger = world.run(operator)
    world.crash()
    with pytest.raises(AirflowFailException):
        operator.execute_complete(world.context(), {"watched": trigger.watched})

    world.run(operator)

    assert world.epochs() == 1


def test_a_person_who_closes_the_circuit_brings_the_stream_back(world: World) -> None:
    operator = world.operator(restart=NO_BUDGET)
    trigger = world.run(operator)
    world.crash()
    with pytest.raises(AirflowFailException):
        operator.execute_complete(world.context(), {"watched": trigger.watched})
    trigger = world.run(operator)
    world.home.close_circuit(epoch=1, by="ann", reason="mended", now=now())

    world.wake(trigger, operator)

    assert world.launcher.living() == [2]
    assert world.epoch().cause is LaunchCause.START


def test_a_task_that_died_between_giving_up_and_opening_the_circuit_is_caught_up(
    world: World,
) -> None:
    operator = world.operator(restart=NO_BUDGET)
    trigger = world.run(operator)
    world.crash()
    with pytest.raises(AirflowFailException):
        operator.execute_complete(world.context(), {"watched": trigger.watched})
    (world.folder / "home/orders/circuit/000001.json").unlink()

    with pytest.raises(AirflowFailException):
        operator.execute(world.context())

    circuit = world.home.circuit()
    assert circuit is not None
    assert circuit.state is CircuitState.OPEN


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(Outcome.FAILED, id="an error of its own"),
        pytest.param(Outcome.STOPPED, id="stopped while it is wanted running"),
    ],
)
def test_an_ended_driver_comes_back(world: World, outcome: Outcome) -> None:
    trigger = world.run()
    world.last_words(outcome)

    world.wake(trigger)

    assert world.launcher.living() == [2]


def test_a_driver_that_refused_to_run_is_not_restarted(world: World) -> None:
    trigger = world.run()
    world.last_words(Outcome.FAILED, retryable=False)

    with pytest.raises(AirflowFailException, match="A restart would fail the same way"):
        world.operator().execute_complete(world.context(), {"watched": trigger.watched})


def test_a_script_that_ended_well_ends_the_task(world: World) -> None:
    trigger = world.run()
    world.last_words(Outcome.COMPLETED)

    told = world.operator().execute_complete(world.context(), {"watched": trigger.watched})

    assert told["epoch"] == 1
    assert world.epochs() == 1


def test_the_next_run_of_a_completed_script_launches_it_again(world: World) -> None:
    world.run()
    world.last_words(Outcome.COMPLETED)

    world.run()

    assert world.launcher.living() == [2]
    assert world.home.restart_decision(1) is None


def test_a_stopped_stream_is_parked_until_it_is_wanted_again(world: World) -> None:
    trigger = world.run()
    world.home.want(DesiredState.STOPPED, by="ann", reason="maintenance", now=now())
    trigger = world.wake(trigger)
    stop = world.home.stop_request(1)
    assert stop is not None
    world.last_words(Outcome.STOPPED)

    trigger = world.wake(trigger)
    assert world.launcher.living() == []

    world.home.want(DesiredState.RUNNING, by="ann", reason="done", now=now())
    world.wake(trigger)
    assert world.launcher.living() == [2]


def test_a_driver_that_does_not_stop_in_its_grace_is_killed(world: World) -> None:
    operator = world.operator(stop_grace=timedelta(seconds=1))
    trigger = world.run(operator)
    world.home.want(DesiredState.STOPPED, by="ann", reason="maintenance", now=now())
    trigger = world.wake(trigger, operator)

    memory = {"epoch": 1, "beat": 0, "silent_for": 0.0, "stopping_for": 17.0}
    world.wake(trigger, operator, memory=memory)

    assert world.launcher.killed == [1]
    assert world.epochs() == 1


def test_a_run_that_is_in_the_way_of_another_ends_and_leaves_the_driver_alone(
    world: World,
) -> None:
    world.run()

    told = world.operator().execute_complete(
        world.context(), {"watched": 1, "successor_waits": True}
    )

    assert told["reason"]
    assert world.launcher.living() == [1]


def test_a_run_that_is_old_enough_ends_and_leaves_the_driver_alone(world: World) -> None:
    operator = world.operator(rollover_after=timedelta(days=7))
    world.run(operator)
    world.run_started_at = now() - timedelta(days=8)

    told = operator.execute_complete(world.context(), {"watched": 1})

    assert "rollover" in told["reason"]
    assert world.launcher.living() == [1]


@pytest.mark.parametrize(
    ("start_date", "ends"), [(None, False), (datetime(2026, 1, 1, tzinfo=UTC), True)]
)
def test_a_run_that_no_other_follows_does_not_roll_over(
    world: World, start_date: datetime | None, ends: bool
) -> None:
    dag = DAG("orders", schedule="@continuous", max_active_runs=1, start_date=start_date)
    operator = world.operator(rollover_after=timedelta(days=7), dag=dag)
    world.run(operator)
    world.run_started_at = now() - timedelta(days=8)

    if ends:
        assert "rollover" in operator.execute_complete(world.context(), {"watched": 1})["reason"]
    else:
        assert world.wake(world.run(operator), operator).rollover_seconds is None


def test_a_worker_that_is_told_to_go_leaves_the_driver_alone(world: World) -> None:
    operator = world.operator()
    world.run(operator)

    operator.on_kill()

    assert world.launcher.living() == [1]
    assert world.home.desired() is None
