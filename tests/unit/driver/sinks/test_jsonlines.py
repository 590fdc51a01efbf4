from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_streaming.driver.sinks.config import JsonLinesConfig
from airflow_streaming.driver.sinks.jsonlines import JsonLinesSink
from airflow_streaming.driver.sinks.port import SinkFault
from tests.unit.driver.sinks.events import ORIGIN, an_event


def batches(path: Path) -> list[int]:
    return [json.loads(line)["progress"]["batchId"] for line in path.read_text().splitlines()]


def test_lines_are_appended_over_the_life_of_more_than_one_driver(tmp_path: Path) -> None:
    config = JsonLinesConfig(folder=str(tmp_path / "new" / "folder"))
    JsonLinesSink(config, ORIGIN).send([an_event(0), an_event(1)])
    JsonLinesSink(config, ORIGIN).send([an_event(2)])
    assert batches(tmp_path / "new" / "folder" / "orders.jsonl") == [0, 1, 2]


def test_full_files_are_put_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    sink = JsonLinesSink(JsonLinesConfig(folder=str(tmp_path), max_bytes=300, files=2), ORIGIN)
    for batch in range(8):
        sink.send([an_event(batch)])
    kept = {path.name: batches(path) for path in tmp_path.iterdir()}
    assert kept == {
        "orders.jsonl": [6, 7],
        "orders.jsonl.1": [4, 5],
        "orders.jsonl.2": [2, 3],
    }


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = JsonLinesConfig(folder=str(tmp_path / "file" / "inside"))
    with pytest.raises(SinkFault, match=r"orders\.jsonl cannot be written: Not a directory"):
        JsonLinesSink(config, ORIGIN)
