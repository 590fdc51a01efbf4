"""Batches that grow after a quiet time show a need before they have ended."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_streaming.model.arguments.autoscale import Autoscale
from airflow_streaming.model.records.size_change import SizeCode
from airflow_streaming.supervision.scaling.after_quiet import growth_after_quiet
from airflow_streaming.supervision.scaling.autoscale import Sample, SizeInput, size_step
from tests.unit.supervision.builders import NOW, minutes, seconds
from tests.unit.supervision.test_autoscale import wave

QUIET = minutes(2)


def usual(until: float, number: int = 30) -> list[Sample]:
    """Batches of 4 to 6 s every 10 s, the last one begun so many seconds ago."""
    return [
        Sample(NOW - seconds(until + 10 * (number - 1 - n)), rows, 1 + rows / 1000, 0.0)
        for n, rows in enumerate(wave(4_000, number))
    ]


def back(ago: float, lasts: float, rows: int) -> Sample:
    return Sample(NOW - seconds(ago), rows, lasts, 0.0)


@pytest.mark.parametrize(
    ("batches", "in_work", "grows"),
    [
        pytest.param(usual(3_600), 130.0, True, id="first_batch"),
        pytest.param(usual(3_600), 100.0, False, id="first_batch_too_short"),
        pytest.param([*usual(3_600), back(160, 60, 60_000)], 95.0, True, id="second_batch"),
        pytest.param([*usual(3_600), back(160, 4, 3_000)], 130.0, True, id="after_a_part"),
        pytest.param([*usual(3_600), back(160, 60, 60_000)], 5.0, False, id="short_batch_in_work"),
        pytest.param(
            [*usual(3_600), back(300, 60, 60_000), back(230, 4, 4_000)], 130.0, False, id="over"
        ),
        pytest.param(usual(135), 125.0, False, id="one_slow_batch_without_a_quiet_time"),
        pytest.param([], 500.0, False, id="a_new_driver"),
    ],
)
def test_only_batches_after_a_quiet_time_count(
    batches: list[Sample], in_work: float, grows: bool
) -> None:
    found = growth_after_quiet(batches, now=NOW, lasts=in_work, interval=10.0, quiet=QUIET)

    assert (found is not None) is grows
    if found is not None:
        assert len(found.spans_s) == len(found.since) + 1
        assert found.spans_s[0] == 10.0


def step(batches: list[Sample], in_work: float, **policy: object) -> tuple[SizeCode, int]:
    found = size_step(
        SizeInput(
            policy=Autoscale(min=1, max=40, **policy),  # type: ignore[arg-type]
            now=NOW,
            executors=2,
            alive=2,
            batches={"q": batches},
            intervals_s={"q": 10.0},
            in_work_s={"q": in_work},
        )
    )
    return found.code, found.executors


def test_the_size_follows_at_most_fourfold() -> None:
    assert step(usual(3_600), 130.0) == (SizeCode.UP, 8)
    known = [*usual(3_600), back(140, 20, 19_000)]
    assert step(known, 15.0) == (SizeCode.UP, 7), "1,900 rows/s came for the first batch"


def test_one_slow_batch_changes_nothing() -> None:
    assert step(usual(135), 125.0)[0] is not SizeCode.UP


def test_a_new_driver_has_no_usual_batches() -> None:
    assert step(usual(3_600, number=4), 130.0)[0] is SizeCode.NO_FIGURES


def test_a_longer_up_after_waits_longer() -> None:
    assert step(usual(7_200), 130.0, up_after=timedelta(minutes=5))[0] is not SizeCode.UP
    assert step(usual(7_200), 301.0, up_after=timedelta(minutes=5))[0] is SizeCode.UP
