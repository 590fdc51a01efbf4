"""A stream without a driver whose source is about to remove unread data."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.progress import SourceProgress
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.supervision.decide import Action, ReconcileInput, decide
from tests.unit.supervision.builders import (
    NOW,
    a_batch,
    a_query,
    a_situation,
    a_status,
    an_exit,
    observed,
)


def _parked(loss_in: timedelta, *, told_ago: timedelta, **changes: Any) -> ReconcileInput:
    """Return a stopped stream whose last driver told when a source removes unread data."""
    source = SourceProgress(source="KafkaV2[orders]", loss_in_s=loss_in.total_seconds())
    query = a_query(progress=a_batch(sources=(source,)))
    status = a_status(at=NOW - told_ago, queries=(query,))
    seen = observed(ProcessState.GONE, status=status, exit=an_exit(Outcome.STOPPED))
    fields = {"desired": DesiredState.STOPPED, "tells": True, "rules": HealthRules.recommended()}
    return a_situation(seen=seen, **fields | changes)


@pytest.mark.parametrize(
    ("told_ago", "words"),
    [
        pytest.param(timedelta(hours=4), "", id="most of the time is left"),
        pytest.param(
            timedelta(hours=6), "unread data of query 'revenue' in 4 h", id="half is over"
        ),
        pytest.param(timedelta(hours=11), "unread data of query 'revenue' by now", id="all of it"),
    ],
)
def test_a_parked_stream_that_loses_data_sends_an_alert_and_stays_parked(
    told_ago: timedelta, words: str
) -> None:
    step = decide(_parked(timedelta(hours=10), told_ago=told_ago))
    if not words:
        assert step.action is Action.PARK
        return
    [alert] = step.alerts
    assert step.action is Action.ALERT
    assert words in alert.reason
    assert (alert.key, alert.rule) == ("data_loss/revenue/KafkaV2[orders]", "data_loss")
    assert "retention of the source" in alert.remedy
    again = _parked(timedelta(hours=10), told_ago=told_ago, alerts=(replace(alert, number=1),))
    assert decide(again).action is Action.PARK


def test_a_parked_stream_without_the_rule_sends_none() -> None:
    rules = HealthRules.recommended(loss_share=None)
    s = _parked(timedelta(hours=10), told_ago=timedelta(hours=9), rules=rules)
    assert decide(s).action is Action.PARK
