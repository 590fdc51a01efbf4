"""
What does watching a query cost its batches?

One query without state runs in one driver under our wrapper, with as short batches as can be had: the more of them,
the narrower the interval. Every few seconds its script changes how it is watched: not at all (the
wrapper's beat does nothing), by the wrapper, or by a plain Python ``StreamingQueryListener`` that writes each
progress to a file. So all three meet the same JVM, state and minute of the machine. The time of a batch is
Spark's own ``triggerExecution``; from each turn its mean is taken, without the slowest and quickest tenth, and
compared with the mean of the turn without in the same cycle. The first cycles, in which the JVM still
compiles, are left out. A beat reads the batches of the turn before it too, so the cost that is printed is
at least the true one.

    python -m benchmarks.listener --cycles 100

Goal: watched costs at most 1 %. When the interval of 95 % holds the goal, the program says that it
cannot tell; more cycles make it narrower.
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
import json, os, random, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from airflow_streaming.driver.monitoring.heartbeat import Report

result, cycles, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
spark = SparkSession.builder.config("spark.sql.streaming.numRecentProgressUpdates", 1000).getOrCreate()
kinds, now = ["alone", "watched", "listener"], "alone"
beat = Report.beat

def beat_in_turn(self, *, final=False):
    if now == "watched" or final:
        beat(self, final=final)

Report.beat = beat_in_turn

class Listener(StreamingQueryListener):
    def onQueryStarted(self, event): pass
    def onQueryIdle(self, event): pass
    def onQueryTerminated(self, event): pass
    def onQueryProgress(self, event):
        target = str(result) + ".status"
        Path(target + ".tmp").write_text(event.progress.json)
        os.replace(target + ".tmp", target)

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
        first = query.lastProgress().batchId() + 2
        time.sleep(seconds)
        last = query.lastProgress().batchId()
        if now == "listener":
            spark.streams.removeListener(listener)
        turn[now] = [p.durationMs().get("triggerExecution") for p in query.recentProgress()
                     if first <= p.batchId() <= last]
    told.append(turn)
    result.with_suffix(".part").write_text(json.dumps(told))
    result.with_suffix(".part").replace(result)
query.stop()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """
    What one way to watch costs, in percent of a batch that is not watched.

    :param percent: The mean over all cycles.
    :param error: Half of its interval of 95 %.
    """

    percent: float
    error: float

    @classmethod
    def of(cls, watched: Sequence[float], alone: Sequence[float]) -> Self:
        """Compare the times of the same cycles."""
        more = [100 * (one / other - 1) for one, other in zip(watched, alone, strict=True)]
        error = NORMAL_95 * statistics.stdev(more) / math.sqrt(len(more))
        return cls(percent=statistics.fmean(more), error=error)


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


def run(
    spark_home: Path, runtime: Path, cycles: int, seconds: float
) -> list[Mapping[str, list[int]]]:
    """Run the driver and return the milliseconds of the batches of each turn, by cycle."""
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
        return told


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
    store.create(LAYOUT.place(Deployment, number=1), deployment.to_bytes())
    store.create(LAYOUT.place(Epoch, number=1), epoch.to_bytes())


def tell(cycles: Sequence[Mapping[str, Sequence[int]]]) -> int:
    """Print the comparison; the exit code is 1 when the goal is missed."""
    means = {
        kind: [trimmed_mean(cycle[kind]) for cycle in cycles] for kind in (ALONE, WATCHED, LISTENER)
    }
    costs = {kind: Cost.of(means[kind], means[ALONE]) for kind in (WATCHED, LISTENER)}
    rows = [
        [
            kind,
            str(sum(len(cycle[kind]) for cycle in cycles)),
            f"{statistics.fmean(values):.1f}",
            f"{costs[kind].percent:+.2f} ± {costs[kind].error:.2f}" if kind in costs else "",
        ]
        for kind, values in means.items()
    ]
    print(f"\n{machine()}\n\n{table(['', 'batches', 'ms a batch', 'percent'], rows)}\n")
    cost = costs[WATCHED]
    if cost.percent - cost.error <= GOAL_PERCENT < cost.percent + cost.error:
        print(
            f"Whether watching costs at most {GOAL_PERCENT:.0f} % cannot be told from {len(cycles)} cycles."
        )
        return 0
    is_met = cost.percent <= GOAL_PERCENT
    print(f"Goal: at most {GOAL_PERCENT:.0f} %: {'met' if is_met else 'missed'}.")
    return 0 if is_met else 1


def trimmed_mean(values: Sequence[int]) -> float:
    """Return the mean without the slowest and quickest tenth."""
    cut = int(len(values) * CUT)
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


if __name__ == "__main__":
    sys.exit(main())
