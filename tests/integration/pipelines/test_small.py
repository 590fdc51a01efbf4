"""The examples of one query: words, trends, triggers, and orders whose shape changes."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.gates.change_gate import gate_change
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.migration.migrations import migrations_in
from airflow_streaming.launch.runtime import resolve_runtime
from airflow_streaming.model.spark.plan import ScriptPlan
from airflow_streaming.spark_jobs.plan_mode import plan_script
from airflow_streaming.spark_jobs.runner import Program
from airflow_streaming.testing import StreamTester, compare_rows
from demo.feeds.feed import parsed
from demo.feeds.shapes import FEEDS
from tests.integration.pipelines.conftest import Feeding

FILES = 4


def lines(feed: str, files: int = FILES) -> list[str]:
    return [line for n in range(files) for line in FEEDS[feed].lines(n)]


def unique(feed: str, files: int = FILES) -> list[dict[str, Any]]:
    return [*{row["id"]: row for row in parsed(lines(feed, files))}.values()]


def time_of(row: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(row["ts"].rstrip("Z"))


TREND = ("start", "topic", "mentions", "mood", "place")


def words(files: int) -> list[dict[str, Any]]:
    """Count the words of so many files."""
    text = "\n".join(lines("mentions", files)).lower()
    counted = Counter(word for word in re.split("[^a-z#]+", text) if word)
    return [{"word": word, "count": count} for word, count in counted.items()]


def trends(batch: list[dict[str, Any]], files: int) -> list[dict[str, Any]]:
    """Return the three topics mentioned most of each closed window, from the counts of a batch."""
    closed = max(map(time_of, unique("mentions", files))) - timedelta(hours=1)
    windows: dict[str, list[tuple[int, str, int]]] = {}
    for row in batch:
        if datetime.fromisoformat(row["start"]) + timedelta(minutes=30) <= closed:
            one = (-row["mentions"], row["topic"], row["mood"])
            windows.setdefault(row["start"], []).append(one)
    return [
        {"start": start, "topic": topic, "mentions": -count, "mood": mood, "place": place}
        for start, found in windows.items()
        for place, (count, topic, mood) in enumerate(sorted(found)[:3], 1)
    ]


def hours(files: int) -> list[dict[str, Any]]:
    """Count the clicks of each closed hour."""
    rows = parsed(lines("clicks", files))
    closed = max(map(time_of, rows)) - timedelta(hours=1)
    counted = Counter(time_of(row).replace(minute=0, second=0) for row in rows)
    return [
        {"hour": hour, "events": count}
        for hour, count in counted.items()
        if hour + timedelta(hours=1) <= closed
    ]


def check_orders(tester: StreamTester, output: Path, files: int = FILES) -> None:
    """Compare the orders and the bad records; the newer version has a coupon."""
    sent = lines("orders", files)
    rows = [row for row in parsed(sent) if isinstance(row["quantity"], int)]
    found = tester.rows(output / "orders", options={"mergeSchema": "true"})
    assert not compare_rows(found, [{"id": row["id"]} for row in rows], ("id",))
    bad = tester.rows(output / "bad_records")
    assert len(bad) == len(sent) - len(rows) > 2
    assert {row["coupon"] for row in found} >= {"SPRING", "FRIEND", None}


def test_words_are_counted_in_a_memory_sink(
    stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    feed("mentions", tmp_path / "in", range(2))
    run = stream_tester.run(
        dags / "first_stream" / "jobs" / "word_count.py",
        *("--input", tmp_path / "in", "--sink", "memory"),
        checkpoint=tmp_path / "checkpoint",
    )

    assert not compare_rows(run["words"].rows or [], words(2))


def test_trends_are_those_of_a_batch_after_a_restart(
    stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    script, checkpoint = dags / "social" / "jobs" / "social_trends.py", tmp_path / "checkpoint"
    places = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    files = 14
    feed("mentions", tmp_path / "in", range(files // 2))
    stream_tester.run(script, *places, checkpoint=checkpoint)
    feed("mentions", tmp_path / "in", range(files // 2, files))
    stream_tester.run(script, *places, checkpoint=checkpoint)

    expected = trends(stream_tester.run_batch(script, *places)["trends"], files)
    assert len(expected) > 10
    assert not compare_rows(stream_tester.rows(tmp_path / "out"), expected, TREND)


@pytest.mark.parametrize("trigger", ["available_now", "once"])
def test_a_stream_that_ends_has_read_everything(
    trigger: str, stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    script = dags / "triggers" / "jobs" / "clicks_per_hour.py"
    places = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--trigger", trigger)
    feed("clicks", tmp_path / "in", range(8))
    stream_tester.run(script, *places, checkpoint=tmp_path / "checkpoint", own_trigger=True)
    if trigger == "once":
        # It closes a window only in a later batch, and a batch only comes with data.
        assert stream_tester.rows(tmp_path / "out") == []
        feed("clicks", tmp_path / "in", [8])
        stream_tester.run(script, *places, checkpoint=tmp_path / "checkpoint", own_trigger=True)

    expected = hours(8)
    assert expected
    assert not compare_rows(stream_tester.rows(tmp_path / "out"), expected)


@pytest.mark.parametrize("trigger", ["continuous", "real_time"])
def test_spark_refuses_a_window_under_a_trigger_without_batches(
    trigger: str, stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    feed("clicks", tmp_path / "in", range(1))
    run = stream_tester.run(
        dags / "triggers" / "jobs" / "clicks_per_hour.py",
        *("--input", tmp_path / "in", "--output", tmp_path / "out", "--trigger", trigger),
        checkpoint=tmp_path / "checkpoint",
        own_trigger=True,
        check=False,
    )

    assert run.error is not None
    assert not list((tmp_path / "out").rglob("*.parquet"))


@pytest.mark.nightly("A plan and a start of each version of five scripts.")
def test_the_gate_knows_which_version_goes_on(
    stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path, spark_4_3: Path
) -> None:
    script, checkpoint = dags / "schema_evolution" / "jobs" / "orders.py", tmp_path / "checkpoint"
    places = ("--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"))
    feed("orders", tmp_path / "in", range(2))
    assert stream_tester.run(script, *places, checkpoint=checkpoint).check()
    runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)})
    checkpoints = {name: str(checkpoint / name) for name in ("orders", "bad_records", "totals")}

    def planned(version: str) -> ScriptPlan:
        arguments = (*places, "--version", version)
        source = script.read_bytes()
        return plan_script(
            Program(application=str(script), source=source, arguments=arguments), runtime
        )

    old = planned("1").queries
    answers = {
        version: gate_change(checkpoints, old, planned(version)) for version in ("2", "3", "4", "5")
    }

    assert {version: report.decision for version, report in answers.items()} == {
        "2": GateDecision.ALLOWED_WITH_CONSEQUENCE,
        "3": GateDecision.NOT_ALLOWED,
        "4": GateDecision.NOT_ALLOWED,
        "5": GateDecision.NOT_ALLOWED,
    }, answers["2"]
    assert [one.query for one in migrations_in(answers["5"])] == ["totals"], answers["5"]


def test_bad_records_are_kept_apart_and_state_decides_which_version_goes_on(
    stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    script, checkpoint = dags / "schema_evolution" / "jobs" / "orders.py", tmp_path / "checkpoint"
    places = ("--input", tmp_path / "in", "--output", tmp_path / "out")

    def run(version: str) -> Any:
        given = (*places, "--version", version)
        return stream_tester.run(script, *given, checkpoint=checkpoint, check=False)

    feed("orders", tmp_path / "in", range(2))
    assert run("1").check()
    feed("orders", tmp_path / "in", [2])
    for version in ("3", "4"):
        failed = run(version)["totals"].error
        assert failed is not None
        assert failed.condition is not None
        assert failed.condition.startswith("STATE_STORE_")
    feed("orders", tmp_path / "in", [3])
    assert run("2").check()

    check_orders(stream_tester, tmp_path / "out")
