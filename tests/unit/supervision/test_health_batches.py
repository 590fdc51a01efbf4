"""A long batch at work is slow, a quiet one is stalled, and a query without data is neither."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.model.health_rules import Finding, Severity
from airflow_streaming.model.status import QueryStatus
from airflow_streaming.supervision.health import judge_batches, stall_window
from tests.unit.supervision.builders import NOW, a_query, a_status, seconds

WINDOW = 300.0


def judged(query: QueryStatus, stalled: Severity = Severity.ALERT) -> list[Finding]:
    return judge_batches(
        a_status(queries=(query,)),
        stall_after=seconds(WINDOW),
        stall_factor=30.0,
        stalled=stalled,
    )


@pytest.mark.parametrize(
    ("recent_ms", "interval", "window"),
    [
        ((), None, 300),
        ((1_000,), None, 300),
        ((20_000,) * 20, None, 600),
        ((1_000,) * 19 + (600_000,), None, 1_800),
        ((), 200.0, 600),
        ((), 10.0, 300),
    ],
    ids=[
        "the least without any history",
        "short batches do not shorten it",
        "thirty times the usual batch",
        "three times the longest",
        "three processing intervals",
        "short intervals do not shorten it",
    ],
)
def test_the_window_sizes_itself(
    recent_ms: tuple[int, ...], interval: float | None, window: float
) -> None:
    query = a_query(recent_durations_ms=recent_ms, processing_interval_s=interval)

    assert stall_window(query, stall_after=seconds(WINDOW), stall_factor=30.0) == seconds(window)


WAITING: dict[str, Any] = {"processing": False, "data_available": True}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"batch_for_s": 299.0, "quiet_for_s": 299.0}, None),
        ({"batch_for_s": 300.0, "quiet_for_s": 299.0}, "slow"),
        ({"batch_for_s": 9_000.0, "quiet_for_s": 0.0}, "slow"),
        ({"batch_for_s": 300.0, "quiet_for_s": 300.0}, "stalled"),
        ({"batch_for_s": 300.0, "quiet_for_s": None}, "slow"),
        ({"batch_for_s": None, "quiet_for_s": 900.0, "committed_ago_s": 900.0}, None),
        ({"batch_for_s": 900.0, "quiet_for_s": 900.0, "active": False}, None),
        (WAITING | {"committed_ago_s": 300.0}, "stalled"),
        (WAITING | {"committed_ago_s": 299.0}, None),
        (WAITING | {"committed_ago_s": None}, None),
        (WAITING | {"committed_ago_s": 9_000.0, "ready_for_s": 2.0}, None),
        (WAITING | {"committed_ago_s": 9_000.0, "ready_for_s": 300.0}, "stalled"),
        ({"processing": False, "data_available": False, "committed_ago_s": 9_000.0}, None),
    ],
    ids=[
        "a batch within its window is nothing",
        "a long batch is slow",
        "however long",
        "a long quiet batch is stalled",
        "a batch whose work cannot be seen is slow at most",
        "an unknown age is no verdict",
        "a query that has ended is nobody's concern here",
        "data, and no batch begun, is stalled",
        "for a short while it is nothing",
        "or when nobody knows for how long",
        "after an idle night data that just came is not waited for all night",
        "but for as long as the driver counted",
        "no data is no stall, however old the last commit",
    ],
)
def test_a_query_stands_still_or_is_slow_or_is_neither(
    query: dict[str, Any], found: str | None
) -> None:
    findings = judged(a_query(**query))

    assert [finding.rule for finding in findings] == ([found] if found else [])


def test_a_stall_asks_for_what_the_rules_say_and_slowness_for_an_alert_only() -> None:
    stalled = judged(a_query(batch_for_s=400.0, quiet_for_s=400.0), Severity.RESTART)
    slow = judged(a_query(batch_for_s=400.0, quiet_for_s=1.0), Severity.RESTART)

    assert [stalled[0].severity, slow[0].severity] == [Severity.RESTART, Severity.ALERT]


@pytest.mark.parametrize(
    ("quiet_for", "words", "since"),
    [
        (1.0, "has been in work for 6.67 min, more than 5 min, but is at work.", 400),
        (None, "more than 5 min; whether it is at work cannot be seen.", 400),
        (350.0, "more than 5 min, and has shown no sign of work for 5.83 min.", 350),
    ],
    ids=["slow", "unseen", "stalled"],
)
def test_a_finding_names_batch_query_and_figures(
    quiet_for: float | None, words: str, since: float
) -> None:
    (finding,) = judged(a_query(batch_for_s=400.0, quiet_for_s=quiet_for, planned_batch=42))

    assert finding.reason.startswith("Batch 42 of query 'revenue' ")
    assert finding.reason.endswith(words)
    assert finding.since == NOW - timedelta(seconds=since)


def test_every_query_is_judged_by_itself() -> None:
    stuck = {"batch_for_s": 400.0, "quiet_for_s": 400.0}
    status = a_status(queries=(a_query(name="a"), a_query(name="b", **stuck)))

    (finding,) = judge_batches(
        status, stall_after=seconds(WINDOW), stall_factor=30.0, stalled=Severity.ALERT
    )

    assert finding.query == "b"
