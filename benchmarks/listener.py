"""
What does watching a query cost its batches?

One query without state runs in one driver under our wrapper, with as short batches as can be had: the more of them,
the narrower the interval. Every few seconds its script changes how it is watched: not at all (the
wrapper's beat does nothing), by the wrapper, or by a plain Python ``StreamingQueryListener`` that writes each
progress to a file. So all three meet the same JVM, state and minute of the machine. The time of a batch is
Spark's own ``triggerExecution``; from each turn its mean is taken, without the slowest and quickest tenth, and
compared with the mean of the turn without in the same cycle. The first cycles, in which the JVM still
compiles, are left out. A turn of the wrapper begins after a beat, which reads the batches of the turns before.

Beside the time stands the processor time of whatever watches: the driver's Python, which does nothing else here, and
the JVM's threads that answer it. It bounds the cost where watching never makes a batch wait, and is known a hundred
times better, because batches vary by several percent from turn to turn.

    python -m benchmarks.listener --cycles 100

Goal: watched costs at most 1 %. When the interval of 95 % of the time holds the goal, the processor time decides; more
cycles make the interval narrower.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import airflow_streaming
from airflow_streaming.launch.package import build_driver_package
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, Host, LaunchCause, mark_of
from airflow_streaming.model.storage import LocalStore
from benchmarks.figures import machine, table

REPOSITORY: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = Path(airflow_streaming.__file__).parent
LAYOUT: Final = Layout("bench")
ALONE, WATCHED, LISTENER = "alone", "watched", "listener"
WARM_UP: Final = 10
"""Cycles that are left out."""

CUT: Final = 0.1
"""Share of the batches of a turn that is left out at either end."""

GOAL_PERCENT: Final = 1.0
NORMAL_95: Final = 1.96

SCRIPT: Final = """
import json, os, random, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from airflow_streaming.driver.monitoring.heartbeat import Report

result, cycles, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
spark = SparkSession.builder.config("spark.sql.streaming.numRecentProgressUpdates", 1000).getOrCreate()
kinds, now = ["alone", "watched", "listener"], "alone"
beat = Report.beat

beaten = threading.Event()

def beat_in_turn(self, *, final=False):
    if now == "watched" or final:
        beat(self, final=final)
        beaten.set()

Report.beat = beat_in_turn

class Listener(StreamingQueryListener):
    def onQueryStarted(self, event): pass
    def onQueryIdle(self, event): pass
    def onQueryTerminated(self, event): pass
    def onQueryProgress(self, event):
        target = str(result) + ".status"
        Path(target + ".tmp").write_text(event.progress.json)
        os.replace(target + ".tmp", target)

def watching():
    # Seconds of processor time of this Python and of the JVM's threads that serve it.
    nanoseconds = 0
    for thread in Path(f"/proc/{os.getppid()}/task").iterdir():
        try:
            if (thread / "comm").read_text().startswith("Thread-"):
                nanoseconds += int((thread / "schedstat").read_text().split()[0])
        except OSError:
            continue  # it ended
    return time.process_time() + nanoseconds / 1e9

listener = Listener()
rows = (spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100)
        .option("numPartitions", 1).load().writeStream.format("noop"))
query = rows.queryName("q").start()._jsq
while query.lastProgress() is None:
    time.sleep(0.5)
told, chance = [], random.Random(1)
for cycle in range(cycles):
    chance.shuffle(kinds)
    turn = {}
    for now in kinds:
        if now == "listener":
            spark.streams.addListener(listener)
        beaten.clear()
        if now == "watched":
            beaten.wait(60)
        first = query.lastProgress().batchId() + 2
        began, used = time.monotonic(), watching()
        time.sleep(seconds)
        share = (watching() - used) / (time.monotonic() - began)
        last = query.lastProgress().batchId()
        if now == "listener":
            spark.streams.removeListener(listener)
        times = [p.durationMs().get("triggerExecution") for p in query.recentProgress()
                 if first <= p.batchId() <= last]
        turn[now] = {"milliseconds": times, "share": share}
    told.append(turn)
    result.with_suffix(".part").write_text(json.dumps(told))
    result.with_suffix(".part").replace(result)
now = "watched"  # the beat that finds the query ended ends the driver
query.stop()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """
    Some seconds in which the query was watched in one way.

    :param milliseconds: The times of its batches.
    :param share: Processor time of what watches, as a share of one core.
    """

    milliseconds: Sequence[int]
    share: float

    @property
    def mean(self) -> float:
        """The mean of its batches without the slowest and quickest tenth."""
        cut = int(len(self.milliseconds) * CUT)
        return statistics.fmean(sorted(self.milliseconds)[cut : len(self.milliseconds) - cut])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """
    What one way to watch costs, in percent.

    :param percent: The mean over all cycles.
    :param error: Half of its interval of 95 %.
    """

    percent: float
    error: float

    @classmethod
    def of(cls, percents: Sequence[float]) -> Self:
        """Take the mean over cycles."""
        error = NORMAL_95 * statistics.stdev(percents) / math.sqrt(len(percents))
        return cls(percent=statistics.fmean(percents), error=error)

    def __str__(self) -> str:
        return f"{self.percent:+.2f} ± {self.error:.2f}"

    def verdict(self, goal: float) -> bool | None:
        """Tell whether the cost is at most the goal; ``None`` where its interval holds the goal."""
        if self.percent - self.error <= goal < self.percent + self.error:
            return None
        return self.percent <= goal


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--runtime", type=Path, default=REPOSITORY / ".runtimes" / "spark-4.3")
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one turn")
    args = parser.parse_args()
    homes = list(args.runtime.absolute().glob("lib/python*/site-packages/pyspark"))
    if not homes:
        print(f"There is no Spark in {args.runtime}; run 'make setup' or give --runtime.")
        return 2
    minutes = (WARM_UP + args.cycles) * 3 * args.seconds / 60
    print(f"{args.cycles} cycles and {WARM_UP} before them take {minutes:.0f} minutes", flush=True)
    cycles = run(homes[0], args.runtime.absolute(), WARM_UP + args.cycles, args.seconds)
    return tell(cycles[WARM_UP:])


def run(spark_home: Path, runtime: Path, cycles: int, seconds: float) -> list[Mapping[str, Turn]]:
    """Run the driver and return the turns of each cycle."""
    with tempfile.TemporaryDirectory(prefix="airflow-streaming-bench-") as made:
        folder = Path(made)
        result, script = folder / "times.json", folder / "script.py"
        script.write_text(SCRIPT)
        arguments = [str(result), str(cycles), str(seconds)]
        python = str(runtime / "bin" / "python")
        spark = {"SPARK_HOME": str(spark_home), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": ""}
        done = subprocess.run(
            [
                str(spark_home / "bin" / "spark-submit"),
                *("--master", "local[2]"),
                *("--conf", "spark.ui.enabled=false"),
                *("--conf", "spark.sql.shuffle.partitions=2"),
                *wrapped(folder, script, arguments),
            ],
            env={**os.environ, **spark, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        told = json.loads(result.read_text()) if result.exists() else []
        if len(told) < cycles:
            sys.exit(f"The driver failed after {len(told)} cycles:\n{done.stdout}\n{done.stderr}")
        return [{kind: Turn(**turn) for kind, turn in cycle.items()} for cycle in told]


def wrapped(folder: Path, script: Path, arguments: list[str]) -> list[str]:
    """Lay out a home with one deployment and one epoch, and return what is submitted."""
    archive = build_driver_package(folder / "package", PACKAGE).archive
    home = folder / "home"
    home.mkdir()
    deploy(LocalStore(str(home)), script, arguments)
    main = str(PACKAGE / "driver" / "main.py")
    told = ["--home", str(home), "--stream", "bench", "--epoch", "1", "--token", mark_of("bench")]
    return ["--py-files", str(archive), main, *told]


def deploy(store: LocalStore, script: Path, arguments: list[str]) -> None:
    source, now = script.read_bytes(), datetime.now(UTC)
    digest = hashlib.sha256(source).hexdigest()
    deployment = Deployment(
        number=1,
        stream="bench",
        application=str(script),
        application_sha256=digest,
        application_args=tuple(arguments),
        conf={},
        env=(),
        py_files=(),
        jars=(),
        packages=(),
        files=(),
        runtime="spark-4.3",
        spark_version="4.3.0",
        checkpoint=str(script.parent / "checkpoint"),
        output=str(script.parent),
        fair_pools=False,
        created_at=now,
        created_by="benchmark",
    )
    epoch = Epoch(
        number=1,
        stream="bench",
        deployment=1,
        token="bench",  # noqa: S106  # an id, not a secret
        host=Host(name="here"),
        launcher="benchmark",
        cause=LaunchCause.FIRST,
        reason="Measuring.",
        by="benchmark",
        created_at=now,
    )
    store.create(LAYOUT.application(1, digest), source)
    store.create(LAYOUT.place(Deployment, number=1), LAYOUT.bytes_of(deployment))
    store.create(LAYOUT.place(Epoch, number=1), LAYOUT.bytes_of(epoch))


def tell(cycles: Sequence[Mapping[str, Turn]]) -> int:
    """Print the comparison; the exit code is 1 when the goal is missed."""
    batch, processor = {}, {}
    for kind in (WATCHED, LISTENER):
        pairs = [(cycle[kind], cycle[ALONE]) for cycle in cycles]
        batch[kind] = Cost.of([100 * (one.mean / alone.mean - 1) for one, alone in pairs])
        processor[kind] = Cost.of([100 * (one.share - alone.share) for one, alone in pairs])
    rows = [
        [
            kind,
            str(sum(len(cycle[kind].milliseconds) for cycle in cycles)),
            f"{statistics.fmean(cycle[kind].mean for cycle in cycles):.1f}",
            str(batch.get(kind, "")),
            str(processor.get(kind, "")),
        ]
        for kind in (ALONE, WATCHED, LISTENER)
    ]
    head = ["", "batches", "ms a batch", "percent", "processor time, % of a core"]
    print(f"\n{machine()}\n\n{table(head, rows)}\n")
    by = "the time of batches"
    is_met = batch[WATCHED].verdict(GOAL_PERCENT)
    if is_met is None:
        print(f"The time of batches cannot tell {GOAL_PERCENT:.0f} % from {len(cycles)} cycles.")
        by, is_met = "processor time", processor[WATCHED].verdict(GOAL_PERCENT)
    verdicts = {True: "met", False: "missed", None: "cannot be told"}
    print(f"Goal, at most {GOAL_PERCENT:.0f} %, by {by}: {verdicts[is_met]}.")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
