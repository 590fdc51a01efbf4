"""
Where does a cold start go, and which part of it is ours?

One script (a session, one query on ``rate-micro-batch`` with state, its first batch) is started
again and again: bare by ``spark-submit``, and through our wrapper, in turns, each with and without
a class data archive of the JVM (AppCDS) that one bare run has made before. The script notes the
moments itself; the JVM's part is everything from ``spark-submit`` to the start of its Python.

    python -m benchmarks.cold_start --rounds 5

The wrapper writes its heartbeat, claims the checkpoint and captures the plan meanwhile, so its cost
shows in the parts after the session as well.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import airflow_streaming
from airflow_streaming.launch.package import build_driver_package
from airflow_streaming.model.records.epoch import mark_of
from airflow_streaming.model.storage import LocalStore
from benchmarks.figures import heed_signals, machine, table
from benchmarks.listener import deploy

REPOSITORY: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = Path(airflow_streaming.__file__).parent
PATIENCE: Final = 600.0

SCRIPT: Final = """
import time
began = time.time()
import json, os, sys
from pathlib import Path
with open("/proc/uptime") as file:
    up = float(file.read().split()[0])
with open("/proc/self/stat") as file:
    ticks = int(file.read().rsplit(")", 1)[1].split()[19])
python = time.time() - (up - ticks / os.sysconf("SC_CLK_TCK"))
from pyspark.sql import SparkSession
imported = time.time()
checkpoint, result, ours = sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "ours"
spark = SparkSession.builder.getOrCreate()
session = time.time()
rows = (spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000)
        .option("numPartitions", 1).load().selectExpr("value % 10 AS key")
        .groupBy("key").count().writeStream.outputMode("update").format("noop"))
if not ours:
    rows = rows.option("checkpointLocation", checkpoint)
query = rows.queryName("q").start()
started = time.time()
folders = [Path(checkpoint, "commits"), Path(checkpoint, "q", "commits")]
while not any((folder / "0").exists() for folder in folders):
    time.sleep(0.01)
committed = time.time()
result.write_text(json.dumps([python, began, imported, session, started, committed]))
query.stop()
"""

PARTS: Final = (
    "spark-submit and JVM, until Python starts",
    "Python, until the script's first line",
    "import of pyspark by the script",
    "session",
    "start of the query",
    "first batch, until its commit",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--runtime", type=Path, default=REPOSITORY / ".runtimes" / "spark-4.3")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-archive", action="store_true", help="without class data archives")
    args = parser.parse_args()
    heed_signals()
    homes = list(args.runtime.glob("lib/python*/site-packages/pyspark"))
    if not homes:
        print(f"There is no Spark in {args.runtime}; run 'make setup' or give --runtime.")
        return 2
    print(machine())
    with tempfile.TemporaryDirectory(prefix="airflow-streaming-bench-") as made:
        archive = Path(made) / "spark.jsa"
        # The first run fills the caches of the disk and of Python, and makes the archive.
        made_by = "" if args.no_archive else f"-XX:ArchiveClassesAtExit={archive}"
        at = time.monotonic()
        run("bare", homes[0], args.runtime, made_by)
        print(f"first run, not counted: {time.monotonic() - at:.0f} s", flush=True)
        if archive.exists():
            print(f"class data archive: {archive.stat().st_size / 2**20:.0f} MiB")
        shared = f"-XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
        kinds = {"bare": "", "ours": ""}
        if archive.exists():
            kinds |= {"bare, archive": shared, "ours, archive": shared}
        times: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
        for turn in range(args.rounds):
            order = list(kinds)[turn % len(kinds) :] + list(kinds)[: turn % len(kinds)]
            for kind in order:
                times[kind].append(run(kind, homes[0], args.runtime, kinds[kind]))
            print(f"round {turn + 1} of {args.rounds}", file=sys.stderr, flush=True)
    show(times)
    return 0


def run(kind: str, spark_home: Path, runtime: Path, java: str) -> list[float]:
    """Start one driver and return the seconds of its parts."""
    with tempfile.TemporaryDirectory(prefix="airflow-streaming-bench-") as made:
        folder = Path(made)
        script, result = folder / "script.py", folder / "times.json"
        script.write_text(SCRIPT)
        who = kind.split(",")[0]
        arguments = [str(folder / "checkpoint"), str(result), who]
        command = [str(script), *arguments]
        if who == "ours":
            command = wrapped(folder, script, arguments)
        python = str(runtime / "bin" / "python")
        spark = {"SPARK_HOME": str(spark_home), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": ""}
        mine = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        options = ("--driver-java-options", java) if java else ()
        began = time.time()
        done = subprocess.run(
            [
                str(spark_home / "bin" / "spark-submit"),
                *("--master", "local[2]"),
                *("--conf", "spark.ui.enabled=false"),
                *("--conf", "spark.sql.shuffle.partitions=2"),
                *options,
                *command,
            ],
            env={**mine, **spark, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        if not result.exists():
            sys.exit(f"The driver ({kind}) failed:\n{done.stdout}\n{done.stderr}")
        moments = [began, *json.loads(result.read_text())]
        return [after - before for before, after in itertools.pairwise(moments)]


def wrapped(folder: Path, script: Path, arguments: list[str]) -> list[str]:
    """Lay out a home with one deployment and one epoch, and return what is submitted."""
    package = build_driver_package(Path(tempfile.gettempdir()) / "airflow-streaming-bench", PACKAGE)
    home = folder / "home"
    home.mkdir()
    deploy(LocalStore(str(home)), script, arguments)
    told = ["--home", str(home), "--stream", "bench", "--epoch", "1", "--token", mark_of("bench")]
    return ["--py-files", str(package.archive), str(package.main), *told]


def show(times: dict[str, list[list[float]]]) -> None:
    """Print the medians of the parts side by side."""
    kinds = list(times)
    rows = []
    for number, part in enumerate(PARTS):
        medians = [statistics.median(one[number] for one in times[kind]) for kind in kinds]
        rows.append([part, *(f"{seconds:.2f}" for seconds in medians)])
    totals = {kind: [sum(one) for one in runs] for kind, runs in times.items()}
    rows.append(["all of it", *(f"{statistics.median(totals[kind]):.2f}" for kind in kinds)])
    rows.append(["least", *(f"{min(totals[kind]):.2f}" for kind in kinds)])
    rows.append(["most", *(f"{max(totals[kind]):.2f}" for kind in kinds)])
    print(f"\nmedian seconds of {len(times['bare'])} starts each")
    print(table(["", *kinds], rows))


if __name__ == "__main__":
    sys.exit(main())
