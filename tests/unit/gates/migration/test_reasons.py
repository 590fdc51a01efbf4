"""The reason why no migration lifts a refusal."""

from __future__ import annotations

import pytest

from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.migration.migration import COVERED
from airflow_streaming.gates.migration.reasons import CARRY_OVER, reason_of
from airflow_streaming.gates.migration.restarts import RESTARTING
from airflow_streaming.gates.rules import all_rules

REFUSING = sorted(
    name for name, rule in all_rules().items() if rule.severity is GateDecision.NOT_ALLOWED
)


@pytest.mark.parametrize("rule", sorted({*REFUSING} - COVERED - RESTARTING.keys()))
def test_every_rule_that_no_migration_lifts_has_a_reason(rule: str) -> None:
    reason = reason_of(rule)

    assert rule in reason
    assert len(reason.split(". ")) == 2
    assert "changes nothing but state" not in reason


def test_sources_of_a_query_without_state_can_be_carried_over() -> None:
    assert reason_of("source.order", is_stateful=False) == CARRY_OVER
    assert "sink.path" in reason_of("sink.path", is_stateful=False)
