"""The doctor on queries in real-time mode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.advice.examined import Outcome, RiskLevel
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan, SourcePlan
from tests.unit.supervision.examined import a_planned_query, batches, facts, said, the_one


def a_plan(**changes: Any) -> QueryPlan:
    fields: dict[str, Any] = {
        "processing_trigger": "real time 5 minutes",
        "output_mode": "update",
        "sources": (SourcePlan(source="kafka"),),
        "sink": SinkPlan(sink="kafka"),
    }
    return replace(a_planned_query(), **fields | changes)


def test_a_query_that_spark_refuses_is_a_risk_with_its_reason() -> None:
    found = said("real-time", facts(plans=(a_plan(sink=SinkPlan(sink="foreachbatch")),)))

    assert [(one.level, "foreachbatch" in one.what) for one in found] == [(RiskLevel.HIGH, True)]
    assert said("real-time", facts(plans=(a_plan(),))) == []
    assert the_one("real-time", facts()).outcome is Outcome.FINE


@pytest.mark.parametrize(
    ("interval", "outcome"),
    [("5 minutes", Outcome.FINE), ("10 minutes", Outcome.RISK), ("1 hour", Outcome.RISK)],
)
def test_a_kill_repeats_an_interval(interval: str, outcome: Outcome) -> None:
    plan = a_plan(processing_trigger=f"real time {interval}")
    advice = the_one("real-time-replay", facts(plans=(plan,), history=batches(input_rows=1200)))

    assert advice.outcome is outcome
    assert "1,200 rows as a rule" in advice.what + advice.evidence


@pytest.mark.parametrize(
    ("observed", "outcome"),
    [
        pytest.param({"latency.p99": 4.0}, Outcome.FINE, id="a percentile"),
        pytest.param({"amounts.max": 4.0}, Outcome.RISK, id="something else"),
    ],
)
def test_latency_that_nothing_measures_is_a_risk(
    observed: dict[str, float], outcome: Outcome
) -> None:
    history = batches(2, observed=observed)
    advice = the_one("real-time-latency", facts(plans=(a_plan(),), history=history))

    assert advice.outcome is outcome


def test_a_query_in_batches_gets_no_advice_on_it() -> None:
    assert said("real-time-latency", facts(plans=(a_planned_query(),))) == []
