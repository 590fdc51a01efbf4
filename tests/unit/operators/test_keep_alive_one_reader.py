"""Edited rules, restart policy and notifiers reach every reader at the next wake-up of the task."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_streaming.cli.status import view_stream
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.control import Control
from airflow_streaming.home.history import PartCache
from airflow_streaming.home.live_lane import LiveLaneCache
from airflow_streaming.hooks.snapshot import StreamSnapshotReader
from airflow_streaming.model.arguments.policies import Budget, Freshness, RestartPolicy
from airflow_streaming.model.health_rules import HealthRule, HealthRules
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.records.control import Event, EventKind
from airflow_streaming.model.records.supervision import DEFAULTS, Supervision
from airflow_streaming.plugins.views import StreamWatch
from tests.unit.world import World

PATIENT = HealthRules(stall_after=timedelta(minutes=30))
STRICT = HealthRules(stall_after=timedelta(minutes=2))
NEW_BUDGET = " -> restarts 2, window 1 h"
LATE = HealthRule(name="late", metric=Metric.WATERMARK_DELAY_SECONDS, bound=60.0)


def supervised(world: World) -> list[Event]:
    return [event for event in world.home.events() if event.event is EventKind.SUPERVISED]


def verdicts(world: World, operator: Any) -> dict[str, str]:
    """Return what each reader says of the stream."""
    hook, live = operator.open_hook(world.context()), LiveLaneCache(world._store(), "orders")
    trigger = world.deferral(lambda: operator.execute(world.context()))
    trigger.look_once()
    task = hook.observer()
    task.situation()
    page = StreamWatch(home=world.home, parts=PartCache(), probe=world.launcher.probe)
    status = view_stream(world.home, world.launcher.probe, patience=0).status
    return {
        "task": task.state,
        "trigger": trigger._watcher.state,
        "page": page.whole(datetime.now(UTC))["state"],
        "status": status.standing.word,
        "sensor": StreamSnapshotReader(live, "orders").snapshot().verdict.state,
    }


def test_an_edited_rule_is_one_truth_from_the_next_wake_up_on(world: World) -> None:
    operator = world.operator(health=PATIENT)
    trigger = world.run(operator)
    stuck = world.query(batch_for_s=600.0, quiet_for_s=600.0, planned_batch=3)
    world.say(beat=2, progressed_for=timedelta(hours=1), queries=(stuck,))
    assert set(verdicts(world, operator).values()) == {"healthy"}

    edited = world.operator(health=STRICT)
    # Before the task has woken, no reader has heard of the edit.
    hook = edited.open_hook(world.context())
    hook.observer().situation()
    assert world.home.supervision().health == PATIENT
    world.wake(trigger, edited)

    assert set(verdicts(world, edited).values()) == {"stalled"}
    (event,) = supervised(world)
    assert event.message == "The DAG has changed health.stall_after: 30 min -> 2 min."


def test_a_wake_up_without_an_edit_records_nothing(world: World) -> None:
    operator = world.operator(health=PATIENT)
    trigger = world.run(operator)
    world.wake(trigger, operator)

    assert (world.home.supervision().number, supervised(world)) == (1, [])


def test_notifiers_are_named_and_their_values_are_not(world: World) -> None:
    def page_on_call(context: object) -> None:
        del context

    trigger = world.run()
    edited = world.operator()
    edited.on_gave_up = [page_on_call]
    world.wake(trigger, edited)

    assert world.home.supervision().notifiers == ("on_gave_up: page_on_call",)
    assert supervised(world)[0].message == (
        "The DAG has changed notifiers: none -> on_gave_up: page_on_call."
    )


def test_the_tags_of_the_dag_are_recorded_for_selectors(world: World) -> None:
    world.run(world.operator(dag=DAG("orders", schedule=None, tags=["nightly", "core"])))

    assert world.home.supervision().tags == ("core", "nightly")
    assert world.home.tags() == ("core", "nightly")


def test_rules_that_cannot_be_recorded_take_effect_for_no_reader(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = world.run(world.operator(health=PATIENT))
    stuck = world.query(batch_for_s=600.0, quiet_for_s=600.0, planned_batch=3)
    world.say(beat=2, progressed_for=timedelta(hours=1), queries=(stuck,))

    def away(*_: object) -> None:
        raise HomeUnavailable("The store is away.")

    with monkeypatch.context() as patch:
        patch.setattr(Control, "supervise", away)
        edited = world.operator(health=STRICT)
        world.wake(trigger, edited)
        assert set(verdicts(world, edited).values()) == {"healthy"}

    assert set(verdicts(world, edited).values()) == {"stalled"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ()),
        ({"stop_grace": timedelta(minutes=7)}, ("stop_grace: 1 min -> 7 min",)),
        (
            {"restart": RestartPolicy(reset_batches=5)},
            ("restart.reset_batches: 20 -> 5",),
        ),
        (
            {"restart": RestartPolicy(budgets=(Budget(restarts=2, window=timedelta(hours=1)),))},
            ("restart.budgets: restarts 5, window 10 min; restarts 20, window 1 d" + NEW_BUDGET,),
        ),
        ({"restart": RestartPolicy(budgets=())}, None),
        ({"health": HealthRules(rules=(LATE,))}, None),
    ],
)
def test_a_difference_names_field_and_values(
    changes: dict[str, Any], said: tuple[str, ...] | None
) -> None:
    told = DEFAULTS.differences(replace(DEFAULTS, **changes))

    if said is not None:
        assert told == said
    assert bool(told) is bool(changes)


def test_a_rule_is_compared_by_its_name() -> None:
    before = replace(DEFAULTS, health=HealthRules(rules=(LATE,)))
    after = replace(DEFAULTS, health=HealthRules(rules=(replace(LATE, bound=90.0),)))

    assert before.differences(after) == ("health.rules.late.bound: 60.0 -> 90.0",)
    assert DEFAULTS.differences(before) == ("health.rules.late: added",)
    assert before.differences(DEFAULTS) == ("health.rules.late: removed",)


def test_a_freshness_objective_is_one_difference() -> None:
    later = replace(DEFAULTS, freshness=Freshness(complete_within=timedelta(minutes=15)))

    (change,) = DEFAULTS.differences(later)
    assert change.startswith("freshness: none -> complete_within 15 min, ")


def test_a_number_and_an_author_make_no_difference() -> None:
    later = Supervision(number=7, by="kim", at=datetime.now(UTC))

    assert DEFAULTS.differences(later) == ()
