"""What a rehearsal makes of sources and rows, and how it brings a query to its bound."""

from __future__ import annotations

import fcntl
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.jobs import rehearsal
from airflow_streaming.driver.jobs.caller import is_held
from airflow_streaming.driver.jobs.chosen_sink import ChosenSink, SinkRefused
from airflow_streaming.driver.jobs.rehearsal import Rehearsal, Run, count_and_sample, shown
from airflow_streaming.driver.jobs.scratch_patch import QueryStart, SourceRules, commits_of
from airflow_streaming.driver.monitoring.spark_query import QueryError, SparkQuery
from airflow_streaming.model.jobs.drill import DrilledQuery
from airflow_streaming.model.jobs.rehearsal import (
    Bounds,
    Ending,
    RehearsalEvent,
    RehearsalOrder,
    Seen,
    read_told,
)
from airflow_streaming.model.spark.plan import SinkPlan

LIMITS = {"maxFilesPerTrigger": 100, "maxOffsetsPerTrigger": 1_000}


class Java:
    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def option(self, key: str, value: Any) -> Java:
        self.told[key] = value
        return self


def a_reader() -> Any:
    """A reader with the signatures of pyspark's, patched."""

    class Reader:
        def __init__(self) -> None:
            self._jreader = Java()

        def option(self, key: str, value: Any) -> Any:
            self._jreader.option(key, value)
            return self

        def options(self, **options: Any) -> Any:
            for key, value in options.items():
                self.option(key, value)
            return self

        def load(self, path: str | None = None, **options: Any) -> dict[str, Any]:
            self.options(**options)
            return self._jreader.told

        def json(self, path: str) -> dict[str, Any]:
            return self._jreader.told

    SourceRules(LIMITS).patch(Reader)
    return Reader()


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        pytest.param(
            lambda r: r.json("/in"),
            {"maxFilesPerTrigger": "100", "maxOffsetsPerTrigger": "1000"},
            id="no limit of its own",
        ),
        pytest.param(
            lambda r: r.option("maxFilesPerTrigger", 5).json("/in"),
            {"maxFilesPerTrigger": "5"},
            id="a smaller one",
        ),
        pytest.param(
            lambda r: r.load("/in", MaxFilesPerTrigger="1000"),
            {"MaxFilesPerTrigger": "100"},
            id="a larger one",
        ),
        pytest.param(
            lambda r: r.option("maxBytesPerTrigger", "1g").load(),
            {"maxBytesPerTrigger": "1g"},
            id="one that Spark refuses beside ours",
        ),
        pytest.param(
            lambda r: r.options(minOffsetsPerTrigger=5_000, maxTriggerDelay="1m").load(),
            {"minOffsetsPerTrigger": "1000", "maxTriggerDelay": "1m"},
            id="a least size above our most",
        ),
    ],
)
def test_batches_are_made_smaller_and_never_larger(
    read: Callable[[Any], dict[str, Any]], expected: dict[str, Any]
) -> None:
    assert read(a_reader()) == expected


def test_a_consumer_group_of_the_stream_is_not_touched() -> None:
    told = a_reader().option("kafka.group.id", "orders").load(groupIdPrefix="orders")

    groups = {told["kafka.group.id"], told["groupIdPrefix"]}
    assert len(groups) == 1
    assert groups.pop().startswith("airflow-streaming-drill-")


class Rows:
    """A batch's rows that may be computed once."""

    columns = ("k", "password")

    def __init__(self, *rows: tuple[Any, ...], fails: bool = False) -> None:
        self._rows, self._fails = rows, fails
        self.kept = False

    def persist(self) -> Rows:
        self.kept = True
        return self

    def unpersist(self) -> None:
        self.kept = False

    def count(self) -> int:
        assert self.kept
        if self._fails:
            raise RuntimeError("It broke in a task.")
        return len(self._rows)

    def take(self, most: int) -> list[tuple[Any, ...]]:
        assert self.kept
        return list(self._rows[:most])


def test_rows_are_counted_and_the_first_are_shown_without_secrets() -> None:
    rows = Rows(("a" * 500, "hidden"), (None, "hidden"), ("url=s3://me:pass@host", ""))

    count, sample = count_and_sample(rows, 2)

    assert count == 3
    assert sample == [
        {"k": f"{'a' * 99}…", "password": "(redacted)"},
        {"k": "", "password": "(redacted)"},
    ]
    assert not rows.kept
    assert "pass@" not in shown([("k", "s3://me:pass@host")])["k"]
    assert len(shown([(f"c{n}", n) for n in range(90)])) == 40


class Report:
    def __init__(self, batch: int) -> None:
        self._told = {"batchId": batch, "numInputRows": 5, "timestamp": "2026-01-05T12:00:00Z"}

    def json(self) -> str:
        return json.dumps(self._told)


class Error:
    """Java's Option of an exception."""

    def isDefined(self) -> bool:
        return False


class Stream:
    """A query of Spark: runs a batch after the other in a thread, until it is stopped or done."""

    def __init__(self, copy: Path, take: Any, batches: int, *, commits_last: bool = False) -> None:
        self._copy, self._take, self._left = copy, take, batches
        self._commits_last = commits_last
        self._stopped = threading.Event()
        self._reports: list[Report] = []
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        self._jsq = self
        self.name = copy.name

    def _work(self) -> None:
        batch = 0
        while batch < self._left and not self._stopped.is_set():
            self._take(Rows((batch, "x")), batch)
            if self._stopped.is_set() and not self._commits_last:
                break
            (self._copy / "commits" / str(batch)).write_text("v1")
            self._reports.append(Report(batch))
            batch += 1

    def isActive(self) -> bool:
        return self._thread.is_alive() and not self._stopped.is_set()

    def recentProgress(self) -> list[Report]:
        return list(self._reports)

    def exception(self) -> Error:
        return Error()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


class Starter:
    """A writer that starts a ``Stream``."""

    left_out = ("foreach",)

    def __init__(
        self, batches: int, *, commits_last: bool = False, chosen: ChosenSink | None = None
    ) -> None:
        self._batches, self._commits_last = batches, commits_last
        self._chosen = chosen
        self.rows = type("Rows", (), {"schema": type("Schema", (), {"fields": ()})})
        self.session = type("Session", (), {"version": "4.3.0"})

    def sink(self) -> ChosenSink | None:
        return self._chosen

    def begin(self, copy: str, *, once: bool, checks_schema: bool, take: Any) -> Stream:
        assert checks_schema
        return Stream(Path(copy), take, self._batches, commits_last=self._commits_last)


def a_copy(tmp_path: Path, folder: str = "q") -> DrilledQuery:
    (tmp_path / folder / "commits").mkdir(parents=True)
    return DrilledQuery(
        folder=folder, checkpoint=f"/ck/{folder}", copy=str(tmp_path / folder), batch=0
    )


@pytest.mark.parametrize(
    ("bounds", "seconds", "there", "ending", "batches"),
    [
        pytest.param(Bounds(batches=2), 60, 1_000, Ending.ENOUGH_BATCHES, 2, id="enough"),
        pytest.param(Bounds(batches=5), 60, 3, Ending.CAUGHT_UP, 3, id="no more input"),
        pytest.param(
            Bounds(batches=1, until_caught_up=True), 60, 4, Ending.CAUGHT_UP, 4, id="to the end"
        ),
    ],
)
def test_a_query_runs_to_its_bound(
    tmp_path: Path, bounds: Bounds, seconds: float, there: int, ending: Ending, batches: int
) -> None:
    told: list[RehearsalEvent] = []
    run = Run(a_copy(tmp_path), bounds, time.monotonic() + seconds, told.append)

    run.go(Starter(there))  # type: ignore[arg-type]

    assert told[0].seen is Seen.NOT_CALLED
    assert Seen.STARTED in {event.seen for event in told}
    assert [e.batch for e in told if e.seen is Seen.BATCH] == list(range(batches))
    assert (told[-1].seen, told[-1].ending, told[-1].rows) == (
        Seen.ENDED,
        ending,
        batches,
    )
    assert sum(len(event.sample) for event in told) == batches


def test_state_is_read_after_the_last_batch_that_was_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spark may commit the batch that was let through, whose rows and state were never computed.
    asked: list[int] = []
    monkeypatch.setattr(rehearsal, "bag_of", lambda _: (1, "digest"))
    monkeypatch.setattr(rehearsal, "state_events", lambda *given: asked.append(given[2]) or ())
    copy, bounds = a_copy(tmp_path), Bounds(batches=2)
    run = Run(copy, bounds, time.monotonic() + 60, lambda _: None, compares=True)

    run.go(Starter(10, commits_last=True))  # type: ignore[arg-type]

    assert commits_of(copy.copy) == {0, 1, 2}
    assert asked == [1]


def test_a_query_that_is_out_of_time_is_ended(tmp_path: Path) -> None:
    told: list[RehearsalEvent] = []
    bounds = Bounds(until_caught_up=True)

    Run(a_copy(tmp_path), bounds, time.monotonic(), told.append).go(Starter(10**9))  # type: ignore[arg-type]

    assert (told[-1].seen, told[-1].ending) == (Seen.ENDED, Ending.OUT_OF_TIME)


def test_what_the_end_itself_breaks_is_no_failure_of_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As Spark does when the interrupt of a stop meets a wait for a broadcast.
    broken = QueryError.from_text("awaitResult failed", exception_class="SparkException")
    monkeypatch.setattr(SparkQuery, "error", lambda _: broken)
    told: list[RehearsalEvent] = []
    run = Run(a_copy(tmp_path), Bounds(batches=1), time.monotonic() + 60, told.append)

    ended = run.go(Starter(10))  # type: ignore[arg-type]

    assert Seen.FAILED not in {event.seen for event in told}
    assert ended.exception() is None
    assert ended.awaitTermination() is None


@pytest.fixture(autouse=True)
def no_process_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a rehearsal whose queries have ended from ending the process of the tests."""
    idle = threading.Timer(0, lambda: None)
    monkeypatch.setattr(rehearsal, "later", lambda *_: idle)


def a_rehearsal(tmp_path: Path, *folders: str) -> Rehearsal:
    order = RehearsalOrder(
        events=str(tmp_path / "events"),
        seconds=60.0,
        bounds=Bounds(batches=1),
        queries=tuple(a_copy(tmp_path, folder) for folder in folders),
        application="/app/job.py",
        source="/s",
        scratch=str(tmp_path),
        held="/held",
    )
    return Rehearsal(order)


def test_a_query_without_a_checkpoint_begins_on_an_empty_one(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, "q", "not started")
    (tmp_path / "new" / "0" / "commits").mkdir(parents=True)

    for name in ("q", "late"):
        rehearsal.rehearse(QueryStart(Starter(1), name, None))  # type: ignore[arg-type]
    with pytest.raises(SystemExit):
        rehearsal.rehearse(QueryStart(Starter(1), "late", None))  # type: ignore[arg-type]

    told = read_told((tmp_path / "events").read_bytes())
    assert [e.text for e in told if e.seen is Seen.SPARK] == ["4.3.0"]
    assert [e.query for e in told if e.seen is Seen.NEW_QUERY] == ["late"]
    assert [e.query for e in told if e.seen is Seen.BATCH] == ["q", "late"]


def test_a_sink_that_spark_refuses_fails_the_query_before_a_batch(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, "q")
    sink = SinkPlan(sink="kafka", target="out")
    chosen = ChosenSink(sink=sink, output_mode="append", refusal="value must be a(n) string.")

    with pytest.raises(SinkRefused, match="value must be"):
        rehearsal.rehearse(QueryStart(Starter(1, chosen=chosen), "q", None))  # type: ignore[arg-type]

    told = read_told((tmp_path / "events").read_bytes())
    assert [(event.seen, event.query) for event in told][1:] == [
        (Seen.SINK, "q"),
        (Seen.FAILED, "q"),
    ]
    assert told[-1].text == "Spark refuses the sink. value must be a(n) string."
    assert told[1].sink == sink


def test_a_topic_that_the_brokers_do_not_have_is_reported_and_the_batches_run(
    tmp_path: Path,
) -> None:
    rehearsal = a_rehearsal(tmp_path, "q")
    chosen = ChosenSink(
        sink=SinkPlan(sink="kafka", target="out"), output_mode="append", missing_topics=("out",)
    )

    rehearsal.rehearse(QueryStart(Starter(1, chosen=chosen), "q", None))  # type: ignore[arg-type]

    told = read_told((tmp_path / "events").read_bytes())
    assert [event.subject for event in told if event.seen is Seen.SINK] == ["out"]
    assert [event.query for event in told if event.seen is Seen.BATCH] == ["q"]


def test_a_caller_is_there_for_as_long_as_he_keeps_his_file_locked(tmp_path: Path) -> None:
    path = tmp_path / "held"
    assert not is_held(path)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert is_held(path)
    assert not is_held(path)
