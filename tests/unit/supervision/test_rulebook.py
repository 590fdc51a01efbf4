"""The course of a rule, late to fire and late to clear, and the book that is a fold of the history."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from airflow_streaming.model.health_rules import RuleState, recommended_rules
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.progress import BatchProgress, SourceProgress
from airflow_streaming.supervision.rules.rulebook import RuleBook
from airflow_streaming.supervision.rules.series import MAX_SAMPLES
from tests.unit.supervision.agreement import disagreement_of_rules
from tests.unit.supervision.builders import BEGUN, a_batch, minutes, seconds
from tests.unit.supervision.figures_told import (
    FILES,
    KAFKA,
    LATE,
    delays,
    one,
    rows,
    rule,
    status,
    told,
)

# Batches end at 5, 15, 25, ... s.
COURSES: Final = {
    "good": (delays(9), 6, "clear", 5),
    "on the bound": (delays(60), 6, "clear", 5),
    "bad": (delays(9, 99), 16, "pending", 15),
    "bad for long enough": (delays(99, 99, 99, 99), 36, "firing", 35),
    "the last figure stands while the next batch works": (delays(9, 99), 46, "firing", 45),
    "a break begins anew": (delays(99, 99, 9, 99, 99), 46, "pending", 35),
    "good, but not clear": (delays(99, 99, 99, 99, 55, 55, 55, 55), 90, "firing", 35),
    "clear, but not for long enough": (delays(99, 99, 99, 99, 9, 9), 60, "firing", 35),
    "clear for long enough": (delays(99, 99, 99, 99, 9, 9), 66, "clear", 65),
    "bad again while clearing": (delays(99, 99, 99, 99, 9, 99, 9), 76, "firing", 35),
}


@pytest.mark.parametrize(("history", "at", "state", "since"), COURSES.values(), ids=COURSES)
def test_a_rule_fires_late_and_clears_late(
    history: list[BatchProgress], at: float, state: str, since: float
) -> None:
    finding = one(LATE, history, at=at, batch_for_s=0.5)

    assert (finding.state, finding.since) == (state, BEGUN + seconds(since))


def test_a_batch_that_is_known_already_changes_nothing() -> None:
    history = delays(99, 99, 99, 99)
    repeated = [row for row in history for _ in range(3)]

    assert told(LATE, repeated + history, at=36) == told(LATE, history, at=36)


def test_a_fresh_book_says_what_one_says_that_lived_through_it() -> None:
    rules = recommended_rules(watermark_sla=seconds(60), state_rows_limit=10)
    history = rows(200, watermark_delay_s=99.0, state_rows=9, dropped_rows=1)
    lived = RuleBook(rules)
    for n, row in enumerate(history):
        lived.learn(row)
        lived.findings(status(10 * n + 6, history[: n + 1]))

    assert list(lived.findings(status(2_000, history))) == told(rules, history, at=2_000)


@pytest.mark.parametrize("moved", [-3_600.0, 3_600.0], ids=["back", "forward"])
def test_a_clock_that_is_moved_convicts_nobody(moved: float) -> None:
    given = rule(Metric.BATCH_SECONDS, 1, sustained_for=minutes(5))
    before, after = rows(3), rows(3, start=30)
    book = RuleBook([given])
    for row in before:
        book.learn(row)
    states = [book.findings(status(26 + moved, before, committed_ago_s=1.0))[0].state]
    for row in after:
        at = datetime.fromisoformat(row.at) + seconds(moved)
        book.learn(a_batch(**_of(row) | {"at": at.isoformat()}))
        states.append(book.findings(status(60 + moved, after, progress=None))[0].state)

    assert set(states) == {RuleState.PENDING}


def _of(row: BatchProgress) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


def test_a_window_over_very_many_batches_stays_small_and_right() -> None:
    given = rule(Metric.STATE_ROWS, 1e9, mean_over=timedelta(days=1))
    book = RuleBook([given])
    history = rows(3 * MAX_SAMPLES + 1, every=30.0)
    for n, row in enumerate(history):
        book.learn(a_batch(**_of(row) | {"state_rows": n}))

    (finding,) = book.findings(status(30.0 * len(history), history))

    # A day holds 2,880 batches, the last of which are around 4,560.
    assert finding.figure == pytest.approx(3 * MAX_SAMPLES - 1_440, abs=3)


@pytest.mark.parametrize(
    ("delay", "state"),
    [(99, "firing"), (55, "firing"), (9, "clear")],
    ids=["bad", "between the bounds", "clear"],
)
def test_what_fired_before_the_first_row_goes_on_from_there(delay: float, state: str) -> None:
    before = BEGUN - timedelta(days=1)
    book = RuleBook([LATE], firing={"r/revenue": before})
    history = delays(*[delay] * 4)
    for row in history:
        book.learn(row)

    (finding,) = book.findings(status(36, history))

    assert finding.state == state
    assert (finding.since == before) is (state == "firing")


def test_what_fired_of_one_source_says_nothing_of_another() -> None:
    given = rule(Metric.BACKLOG_RECORDS, 5, clear_bound=1)
    sources = tuple(SourceProgress(source=name, backlog_records=3.0) for name in (KAFKA, FILES))
    book = RuleBook([given], firing={f"r/revenue/{KAFKA}": BEGUN})
    for row in rows(3, sources=sources):
        book.learn(row)

    found = book.findings(status(26))

    assert {f.source: f.state.value for f in found} == {KAFKA: "firing", FILES: "clear"}


def test_the_book_agrees_with_the_reference_model_over_random_histories() -> None:
    # ``python -m tests.system.judging`` tries as many as wanted.
    wrong = [found for seed in range(600) if (found := disagreement_of_rules(seed, batches=20))]

    assert not wrong
