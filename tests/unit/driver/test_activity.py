from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.driver.monitoring.activity import (
    BUSY_SHARE,
    LONGEST_STEP,
    BatchActivity,
    Beat,
    TriggerRun,
    signs_of_work,
)

RUN = TriggerRun(batch=7, started=1000)


def beat(at: float, **changes: Any) -> Beat:
    given: dict[str, Any] = {"run": RUN, "marks": 0, "active_tasks": 0, "cpu": 0.0, "alone": True}
    return Beat(at=at, **{**given, **changes})


def after(*beats: Beat) -> BatchActivity:
    clock = BatchActivity()
    for each in beats:
        clock.step(each)
    return clock


def test_before_the_first_beat_nothing_is_known() -> None:
    clock = BatchActivity()
    told = (clock.batch_for_s, clock.quiet_for_s, clock.committed_ago_s, clock.planned_batch)
    assert told == (None, None, None, None)


def test_a_batch_without_a_sign_of_work_is_quiet_from_its_beginning() -> None:
    clock = after(beat(0), beat(2), beat(4), beat(9))
    assert (clock.batch_for_s, clock.quiet_for_s, clock.committed_ago_s) == (9, 9, 9)
    assert clock.planned_batch == 7


@pytest.mark.parametrize(
    ("changes", "quiet"),
    [
        pytest.param({"marks": 1}, 0, id="a task finished"),
        pytest.param({"cpu": 2 * BUSY_SHARE}, 0, id="CPU time of the only batch in work"),
        pytest.param({"cpu": 2 * BUSY_SHARE - 0.01}, 4, id="the CPU time of an idle JVM"),
        pytest.param({"cpu": 2.0, "alone": False}, 4, id="CPU time that may be another query's"),
        pytest.param(
            {"cpu": 2.0, "alone": False, "active_tasks": 1}, 0, id="with tasks it is ours"
        ),
        pytest.param({"marks": None, "cpu": None}, 4, id="nothing to be seen this time"),
    ],
)
def test_what_breaks_the_quiet(changes: dict[str, Any], quiet: float) -> None:
    clock = after(beat(0), beat(2), beat(4, **changes))
    assert clock.quiet_for_s == quiet
    assert clock.batch_for_s == 4


def test_records_that_move_are_work_once_they_have_been_seen_twice() -> None:
    assert signs_of_work(beat(0), beat(2, moved=5.0)) is False
    assert signs_of_work(beat(0, moved=5.0), beat(2, moved=5.0)) is False
    assert signs_of_work(beat(0, moved=5.0), beat(2, moved=6.0)) is True


def test_where_no_sign_could_be_seen_nobody_says_quiet() -> None:
    blind = {"marks": None, "cpu": None, "active_tasks": None}
    clock = after(beat(0, **blind), beat(9, **blind))
    assert (clock.batch_for_s, clock.quiet_for_s) == (9, None)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(TriggerRun(batch=8, started=2000), id="the next batch"),
        pytest.param(TriggerRun(batch=7, started=2000), id="another look for the same batch"),
    ],
)
def test_a_new_run_of_the_trigger_begins_anew(other: TriggerRun) -> None:
    clock = after(beat(0), beat(9), beat(11, run=other), beat(14, run=other))
    assert (clock.batch_for_s, clock.quiet_for_s) == (3, 3)
    assert clock.committed_ago_s == 14


def test_a_query_that_waits_has_no_batch() -> None:
    clock = after(beat(0), beat(9), beat(11, run=None))
    assert (clock.batch_for_s, clock.quiet_for_s, clock.planned_batch) == (None, None, None)


def test_a_commit_begins_the_time_since_the_last_one() -> None:
    clock = after(beat(0), beat(9, batches=1), beat(12, batches=1))
    assert clock.committed_ago_s == 3


@pytest.mark.parametrize(
    ("until", "step"),
    [
        pytest.param(3602.0, LONGEST_STEP, id="suspended for an hour"),
        pytest.param(-5.0, 0.0, id="a clock that goes back"),
    ],
)
def test_one_step_counts_for_so_much_and_no_more(until: float, step: float) -> None:
    clock = after(beat(0), beat(2), beat(until))
    assert clock.batch_for_s == clock.quiet_for_s == clock.committed_ago_s == 2 + step


def waits(at: float, *, ready: bool = True, batches: int = 0) -> Beat:
    return beat(at, run=None, ready=ready, batches=batches)


@pytest.mark.parametrize(
    ("beats", "ready_for"),
    [
        pytest.param([waits(0), waits(2), waits(6)], 6, id="data and no batch"),
        pytest.param([waits(0, ready=False), waits(500, ready=False)], 0, id="an idle night"),
        pytest.param([waits(0, ready=False), waits(9), waits(11)], 2, id="data after a night"),
        pytest.param([waits(0), waits(2), beat(4)], 0, id="a batch begins"),
        pytest.param([waits(0), waits(2), waits(4, batches=1)], 0, id="a batch went by unseen"),
    ],
)
def test_a_query_that_leaves_data_waiting_is_timed(beats: list[Beat], ready_for: float) -> None:
    assert after(*beats).ready_for_s == ready_for
