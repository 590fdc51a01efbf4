from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.testing import StreamTester, compare_rows, undo_last_commit
from demo.events import drop
from demo.feeds.feed import parsed
from demo.feeds.shapes import FEEDS
from tests.integration.pipelines.conftest import Feeding

FILES = 6
COLUMNS = ("card", "first", "second", "minutes")

pytestmark = pytest.mark.usefixtures("has_pandas")


def payments(numbers: Iterable[int]) -> list[dict[str, Any]]:
    rows = [row for n in numbers for row in parsed(FEEDS["payments"].lines(n))]
    return [*{row["id"]: row for row in rows}.values()]


def kilometers(one: dict[str, Any], other: dict[str, Any]) -> float:
    lat, other_lat = math.radians(one["lat"]), math.radians(other["lat"])
    turn = math.cos(math.radians(one["lon"] - other["lon"]))
    cosine = math.sin(lat) * math.sin(other_lat) + math.cos(lat) * math.cos(other_lat) * turn
    return 6371 * math.acos(min(1.0, cosine))


def frauds(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare every two payments of a card."""
    alerts = []
    for first in found:
        for second in found:
            seconds = (time_of(second) - time_of(first)).total_seconds()
            before = (time_of(first), first["id"]) < (time_of(second), second["id"])
            if first["card"] != second["card"] or not before or seconds > 7200:
                continue
            if kilometers(first, second) > 100 + 900 * seconds / 3600:
                values = (first["card"], first["id"], second["id"], int(seconds) // 60)
                alerts.append(dict(zip(COLUMNS, values, strict=True)))
    return alerts


def time_of(row: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(row["ts"].rstrip("Z"))


def table(database: Path, name: str) -> list[dict[str, Any]]:
    connection = sqlite3.connect(database)
    connection.row_factory = sqlite3.Row
    rows = [dict(row) for row in connection.execute(f"SELECT * FROM {name}")]  # noqa: S608
    connection.close()
    return rows


@pytest.mark.parametrize("api", ["transform", "pandas"])
def test_alerts_are_all_pairs_once_after_a_replayed_batch(
    api: str, stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    jobs, checkpoint, database = dags / "fraud" / "jobs", tmp_path / "checkpoint", tmp_path / "db"
    arguments = ["--input", tmp_path / "in", "--database", database, "--state-api", api]
    seen = payments(range(FILES))
    # What was known before the stream: payments of the first file, as a table.
    first = 1 if api == "transform" else 0
    if first:
        lines = [json.dumps(row) for row in payments([0])]
        drop(tmp_path / "initial", "known.json", "\n".join(lines))
        arguments += ["--initial", tmp_path / "initial"]
    for numbers in (range(first, 4), range(4, FILES)):
        feed("payments", tmp_path / "in", numbers)
        stream_tester.run(
            jobs / "fraud_alerts.py",
            *arguments,
            checkpoint=checkpoint,
            py_files=[jobs / "fraud_rule.py"],
        )
        if numbers.start == first:
            undo_last_commit(checkpoint, "alerts")

    known = {row["id"] for row in payments([0])} if first else set()
    expected = [a for a in frauds(seen) if not {a["first"], a["second"]} <= known]
    assert len(expected) > 5
    assert not compare_rows(table(database, "alerts"), expected, COLUMNS)
    batches = [row["batch"] for row in table(database, "batches")]
    assert sorted(batches) == [*range(max(batches) + 1)]
