"""No data is never "clear": a rule without a figure is unknown, and says what is missing."""

from __future__ import annotations

from typing import Any, Final

import pytest

from airflow_streaming.model.health_rules import HealthRule, RuleState, recommended_rules
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.progress import BatchProgress, SourceProgress
from airflow_streaming.supervision.rules.rulebook import RuleBook
from tests.unit.supervision.builders import BEGUN, a_batch, a_status, minutes
from tests.unit.supervision.figures_told import FILES, IDLE, KAFKA, one, rows, rule

# No data is never "clear".
UNKNOWN: Final = {
    "no batch in this epoch": (
        rule(Metric.STATE_ROWS, 5),
        [],
        {},
        "Query 'revenue' has not finished a batch in this epoch yet.",
    ),
    "a figure that Spark does not report": (
        rule(Metric.STATE_ROWS, 5),
        rows(3),
        {},
        "Spark has not reported state rows for query 'revenue'.",
    ),
    "a query that does not exist": (
        rule(Metric.STATE_ROWS, 5, query="orders"),
        rows(3),
        {},
        "Rule 'r' speaks of query 'orders', which the stream does not have; it has 'revenue'.",
    ),
    "a source that does not exist": (
        rule(Metric.BACKLOG_FILES, 5, source="s3:"),
        rows(3, sources=(SourceProgress(source=FILES, backlog_files=1),)),
        {},
        (
            "Query 'revenue' has no source whose description contains 's3:'; it has "
            "'FileStreamSource[file:/in]'."
        ),
    ),
    "a unit in which the source tells no backlog": (
        rule(Metric.BACKLOG_BYTES, 5),
        rows(3, sources=(SourceProgress(source=KAFKA, backlog_records=1),)),
        {},
        (
            "Spark has not reported a backlog in bytes for source 'KafkaV2[Subscribe[orders]]' of "
            "query 'revenue'."
        ),
    ),
    "a column that is not observed": (
        rule(Metric.OBSERVED, 5, column="quality.bad"),
        rows(3, observed={"quality.rows": 1.0, "a.b": 2.0}),
        {},
        "Query 'revenue' has not observed 'quality.bad'; it has observed 'a.b', 'quality.rows'.",
    ),
    "a query that observes nothing": (
        rule(Metric.OBSERVED, 5, column="quality.bad"),
        rows(3),
        {},
        "Query 'revenue' has not observed 'quality.bad'; it has observed nothing.",
    ),
    "a query without a processing interval": (
        rule(Metric.BATCH_SHARE, 3),
        rows(3),
        {},
        "Query 'revenue' has no processing interval that its batches could be measured by.",
    ),
    "a mean over more time than was seen": (
        rule(Metric.STATE_ROWS, 5, mean_over=minutes(10)),
        rows(3, state_rows=9),
        {},
        (
            "Query 'revenue' has been seen for 30 s of the 10 min that the mean of rule 'r' is taken "
            "over."
        ),
    ),
    "an input rate over more time than was seen": (
        rule(Metric.INPUT_RATE, 5, mean_over=minutes(10)),
        [],
        {"committed_ago_s": 30.0} | IDLE,
        (
            "Query 'revenue' has been seen for 30 s of the 10 min that the mean of rule 'r' is taken "
            "over."
        ),
    ),
    "a query that has ended": (
        rule(Metric.STATE_ROWS, 5),
        rows(3, state_rows=9),
        {"active": False},
        "Query 'revenue' has ended.",
    ),
    "a batch of unknown age": (
        rule(Metric.COMMIT_AGE_SECONDS, 5),
        rows(3),
        {"batch_for_s": None, "committed_ago_s": 9.0},
        "The driver has not reported how long query 'revenue' has been at its batch.",
    ),
}


@pytest.mark.parametrize(("given", "history", "query", "reason"), UNKNOWN.values(), ids=UNKNOWN)
def test_without_data_a_rule_is_unknown_and_says_what_is_missing(
    given: HealthRule, history: list[BatchProgress], query: dict[str, Any], reason: str
) -> None:
    finding = one(given, history, at=30, **query)

    assert (finding.state, finding.reason) == (RuleState.UNKNOWN, reason)


def test_a_driver_without_a_query_leaves_every_rule_unknown() -> None:
    found = RuleBook(recommended_rules()).findings(a_status(queries=()))

    assert {finding.state for finding in found} == {RuleState.UNKNOWN}
    assert {finding.reason for finding in found} == {"The driver has not started a query yet."}


def test_a_figure_that_is_no_longer_reported_becomes_unknown() -> None:
    gone = rows(20, start=10)

    assert one(rule(Metric.STATE_ROWS, 5), rows(1, state_rows=9) + gone[:19], at=200).state == (
        RuleState.FIRING
    )
    assert one(rule(Metric.STATE_ROWS, 5), rows(1, state_rows=9) + gone, at=210).state == (
        RuleState.UNKNOWN
    )


@pytest.mark.parametrize("at", ["", "yesterday", "2026-13-45T00:00:00Z"])
def test_a_batch_without_a_time_is_left_out(at: str) -> None:
    history = [a_batch(batch_id=1, at=at, state_rows=9)]

    assert one(rule(Metric.STATE_ROWS, 5), history, at=30).state is RuleState.UNKNOWN


@pytest.mark.parametrize("duration", [-5_000, 10**30], ids=["negative", "absurd"])
def test_a_duration_that_cannot_be_is_survived(duration: int) -> None:
    history = [a_batch(at=BEGUN.isoformat(), duration_ms=duration, state_rows=9)]

    assert one(rule(Metric.STATE_ROWS, 5), history, at=30).state is RuleState.FIRING
