"""No executor for minutes is a verdict of its own, and a batch that waits for one is its symptom."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.model.health_rules import HealthRules, Severity
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.status import ExecutorStatus, Status
from airflow_streaming.supervision.health import judge
from tests.unit.supervision.builders import a_query, a_status, observed

NONE = ExecutorStatus(alive=0, wanted=4, lost_last_hour=2, none_for_s=400.0, reason="exit code 137")
STALLED = a_query(batch_for_s=400.0, quiet_for_s=400.0)


def judged(status: Status) -> Any:
    return judge(observed(status=status), HealthRules())


def test_it_is_named_instead_of_the_batch_that_waits():
    found = judged(a_status(queries=(STALLED,), executors=NONE))
    assert (found.state, found.rule, found.severity) == (
        VerdictState.STALLED,
        "no_executor",
        Severity.ALERT,
    )
    assert [finding.rule for finding in found.findings] == ["no_executor"]
    assert "exit code 137" in found.reason


@pytest.mark.parametrize(
    "executors",
    [
        pytest.param(None, id="local mode"),
        pytest.param(ExecutorStatus(alive=1, wanted=4), id="one is there"),
        pytest.param(ExecutorStatus(alive=0, wanted=4, none_for_s=200.0), id="not for long"),
    ],
)
def test_otherwise_the_batch_is_judged(executors: ExecutorStatus | None):
    assert judged(a_status(queries=(STALLED,), executors=executors)).rule == "stalled"


def test_a_stream_with_nothing_to_do_needs_none():
    idle = a_query(processing=False, data_available=False)
    assert judged(a_status(queries=(idle,), executors=NONE)).state is VerdictState.IDLE


def test_a_driver_without_queries_waits_for_them_too():
    assert judged(a_status(queries=(), executors=NONE)).rule == "no_executor"
