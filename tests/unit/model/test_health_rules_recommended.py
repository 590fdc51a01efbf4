"""The recommended rules are alerts, are easy to change, and hold what they promise."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.model.health_rules import (
    HealthRule,
    HealthRules,
    Severity,
    recommended_rules,
)
from airflow_streaming.model.metrics import Metric

EVERY_LIMIT: dict[str, Any] = {
    "watermark_sla": timedelta(minutes=10),
    "state_rows_limit": 1_000_000,
    "state_bytes_limit": 2**30,
    "backlog_records": 1e6,
    "backlog_bytes": 1e9,
    "backlog_files": 1_000,
    "loss_within": timedelta(hours=6),
    "observed": {"quality.bad": 0.1},
}
NEEDS_NO_LIMIT = {
    "input_stopped",
    "falling_behind",
    "batch_over_interval",
    "rows_dropped",
    "backlog_seconds",
    "slow_state_commit",
    "block_cache_misses",
    "no_commit",
    "executors_missing",
    "executors_lost",
    "tasks_failed",
    "data_loss",
    "snapshot_lag",
    "snapshot_repaired",
}


DOCS = Path(__file__).parents[3] / "docs" / "health.md"


def named(name: str, **limits: Any) -> HealthRule:
    return next(rule for rule in recommended_rules(**limits) if rule.name == name)


def test_rules_without_a_limit_of_their_owner_are_left_out() -> None:
    assert {rule.name for rule in recommended_rules()} == NEEDS_NO_LIMIT


def test_with_every_limit_every_metric_but_the_absolute_duration_has_a_rule() -> None:
    metrics = {rule.metric for rule in recommended_rules(**EVERY_LIMIT)}

    assert metrics == set(Metric) - {Metric.BATCH_SECONDS}


def test_all_are_alerts_and_travel_as_json() -> None:
    rules = HealthRules.recommended(**EVERY_LIMIT)

    assert {rule.severity for rule in rules.rules} == {Severity.ALERT}
    assert HealthRules.from_dict(rules.to_dict()) == rules


@pytest.mark.parametrize(
    ("limit", "rule"),
    [
        ("silent_for", "input_stopped"),
        ("backlog_seconds", "backlog_seconds"),
        ("commit_for", "slow_state_commit"),
        ("cache_miss_share", "block_cache_misses"),
        ("no_commit_for", "no_commit"),
        ("loss_share", "data_loss"),
        ("snapshot_lag", "snapshot_lag"),
        ("repaired_snapshots", "snapshot_repaired"),
    ],
)
def test_a_default_can_be_left_out(limit: str, rule: str) -> None:
    assert rule not in {found.name for found in recommended_rules(**{limit: None})}


@pytest.mark.parametrize(
    ("rule", "bound"),
    [
        ("state_rows", 800_000),
        ("state_bytes", 0.8 * 2**30),
        ("watermark_late", 600),
        ("backlog_records", 1e6),
        ("backlog_seconds", 600),
        ("falling_behind", 0.8),
        ("batch_over_interval", 3),
        ("observed_quality.bad", 0.1),
    ],
)
def test_bounds_follow_the_limits(rule: str, bound: float) -> None:
    assert named(rule, **EVERY_LIMIT).bound == bound


@pytest.mark.parametrize("silent_for", [timedelta(minutes=1), timedelta(days=3)])
def test_a_single_row_in_all_the_time_is_input(silent_for: timedelta) -> None:
    rule = named("input_stopped", silent_for=silent_for)

    assert rule.is_bad(0.0)
    assert not rule.is_bad(1 / silent_for.total_seconds())


def test_a_rule_of_the_same_name_replaces_a_recommended_one() -> None:
    stricter = replace(named("falling_behind"), severity=Severity.RESTART)

    rules = HealthRules.recommended(rules=(stricter,)).rules

    assert [rule for rule in rules if rule.name == "falling_behind"] == [stricter]
    assert {rule.name for rule in rules} == NEEDS_NO_LIMIT


def test_the_examples_of_the_docs_run() -> None:
    examples = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)

    exec("\n".join(examples), {})  # noqa: S102 - the guide's own

    assert len(examples) == 3


def test_the_docs_name_every_recommended_rule() -> None:
    text = DOCS.read_text()
    rules = {rule.name for rule in recommended_rules(**EVERY_LIMIT)}

    parts = {rule.removeprefix("backlog") for rule in rules if not rule.startswith("observed")}
    assert {part for part in parts if f"{part}`" not in text} == set()
