from __future__ import annotations

import pytest

from airflow_streaming.advice.sizing import Size, SizeAdvice, SizedSetting, advise, busy_share
from airflow_streaming.model.progress import BatchProgress

GIB = 1024**3


def batches(
    durations: list[int],
    *,
    arriving: float | None = 100.0,
    processed: float | None = 200.0,
    state: int | None = None,
) -> list[BatchProgress]:
    return [
        BatchProgress(
            query="q",
            batch_id=number,
            at="2026-01-01T00:00:00Z",
            input_rows=10,
            input_rows_per_second=arriving,
            processed_rows_per_second=processed,
            duration_ms=duration,
            state_bytes=state,
        )
        for number, duration in enumerate(durations)
    ]


def about(advice: tuple[SizeAdvice, ...]) -> list[tuple[SizedSetting, float]]:
    return [(one.setting, one.suggested) for one in advice]


@pytest.mark.parametrize(
    ("durations", "interval", "expected"),
    [
        pytest.param([7_000] * 8, 10.0, [], id="seven tenths of the time: well sized"),
        pytest.param([9_000] * 8, 10.0, [(SizedSetting.CORES, 6)], id="too busy"),
        pytest.param([500] * 8, 10.0, [(SizedSetting.CORES, 1)], id="idle"),
        pytest.param([500] * 7 + [9_900], 10.0, [(SizedSetting.CORES, 1)], id="one slow batch"),
        pytest.param(
            [14_000] * 8,
            10.0,
            [(SizedSetting.CORES, 8), (SizedSetting.PROCESSING_TRIGGER, 20.0)],
            id="later than due",
        ),
        pytest.param([9_000] * 4, 10.0, [], id="too few batches to say anything"),
    ],
)
def test_durations_against_the_interval_size_the_cores(
    durations: list[int], interval: float, expected: list[tuple[SizedSetting, float]]
) -> None:
    size = Size(cores=4, intervals_s={"q": interval})
    assert about(advise({"q": batches(durations)}, size)) == expected


def test_without_an_interval_the_rates_are_compared() -> None:
    behind = batches([1_000] * 8, arriving=300.0, processed=200.0)
    assert busy_share(behind, None) == pytest.approx(1.5)
    assert about(advise({"q": behind}, Size(cores=2))) == [(SizedSetting.CORES, 5)]


def test_the_busiest_query_decides_and_one_without_figures_stops_the_advice() -> None:
    idle, busy = batches([100] * 8), batches([9_500] * 8)
    intervals = {"a": 10.0, "b": 10.0}
    (advice,) = advise({"a": idle, "b": busy}, Size(cores=2, intervals_s=intervals))
    assert (advice.query, advice.suggested) == ("b", 3)
    unknown = batches([100] * 8, processed=None)
    assert advise({"a": idle, "c": unknown}, Size(cores=2, intervals_s=intervals)) == ()


def test_unknown_cores_give_no_advice_on_cores() -> None:
    assert advise({"q": batches([9_000] * 8)}, Size(intervals_s={"q": 10.0})) == ()


def test_large_state_asks_for_more_partitions_and_says_what_that_takes() -> None:
    size = Size(state_partitions={"q": 2})
    (advice,) = advise({"q": batches([100] * 8, state=7 * GIB)}, size)
    assert (advice.setting, advice.suggested) == (SizedSetting.STATE_PARTITIONS, 7)
    assert "new checkpoint" in advice.caution
    assert advise({"q": batches([100] * 8, state=GIB)}, size) == ()
    assert advise({"q": batches([100] * 8)}, size) == ()
