from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_streaming.model.durations import duration_text


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
