from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.driver.monitoring import history
from airflow_streaming.driver.monitoring.history import (
    CHUNK_ROWS,
    CHUNK_SECONDS,
    History,
    line_of,
)
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.control import MAX_LINE_BYTES
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.model.wire import decode, parse_json
from tests.unit.driver.fakes import AbsentStore, report

FOLDER = "orders/epochs/000001/progress"


def rows(numbers: Iterable[int]) -> list[BatchProgress]:
    return [BatchProgress.from_spark("q", report(number)) for number in numbers]


def batches(store: LocalStore, chunk: str) -> list[int]:
    data = store.read(f"{FOLDER}/{chunk}")
    assert data is not None
    return [json.loads(line)["batch_id"] for line in data.splitlines()]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def test_the_chunk_in_progress_is_rewritten_at_most_every_ten_seconds(store: LocalStore) -> None:
    written = History(store, FOLDER)
    for now, number, seen in [(0.0, 0, [0]), (2.0, 1, [0]), (9.9, 2, [0]), (10.0, 3, [0, 1, 2, 3])]:
        written.add(rows([number]), now=now)
        written.write(now=now)
        assert batches(store, "000001.jsonl") == seen
    written.add(rows([4]), now=11.0)
    written.write(now=11.0, final=True)
    assert batches(store, "000001.jsonl") == [0, 1, 2, 3, 4]


def test_a_row_has_every_figure_of_its_batch(store: LocalStore) -> None:
    written = History(store, FOLDER)
    written.add(rows([7]), now=0.0)
    written.write(now=0.0)
    data = store.read(f"{FOLDER}/000001.jsonl")
    assert data is not None
    row = json.loads(data)
    assert (row["query"], row["batch_id"], row["duration_ms"]) == ("q", 7, 120)


def test_the_longest_row_that_can_be_still_fits_its_line() -> None:
    odd = "\u2603" * 900
    told = {
        **report(1),
        "sources": [{"description": odd, "endOffset": odd, "numInputRows": 1}] * 30,
        "observedMetrics": {odd[:40]: {f"{odd[:50]}{number}": number for number in range(80)}},
    }
    row = BatchProgress.from_spark("q", told)
    line = line_of(row)
    kept = decode(BatchProgress, parse_json(line, limit=MAX_LINE_BYTES), "row")
    assert kept.batch_id == 1
    assert kept.sources
    assert kept.sources[0].end_offset is None


def test_a_usual_row_loses_only_its_end_offsets() -> None:
    told = {
        **report(1),
        "sources": [{"description": "s", "endOffset": {"t": {"0": 1}}, "numInputRows": 1}] * 20,
        "observedMetrics": {"m": {f"column{number}": number for number in range(50)}},
    }
    row = BatchProgress.from_spark("q", told)
    kept = decode(BatchProgress, parse_json(line_of(row)), "row")
    without = tuple(replace(source, end_offset=None) for source in row.sources)
    assert kept == replace(row, sources=without)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        pytest.param(CHUNK_ROWS, 1.0, id="many rows"),
        pytest.param(3, CHUNK_SECONDS, id="much time"),
    ],
)
def test_a_full_chunk_is_left_alone_and_a_new_one_begun(
    store: LocalStore, first: int, later: float
) -> None:
    written = History(store, FOLDER)
    written.add(rows(range(first)), now=0.0)
    written.write(now=later)
    written.add(rows([first]), now=later + 1)
    written.write(now=later + 20)
    assert batches(store, "000001.jsonl") == list(range(first))
    assert batches(store, "000002.jsonl") == [first]


def test_only_the_newest_chunks_are_kept(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "KEEP_CHUNKS", 3)
    written = History(store, FOLDER)
    for number in range(6):
        written.add(rows([number]), now=number * CHUNK_SECONDS)
        written.write(now=(number + 1) * CHUNK_SECONDS)
    assert store.names(FOLDER) == ["000005.jsonl", "000006.jsonl"]


def test_rows_wait_for_a_home_that_is_away_but_not_without_end(tmp_path: Path) -> None:
    store = AbsentStore(str(tmp_path))
    written = History(store, FOLDER)
    written.add(rows(range(3_000)), now=0.0)
    with pytest.raises(HomeUnavailable):
        written.write(now=0.0)
    written.add(rows(range(3_000, 3_500)), now=0.5)
    store.present = True
    written.write(now=1.0)
    assert batches(store, "000001.jsonl") == list(range(1_500, 3_500))


def test_nothing_is_written_without_a_new_row(tmp_path: Path) -> None:
    store = AbsentStore(str(tmp_path))
    written = History(store, FOLDER)
    written.write(now=0.0, final=True)
    store.present = True
    written.add(rows([0]), now=0.0)
    written.write(now=0.0)
    before = store.calls
    written.write(now=100.0)
    assert store.calls == before
