"""A Spark stream that knows nothing of us: seen well, stalled, idle, ended and killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.sight import Sight
from airflow_streaming.observe.foreign import ForeignObserver
from tests.integration.stream.conftest import until
from tests.unit.observe.checkpoints import fingerprint

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
        time.sleep(0.1)
    frame.count()

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

RULES = HealthRules(stall_after=timedelta(seconds=10), stall_factor=3)


class Foreign:
    """A stream of somebody else: a program, a folder it reads, and a checkpoint."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.folder, self.files = folder, 0
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
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            )

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def feed(self) -> None:
        """Give the stream something to read."""
        self.files += 1
        made = self.folder / f"{self.files}.txt"
        made.write_text("a\n")
        made.rename(self.folder / "in" / made.name)

    def signal(self, what: signal.Signals) -> None:
        os.killpg(self.process.pid, what)

    def observer(self, *, asking: bool) -> ForeignObserver:
        url = f"http://127.0.0.1:{self.port}"
        return ForeignObserver(
            open_folders(str(self.checkpoint)),
            rules=RULES,
            endpoint=url if asking else None,
            allowed=(url,),
        )


@pytest.fixture
def foreign(tmp_path: Path, spark_4_3: Path) -> Iterator[Foreign]:
    stream = Foreign(tmp_path, spark_4_3)
    yield stream
    stream.signal(signal.SIGKILL)
    stream.process.wait(30)


def see(observer: ForeignObserver, state: str, seconds: float = 200.0) -> tuple[Sight, float]:
    """Look until the stream is seen so; return the look and the seconds it took."""
    seen, begun = list[Sight](), time.monotonic()

    def is_so() -> bool:
        seen[:] = [observer.sight()]
        return seen[0].verdict.state == state

    until(is_so, f"being seen {state}", seconds)
    return seen[0], time.monotonic() - begun


def test_a_stream_that_knows_nothing_of_us_is_seen_as_it_is(foreign: Foreign) -> None:
    alone, asking = foreign.observer(asking=False), foreign.observer(asking=True)
    assert alone.sight().verdict.rule == "no_checkpoint"
    until((foreign.checkpoint / "offsets").exists, "a checkpoint")

    def is_healthy() -> bool:
        foreign.feed()
        states = {one.sight().verdict.state for one in (alone, asking)}
        return states == {"healthy"} and asking.memory()["queries"]["checkpoint"]["gauge"]

    until(is_healthy, "being seen healthy")
    assert asking.memory()["queries"]["checkpoint"]["gauge"] == "revenue"

    (foreign.folder / "hang").touch()
    until(lambda: foreign.feed() or alone.sight().queries[0].planned_batch, "a batch that hangs")
    stalled, took = see(alone, "stalled")
    assert took >= 8
    assert see(asking, "stalled")[0].verdict.query == "checkpoint"
    planned = stalled.queries[0].planned_batch
    assert f"Batch {planned} of query 'checkpoint' has been planned for" in stalled.verdict.reason

    before = fingerprint(foreign.checkpoint)
    for observer in (alone, asking, foreign.observer(asking=False)):
        observer.sight()
    assert fingerprint(foreign.checkpoint) == before, "looking leaves no trace"

    (foreign.folder / "hang").unlink()
    see(alone, "healthy")
    see(asking, "healthy")

    # Nothing to read: from the checkpoint alone the same as death.
    idle, _ = see(asking, "idle")
    assert idle.fresh
    quiet, _ = see(alone, "unreachable")
    assert "waits for data and one that is dead look the same" in quiet.verdict.reason

    foreign.signal(signal.SIGSTOP)
    suspended = asking.sight()
    assert (suspended.verdict.state, suspended.verdict.rule) == ("unreachable", "quiet")
    assert "gave no answer within 3 s" in suspended.verdict.reason
    foreign.signal(signal.SIGCONT)
    see(asking, "idle")

    (foreign.folder / "end").touch()
    ended, _ = see(asking, "failed")
    assert "has ended while its application goes on" in ended.verdict.reason

    foreign.signal(signal.SIGKILL)
    dead, took = see(asking, "dead", seconds=30)
    assert took < 15
    assert "has refused connections for" in dead.verdict.reason
    before = fingerprint(foreign.checkpoint)
    assert alone.sight().verdict.state == "unreachable"
    assert foreign.observer(asking=True).sight().verdict.state == "starting", "no evidence yet"
    assert fingerprint(foreign.checkpoint) == before, "looking leaves no trace"
