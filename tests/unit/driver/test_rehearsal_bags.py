"""Batches that one run has planned, run by another one by one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.jobs import rehearsal_bags
from airflow_streaming.driver.jobs.rehearsal_bags import SteppedRun, put_plan, with_watermark
from airflow_streaming.model.jobs.drill import DrilledQuery
from airflow_streaming.model.jobs.rehearsal import Ending, RehearsalEvent, Seen


def plan(offset: int, watermark: int = 0) -> bytes:
    about = {"batchWatermarkMs": watermark, "batchTimestampMs": 7, "conf": {"a": "1"}}
    return f"v1\n{json.dumps(about)}\n{json.dumps({'logOffset': offset})}".encode()


def commit(watermark: int) -> str:
    return f"v1\n{json.dumps({'nextBatchWatermarkMs': watermark})}"


@pytest.fixture
def query(tmp_path: Path) -> DrilledQuery:
    """A copy whose batch 6 is committed, and plans of 6 to 8, of which 8 reads nothing."""
    copy, plans = tmp_path / "copy", tmp_path / "plans"
    for folder in (copy / "commits", copy / "offsets", plans):
        folder.mkdir(parents=True)
    (copy / "commits/6").write_text(commit(5_000))
    (copy / "commits/7").write_text(commit(1))
    (copy / "offsets/7").write_bytes(b"of another run")
    (copy / "offsets/.7.crc").touch()
    for batch, offset in ((6, 6), (7, 7), (8, 7)):
        (plans / str(batch)).write_bytes(plan(offset, watermark=9_000))
    return DrilledQuery(
        folder="q",
        checkpoint="/ck/q",
        copy=str(copy),
        batch=7,
        cut=("commits/7",),
        steps=(7, 8),
        plans=str(plans),
    )


def test_a_plan_gets_the_watermark_of_the_run_it_is_given_to(query: DrilledQuery) -> None:
    reads = put_plan(query, 7)

    assert reads
    assert (Path(query.copy) / "offsets/7").read_bytes().split(b"\n")[1:] == (
        with_watermark(plan(7), 5_000).split(b"\n")[1:]
    )
    assert not (Path(query.copy) / "offsets/.7.crc").exists()


def test_a_plan_of_a_batch_without_input_is_told_apart(query: DrilledQuery) -> None:
    (Path(query.copy) / "commits/7").write_text(commit(6_000))

    assert not put_plan(query, 8)


def test_the_first_batch_begins_without_a_watermark(query: DrilledQuery) -> None:
    (Path(query.plans) / "0").write_bytes(plan(0, watermark=9_000))

    assert put_plan(query, 0)
    about = json.loads((Path(query.copy) / "offsets/0").read_bytes().split(b"\n")[1])
    assert about == {"batchWatermarkMs": 0, "batchTimestampMs": 7, "conf": {"a": "1"}}


@pytest.mark.parametrize("told", [b"v1\n{}\n{}", b"v9", b"v1\n[]\n1"])
def test_a_plan_that_tells_no_watermark_stays_as_it_is(told: bytes) -> None:
    assert with_watermark(told, 5) == told


class Error:
    def isDefined(self) -> bool:
        return False


class Ended:
    """A query of Spark that has run one batch and ended."""

    def __init__(self, copy: Path, batch: int) -> None:
        (copy / "commits" / str(batch)).write_text(commit(batch * 1_000))
        self._batch, self._jsq = batch, self

    def isActive(self) -> bool:
        return False

    def recentProgress(self) -> list[Any]:
        told = {"batchId": self._batch, "numInputRows": 5, "timestamp": "2026-01-05T12:00:00Z"}
        return [type("Report", (), {"json": lambda _: json.dumps(told)})()]

    def exception(self) -> Error:
        return Error()


class Starter:
    session = None

    def __init__(self) -> None:
        self.asked: list[tuple[bool, bool]] = []

    def begin(self, copy: str, *, once: bool, checks_schema: bool, take: Any) -> Ended:
        planned = {int(path.name) for path in (Path(copy) / "offsets").glob("[0-9]*")}
        committed = {int(path.name) for path in (Path(copy) / "commits").iterdir()}
        (batch,) = planned - committed
        self.asked.append((once, checks_schema))
        take("rows", batch)
        return Ended(Path(copy), batch)


def test_each_batch_is_a_start_of_its_own(
    query: DrilledQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal_bags, "bag_of", lambda rows: (3, f"digest of {rows}"))
    told: list[RehearsalEvent] = []
    starter = Starter()

    SteppedRun(query, time.monotonic() + 60, told.append).go(starter)  # type: ignore[arg-type]

    # What Spark itself compares of schemas it cannot compare of a batch without input.
    assert starter.asked == [(True, True), (True, False)]
    assert [(e.batch, e.rows, e.digest) for e in told if e.seen is Seen.ROWS] == [
        (7, 3, "digest of rows"),
        (8, 3, "digest of rows"),
    ]
    assert [e.figures.input_rows for e in told if e.figures is not None] == [5, 5]
    assert (told[-1].seen, told[-1].ending) == (Seen.ENDED, Ending.ENOUGH_BATCHES)
