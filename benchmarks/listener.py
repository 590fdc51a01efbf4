"""
What does watching a query cost it?

The same query runs 300 batches in each of three drivers: bare (``spark-submit script.py``), watched
(through our wrapper, which polls) and with a plain Python ``StreamingQueryListener`` that writes
each progress to a file. They take turns, so that a slow minute of the machine meets all three. The
time of a batch is Spark's own ``triggerExecution``. The first batches of a JVM are left out, and
the median over all the others is compared: on a busy machine the mean tells of the neighbors.

    python -m benchmarks.listener --rounds 3

Goal: watched costs at most 1 % more than bare.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import airflow_streaming
from airflow_streaming.launch.package import build_driver_package
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, Host, LaunchCause, mark_of
from airflow_streaming.model.storage import LocalStore

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = Path(airflow_streaming.__file__).parent
LAYOUT = Layout("bench")
WARM_UP = 50
GOAL_PERCENT = 1.0
TOO_NOISY_PERCENT = 5.0

SCRIPT = """
import json, os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

checkpoint, result, batches, listen = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
spark = (SparkSession.builder
         .config("spark.sql.streaming.numRecentProgressUpdates", batches + 100).getOrCreate())

class Listener(StreamingQueryListener):
    def onQueryStarted(self, event): pass
    def onQueryIdle(self, event): pass
    def onQueryTerminated(self, event): pass
    def onQueryProgress(self, event):
        target = str(result) + ".status"
        Path(target + ".tmp").write_text(event.progress.json)
        os.replace(target + ".tmp", target)

if listen == "yes":
    spark.streams.addListener(Listener())
rows = (spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000)
        .option("numPartitions", 1).load().selectExpr("value % 10 AS key")
        .groupBy("key").count().writeStream.outputMode("update").format("noop"))
if listen != "ours":
    rows = rows.option("checkpointLocation", checkpoint)
query = rows.queryName("q").start()
while query._jsq.lastProgress() is None or query._jsq.lastProgress().batchId() < batches:
    time.sleep(3)
told = [json.loads(p.json()) for p in query._jsq.recentProgress()]
result.write_text(json.dumps([p["durationMs"]["triggerExecution"] for p in told][:batches]))
query.stop()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--runtime", type=Path, default=REPOSITORY / ".runtimes" / "spark-4.3")
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    homes = list(args.runtime.glob("lib/python*/site-packages/pyspark"))
    if not homes:
        print(f"There is no Spark in {args.runtime}; run 'make setup' or give --runtime.")
        return 2
    times: dict[str, list[list[int]]] = {"bare": [], "watched": [], "listener": []}
    for turn in range(args.rounds):
        # The first in a round may meet a slower machine; each is first now and then.
        order = list(times)[turn % 3 :] + list(times)[: turn % 3]
        for kind in order:
            times[kind].append(run(kind, homes[0], args.runtime, args.batches)[WARM_UP:])
            said = f"round {turn + 1}, {kind}: {statistics.median(times[kind][-1]):.0f} ms a batch"
            print(said, flush=True)
    return tell(times, args.batches)


def run(kind: str, spark_home: Path, runtime: Path, batches: int) -> list[int]:
    """Run one driver and return the times of its batches in ms."""
    with tempfile.TemporaryDirectory(prefix="airflow-streaming-bench-") as made:
        folder = Path(made)
        result = folder / "times.json"
        script = folder / "script.py"
        script.write_text(SCRIPT)
        listen = {"bare": "no", "watched": "ours", "listener": "yes"}[kind]
        arguments = [str(folder / "checkpoint"), str(result), str(batches), listen]
        command = [str(script), *arguments]
        if kind == "watched":
            command = wrapped(folder, script, arguments)
        python = str(runtime / "bin" / "python")
        spark = {"SPARK_HOME": str(spark_home), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": ""}
        done = subprocess.run(
            [
                str(spark_home / "bin" / "spark-submit"),
                *("--master", "local[2]"),
                *("--conf", "spark.ui.enabled=false"),
                *("--conf", "spark.sql.shuffle.partitions=2"),
                *command,
            ],
            env={**os.environ, **spark, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if not result.exists():
            sys.exit(f"The driver ({kind}) failed:\n{done.stdout}\n{done.stderr}")
        times: list[int] = json.loads(result.read_text())
        return times


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
        checkpoint=arguments[0],
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


def tell(times: dict[str, list[list[int]]], batches: int) -> int:
    """Print the comparison; the exit code is 1 when the goal was measurably missed."""
    pooled = {kind: [ms for run_ in runs for ms in run_] for kind, runs in times.items()}
    medians = {kind: statistics.median(values) for kind, values in pooled.items()}
    print(f"\n{batches} batches a run, the first {WARM_UP} left out, {os.cpu_count()} cores")
    for kind, values in pooled.items():
        more = 100 * (medians[kind] / medians["bare"] - 1)
        spread = [statistics.median(run_) for run_ in times[kind]]
        print(
            f"{kind:9} median {medians[kind]:6.1f} ms  mean {statistics.fmean(values):6.1f} ms  "
            f"{more:+5.1f} %  (medians of the runs {min(spread):.0f} to {max(spread):.0f} ms)"
        )
    bare = [statistics.median(run_) for run_ in times["bare"]]
    if max(bare) > (1 + TOO_NOISY_PERCENT / 100) * min(bare):
        print(
            f"The bare runs differ by more than {TOO_NOISY_PERCENT:.0f} % among themselves: the "
            "machine does too much else to tell. Repeat on an idle one."
        )
        return 0
    cost = 100 * (medians["watched"] / medians["bare"] - 1)
    print(f"watched costs {cost:+.1f} %; the goal is at most {GOAL_PERCENT:.0f} %")
    return 0 if cost <= GOAL_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())
