"""While an upgrade is in progress only the upgrade acts; keep-alive looks on and says so."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest

from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.model.records.upgrade import OpenUpgrade
from airflow_streaming.model.records.upgrade_table import Stage
from airflow_streaming.supervision.decide import STOP_MARGIN, Action, decide
from tests.unit.supervision.builders import (
    NOW,
    a_circuit,
    a_deployment,
    a_give_up,
    a_restart,
    a_situation,
    a_stop,
    an_exit,
    minutes,
    observed,
    seconds,
)

GONE, UNSEEN = ProcessState.GONE, ProcessState.UNSEEN
STOPPED: Final = {"desired": DesiredState.STOPPED}


def a_standing(stage: Stage = Stage.LAUNCHED, **changes: Any) -> OpenUpgrade:
    told = {"change": 2, "deployment": 4, "stage": stage, "since": NOW, "soaks_for": minutes(15)}
    return OpenUpgrade(**told | changes)


SIGHTS: Final[dict[str, dict[str, Any]]] = {
    "alive": {},
    "another deployment is current": {"deployment": a_deployment(number=4)},
    "asked to stop": {"stop": a_stop()},
    "past its grace": {"stop": a_stop(), "stopping_for": seconds(60) + STOP_MARGIN},
    "hung": {"seen": observed(silent_for=minutes(1))},
    "out of sight": {"seen": observed(UNSEEN, silent_for=minutes(1))},
    "dead": {"seen": observed(GONE)},
    "failed": {"seen": observed(GONE, exit=an_exit())},
    "to be restarted": {"seen": observed(GONE, exit=an_exit()), "decision": a_restart()},
    "given up": {
        "seen": observed(GONE, exit=an_exit()),
        "decision": a_give_up(),
        "circuit": a_circuit(),
    },
    "stopped": {"seen": observed(GONE, exit=an_exit(Outcome.STOPPED)), "stop": a_stop()},
    "completed": {"seen": observed(GONE, exit=an_exit(Outcome.COMPLETED)), "watched": 17},
    "never run": {"seen": None},
}


@pytest.mark.parametrize(
    ("sight", "stage"),
    [*product(SIGHTS.values(), [Stage.BEGUN, Stage.STOPPED, Stage.LAUNCHED, Stage.ROLLING_BACK])],
    ids=[f"{sight}, {stage}" for sight, stage in product(SIGHTS, ["begun", "down", "up", "back"])],
)
def test_whatever_is_seen_the_keep_alive_task_looks_on(sight: dict[str, Any], stage: Stage) -> None:
    step = decide(a_situation(**sight, change=a_standing(stage)))
    assert step.action is Action.WATCH
    assert step.reason.startswith(
        f"Change 2 (upgrade to deployment 4) is in progress: stage {stage}. "
    )


@pytest.mark.parametrize("sight", SIGHTS.values(), ids=SIGHTS.keys())
def test_a_person_who_wants_it_stopped_gets_it_whoever_looks_first(sight: dict[str, Any]) -> None:
    with_change = decide(a_situation(**sight | STOPPED, change=a_standing()))
    without = decide(a_situation(**sight | STOPPED))
    assert with_change.action is without.action
    assert with_change.action not in (Action.LAUNCH, Action.SETTLE)


def test_the_task_makes_way_for_the_next_run_during_an_upgrade_too() -> None:
    step = decide(a_situation(change=a_standing(), successor_waits=True))
    assert step.action is Action.FINISH


@pytest.mark.parametrize(
    ("stage", "patience"),
    [
        (Stage.BEGUN, minutes(30)),
        (Stage.BACKED_UP, minutes(30)),
        (Stage.STOPPED, minutes(5)),
        (Stage.APPLYING, minutes(5)),
        (Stage.DEPLOYED, minutes(5)),
        (Stage.LAUNCHED, minutes(45)),
        (Stage.JUDGED, minutes(30)),
        (Stage.ROLLING_BACK, minutes(5)),
        (Stage.LEFT, minutes(5)),
        (Stage.RESTORED, minutes(5)),
    ],
)
def test_an_upgrade_that_nobody_finishes_is_told(stage: Stage, patience: Any) -> None:
    def told(age: Any) -> Any:
        standing = a_standing(stage, since=NOW - age)
        return decide(a_situation(change=standing, tells=True))

    assert told(patience).action is Action.WATCH
    late = told(patience + seconds(1))
    assert late.action is Action.ALERT
    (alert,) = late.alerts
    assert (alert.alert, alert.rule) == (AlertKind.UNHEALTHY, "unfinished_upgrade")
    assert "airflow-streaming upgrade roll-back orders" in alert.remedy
    again = decide(
        a_situation(
            change=a_standing(stage, since=NOW - patience - seconds(1)), tells=True, alerts=(alert,)
        )
    )
    assert again.action is Action.WATCH


@pytest.mark.parametrize("stage", [Stage.KEPT, Stage.ROLLED_BACK, Stage.ABORTED])
def test_an_end_that_nobody_has_written_down_is_told_and_the_stream_is_kept_alive(
    stage: Stage,
) -> None:
    failed = {"seen": observed(GONE, exit=an_exit()), "decision": a_restart()}
    standing = a_standing(stage, since=NOW - minutes(31))
    assert decide(a_situation(**failed, change=standing)) == decide(a_situation(**failed))

    assert decide(a_situation(change=a_standing(stage), tells=True)).action is Action.WATCH
    (alert,) = decide(a_situation(change=standing, tells=True)).alerts
    assert alert.rule == "unfinished_upgrade"
    assert f"has come to its end and was not closed: stage {stage}" in alert.reason


def test_that_it_was_finished_is_told_too() -> None:
    late = a_standing(since=NOW - minutes(60))
    (alert,) = decide(a_situation(change=late, tells=True)).alerts
    over = decide(a_situation(tells=True, alerts=(alert,)))
    assert [one.alert for one in over.alerts] == [AlertKind.RECOVERED]
