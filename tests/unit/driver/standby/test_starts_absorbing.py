from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.exit_status import ShutdownState
from airflow_streaming.driver.standby.starts import PlannedBatch, absorb
from airflow_streaming.exceptions import DriverRefusal, StopRequested
from airflow_streaming.model.storage import LocalStore


class Checkpoint:
    """A checkpoint that has planned and committed some batches."""

    def __init__(self, folder: Path, *, planned: int | None, committed: int | None) -> None:
        self.folder, self.ran = folder, 0
        self._write("offsets", planned)
        self._write("commits", committed)

    def absorb(self, batch: int, *commits: int) -> int:
        def run(name: str, location: str) -> None:
            assert (name, location) == ("q", "file:///c/q")
            self.ran += 1
            for commit in commits:
                self._write("offsets", commit)
                self._write("commits", commit)

        files = LocalStore(str(self.folder))
        return absorb("q", "file:///c/q", files=files, batch=batch, run=run)

    def _write(self, log: str, newest: int | None) -> None:
        for batch in range(max(0, (newest or 0) - 1), -1 if newest is None else newest + 1):
            (self.folder / log).mkdir(parents=True, exist_ok=True)
            (self.folder / log / str(batch)).touch()


@pytest.mark.parametrize(
    ("planned", "committed", "batch"),
    [pytest.param(8, 7, 8, id="the next"), pytest.param(0, None, 0, id="the very first")],
)
def test_the_planned_batch_is_run_once(
    tmp_path: Path, planned: int, committed: int | None, batch: int
) -> None:
    checkpoint = Checkpoint(tmp_path, planned=planned, committed=committed)
    assert checkpoint.absorb(batch, batch) == batch
    assert checkpoint.absorb(batch, batch) == batch
    assert checkpoint.ran == 1


def test_a_batch_that_the_stream_has_left_behind_is_not_run(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, planned=12, committed=11)
    assert checkpoint.absorb(8) == 11
    assert checkpoint.ran == 0


@pytest.mark.parametrize(
    ("planned", "committed"),
    [
        pytest.param(7, 7, id="nothing is planned"),
        pytest.param(8, 6, id="a batch between is missing"),
        pytest.param(9, 7, id="another one is planned"),
        pytest.param(None, None, id="an empty checkpoint"),
    ],
)
def test_no_other_batch_is_ever_run(
    tmp_path: Path, planned: int | None, committed: int | None
) -> None:
    checkpoint = Checkpoint(tmp_path, planned=planned, committed=committed)
    with pytest.raises(DriverRefusal, match=r"cannot be absorbed.*No batch was run"):
        checkpoint.absorb(8, 8)
    assert checkpoint.ran == 0


@pytest.mark.parametrize("commits", [pytest.param((), id="none"), pytest.param((8, 9), id="two")])
def test_a_run_that_did_not_commit_just_this_batch_is_refused(
    tmp_path: Path, commits: tuple[int, ...]
) -> None:
    checkpoint = Checkpoint(tmp_path, planned=8, committed=7)
    with pytest.raises(DriverRefusal, match="Do not release this driver"):
        checkpoint.absorb(8, *commits)


class Query:
    def __init__(self, *answers: bool | Exception) -> None:
        self._answers = list(answers)
        self.stopped = False

    def awaitTermination(self, seconds: float) -> bool:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        self.stopped = True


class Streams:
    def __init__(self) -> None:
        self.resets = 0

    def resetTerminated(self) -> None:
        self.resets += 1


class Writer:
    """A writer, and the frame and session behind it; everything said is noted."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []
        self._df = self._spark = self
        self.streams = Streams()

    @property
    def writeStream(self) -> Writer:
        made = Writer()
        self.made = made
        return made

    def __getattr__(self, name: str) -> Any:
        def say(*args: Any, **kwargs: Any) -> Writer:
            self.said.append((name, *args, *kwargs.items()))
            return self

        return say


def test_the_batch_runs_on_a_writer_of_its_own_which_writes_nothing() -> None:
    query, writer = Query(False, True), Writer()
    planned = PlannedBatch(
        writer,
        {"outputMode": "update", "path": "/out"},
        start=lambda _: query,
        ending=ShutdownState(),
    )
    planned.run("q", "file:///c/q")
    assert writer.made.said == [
        ("format", "noop"),
        ("queryName", "q"),
        ("option", "checkpointLocation", "file:///c/q"),
        ("option", "asyncProgressTrackingEnabled", "false"),
        ("outputMode", "update"),
        ("trigger", ("once", True)),
    ]
    assert writer.said == [], "the script's own writer is left as it is"
    assert writer.streams.resets == 1


def test_a_stop_cuts_the_batch_off() -> None:
    query, writer, ending = Query(False), Writer(), ShutdownState()
    ending.fail()
    with pytest.raises(StopRequested, match="is not absorbed"):
        PlannedBatch(writer, {}, start=lambda _: query, ending=ending).run("q", "/c")
    assert query.stopped
    assert writer.streams.resets == 1


def test_what_spark_says_of_a_failed_batch_comes_through() -> None:
    query, writer = Query(ValueError("a bad row")), Writer()
    with pytest.raises(ValueError, match="a bad row"):
        PlannedBatch(writer, {}, start=lambda _: query, ending=ShutdownState()).run("q", "/c")
