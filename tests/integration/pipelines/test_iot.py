from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_streaming.testing import StreamTester, compare_rows, undo_last_commit
from demo.feeds.feed import START, parsed
from demo.feeds.shapes import FEEDS
from tests.integration.pipelines.conftest import Feeding

FILES = 10
LATENESS = timedelta(hours=2)
Reading = tuple[datetime, str, int]


def counted(files: int) -> tuple[list[Reading], datetime, int]:
    """Return the readings that count, each once, the final watermark, and how many come too late."""
    found: dict[str, Reading] = {}
    newest, late = START.replace(tzinfo=None), 0
    for number in range(files):
        rows = parsed(FEEDS["sensors"].lines(number))
        before = newest
        for row in rows:
            at = datetime.fromisoformat(row["ts"].rstrip("Z"))
            newest = max(newest, at)
            if number and at < before - LATENESS:
                late += 1
            else:
                found[row["id"]] = (at, row["device"], row["temperature"])
    return [*found.values()], newest - LATENESS, late


def starts(at: datetime, length: timedelta) -> Iterable[datetime]:
    """Return the beginnings of the windows of ten-minute steps that hold a moment."""
    first = at.replace(minute=at.minute // 10 * 10, second=0, microsecond=0)
    return (first - timedelta(minutes=10) * n for n in range(length // timedelta(minutes=10)))


def windows(length: timedelta) -> dict[tuple[datetime, str], list[int]]:
    readings, watermark, _ = counted(FILES)
    found: dict[tuple[datetime, str], list[int]] = defaultdict(list)
    for at, device, temperature in readings:
        for start in starts(at, length):
            if start + length <= watermark:
                found[start, device].append(temperature)
    return found


def expected_counts() -> list[dict[str, Any]]:
    return [
        {"start": start, "device": device, "readings": len(all_), "hottest": max(all_)}
        for (start, device), all_ in windows(timedelta(minutes=10)).items()
    ]


def expected_alerts() -> list[dict[str, Any]]:
    alerts = []
    for (start, device), all_ in windows(timedelta(hours=1)).items():
        n, mean = len(all_), sum(all_) / len(all_)
        variance = sum((t - mean) ** 2 for t in all_) / n
        if n >= 5 and max(all_) - mean > 3 * variance**0.5:
            alerts.append({"start": start, "device": device, "n": n, "hottest": max(all_)})
    return alerts


def test_counts_and_alerts_are_those_of_the_readings_after_a_replayed_batch(
    stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    script, checkpoint = dags / "iot" / "jobs" / "iot_sensors.py", tmp_path / "checkpoint"
    places = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    feed("sensors", tmp_path / "in", range(FILES // 2))
    stream_tester.run(script, *places, checkpoint=checkpoint)
    undo_last_commit(checkpoint, "counts")
    feed("sensors", tmp_path / "in", range(FILES // 2, FILES))
    run = stream_tester.run(script, *places, checkpoint=checkpoint)

    expected = expected_alerts()
    assert expected
    for name, rows in {"counts": expected_counts(), "alerts": expected}.items():
        assert not compare_rows(stream_tester.rows(tmp_path / "out" / name), rows)
    lines = [line for n in range(FILES) for line in FEEDS["sensors"].lines(n)]
    broken = [line for line in lines if not line.endswith("}")]
    assert broken
    assert [row["value"] for row in stream_tester.rows(tmp_path / "out" / "broken")] == broken
    assert run["counts"].late_rows == counted(FILES)[2] > 0
