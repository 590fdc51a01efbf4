from __future__ import annotations

import re
from dataclasses import fields

import pytest

from airflow_streaming.driver.sinks.figures import (
    BATCH_FIGURES,
    SINK_FIGURES,
    Figure,
    Ledger,
    Sample,
)
from airflow_streaming.model.progress import BatchProgress, SourceProgress
from airflow_streaming.model.status import SinkStatus
from tests.unit.driver.sinks.events import FULL, an_event

BY_NAME = {figure.full_name: figure for figure in (*BATCH_FIGURES, *SINK_FIGURES)}

QUERY = {"stream": "orders", "query": "q"}
KAFKA = {**QUERY, "source": "0", "description": "KafkaV2[Subscribe[a]]"}
FILES = {**QUERY, "source": "1", "description": "FileStreamSource[x]"}


def a_ledger(*statuses: SinkStatus) -> Ledger:
    return Ledger({"stream": "orders"}, lambda: statuses)


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        ("batches", [(QUERY, 1)]),
        ("input_rows", [(QUERY, 5)]),
        ("dropped_rows", [(QUERY, 3)]),
        ("batch_id", [(QUERY, 4)]),
        ("batch_start_timestamp_seconds", [(QUERY, 1767614400.5)]),
        ("batch_duration_seconds", [(QUERY, 0.125)]),
        ("batch_input_rows", [(QUERY, 5)]),
        ("batch_output_rows", [(QUERY, 4)]),
        ("input_rows_per_second", [(QUERY, 2.5)]),
        ("processed_rows_per_second", [(QUERY, 40.0)]),
        ("watermark_delay_seconds", [(QUERY, 12.5)]),
        ("state_rows", [(QUERY, 1000)]),
        ("state_memory_bytes", [(QUERY, 65536)]),
        ("state_commit_duration_seconds", [(QUERY, 0.04)]),
        ("state_cache_miss_ratio", [(QUERY, 0.25)]),
        ("source_input_rows", [(KAFKA, 4), (FILES, 1)]),
        ("source_backlog_records", [(KAFKA, 70.0)]),
        ("source_backlog_bytes", [(FILES, 9.0)]),
        ("source_backlog_files", [(FILES, 2.0)]),
        ("state_snapshot_lag", [(QUERY, 12)]),
        ("state_repaired_snapshots", [(QUERY, 2)]),
        ("source_loss_seconds", [(KAFKA, 30.0)]),
        ("source_loss_share_ratio", [(KAFKA, 0.25)]),
        ("batch_phase_duration_seconds", [({**QUERY, "phase": "addBatch"}, 0.08)]),
        ("state_store_metric", [({**QUERY, "metric": "rocksdbGetCount"}, 25)]),
        ("executors", [(QUERY, 2)]),
        ("missing_executors", [(QUERY, 1)]),
        ("lost_executors", [(QUERY, 3)]),
        ("failed_tasks", [(QUERY, 6)]),
        ("observed", [({**QUERY, "metric": "quality.bad"}, 2.0)]),
        ("sink_sent_reports", [({"stream": "orders", "sink": "kafka"}, 8)]),
        ("sink_dropped_reports", [({"stream": "orders", "sink": "kafka"}, 2)]),
    ],
)
def test_a_figure_is_taken_from_the_progress(
    name: str, samples: list[tuple[dict[str, str], float]]
) -> None:
    ledger = a_ledger(SinkStatus(sink="kafka", sent=8, dropped=2))
    ledger.take([an_event(4, **FULL)])
    assert ledger.samples(BY_NAME[name]) == [
        Sample(labels=labels, value=value) for labels, value in samples
    ]


def test_the_table_above_names_every_figure() -> None:
    [mark] = [m for m in test_a_figure_is_taken_from_the_progress.pytestmark if m.args]
    assert {case[0] for case in mark.args[1]} == set(BY_NAME)


def test_every_number_of_a_progress_has_a_figure() -> None:
    told = {
        "query",
        "at",
        "watermark",
        "sources",
        "source",
        "end_offset",
        "read_until",
        "loss_gap",
    }  # not numbers
    told |= {"figures"}  # of metrics; tests/unit/model/test_metrics.py adds one
    numbers = {f.name for cls in (BatchProgress, SourceProgress) for f in fields(cls)} - told
    bare = an_event(4).progress
    full = an_event(4, **FULL).progress
    for name in numbers & {f.name for f in fields(BatchProgress)}:
        assert getattr(full, name) not in (None, {}), f"FULL lacks {name}"
    silent = {f.name for f in BATCH_FIGURES if not list(f.take(bare))}
    assert not [f.name for f in BATCH_FIGURES if not list(f.take(full))]
    assert (
        len(silent) == len(FULL) + 9
    )  # sources give six figures, and executors and snapshots five of metrics


def test_what_spark_did_not_report_has_no_value() -> None:
    ledger = a_ledger()
    ledger.take([an_event(0, **FULL)])
    ledger.take([an_event(1, processed_rows_per_second=None)])
    gone = ("watermark_delay_seconds", "state_rows", "observed", "source_backlog_bytes")
    for name in (*gone, "processed_rows_per_second"):
        assert ledger.samples(BY_NAME[name]) == []
    assert ledger.samples(BY_NAME["batch_id"]) == [Sample(labels=QUERY, value=1)]


@pytest.mark.parametrize("at", ["", "soon", "2026-01-05T12:00:00"])
def test_a_start_that_is_no_moment_costs_its_figure_only(at: str) -> None:
    ledger = a_ledger()
    ledger.take([an_event(3, at=at)])
    assert ledger.samples(BY_NAME["batch_start_timestamp_seconds"]) == []
    assert ledger.samples(BY_NAME["batch_id"]) == [Sample(labels=QUERY, value=3)]


def test_counters_add_up_by_query_and_gauges_tell_the_newest() -> None:
    ledger = a_ledger()
    ledger.take([an_event(0, input_rows=5), an_event(1, input_rows=7)])
    ledger.take([an_event(9, query="other", input_rows=1), an_event(2, input_rows=0)])
    totals = {s.labels["query"]: s.value for s in ledger.samples(BY_NAME["input_rows"])}
    assert totals == {"q": 12, "other": 1}
    newest = {s.labels["query"]: s.value for s in ledger.samples(BY_NAME["batch_id"])}
    assert newest == {"q": 2, "other": 9}


@pytest.mark.parametrize("figure", BY_NAME.values(), ids=BY_NAME)
def test_names_and_texts_follow_the_conventions(figure: Figure) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", figure.full_name)
    assert not figure.name.endswith(("_total", "_seconds", "_bytes", "_ratio"))
    assert re.fullmatch(r"[A-Z].*\.", figure.help)
