"""A Spark stream that knows nothing of us: seen well, stalled, idle, ended and killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_streaming.model.health_rules import Finding, HealthRules
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.spark.tail import RECENT
from airflow_streaming.storage.folders import open_folders
from airflow_streaming.supervision.external.judge import CERTAIN_AFTER
from airflow_streaming.supervision.external.observer import ExternalObserver
from airflow_streaming.supervision.readiness.snapshot import StreamSnapshot
from tests.patience import tail, until
from tests.quick_java import spark_environment
from tests.unit.supervision.checkpoints import fingerprint

PROGRAM = """
import pathlib, sys, time
from pyspark.sql import SparkSession

folder, port = pathlib.Path(sys.argv[1]), sys.argv[2]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.memory", "512m")
    .config("spark.ui.port", port)
    .config("spark.ui.showConsoleProgress", False)
    .config("spark.sql.shuffle.partitions", 1)
    .config("spark.sql.streaming.metricsEnabled", True)
    .config("spark.sql.streaming.offsetLog.formatVersion", 2)
    .getOrCreate()
)

def count(frame, batch):
    while (folder / "hang").exists():
        (folder / "hanging").touch()
        time.sleep(0.1)
    frame.count()

while not (folder / "begin").exists():
    time.sleep(0.1)
lines = spark.readStream.format("text").load(str(folder / "in"))
query = (
    lines.writeStream.queryName("revenue").foreachBatch(count)
    .option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(processingTime="200 milliseconds").start()
)
while not (folder / "end").exists():
    query.awaitTermination(1)
query.stop()
time.sleep(600)
"""

RULES = HealthRules(stall_after=timedelta(seconds=10), stall_factor=0)
"""Windows that grow little: on a slow machine the first batch alone takes two minutes."""

WARM = RECENT + 1
"""The batch from which on no window knows the first one any more."""


class Foreign:
    """A stream that we did not launch: a program, a folder it reads, and a checkpoint."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.folder, self.files, self._is_killed = folder, 0, False
        (folder / "in").mkdir()
        (folder / "program.py").write_text(PROGRAM)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [runtime / "bin" / "python", folder / "program.py", folder, str(self.port)],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=spark_environment(runtime),
            )

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return tail(self.folder / "log")

    def begin(self) -> None:
        """Let the query start; before that there is no checkpoint."""
        (self.folder / "begin").touch()

    def hang(self) -> None:
        """Let the next batch hang."""
        (self.folder / "hang").touch()

    @property
    def hangs(self) -> bool:
        """Tell whether a batch hangs; one that is only slow does not."""
        return (self.folder / "hanging").exists()

    def release(self) -> None:
        """Let the batch that hangs go on."""
        (self.folder / "hang").unlink()

    def has_ended(self) -> str | None:
        """Tell whether the program is gone though the test did not kill it."""
        code = self.process.poll()
        return None if code is None or self._is_killed else f"The stream has ended with {code}."

    def feed(self) -> None:
        """Give the stream something to read."""
        self.files += 1
        made = self.folder / f"{self.files}.txt"
        made.write_text("a\n")
        made.rename(self.folder / "in" / made.name)

    def signal(self, what: signal.Signals) -> None:
        self._is_killed |= what is signal.SIGKILL
        os.killpg(self.process.pid, what)

    def observer(self, *, asking: bool) -> ExternalObserver:
        return ExternalObserver(
            open_folders(str(self.checkpoint)),
            rules=RULES,
            endpoint=self.url if asking else None,
            allowed=(self.url,),
        )

    def until(self, condition: Callable[[], object], what: str) -> None:
        until(condition, what, seen=lambda: self.log, failing=self.has_ended)

    def see(self, observer: ExternalObserver, state: VerdictState) -> StreamSnapshot:
        """Look until the stream is seen so; return the look."""
        looks: list[StreamSnapshot] = []

        def is_so() -> bool:
            looks.append(observer.snapshot())
            return looks[-1].verdict.state is state

        until(
            is_so,
            f"Being seen as {state}",
            seen=lambda: f"{looks[-1].verdict}\n{self.log}",
            failing=self.has_ended,
        )
        return looks[-1]


@contextmanager
def running(folder: Path, runtime: Path) -> Iterator[Foreign]:
    """Run such a stream until the end of the block."""
    stream = Foreign(folder, runtime)
    try:
        yield stream
    finally:
        with suppress(ProcessLookupError):
            stream.signal(signal.SIGKILL)
        stream.process.wait()


@pytest.fixture
def foreign(tmp_path: Path, spark_4_3: Path) -> Iterator[Foreign]:
    with running(tmp_path, spark_4_3) as stream:
        yield stream


def finding(sight: StreamSnapshot) -> Finding:
    (found,) = sight.verdict.findings
    return found


@pytest.mark.nightly("A Spark of its own is watched for a minute.")
def test_a_stream_that_knows_nothing_of_us_is_seen_as_it_is(foreign: Foreign) -> None:
    alone, asking = foreign.observer(asking=False), foreign.observer(asking=True)
    assert alone.snapshot().verdict.rule == "no_checkpoint"
    foreign.begin()
    foreign.until((foreign.checkpoint / "offsets").exists, "A checkpoint")

    def is_healthy() -> bool:
        foreign.feed()
        looks = [one.snapshot() for one in (alone, asking)]
        is_warm = all((look.queries[0].batch_id or 0) >= WARM for look in looks)
        states = {look.verdict.state for look in looks}
        return (
            is_warm and states == {"healthy"} and asking.memory()["queries"]["checkpoint"]["gauge"]
        )

    foreign.until(is_healthy, "Being seen healthy")
    assert asking.memory()["queries"]["checkpoint"]["gauge"] == "revenue"

    foreign.hang()
    foreign.until(lambda: foreign.feed() or foreign.hangs, "A batch that hangs")
    stalled = foreign.see(alone, VerdictState.STALLED)
    assert finding(stalled).rule == "stalled"
    assert finding(stalled).figure >= finding(stalled).bound >= RULES.stall_after.total_seconds()
    assert foreign.see(asking, VerdictState.STALLED).verdict.query == "checkpoint"
    assert stalled.verdict.query == "checkpoint"
    assert stalled.queries[0].planned_batch is not None

    before = fingerprint(foreign.checkpoint)
    for observer in (alone, asking, foreign.observer(asking=False)):
        observer.snapshot()
    assert fingerprint(foreign.checkpoint) == before, "looking leaves no trace"

    foreign.release()
    foreign.see(alone, VerdictState.HEALTHY)
    foreign.see(asking, VerdictState.HEALTHY)

    # Nothing to read: from the checkpoint alone the same as death.
    assert foreign.see(asking, VerdictState.IDLE).fresh
    assert foreign.see(alone, VerdictState.UNREACHABLE).verdict.rule == "quiet"

    foreign.signal(signal.SIGSTOP)
    suspended = asking.snapshot()
    assert (suspended.verdict.state, suspended.verdict.rule) == ("unreachable", "quiet")
    foreign.signal(signal.SIGCONT)
    foreign.see(asking, VerdictState.IDLE)

    (foreign.folder / "end").touch()
    ended = foreign.see(asking, VerdictState.FAILED)
    assert (ended.verdict.rule, ended.verdict.query) == ("query_ended", "checkpoint")

    foreign.signal(signal.SIGKILL)
    dead = foreign.see(asking, VerdictState.DEAD)
    assert dead.verdict.rule == "driver_gone"
    assert finding(dead).figure >= CERTAIN_AFTER
    before = fingerprint(foreign.checkpoint)
    assert alone.snapshot().verdict.state == "unreachable"
    assert foreign.observer(asking=True).snapshot().verdict.state == "starting", "no evidence yet"
    assert fingerprint(foreign.checkpoint) == before, "looking leaves no trace"
