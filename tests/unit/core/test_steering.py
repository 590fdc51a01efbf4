"""Whatever the records say, there is one next step, and it never starts a second driver."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from airflow_streaming.core.blackout import Blackout
from airflow_streaming.core.control import CircuitState, DesiredState
from airflow_streaming.core.epoch import LaunchCause, Outcome
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.observation import ProcessState
from airflow_streaming.core.policy import RestartPolicy
from airflow_streaming.core.rules.rule import Severity
from airflow_streaming.core.status import DriverState
from airflow_streaming.core.steering import STOP_MARGIN, Action, decide
from tests.unit.core.builders import (
    EPOCH,
    NOW,
    a_circuit,
    a_death,
    a_deployment,
    a_give_up,
    a_query,
    a_restart,
    a_situation,
    a_status,
    a_stop,
    an_epoch,
    an_exit,
    minutes,
    observed,
    seconds,
)

GONE, UNSEEN = ProcessState.GONE, ProcessState.UNSEEN
STOPPED: Final = DesiredState.STOPPED
OVERDUE: Final = seconds(60) + STOP_MARGIN
SILENT: Final[dict[str, Any]] = {"silent_for": minutes(1)}
HALF_OPENING: Final = RestartPolicy(half_open_after=minutes(30))

ALIVE: Final = observed()
HUNG: Final = observed(**SILENT)
LOST: Final = observed(UNSEEN, **SILENT)
STARTING: Final = observed(status=None)
UNBORN: Final = observed(GONE, launch=None, status=None, epoch=an_epoch(created_at=NOW))
DEAD: Final = observed(GONE)
FAILED: Final = observed(GONE, exit=an_exit())
COMPLETED: Final = observed(GONE, exit=an_exit(Outcome.COMPLETED))
HAS_STOPPED: Final = observed(GONE, exit=an_exit(Outcome.STOPPED))
FENCED: Final = observed(GONE, exit=an_exit(Outcome.FENCED))
STALLED: Final = observed(
    status=a_status(
        queries=(a_query(processing=True, batch_for_s=1e5, quiet_for_s=1e5, planned_batch=42),)
    )
)
RESTARTING: Final = HealthRules(stalled=Severity.RESTART)
STOPPING: Final = HealthRules(stalled=Severity.STOP)
VERDICTS_STOP: Final = a_stop(verdict=Severity.RESTART)
BLACKED_OUT: Final = RestartPolicy(blackouts=(Blackout(start="00:00", end="00:00"),))
NEXT: Final = a_deployment(number=4)
OPEN: Final = a_circuit()
CLOSED: Final = a_circuit(CircuitState.CLOSED)
OPEN_BEFORE: Final = a_circuit(epoch=EPOCH - 1)

TABLE: Final[dict[str, tuple[dict[str, Any], str]]] = {
    # No epoch yet.
    "a stream that has never run is launched": ({"seen": None, "deployment": None}, "launch"),
    "unless it is wanted stopped": ({"seen": None, "desired": STOPPED}, "park"),
    "or its circuit was opened by hand": ({"seen": None, "circuit": OPEN}, "park"),
    # A home that has lost what the task has seen in it.
    "a home that has become empty is waited for": ({"seen": None, "watched": EPOCH}, "watch"),
    "a home restored to the past is waited for": ({"seen": DEAD, "watched": EPOCH + 1}, "watch"),
    "also with a stop in it": ({"seen": DEAD, "watched": EPOCH + 1, "desired": STOPPED}, "watch"),
    # A driver that runs.
    "a healthy driver is watched": ({}, "watch"),
    "a starting driver is watched": ({"seen": STARTING}, "watch"),
    "an epoch that another task has just begun is watched": ({"seen": UNBORN}, "watch"),
    "a busy silent driver is watched": (
        {"seen": observed(**SILENT, cpu_in_silence=30.0)},
        "watch",
    ),
    "a driver on an unseen host that beats is watched": ({"seen": observed(UNSEEN)}, "watch"),
    "a driver that stops by itself is watched": (
        {"seen": observed(status=a_status(state=DriverState.STOPPING))},
        "watch",
    ),
    "a driver that goes down is watched": ({"seen": observed(exit=an_exit())}, "watch"),
    "a running trial is watched although the circuit is open": ({"circuit": OPEN_BEFORE}, "watch"),
    "a hung driver is killed": ({"seen": HUNG}, "kill"),
    "also when it is wanted stopped": ({"seen": HUNG, "desired": STOPPED}, "kill"),
    "also when it was asked to stop": ({"seen": HUNG, "stop": a_stop()}, "kill"),
    "also when its deployment is replaced": ({"seen": HUNG, "deployment": NEXT}, "kill"),
    "a silent driver on an unseen host blocks": ({"seen": LOST}, "blocked"),
    "it blocks when it is wanted stopped": ({"seen": LOST, "desired": STOPPED}, "blocked"),
    "it blocks when it was asked to stop": ({"seen": LOST, "stop": a_stop()}, "blocked"),
    "not so after its last word": ({"seen": replace(LOST, exit=an_exit())}, "settle"),
    # A driver that lives, and a verdict that asks for more than a word.
    "a stalled query is left alone unless a rule asks": ({"seen": STALLED}, "watch"),
    "a verdict that asks for a restart stops the driver": (
        {"seen": STALLED, "rules": RESTARTING},
        "stop",
    ),
    "it asks once": ({"seen": STALLED, "rules": RESTARTING, "stop": VERDICTS_STOP}, "watch"),
    "not in a blackout": (
        {"seen": STALLED, "rules": RESTARTING, "policy": BLACKED_OUT},
        "watch",
    ),
    "a hung driver is not killed in a blackout": ({"seen": HUNG, "policy": BLACKED_OUT}, "watch"),
    "unless a person wants it stopped": (
        {"seen": HUNG, "policy": BLACKED_OUT, "desired": STOPPED},
        "kill",
    ),
    "a rule that asks for a stop gets it in a blackout too": (
        {"seen": STALLED, "rules": STOPPING, "policy": BLACKED_OUT},
        "stop",
    ),
    "a dead one comes back in a blackout too": (
        {"seen": DEAD, "decision": a_restart(), "policy": BLACKED_OUT},
        "launch",
    ),
    "the end a verdict asked for counts as a failure": (
        {"seen": HAS_STOPPED, "stop": VERDICTS_STOP},
        "settle",
    ),
    "also when the driver had to be killed": ({"seen": DEAD, "stop": VERDICTS_STOP}, "settle"),
    "and is over when its restart is due": (
        {"seen": HAS_STOPPED, "stop": VERDICTS_STOP, "decision": a_restart()},
        "launch",
    ),
    # Telling.
    "what nobody was told is told first": ({"seen": STALLED, "tells": True}, "alert"),
    "also of a driver that blocks": ({"seen": LOST, "tells": True}, "alert"),
    "also of one that beats out of sight and heeds no stop": (
        {"seen": observed(UNSEEN), "stop": a_stop(), "stopping_for": OVERDUE, "tells": True},
        "alert",
    ),
    "a driver that must be killed is not kept waiting": ({"seen": HUNG, "tells": True}, "kill"),
    "a decision that nobody was told is told before the restart waits": (
        {"seen": FAILED, "decision": a_restart(due_in=seconds(5)), "tells": True},
        "alert",
    ),
    "a stream that was given up is not parked untold": (
        {"seen": FAILED, "decision": a_give_up(), "circuit": OPEN, "tells": True},
        "alert",
    ),
    # Stopping.
    "a driver that is wanted stopped is asked to": ({"desired": STOPPED}, "stop"),
    "also before its first heartbeat": ({"desired": STOPPED, "seen": STARTING}, "stop"),
    "also before it is born": ({"desired": STOPPED, "seen": UNBORN}, "stop"),
    "also through the home where its host is unseen": (
        {"desired": STOPPED, "seen": observed(UNSEEN)},
        "stop",
    ),
    "a driver of a replaced deployment is asked to stop": ({"deployment": NEXT}, "stop"),
    "it is asked once": ({"desired": STOPPED, "stop": a_stop()}, "watch"),
    "it is asked once, whatever it runs": ({"deployment": NEXT, "stop": a_stop()}, "watch"),
    "it has its grace": (
        {"desired": STOPPED, "stop": a_stop(), "stopping_for": OVERDUE - seconds(1)},
        "watch",
    ),
    "after its grace it is killed": (
        {"desired": STOPPED, "stop": a_stop(), "stopping_for": OVERDUE},
        "kill",
    ),
    "also when nobody wants it stopped any more": (
        {"stop": a_stop(), "stopping_for": OVERDUE},
        "kill",
    ),
    "after its grace it blocks where its host is unseen": (
        {"seen": observed(UNSEEN), "stop": a_stop(), "stopping_for": OVERDUE},
        "blocked",
    ),
    # Ended, and wanted stopped.
    "a stopped stream is parked": ({"seen": HAS_STOPPED, "desired": STOPPED}, "park"),
    "a killed driver that is wanted stopped is parked": (
        {"seen": DEAD, "desired": STOPPED},
        "park",
    ),
    "a failure that is wanted stopped is parked": ({"seen": FAILED, "desired": STOPPED}, "park"),
    "a completed stream that is wanted stopped is parked": (
        {"seen": COMPLETED, "desired": STOPPED, "watched": EPOCH},
        "park",
    ),
    # Ended without a failure.
    "the task that watched a script complete is done": (
        {"seen": COMPLETED, "watched": EPOCH},
        "finish",
    ),
    "a new task runs a completed script again": ({"seen": COMPLETED}, "launch"),
    "also one that has watched another epoch": ({"seen": COMPLETED, "watched": 16}, "launch"),
    "a stopped stream that is wanted again is launched": (
        {"seen": HAS_STOPPED, "stop": a_stop()},
        "launch",
    ),
    "a stop that had to kill is no failure": ({"seen": DEAD, "stop": a_stop()}, "launch"),
    "a stop that failed is no failure": ({"seen": FAILED, "stop": a_stop()}, "launch"),
    "a trial that was stopped does not wait for the old circuit": (
        {"seen": HAS_STOPPED, "stop": a_stop(), "circuit": OPEN_BEFORE},
        "launch",
    ),
    # Failed.
    "a failure is settled": ({"seen": FAILED}, "settle"),
    "a death is settled": ({"seen": DEAD}, "settle"),
    "a death that a person declared is settled": (
        {"seen": replace(LOST, death=a_death())},
        "settle",
    ),
    "a launch that failed is settled": ({"seen": replace(UNBORN, death=a_death())}, "settle"),
    "a stop that nobody asked for is settled": ({"seen": HAS_STOPPED}, "settle"),
    "a driver fenced by nobody is settled": ({"seen": FENCED}, "settle"),
    "a restart that is not yet due is waited for": (
        {"seen": FAILED, "decision": a_restart(due_in=seconds(5))},
        "wait",
    ),
    "a restart that is due is launched": ({"seen": FAILED, "decision": a_restart()}, "launch"),
    "a restart decided by a clock years ahead is launched": (
        {
            "seen": FAILED,
            "decision": a_restart(due_in=timedelta(days=900), decided_at=NOW + timedelta(days=899)),
        },
        "launch",
    ),
    "a replaced deployment needs no settling": ({"seen": FAILED, "deployment": NEXT}, "launch"),
    "nor does it wait": (
        {"seen": FAILED, "deployment": NEXT, "decision": a_restart(due_in=minutes(5))},
        "launch",
    ),
    # The circuit.
    "a failure that was given up parks": (
        {"seen": FAILED, "decision": a_give_up(), "circuit": OPEN},
        "park",
    ),
    "a circuit that was never opened is opened now": (
        {"seen": FAILED, "decision": a_give_up()},
        "settle",
    ),
    "also when it was last closed for an older epoch": (
        {
            "seen": FAILED,
            "decision": a_give_up(),
            "circuit": a_circuit(CircuitState.CLOSED, epoch=16),
        },
        "settle",
    ),
    "an open circuit holds whatever the epoch died of": (
        {"seen": COMPLETED, "circuit": OPEN},
        "park",
    ),
    "a restart that is due does not pass an open circuit": (
        {"seen": FAILED, "decision": a_restart(), "circuit": OPEN},
        "park",
    ),
    "a new deployment does not pass an open circuit": (
        {"seen": FAILED, "deployment": NEXT, "circuit": OPEN},
        "park",
    ),
    "a closed circuit lets a stream that was given up start": (
        {"seen": FAILED, "decision": a_give_up(), "circuit": CLOSED},
        "launch",
    ),
    "closing it ends a wait": (
        {"seen": FAILED, "decision": a_restart(due_in=minutes(5)), "circuit": CLOSED},
        "launch",
    ),
    "a circuit closed long ago is no pass": (
        {"seen": FAILED, "circuit": a_circuit(CircuitState.CLOSED, epoch=3)},
        "settle",
    ),
    "an open circuit half-opens after its time": (
        {"seen": FAILED, "circuit": a_circuit(at=NOW - minutes(30)), "policy": HALF_OPENING},
        "launch",
    ),
    "but not before": (
        {"seen": FAILED, "circuit": a_circuit(at=NOW - minutes(29)), "policy": HALF_OPENING},
        "park",
    ),
    "and not at all without being told to": (
        {"seen": FAILED, "circuit": a_circuit(at=NOW - timedelta(days=900))},
        "park",
    ),
    "a trial that failed is settled, not tried again at once": (
        {
            "seen": observed(GONE, epoch=an_epoch(cause=LaunchCause.TRIAL), exit=an_exit()),
            "circuit": a_circuit(epoch=EPOCH - 1, at=NOW - minutes(31)),
            "policy": HALF_OPENING,
        },
        "settle",
    ),
    "another lane is live": ({"follows": "orders.green"}, "follow"),
    "another lane is live, and this one is down": (
        {"seen": FAILED, "follows": "orders.green"},
        "follow",
    ),
    "another lane is live, and the home shows less than was seen": (
        {"follows": "orders.green", "watched": EPOCH + 1},
        "watch",
    ),
    "a trial that had earned a restart gets it": (
        {"seen": DEAD, "circuit": OPEN_BEFORE, "decision": a_restart()},
        "launch",
    ),
}


@pytest.mark.parametrize(("changes", "action"), TABLE.values(), ids=TABLE.keys())
def test_every_situation_has_the_step_of_the_table(changes: dict[str, Any], action: str) -> None:
    step = decide(a_situation(**changes))

    assert step.action == action
    assert step.reason.endswith(".")


def test_the_table_reaches_every_action() -> None:
    assert {action for _, action in TABLE.values()} == {action.value for action in Action}


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"seen": None}, LaunchCause.FIRST),
        ({"seen": FAILED, "decision": a_restart()}, LaunchCause.RESTART),
        ({"seen": COMPLETED}, LaunchCause.START),
        ({"seen": HAS_STOPPED, "stop": a_stop()}, LaunchCause.START),
        ({"seen": FAILED, "circuit": CLOSED}, LaunchCause.START),
        ({"seen": FAILED, "deployment": NEXT}, LaunchCause.START),
        (
            {"seen": FAILED, "circuit": a_circuit(at=NOW - minutes(30)), "policy": HALF_OPENING},
            LaunchCause.TRIAL,
        ),
    ],
    ids=[
        "the first",
        "after a failure",
        "after the work was done",
        "after a stop",
        "after a person closed the circuit",
        "after a new deployment",
        "half-open",
    ],
)
def test_a_launch_knows_its_cause(changes: dict[str, Any], cause: LaunchCause) -> None:
    step = decide(a_situation(**changes))

    assert (step.action, step.cause) == (Action.LAUNCH, cause)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seen": None}, "The stream has never run."),
        ({"desired": STOPPED}, "The stream is wanted stopped."),
        ({"deployment": NEXT}, "Deployment 4 replaces deployment 3, which epoch 17 runs."),
        ({"stop": a_stop()}, "Waiting for the driver to stop: Maintenance."),
        ({"stop": a_stop(), "stopping_for": OVERDUE}, "has not stopped in 75 s."),
        ({"seen": FAILED, "circuit": OPEN}, "The circuit is open: The disk was full."),
        ({"seen": FAILED, "circuit": CLOSED}, "kim closed the circuit: The disk was full."),
        ({"seen": DEAD, "decision": a_restart(due_in=seconds(5))}, "2 in a row is due at 12:00:05"),
        ({"seen": LOST}, "has been silent for 60 s and cannot be looked at: pid 4711 is unseen."),
        (
            {"seen": FAILED, "circuit": a_circuit(at=NOW - minutes(30)), "policy": HALF_OPENING},
            "Half-open: one try after 1800 s.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_step_says_why(changes: dict[str, Any], words: str) -> None:
    assert words in decide(a_situation(**changes)).reason


def test_an_old_run_hands_over_to_the_next_and_leaves_the_stream_alone() -> None:
    step = decide(a_situation(run_age=timedelta(days=7), rollover_after=timedelta(days=7)))

    assert step.action is Action.FINISH
    assert step.reason.startswith("The dag run has reached its rollover age; the next run carries")
    assert "1 of 1 queries active" in step.reason


@pytest.mark.parametrize("rules", [RESTARTING, STOPPING], ids=["restart", "stop"])
def test_a_stop_remembers_what_the_verdict_asked_for(rules: HealthRules) -> None:
    step = decide(a_situation(seen=STALLED, rules=rules))

    assert step.verdict is rules.stalled
    assert "has shown no sign of work for 100000 s." in step.reason


def test_a_person_or_a_deployment_behind_a_stop_is_no_verdict() -> None:
    assert decide(a_situation(desired=STOPPED)).verdict is None
    assert decide(a_situation(deployment=NEXT)).verdict is None


def test_a_restart_that_waits_for_the_end_of_a_blackout_says_so() -> None:
    step = decide(a_situation(seen=STALLED, rules=RESTARTING, policy=BLACKED_OUT))

    assert "A restart waits until the blackout ends at" in step.reason


def test_what_has_been_told_is_not_told_again() -> None:
    first = decide(a_situation(seen=STALLED, tells=True))

    again = decide(a_situation(seen=STALLED, tells=True, alerts=first.alerts))

    assert [alert.key for alert in first.alerts] == ["stalled/revenue"]
    assert (again.action, again.alerts) == (Action.WATCH, ())


def test_a_kill_carries_what_has_to_be_told_along() -> None:
    step = decide(a_situation(seen=HUNG, tells=True))

    assert [alert.rule for alert in step.alerts] == ["hung"]


def test_a_run_in_the_way_of_another_makes_way_and_leaves_the_stream_alone() -> None:
    step = decide(a_situation(successor_waits=True))

    assert step.action is Action.FINISH
    assert step.reason.startswith("Another run of the dag waits to begin; it carries on.")


def test_a_run_that_has_something_to_do_does_it_before_it_makes_way() -> None:
    assert decide(a_situation(successor_waits=True, seen=HUNG)).action is Action.KILL


@pytest.mark.parametrize(
    ("age", "rollover"),
    [(timedelta(days=7) - seconds(1), timedelta(days=7)), (timedelta(days=900), None)],
    ids=["not old enough", "never"],
)
def test_a_run_that_need_not_hand_over_goes_on(age: timedelta, rollover: timedelta | None) -> None:
    step = decide(a_situation(run_age=age, rollover_after=rollover))

    assert step.action is Action.WATCH
