"""Laws that hold in every situation, also in those that nobody has thought of."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import ProcessState, VerdictState
from airflow_streaming.model.records.control import CircuitState, DesiredState
from airflow_streaming.model.records.epoch import LaunchCause, Outcome
from airflow_streaming.model.status import DriverState
from airflow_streaming.supervision.decide import (
    PASSIVE,
    STOP_MARGIN,
    Action,
    ReconcileInput,
    decide,
)
from airflow_streaming.supervision.health import judge
from tests.unit.supervision.builders import (
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

UNSEEN = ProcessState.UNSEEN
OVERDUE: Final = seconds(60) + STOP_MARGIN
HALF_OPENING: Final = RestartPolicy(half_open_after=minutes(30))
NEXT: Final = a_deployment(number=4)


def optional(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, *values])


observations = st.builds(
    observed,
    process=st.sampled_from([*ProcessState]),
    epoch=st.sampled_from([an_epoch(), an_epoch(created_at=NOW)]),
    launch=optional(observed().launch),
    status=optional(
        a_status(),
        a_status(state=DriverState.STOPPING),
        a_status(first_progress_at=None),
        a_status(queries=(a_query(processing=False, data_available=False),)),
    ),
    exit=optional(*(an_exit(outcome) for outcome in Outcome)),
    death=optional(a_death()),
    silent_for=st.sampled_from([seconds(0), seconds(45), minutes(10), timedelta(days=1)]),
    cpu_in_silence=optional(0.0, 1e9),
)
situations = st.builds(
    a_situation,
    desired=st.sampled_from([*DesiredState]),
    policy=st.sampled_from([RestartPolicy(), HALF_OPENING]),
    deployment=optional(a_deployment(), NEXT),
    circuit=optional(
        *(
            a_circuit(state, epoch=epoch, at=NOW - age)
            for state in CircuitState
            for epoch in (EPOCH - 1, EPOCH)
            for age in (minutes(0), minutes(31))
        )
    ),
    seen=st.none() | observations,
    decision=optional(a_restart(), a_restart(due_in=minutes(1)), a_give_up()),
    stop=optional(a_stop()),
    stopping_for=st.sampled_from([seconds(0), OVERDUE]),
    watched=optional(EPOCH + 1, EPOCH, EPOCH - 1),
    run_age=st.sampled_from([timedelta(0), timedelta(days=8)]),
    rollover_after=optional(timedelta(days=7)),
)
thorough = settings(max_examples=100, deadline=None, database=None)


@thorough
@given(situation=situations)
def test_the_laws_hold_in_every_situation(situation: ReconcileInput) -> None:
    step, seen = decide(situation), situation.seen
    verdict = judge(seen, HealthRules()) if seen else None
    ended = verdict is None or verdict.has_ended
    circuit = situation.circuit
    is_held = circuit is not None and circuit.holds(EPOCH if seen else None)

    assert step.reason
    if step.action is Action.LAUNCH:
        assert ended
        assert situation.desired is DesiredState.RUNNING
        assert (step.cause is LaunchCause.TRIAL) is is_held
        if is_held:
            assert situation.policy is HALF_OPENING
            assert circuit is not None
            assert circuit.at == NOW - minutes(31)
    if situation.watched is not None and (seen is None or situation.watched > EPOCH):
        assert step.action in (Action.WATCH, Action.FINISH)
    elif verdict is not None and verdict.state is VerdictState.UNREACHABLE:
        assert step.action is Action.BLOCKED
    if seen is not None and seen.process.state is UNSEEN:
        assert step.action is not Action.KILL
    if step.action in (Action.STOP, Action.KILL, Action.BLOCKED):
        assert not ended
    if step.action is Action.STOP:
        assert situation.stop is None
    if step.action in (Action.SETTLE, Action.WAIT):
        assert ended
        assert not is_held
        assert situation.stop is None


@thorough
@given(situation=situations)
def test_the_age_of_the_run_replaces_passive_steps_only(situation: ReconcileInput) -> None:
    young = decide(replace(situation, run_age=timedelta(0)))
    old = decide(replace(situation, run_age=timedelta(days=8), rollover_after=timedelta(days=7)))

    if young.is_passive:
        assert old.action is Action.FINISH
        assert old.reason.endswith(young.reason)
    else:
        assert old == young
    assert young.is_passive is (young.action in PASSIVE)


@thorough
@given(situation=situations)
def test_what_a_task_remembers_decides_nothing_but_its_own_end(situation: ReconcileInput) -> None:
    # A cleared task and a second trigger know only the home; they come to the same step, as long
    # as the home has kept what the task saw.
    seen = situation.seen or observed()
    remembering = decide(replace(situation, seen=seen, watched=EPOCH, rollover_after=None))
    fresh = decide(replace(situation, seen=seen, watched=None, rollover_after=None))

    assert fresh == remembering or remembering.action is Action.FINISH
