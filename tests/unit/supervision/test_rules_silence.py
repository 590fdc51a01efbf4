"""What a rule says while no batch is in work: nothing to do, nothing done, and nothing coming in."""

from __future__ import annotations

from typing import Any, Final

import pytest

from airflow_streaming.model.health_rules import Comparison, RuleState, recommended_rules
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.supervision.rules.rulebook import RuleBook
from tests.unit.supervision.builders import BEGUN, a_batch, minutes, seconds
from tests.unit.supervision.figures_told import BUSY, IDLE, one, rows, rule, status


@pytest.mark.parametrize(
    ("metric", "idle", "state"),
    [
        (Metric.BATCH_SECONDS, 20, "firing"),
        (Metric.BATCH_SECONDS, 60, "clear"),
        (Metric.STATE_ROWS, 60, "firing"),
    ],
    ids=["for a little while it stands", "then it clears", "state stays what it is"],
)
def test_a_query_with_nothing_to_do_is_well_by_its_work_but_not_by_its_state(
    metric: Metric, idle: float, state: str
) -> None:
    given = rule(metric, 1, clear_for=seconds(20))

    assert one(given, rows(3, state_rows=9), at=25 + idle, **IDLE).state == state


def test_a_bad_batch_followed_by_nothing_to_do_convicts_nobody() -> None:
    given = rule(Metric.BATCH_SECONDS, 1, sustained_for=minutes(5))
    later = rows(1, start=3_600)

    assert one(given, rows(1), at=3_000, **IDLE).state is RuleState.CLEAR
    assert one(given, rows(1) + later, at=3_606).since == BEGUN + seconds(3_605)


def test_a_gap_without_batches_neither_heals_nor_convicts_state() -> None:
    given = rule(Metric.STATE_ROWS, 5, sustained_for=minutes(2), clear_for=minutes(2))
    bad, good = rows(1, state_rows=9), rows(1, start=3_600, state_rows=1)

    assert one(given, bad, at=3_000, **IDLE).state is RuleState.PENDING
    fired = rows(20, state_rows=9)
    assert one(given, fired + good, at=3_620).state is RuleState.FIRING


def test_data_that_waits_for_a_batch_heals_nothing() -> None:
    given = rule(Metric.BATCH_SECONDS, 1, clear_for=seconds(0))
    waits = {"processing": False, "data_available": True}

    assert one(given, rows(3), at=3_000, **waits).state is RuleState.FIRING


def test_a_long_interval_is_no_gap() -> None:
    given = rule(Metric.BATCH_SECONDS, 1, sustained_for=minutes(4))
    history = rows(2, every=300.0)

    found = one(given, history, at=590, processing_interval_s=300.0, **IDLE)

    assert found.state is RuleState.FIRING


def test_while_newer_batches_are_not_learned_nothing_lapses() -> None:
    # The history is written some seconds after the status that tells of its latest batch.
    given = rule(Metric.BATCH_SECONDS, 1, clear_for=seconds(0))
    newer = a_batch(batch_id=99, at=(BEGUN + seconds(80)).isoformat())

    assert one(given, rows(3), at=100, progress=newer, **IDLE).state is RuleState.FIRING


STOPPED: Final = next(r for r in recommended_rules() if r.name == "input_stopped")


@pytest.mark.parametrize(
    ("history", "at", "query", "state"),
    [
        ([], 14 * 60, IDLE, "unknown"),
        ([], 15 * 60, IDLE, "firing"),
        (rows(100), 1_010, BUSY, "clear"),
        (rows(100), 995 + 14 * 60, IDLE, "clear"),
        (rows(100), 995 + 15 * 60, IDLE, "firing"),
        (rows(100) + rows(1, start=7_200), 7_206, IDLE, "clear"),
        (rows(100, input_rows=0), 1_000, BUSY, "firing"),
        (rows(100), 7_200, BUSY | {"batch_for_s": 6_200.0}, "clear"),
    ],
    ids=[
        "a young query is not known",
        "a query that never read is silent",
        "one that reads is not",
        "a little silence is nothing",
        "a long one fires",
        "the first batch clears it",
        "batches without rows are silence",
        "a long batch hides what comes in, and is no silence",
    ],
)
def test_input_that_falls_to_zero(
    history: list[BatchProgress], at: float, query: dict[str, Any], state: str
) -> None:
    found = one(STOPPED, history, at=at, **query)

    assert found.state == state


def test_silence_is_told_as_such() -> None:
    assert one(STOPPED, rows(1), at=3_000, **IDLE).reason.startswith(
        "Query 'revenue' has read no rows in 15 min for "
    )


def test_a_low_rate_is_seen_falling_between_two_batches() -> None:
    slow = rule(Metric.INPUT_RATE, 10, comparison=Comparison.BELOW, mean_over=minutes(1))
    book = RuleBook([slow])
    for row in rows(12, input_rows=150):
        book.learn(row)

    # 15 rows a second, and every 10 s without a batch a sixth of them less.
    states = [book.findings(status(at, **IDLE))[0].state for at in (116, 136, 146, 116)]

    assert states == ["clear", "clear", "firing", "clear"]


NO_COMMIT: Final = rule(Metric.COMMIT_AGE_SECONDS, 900, sustained_for=seconds(60))


@pytest.mark.parametrize(
    ("query", "state"),
    [
        (IDLE | {"committed_ago_s": 9_000.0}, "clear"),
        (BUSY | {"committed_ago_s": 9_000.0}, "clear"),
        (BUSY | {"committed_ago_s": 9_000.0, "batch_for_s": 901.0}, "pending"),
        (BUSY | {"committed_ago_s": 9_000.0, "batch_for_s": 960.0}, "firing"),
        (
            BUSY
            | {"checkpoint_interval_s": 3_600.0}
            | {"committed_ago_s": 3_599.0, "batch_for_s": 3_599.0},
            "clear",
        ),
        (
            BUSY
            | {"checkpoint_interval_s": 3_600.0}
            | {"committed_ago_s": 4_560.0, "batch_for_s": 4_560.0},
            "firing",
        ),
        (IDLE | {"committed_ago_s": 960.0, "data_available": True}, "firing"),
        (IDLE | {"committed_ago_s": 960.0, "data_available": True, "ready_for_s": 5.0}, "clear"),
        (IDLE | {"data_available": True}, "unknown"),
    ],
    ids=[
        "a query that waits has nothing to commit",
        "nor has one that has just begun",
        "a batch that takes long",
        "and longer",
        "a batch in real-time mode that is not due",
        "and one that is late",
        "data that nobody begins to read",
        "data that came just now",
        "an age nobody knows",
    ],
)
def test_no_commit_for_a_time_counts_the_time_with_work(query: dict[str, Any], state: str) -> None:
    assert one(NO_COMMIT, [], at=9_000, **query).state == state
