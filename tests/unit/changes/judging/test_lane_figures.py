"""The longest wait for a row, from the statuses of both lanes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_streaming.changes.judging.lane_figures import MOST_WAIT, longest_wait
from tests.unit.home.make import make_status


@pytest.mark.parametrize(
    ("interval", "durations", "seconds"),
    [
        pytest.param(None, (), 0, id="a query without a batch"),
        pytest.param(60.0, (9_000, 1_000, 2_000, 3_000), 66, id="the newest three batches count"),
        pytest.param(3600.0, (), 3600, id="an hour"),
        pytest.param(-1e9, (1_000,), 0, id="a forged time that is past"),
        pytest.param(1e300, (1,), MOST_WAIT.total_seconds(), id="a forged interval"),
        pytest.param(None, (2**62,), MOST_WAIT.total_seconds(), id="a forged batch"),
    ],
)
def test_a_row_waits_for_an_interval_and_two_batches(
    interval: float | None, durations: tuple[int, ...], seconds: float
) -> None:
    status = make_status()
    query = replace(
        status.queries[0], processing_interval_s=interval, recent_durations_ms=durations
    )

    assert longest_wait(None, replace(status, queries=(query,))) == timedelta(seconds=seconds)
