"""Whatever the records say, there is one next step, and it never starts a second driver."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.supervision.decide import Action, decide
from tests.unit.supervision.builders import (
    NOW,
    a_circuit,
    a_restart,
    a_situation,
    a_stop,
    minutes,
    seconds,
)
from tests.unit.supervision.steering_cases import (
    BLACKED_OUT,
    CLOSED,
    COMPLETED,
    DEAD,
    FAILED,
    HALF_OPENING,
    HAS_STOPPED,
    HUNG,
    LOST,
    NEXT,
    OPEN,
    OVERDUE,
    RESTARTING,
    STALLED,
    STOPPED,
    STOPPING,
    TABLE,
)


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
        ({"seen": None}, "First start of the stream."),
        ({"desired": STOPPED}, 'Desired state is "stopped".'),
        ({"deployment": NEXT}, "Deployment 4 replaces deployment 3 of epoch 17."),
        ({"seen": HAS_STOPPED, "stop": a_stop()}, "Started again after epoch 17: "),
        (
            {"seen": HAS_STOPPED, "stop": a_stop(), "deployment": NEXT},
            "Deployment 4 replaces deployment 3 of epoch 17.",
        ),
        ({"stop": a_stop()}, "Waiting for the driver to stop: Maintenance."),
        ({"stop": a_stop(), "stopping_for": OVERDUE}, "has not stopped in 75 s."),
        ({"seen": FAILED, "circuit": OPEN}, "The circuit is open: The disk was full."),
        ({"seen": FAILED, "circuit": CLOSED}, "kim closed the circuit: The disk was full."),
        ({"seen": DEAD, "decision": a_restart(due_in=seconds(5))}, "2 in a row is due at 12:00:05"),
        ({"seen": LOST}, "has been silent for 1 min and cannot be observed: pid 4711 is unseen."),
        (
            {"seen": FAILED, "circuit": a_circuit(at=NOW - minutes(30)), "policy": HALF_OPENING},
            "Half-open: one try after 30 min.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_step_says_why(changes: dict[str, Any], words: str) -> None:
    assert words in decide(a_situation(**changes)).reason


def test_an_old_run_hands_over_to_the_next_and_leaves_the_stream_alone() -> None:
    step = decide(a_situation(run_age=timedelta(days=7), rollover_after=timedelta(days=7)))

    assert step.action is Action.FINISH
    assert step.reason.startswith("The DAG run reached its rollover age")
    assert "1 of 1 queries active" in step.reason


@pytest.mark.parametrize("rules", [RESTARTING, STOPPING], ids=["restart", "stop"])
def test_a_stop_remembers_what_the_verdict_asked_for(rules: HealthRules) -> None:
    step = decide(a_situation(seen=STALLED, rules=rules))

    assert step.verdict is rules.stalled
    assert "has shown no sign of work for 27.8 h." in step.reason


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
    assert step.reason.startswith("Another DAG run is queued")


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
