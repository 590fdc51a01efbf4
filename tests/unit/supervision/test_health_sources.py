"""Brokers that accept no connection are named while the query still waits for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.model.health_rules import HealthRules, Severity
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.status import ExecutorStatus
from airflow_streaming.supervision.alerts.alerting import remedy_for_rule
from airflow_streaming.supervision.health import judge
from tests.unit.supervision.builders import a_query, a_status, observed

REFUSAL = "No broker of topics clicks at broker:9092 accepts a connection (Connection refused)."


def judged(*, rules: HealthRules | None = None, **facts: Any) -> Any:
    query = a_query(**{"batch_for_s": 400.0, "quiet_for_s": 400.0, "refusal": REFUSAL} | facts)
    executors = ExecutorStatus(alive=0, wanted=4, none_for_s=400.0)
    return judge(
        observed(status=a_status(queries=(query,), executors=executors)), rules or HealthRules()
    )


def test_they_are_named_instead_of_the_batch_and_the_executors_that_wait() -> None:
    found = judged(refused_for_s=30.0)

    assert (found.state, found.severity) == (VerdictState.STALLED, Severity.ALERT)
    assert [(one.rule, one.query) for one in found.findings] == [("source_unreachable", "revenue")]
    assert found.reason == f"Query 'revenue' has waited for 30 s. {REFUSAL}"
    assert "address in the script" in remedy_for_rule(found.rule, stream="orders", epoch=1)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"refused_for_s": 29.0}, id="not for long"),
        pytest.param({"refused_for_s": None}, id="not asked"),
        pytest.param({"refused_for_s": 60.0, "refusal": ""}, id="they answer"),
        pytest.param({"refused_for_s": 60.0, "active": False}, id="the query has ended"),
    ],
)
def test_otherwise_the_rest_is_judged(facts: dict[str, Any]) -> None:
    assert judged(**facts).rule != "source_unreachable"


def test_the_time_is_the_streams_own() -> None:
    patient = HealthRules(source_unreachable_after=timedelta(minutes=5))

    assert judged(rules=patient, refused_for_s=299.0).rule == "no_executor"
    assert judged(rules=patient, refused_for_s=300.0).rule == "source_unreachable"
