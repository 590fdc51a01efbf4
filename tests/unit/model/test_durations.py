from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_streaming.model.durations import CLOCKS_DIFFER, age_of, duration_text, seconds_text


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (0, "0 s"),
        (1e-6, "0 s"),
        (0.48, "0.48 s"),
        (60, "1 min"),
        (90, "90 s"),
        (119, "119 s"),
        (120, "2 min"),
        (125, "2.08 min"),
        (3_600, "1 h"),
        (5_400, "90 min"),
        (7_200, "2 h"),
        (129_600, "36 h"),
        (timedelta(days=7), "7 d"),
        (timedelta(days=4_000), "4,000 d"),
        (-300.0, "-5 min"),
    ],
)
def test_a_duration_is_said_in_the_unit_that_suits_it(
    duration: timedelta | float, expected: str
) -> None:
    assert duration_text(duration) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0 s"),
        (600.0, "600 s"),
        (0.000001, "0.000001 s"),
        (2_592_000.0, "2592000 s"),
        (2_592_001.0, "2592001 s"),
    ],
)
def test_seconds_that_are_compared_are_neither_rounded_nor_written_with_an_exponent(
    seconds: float, expected: str
) -> None:
    assert seconds_text(seconds) == expected


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("before", "age"),
    [
        (timedelta(0), timedelta(0)),
        (timedelta(days=3_000), timedelta(days=3_000)),
        (-SECOND, timedelta(0)),
        (-CLOCKS_DIFFER, timedelta(0)),
        (-CLOCKS_DIFFER - SECOND, CLOCKS_DIFFER + SECOND),
        (timedelta(days=-3_000), timedelta(days=3_000)),
    ],
    ids=str,
)
def test_a_moment_to_come_counts_no_longer_than_one_that_is_past(
    before: timedelta, age: timedelta
) -> None:
    assert age_of(NOW - before, NOW) == age
