"""A rule says no to what could never fire or never clear, and travels as JSON."""

from __future__ import annotations

from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.health_rules import (
    BUILT_IN,
    Comparison,
    Finding,
    HealthRule,
    RuleState,
    Severity,
)
from airflow_streaming.model.metrics import Metric

BELOW = Comparison.BELOW
A_MINUTE = timedelta(minutes=1)
WINDOWS = ("sustained_for", "mean_over", "clear_for")
NEVER_NEGATIVE = [
    metric
    for metric in Metric
    if metric not in (Metric.OBSERVED, Metric.WATERMARK_DELAY_SECONDS, Metric.COMMIT_AGE_SECONDS)
]


def a_rule(**changes: Any) -> HealthRule:
    fields: dict[str, Any] = {"name": "late", "metric": Metric.BATCH_SECONDS, "bound": 10.0}
    return HealthRule(**fields | changes)


@pytest.mark.parametrize(
    ("comparison", "figure", "is_bad", "is_clear"),
    [
        (Comparison.ABOVE, 10.5, True, False),
        (Comparison.ABOVE, 10.0, False, False),
        (Comparison.ABOVE, 8.0, False, True),
        (BELOW, 9.5, True, False),
        (BELOW, 10.0, False, False),
        (BELOW, 12.0, False, True),
    ],
)
def test_a_figure_between_bound_and_clear_bound_is_neither_bad_nor_clear(
    comparison: Comparison, figure: float, is_bad: bool, is_clear: bool
) -> None:
    rule = a_rule(comparison=comparison, clear_bound=12.0 if comparison is BELOW else 8.0)

    assert (rule.is_bad(figure), rule.is_clear(figure)) == (is_bad, is_clear)


@pytest.mark.parametrize("bound", [10.0, 0.0])
def test_without_a_clear_bound_the_bound_itself_is_clear(bound: float) -> None:
    assert a_rule(bound=bound).is_clear(bound)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": ""}, "needs a name"),
        ({"sustained_for": timedelta(seconds=-1)}, "sustained_for is "),
        ({"mean_over": timedelta(seconds=-1)}, "mean_over is "),
        ({"clear_for": timedelta(seconds=-1)}, "clear_for is "),
        ({"bound": nan}, "bound is nan"),
        ({"clear_bound": inf}, "bound is inf"),
        ({"clear_bound": 11.0}, "could never clear"),
        ({"comparison": BELOW, "clear_bound": 9.0}, "could never clear"),
        ({"comparison": BELOW, "bound": 0.0}, "could never fire"),
        ({"metric": Metric.COMMIT_AGE_SECONDS, "bound": -1.0}, "could never clear"),
        *(
            ({"metric": metric, "bound": -1.0, "mean_over": A_MINUTE}, "could never clear")
            for metric in NEVER_NEGATIVE
        ),
        ({"clear_bound": -1.0}, "could never clear"),
        ({"metric": Metric.CACHE_MISS_SHARE, "bound": 1.0}, "could never fire"),
        (
            {"metric": Metric.CACHE_MISS_SHARE, "comparison": BELOW, "bound": 1.5},
            "could never clear",
        ),
        *(({name: timedelta(days=10)}, f"{name} is ") for name in WINDOWS),
        *(({name: ""}, f"empty '{name}'") for name in ("query", "source", "column")),
        ({"column": "a.b"}, "needs a 'column'"),
        ({"metric": Metric.OBSERVED}, "needs a 'column'"),
        ({"metric": Metric.INPUT_RATE}, "needs 'mean_over'"),
        ({"metric": Metric.COMMIT_AGE_SECONDS, "mean_over": timedelta(1)}, "no 'mean_over'"),
        ({"metric": Metric.COMMIT_AGE_SECONDS, "comparison": BELOW}, "after every commit"),
        ({"source": "orders"}, "figure of the whole query"),
        *(({"name": name}, "built-in rule") for name in sorted(BUILT_IN)),
    ],
    ids=str,
)
def test_a_rule_that_makes_no_sense_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        a_rule(**changes)


@pytest.mark.parametrize("metric", [Metric.OBSERVED, Metric.WATERMARK_DELAY_SECONDS])
def test_figures_that_can_be_negative_may_have_such_a_bound(metric: Metric) -> None:
    column = "a.b" if metric is Metric.OBSERVED else None

    assert a_rule(metric=metric, column=column, comparison=BELOW, bound=-5.0).is_bad(-6.0)


def test_a_rule_survives_its_journey_as_json() -> None:
    rule = a_rule(
        metric=Metric.BACKLOG_FILES,
        sustained_for=timedelta(minutes=5),
        clear_bound=8.0,
        severity=Severity.STOP,
        query="orders",
        source="file:/in",
    )

    assert HealthRule.from_dict(rule.to_dict()) == rule


@pytest.mark.parametrize(
    "changes", [{"metric": "speed"}, {"bound": "high"}, {"clear_bound": 11}, {"name": ""}], ids=str
)
def test_json_that_is_no_rule_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        HealthRule.from_dict(a_rule().to_dict() | changes)


def test_findings_of_one_rule_are_told_apart_by_query_and_source() -> None:
    fields: dict[str, Any] = {"state": RuleState.CLEAR, "severity": Severity.ALERT, "reason": "-"}
    keys = {
        Finding(rule="late", query=query, source=source, **fields).key
        for query in ("", "a", "b")
        for source in (None, "s")
    }

    assert len(keys) == 6
