from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_streaming.model.progress import MAX_OFFSET, BatchProgress, SourceProgress
from tests.unit.supervision.builders import a_query, a_status

SAMPLES = Path(__file__).parent / "progress"


def sample(version: str) -> dict[str, Any]:
    """Return what a real Spark reported of a stateful query on files."""
    found: dict[str, Any] = json.loads((SAMPLES / f"spark-{version}.json").read_text())
    return found


def figures(**changes: Any) -> BatchProgress:
    told = {"batchId": 1, "timestamp": "2026-01-05T12:00:00.000Z", **changes}
    return BatchProgress.from_spark("q", told)


def source(**changes: Any) -> SourceProgress:
    return SourceProgress.from_spark({"description": "KafkaV2[Subscribe[orders]]", **changes})


@pytest.mark.parametrize(
    ("version", "batch", "dropped", "commit_ms", "state", "miss_share", "delay"),
    [
        pytest.param("3.5.9", 15, 10, 62.0, (5, 8100), None, 95_219_748.001, id="3.5.9"),
        pytest.param("4.1.4", 11, 10, 116.0, (5, 10_984), 0.0, 95_223_604.0, id="4.1.4"),
        pytest.param("4.3.0", 2, 5, 171.5, (10, 1_052_856), None, 95_235_664.596, id="4.3.0"),
    ],
)
def test_the_figures_of_a_real_report(
    version: str,
    batch: int,
    dropped: int,
    commit_ms: float,
    state: tuple[int, int],
    miss_share: float | None,
    delay: float,
) -> None:
    progress = BatchProgress.from_spark("events", sample(version))
    assert (progress.batch_id, progress.input_rows) == (batch, 40)
    assert (progress.state_rows, progress.state_bytes) == state
    assert progress.dropped_rows == dropped
    assert progress.state_commit_ms == commit_ms
    assert progress.cache_miss_share == miss_share
    assert progress.watermark_delay_s == pytest.approx(delay, abs=0.001)
    assert progress.observed == {
        "quality.rows": 40,
        "quality.mean": 9.5,
        "quality.top.k": 4,
        "quality.top.v": 19,
    }
    assert progress.sources == (
        SourceProgress(
            source="FileStreamSource[file:/data/events]",
            input_rows=40,
            end_offset=f'{{"logOffset":{batch}}}',
        ),
    )


@pytest.mark.parametrize(
    ("told", "records"),
    [
        pytest.param(
            {
                "endOffset": {"a": {"0": 5, "1": 9}, "b": {"0": 1}},
                "latestOffset": {"a": {"0": 7, "1": 9}, "b": {"0": 4}},
            },
            5,
            id="newest minus end, over all partitions",
        ),
        pytest.param(
            {"endOffset": {"a": {"0": 5}}, "latestOffset": {"a": {"0": 2, "1": 3}}},
            3,
            id="never below zero, and a new partition from its beginning",
        ),
        pytest.param(
            {"endOffset": '{"a": {"0": 5}}', "latestOffset": '{"a": {"0": 6}}'},
            1,
            id="as text",
        ),
        pytest.param(
            {"endOffset": {"a": {"0": 5}}, "metrics": {"maxOffsetsBehindLatest": "12"}},
            12,
            id="a metric where no newest offset is told",
        ),
        pytest.param({"endOffset": 5, "latestOffset": 9}, None, id="numbers may be seconds"),
        pytest.param(
            {"endOffset": {"logOffset": 5}, "latestOffset": {"logOffset": 9}},
            None,
            id="a number of a log file",
        ),
        pytest.param(
            {"endOffset": {"a": {"0": "x"}}, "latestOffset": {"a": {"0": []}}}, None, id="nonsense"
        ),
        pytest.param({"metrics": {"maxOffsetsBehindLatest": "-1"}}, None, id="a negative metric"),
        pytest.param({}, None, id="nothing told"),
    ],
)
def test_the_records_that_wait(told: dict[str, Any], records: float | None) -> None:
    assert source(**told).backlog_records == records


@pytest.mark.parametrize(
    ("metrics", "bytes", "files"),
    [
        pytest.param({"numBytesOutstanding": "70", "numFilesOutstanding": "2"}, 70, 2, id="files"),
        pytest.param({"estimatedTotalBytesBehindLatest": "9"}, 9, None, id="a queue"),
        pytest.param({"numFilesOutstanding": "many"}, None, None, id="nonsense"),
        pytest.param(["numFilesOutstanding"], None, None, id="not a map"),
    ],
)
def test_the_bytes_and_files_that_wait(
    metrics: Any, bytes: float | None, files: float | None
) -> None:
    found = source(metrics=metrics)
    assert (found.backlog_bytes, found.backlog_files) == (bytes, files)


@pytest.mark.parametrize(
    ("watermark", "delay"),
    [
        pytest.param("2026-01-05T11:59:30.500Z", 29.5, id="behind"),
        pytest.param("2026-01-05T12:00:10.000Z", -10.0, id="ahead"),
        pytest.param("1970-01-01T00:00:00.000Z", None, id="not moved yet"),
        pytest.param("1969-12-31T00:00:00.000Z", None, id="before any watermark"),
        pytest.param("soon", None, id="nonsense"),
        pytest.param(None, None, id="none"),
    ],
)
def test_the_delay_of_the_watermark(watermark: str | None, delay: float | None) -> None:
    assert figures(eventTime={"watermark": watermark}).watermark_delay_s == delay


def test_the_slowest_operators_commit_counts_for_one_store() -> None:
    join = {"commitTimeMs": 800, "numStateStoreInstances": 8, "numRowsTotal": 4}
    dedupe = {"commitTimeMs": 300, "numStateStoreInstances": 2, "numRowsTotal": 3}
    progress = figures(stateOperators=[join, dedupe, {"commitTimeMs": None}])
    assert progress.state_commit_ms == 150
    assert progress.state_rows == 7
    assert progress.dropped_rows is None


def test_the_cache_misses_of_all_operators_are_one_share() -> None:
    def counts(hits: int, misses: int) -> dict[str, Any]:
        names = ("rocksdbReadBlockCacheHitCount", "rocksdbReadBlockCacheMissCount")
        return {"customMetrics": dict(zip(names, (hits, misses), strict=True))}

    assert figures(stateOperators=[counts(60, 10), counts(10, 20)]).cache_miss_share == 0.3


def test_only_numbers_are_observed_and_not_without_end() -> None:
    told = {"m": {"n": 1, "word": "7", "yes": True, "none": None, "list": [1]}, "bare": 3}
    assert figures(observedMetrics=told).observed == {"m.n": 1}
    many = {"m": {f"c{number}": number for number in range(80)}}
    assert len(figures(observedMetrics=many).observed) == 50


def test_texts_are_cut() -> None:
    found = source(description="x" * 900, endOffset={"topic": {str(n): n for n in range(900)}})
    assert len(found.source) == 200
    assert len(found.end_offset or "") == MAX_OFFSET
    assert len(figures(sources=[{"description": "x"}] * 90).sources) == 20


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["0", "n", "watermark"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.data())
def test_no_report_is_so_odd_that_reading_it_raises(data: st.DataObject) -> None:
    report = sample("4.3.0")
    places: list[dict[str, Any]] = [
        report,
        report["stateOperators"][0],
        report["stateOperators"][0]["customMetrics"],
        report["sources"][0],
        report["eventTime"],
        report["durationMs"],
    ]
    place = data.draw(st.sampled_from(places))
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(json_values)
    progress = BatchProgress.from_spark("q", report)
    assert json.loads(json.dumps(progress.observed | {"batch": progress.batch_id}, allow_nan=False))


def test_what_our_name_for_a_query_is_counts() -> None:
    assert BatchProgress.from_spark("ours", {"batchId": 0, "name": None}).query == "ours"


@pytest.mark.parametrize(
    "missing",
    [
        {},
        {"durationMs": None, "stateOperators": None, "eventTime": None, "numInputRows": None},
        {"durationMs": {}, "stateOperators": [], "eventTime": {}, "inputRowsPerSecond": None},
    ],
    ids=["left out", "null", "empty"],
)
def test_figures_that_spark_leaves_out_are_zero_or_unknown(missing: dict[str, Any]) -> None:
    progress = BatchProgress.from_spark("raw", {"batchId": 3, **missing})

    assert progress == BatchProgress(
        query="raw",
        batch_id=3,
        at="",
        input_rows=0,
        input_rows_per_second=None,
        processed_rows_per_second=None,
        duration_ms=0,
    )


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), "NaN", None], ids=repr)
def test_a_rate_that_is_no_number_is_unknown_and_can_be_recorded(rate: object) -> None:
    progress = BatchProgress.from_spark("raw", {"batchId": 3, "inputRowsPerSecond": rate})

    assert progress.input_rows_per_second is None
    assert a_status(queries=(a_query(progress=progress),)).to_bytes()
