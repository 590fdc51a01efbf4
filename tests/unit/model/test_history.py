"""Buckets keep the extremes of what they fold, and no hostile line breaks a reader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_streaming.model.history import Bucket, downsample, ended_at, figures_of, fold
from airflow_streaming.model.progress import BatchProgress, SourceProgress


def row(second: float, **changes: Any) -> BatchProgress:
    values: dict[str, Any] = {
        "query": "q",
        "batch_id": 1,
        "at": f"2026-03-01T12:00:{second:06.3f}Z",
        "input_rows": 10,
        "input_rows_per_second": 5.0,
        "processed_rows_per_second": 8.0,
        "duration_ms": 500,
    }
    return BatchProgress(**values | changes)


def point(at: float, query: str = "q", **figures: float) -> Bucket:
    return Bucket(query=query, begin=at, end=at, rows=1, lows=figures, highs=figures, lasts=figures)


def test_a_batch_gives_every_figure_that_was_reported_under_a_name_of_its_own() -> None:
    sources = (
        SourceProgress(source="a", backlog_records=7.0),
        SourceProgress(source="b", backlog_bytes=9.0),
    )
    told = row(
        1,
        sources=sources,
        phases_ms={"addBatch": 80.0},
        state_metrics={"rocksdbGetCount": 3.0},
        observed={"quality.bad": 2.0},
        executors=4,
    )
    assert figures_of(told) == {
        "input_rate": 5.0,
        "processing_rate": 8.0,
        "input_rows": 10.0,
        "duration_ms": 500.0,
        "executors": 4.0,
        "backlog_records.0": 7.0,
        "backlog_bytes.1": 9.0,
        "phase.addBatch": 80.0,
        "state.rocksdbGetCount": 3.0,
        "observed.quality.bad": 2.0,
    }


@pytest.mark.parametrize("at", ["", "soon", "9" * 500])
def test_a_batch_that_does_not_say_when_it_was_is_left_out(at: str) -> None:
    assert ended_at(row(1, at=at)) is None
    assert fold([row(1, at=at)]) == []


def test_a_bucket_keeps_the_least_the_greatest_and_the_last_value() -> None:
    [bucket] = fold([row(n, duration_ms=value) for n, value in [(1, 500), (2, 90_000), (3, 700)]])
    assert (bucket.lows["duration_ms"], bucket.highs["duration_ms"]) == (500, 90_000)
    assert bucket.lasts["duration_ms"] == 700
    assert bucket.rows == 3


def test_a_bucket_survives_its_line() -> None:
    [bucket] = fold([row(1, duration_ms=500), row(2, duration_ms=900)])
    assert Bucket.from_dict(bucket.to_dict()) == bucket


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"query": 1, "begin": 0, "end": 0},
        {"query": "q", "begin": "soon", "end": 0},
        {"query": "q", "begin": float("nan"), "end": 0},
    ],
)
def test_a_line_that_does_not_say_of_what_or_when_is_no_bucket(line: dict[str, Any]) -> None:
    assert Bucket.from_dict(line) is None


def test_a_figure_that_cannot_be_read_costs_only_itself() -> None:
    figures = {"a": 1, "b": "x", "c": [1, 2], "d": [1, float("inf"), 2], "e": None, "f": {}}
    bucket = Bucket.from_dict({"query": "q", "begin": 0, "end": 1, "figures": figures})
    assert bucket is not None
    assert dict(bucket.lasts) == {"a": 1.0}


@given(
    st.lists(st.tuples(st.floats(0, 1000), st.floats(-1e9, 1e9)), max_size=60),
    st.integers(1, 20),
)
def test_down_sampling_loses_no_extreme(points: list[tuple[float, float]], count: int) -> None:
    found = downsample((point(at, x=x) for at, x in points), begin=0, end=1000, count=count)
    if not points:
        assert found == []
        return
    [series] = found
    assert len(series.at) <= count
    assert list(series.at) == sorted(series.at)
    assert min(v for v in series.lows["x"] if v is not None) == min(x for _, x in points)
    assert max(v for v in series.highs["x"] if v is not None) == max(x for _, x in points)
    newest = max(at for at, _ in points)
    assert series.lasts["x"][-1] in [x for at, x in points if at == newest]


def test_points_of_the_future_and_of_other_queries_do_not_mix() -> None:
    points = [point(1, x=1), point(1, query="other", x=2), point(1e12, x=3), point(-5, x=4)]
    found = downsample(points, begin=0, end=10, count=5)
    assert {series.query: list(series.lasts["x"]) for series in found} == {"q": [1], "other": [2]}


def test_a_figure_without_extremes_is_told_once() -> None:
    [series] = downsample([point(1, x=1, y=1), point(1.5, x=2, y=1)], begin=0, end=2, count=1)
    told = series.to_dict()["figures"]
    assert told == {"x": {"last": [2], "min": [1], "max": [2]}, "y": {"last": [1]}}


def test_a_bucket_without_a_figure_is_a_gap_not_a_zero() -> None:
    [series] = downsample([point(1, x=1), point(9, y=2)], begin=0, end=10, count=10)
    assert list(series.lasts["x"]) == [1, None]
