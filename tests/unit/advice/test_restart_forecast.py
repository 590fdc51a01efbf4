"""The forecast of a restart, from recorded ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_streaming.advice.cost.restart_forecast import FEWEST, MOST, Restart, errors, forecast
from airflow_streaming.advice.gathering import restart_in
from airflow_streaming.model.progress import BatchProgress
from benchmarks.forecast import simulated

GIB = float(2**30)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def growing(*sizes: float, seconds_each: float = 10.0) -> list[Restart]:
    """Return restarts that load a GiB in so many seconds."""
    return [Restart(20.0, 2.0 + seconds_each * size, 2.0, size * GIB) for size in sizes]


def test_too_few_restarts_tell_nothing() -> None:
    assert forecast([Restart(20, 2, 2)] * (FEWEST - 1), 0) is None


def test_a_slow_start_does_not_spoil_the_median() -> None:
    told = forecast([Restart(20, 2, 2), Restart(300, 90, 2), Restart(22, 2, 2)], 0)
    assert told is not None
    assert (told.total, told.least, told.most, told.restarts) == (24, 22, 390, 3)


@pytest.mark.parametrize(
    ("sizes", "state", "load"),
    [
        pytest.param((1, 2, 4), 8, 80, id="it grows with the state"),
        pytest.param((1, 2, 4), 0.5, 5, id="a state that has shrunk"),
        pytest.param((1, 1.1, 1.2), 8, 11, id="sizes too alike to tell"),
        pytest.param((1, 2, 4), 0, 20, id="no size is known now"),
    ],
)
def test_the_load_of_the_state(sizes: tuple[float, ...], state: float, load: float) -> None:
    told = forecast(growing(*sizes), state * GIB)
    assert told is not None
    assert (told.start_up, told.load, told.batch) == (20, pytest.approx(load), 2)


def test_one_restart_on_a_crowded_host_does_not_bend_the_line() -> None:
    history = [*growing(1, 2, 3, 4, 5), Restart(20, 500, 2, 3 * GIB)]
    told = forecast(history, 6 * GIB)
    assert told is not None
    assert told.load == pytest.approx(60, rel=0.1)


def test_old_restarts_do_not_count() -> None:
    told = forecast([Restart(900, 9, 2)] * 50 + [Restart(20, 2, 2)] * MOST, 0)
    assert told is not None
    assert (told.start_up, told.most) == (20, 22)


def test_the_error_is_that_of_forecasts_which_only_older_restarts_made() -> None:
    history = [Restart(20, 0, 0)] * 3 + [Restart(40, 0, 0)]
    assert errors(history) == [0.5]
    assert errors(history[:3]) == []


def test_simulated_restarts_are_forecast_within_the_goal() -> None:
    found = [error for _, history in simulated(7) for error in errors(history)]
    assert len(found) == 200 * 17
    assert sorted(found)[len(found) // 2] <= 0.25


def batches(*seconds: float, first_at: float = 20.0, query: str = "q") -> list[BatchProgress]:
    return [
        BatchProgress(
            query=query,
            batch_id=number,
            at=(NOON + timedelta(seconds=first_at + 10 * number)).isoformat(),
            input_rows=1,
            input_rows_per_second=1.0,
            processed_rows_per_second=1.0,
            duration_ms=int(1000 * duration),
            state_bytes=7,
        )
        for number, duration in enumerate(seconds)
    ]


def test_a_restart_is_read_from_the_first_batches_of_an_epoch() -> None:
    assert restart_in(NOON, batches(9, 2, 3, 2)) == Restart(20.0, 9.0, 2.0, 7.0)
    assert restart_in(NOON, batches(9, 2, 3)) is None
    assert restart_in(NOON, batches(9, 2, 3, 2, first_at=-5)) is None
    other = batches(9, 2, 3, 2, query="other")
    assert restart_in(NOON, [*batches(9), *other]) is None
