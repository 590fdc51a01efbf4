"""
A record with a date to come, of a wrong clock or by hand, holds nothing up until then.

What waits for something to be old takes such a date for one that is as long past.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import pytest

from airflow_streaming.changes.judging.soak import SoakBaseline, SoakFigures, judge_soak
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.cutover import CutoverStanding
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.model.records.upgrade import OpenUpgrade
from airflow_streaming.model.records.upgrade_table import Stage
from airflow_streaming.supervision.health import judge_spawning
from airflow_streaming.supervision.standby import (
    StandbyState,
    StandbyView,
    is_worth_waiting_for,
    state_of,
)
from tests.unit.supervision.builders import (
    EPOCH,
    NOW,
    a_launch,
    a_process,
    a_status,
    an_epoch,
    observed,
)

YEARS: Final = timedelta(days=3_650)
Waits = Callable[[datetime], bool]


def a_standby(created_at: datetime, process: ProcessState = ProcessState.RUNNING) -> StandbyView:
    return StandbyView(
        epoch=an_epoch(
            stream="orders.standby", standby=True, serves="orders", created_at=created_at
        ),
        process=a_process(process),
        launch=a_launch() if process is ProcessState.RUNNING else None,
    )


def soaks(since: datetime) -> bool:
    seen = observed(status=a_status())
    verdict = judge_soak(
        SoakBaseline(launched_at=since, epoch=EPOCH),
        SoakFigures(seen=seen, rules=HealthRules()),
        SoakTerms(),
        NOW,
    )
    return verdict.result.value == "undecided"


WAITS: Final[dict[str, Waits]] = {
    "a standby without a heartbeat is starting": lambda at: (
        state_of(a_standby(at), NOW) is StandbyState.STARTING
    ),
    "a standby that was never launched is coming": lambda at: (
        state_of(a_standby(at, ProcessState.GONE), NOW) is StandbyState.STARTING
    ),
    "a standby out of sight is only away": lambda at: (
        state_of(a_standby(at, ProcessState.UNSEEN), NOW) is StandbyState.AWAY
    ),
    "an old driver runs on until its successor is warm": lambda at: is_worth_waiting_for(
        None, 4, at, NOW
    ),
    "an epoch without a driver is being launched": lambda at: (
        judge_spawning(
            observed(ProcessState.GONE, epoch=an_epoch(created_at=at), launch=None, status=None)
        )
        is not None
    ),
    "a task works on an upgrade": lambda at: (
        not OpenUpgrade(change=1, deployment=4, stage=Stage.LAUNCHED, since=at).is_overdue(NOW)
    ),
    "a task works on a cutover": lambda at: (
        not CutoverStanding(change=1, state=CutoverState.SWITCHING, since=at).is_overdue(NOW)
    ),
    "a soak has time left": soaks,
}


@pytest.mark.parametrize("waits", WAITS.values(), ids=WAITS.keys())
def test_what_waits_until_something_is_old_does_not_wait_for_a_date_to_come(waits: Waits) -> None:
    just_now, ahead = NOW - timedelta(seconds=2), NOW + timedelta(seconds=2)

    assert (waits(just_now), waits(ahead)) == (True, True)
    assert (waits(NOW - YEARS), waits(NOW + YEARS)) == (False, False)
