"""A status keeps the figures that charts need, whichever Spark wrote them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.core.epoch import Host
from airflow_streaming.core.status import BatchProgress
from tests.unit.core.builders import BEGUN, HOST, a_query, a_status, minutes

SPARK_3_5_STATELESS: dict[str, Any] = {
    "id": "8a2e3b7c-1111-4222-8333-444455556666",
    "runId": "0f0e0d0c-1111-4222-8333-444455556666",
    "name": "raw",
    "timestamp": "2026-11-21T11:59:50.003Z",
    "batchId": 7,
    "numInputRows": 2531,
    "inputRowsPerSecond": 253.07469253074693,
    "processedRowsPerSecond": 1873.4270910436713,
    "durationMs": {
        "addBatch": 1012,
        "commitOffsets": 44,
        "getBatch": 12,
        "latestOffset": 98,
        "queryPlanning": 31,
        "triggerExecution": 1351,
        "walCommit": 61,
    },
    "stateOperators": [],
    "sources": [
        {
            "description": "FileStreamSource[file:/data/retail]",
            "startOffset": {"logOffset": 6},
            "endOffset": {"logOffset": 7},
            "latestOffset": None,
            "numInputRows": 2531,
            "inputRowsPerSecond": 253.07469253074693,
            "processedRowsPerSecond": 1873.4270910436713,
        }
    ],
    "sink": {"description": "FileSink[file:/data/out]", "numOutputRows": -1},
}

SPARK_4_3_STATEFUL: dict[str, Any] = {
    "id": "5c0f0f6e-1111-4222-8333-444455556666",
    "runId": "1b1b1b1b-1111-4222-8333-444455556666",
    "name": "revenue",
    "timestamp": "2026-11-21T11:59:58.120Z",
    "batchId": 41,
    "batchDuration": 2020,
    "numInputRows": 2000,
    "inputRowsPerSecond": 100,
    "processedRowsPerSecond": 990.0990099009901,
    "durationMs": {
        "addBatch": 1630,
        "commitOffsets": 71,
        "getBatch": 1,
        "latestOffset": 150,
        "queryPlanning": 88,
        "triggerExecution": 2020,
        "walCommit": 74,
    },
    "eventTime": {
        "avg": "2011-11-17T10:12:00.000Z",
        "max": "2011-11-17T17:01:00.000Z",
        "min": "2011-11-17T08:02:00.000Z",
        "watermark": "2011-11-10T16:41:00.000Z",
    },
    "stateOperators": [
        {
            "operatorName": "stateStoreSave",
            "numRowsTotal": 310,
            "numRowsUpdated": 12,
            "numRowsDroppedByWatermark": 0,
            "memoryUsedBytes": 98304,
            "customMetrics": {"SnapshotLastUploaded.partition_0_default": 40},
        },
        {"operatorName": "dedupe", "numRowsTotal": 1500, "customMetrics": {}},
    ],
    "sources": [
        {
            "description": "FileStreamSource[file:/data/retail]",
            "startOffset": {"logOffset": 40},
            "endOffset": {"logOffset": 41},
            "latestOffset": None,
            "numInputRows": 2000,
            "inputRowsPerSecond": 100.0,
            "processedRowsPerSecond": 990.0990099009901,
            "metrics": {},
        }
    ],
    "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
    "observedMetrics": {"quality": {"rows": 2000, "bad": 3}},
}


def test_the_figures_of_spark_3_5_are_kept() -> None:
    assert BatchProgress.from_spark("raw", SPARK_3_5_STATELESS) == BatchProgress(
        query="raw",
        batch_id=7,
        at="2026-11-21T11:59:50.003Z",
        input_rows=2531,
        input_rows_per_second=253.07469253074693,
        processed_rows_per_second=1873.4270910436713,
        duration_ms=1351,
        watermark=None,
        state_rows=None,
    )


def test_the_figures_of_spark_4_3_are_kept() -> None:
    assert BatchProgress.from_spark("revenue", SPARK_4_3_STATEFUL) == BatchProgress(
        query="revenue",
        batch_id=41,
        at="2026-11-21T11:59:58.120Z",
        input_rows=2000,
        input_rows_per_second=100.0,
        processed_rows_per_second=990.0990099009901,
        duration_ms=2020,
        watermark="2011-11-10T16:41:00.000Z",
        state_rows=1810,
    )


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


def test_a_state_operator_without_a_count_counts_nothing() -> None:
    progress = BatchProgress.from_spark("raw", {"batchId": 3, "stateOperators": [{}]})

    assert progress.state_rows == 0


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), "NaN", None], ids=repr)
def test_a_rate_that_is_no_number_is_unknown_and_can_be_recorded(rate: object) -> None:
    progress = BatchProgress.from_spark("raw", {"batchId": 3, "inputRowsPerSecond": rate})

    assert progress.input_rows_per_second is None
    assert a_status(queries=(a_query(progress=progress),)).to_bytes()


def test_the_batches_of_all_queries_are_counted() -> None:
    assert a_status(queries=(a_query(batches=2), a_query(batches=3))).batches == 5
    assert a_status(queries=()).batches == 0


@pytest.mark.parametrize(
    ("first", "at", "progressed_for"),
    [
        (None, BEGUN, timedelta(0)),
        (BEGUN, BEGUN + minutes(7), minutes(7)),
        (BEGUN + minutes(7), BEGUN, timedelta(0)),
    ],
    ids=["no batch yet", "seven minutes", "a clock set back"],
)
def test_progress_is_timed_by_the_clock_of_the_driver(
    first: Any, at: Any, progressed_for: timedelta
) -> None:
    assert a_status(first_progress_at=first, at=at).progressed_for == progressed_for


@pytest.mark.parametrize(
    ("earlier", "now", "proved"),
    [
        (HOST, Host(name="worker-1", machine="m-1", boot="b-2"), True),
        (HOST, HOST, False),
        (HOST, Host(name="worker-2", machine="m-1", boot="b-2"), False),
        (HOST, Host(name="worker-1", machine="m-2", boot="b-2"), False),
        (HOST, Host(name="worker-1", machine="m-1", boot=""), False),
        (Host(name="worker-1", machine="m-1"), HOST, False),
        (Host(name="localhost", boot="b-1"), Host(name="localhost", boot="b-2"), False),
    ],
    ids=[
        "another boot of the same machine",
        "the same boot",
        "another name",
        "another machine",
        "boot unknown now",
        "boot unknown then",
        "machine unknown",
    ],
)
def test_a_reboot_is_proved_by_the_same_machine_and_another_boot(
    earlier: Host, now: Host, proved: bool
) -> None:
    assert now.rebooted_since(earlier) is proved
