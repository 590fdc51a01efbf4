"""
How long does a task hold its worker slot to launch a driver, or to adopt one?

From ``execute()`` to the deferral, each time in a fresh interpreter, with the real launcher and the
real ``spark-submit``. The first launch finds a fresh home. Every driver is killed as soon as its
launch is measured, and the next task finds it dead, settles that and relaunches. After some
launches a second task meets the running driver and adopts it. Two measures stand beside it:
starting ``spark-submit`` and nothing else, and how long the Spark provider's hook holds the slot
until the script's first line runs; it then keeps holding it until the application ends.

    python -m benchmarks.launch --launches 30

Goal: 95 of 100 launches in under 3 s. A second table tells what the provider costs at dag parse;
goal: 120 ms over what Airflow needs itself.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from airflow_streaming.home.home import StreamHome, init_home, open_home
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.runtime import Runtime, resolve_runtime
from benchmarks.figures import end_all, heed_signals, machine, percentile, table
from benchmarks.imports import GOAL_PARSE_MS, parse_costs
from benchmarks.one_launch import measured
from demo.stage import MARK, REPOSITORY
from demo.waiting import Progress, Say

GOAL_SECONDS = 3.0
PEERS = 10
ADOPT_EVERY = 3

SCRIPT = """
import pathlib, sys, time
pathlib.Path(sys.argv[1]).touch()
time.sleep(60)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--launches", type=int, default=30)
    parser.add_argument("--runtime", type=Path, default=REPOSITORY / ".runtimes" / "spark-4.3")
    args = parser.parse_args()
    heed_signals()
    say = Progress()
    with tempfile.TemporaryDirectory(prefix="airflow-streaming-bench-") as made:
        folder = Path(made).resolve()
        os.environ[MARK] = str(folder)
        bench = Bench(folder, args.runtime.absolute(), say)
        try:
            times = bench.measure(max(args.launches, 2))
            say("Measuring imports in fresh interpreters")
            imports, is_cheap = parse_costs(bench.environment)
        finally:
            left = end_all(folder, say)
    return tell(times, imports, is_cheap=is_cheap, left=left)


class Bench:
    """
    A home, a runtime and an Airflow that is only settings.

    :param folder: Everything lies here.
    :param path: The Spark runtime: a virtual environment with pyspark.
    """

    def __init__(self, folder: Path, path: Path, say: Say) -> None:
        self.folder, self._say = folder, say
        self.runtime: Runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(path)})
        (folder / "script.py").write_text(SCRIPT)
        init_home(str(folder / "home"))
        self.environment = {
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
            "AIRFLOW__STREAMING__RUNTIMES": json.dumps({"spark-4.3": str(path)}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "SPARK_LOCAL_IP": "127.0.0.1",
            MARK: str(folder),
        }
        self._launcher = LocalLauncher()

    def measure(self, launches: int) -> dict[str, list[float]]:
        times: dict[str, list[float]] = {"first": [], "relaunch": [], "adopt": []}
        for number in range(1, launches + 1):
            took = self._one("execute")
            times["relaunch" if times["first"] else "first"].append(took)
            self._expect(epoch=number)
            if number % ADOPT_EVERY == 0:
                times["adopt"].append(self._one("execute"))
                self._expect(epoch=number)
            self._kill()
            self._say(f"launch {number} of {launches}: {took:.2f} s")
        self._say(f"Measuring spark-submit alone and the Spark provider's hook, {PEERS} times each")
        times["popen"] = [self._popen() for _ in range(PEERS)]
        times["submit"] = [self._submit() for _ in range(PEERS)]
        return times

    def _one(self, what: str) -> float:
        bin_folder = str(self.runtime.spark_home / "bin")
        spark = {
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "SPARK_HOME": str(self.runtime.spark_home),
            "PYSPARK_PYTHON": str(self.runtime.python),
        }
        environment = {**os.environ, **self.environment, **spark}
        return measured(what, str(self.folder), environment=environment).seconds

    def _expect(self, *, epoch: int) -> None:
        newest = self._home().newest_epoch()
        if newest is None or newest.number != epoch:
            sys.exit(f"Expected epoch {epoch} after this launch, found {newest}.")

    def _kill(self) -> None:
        home = self._home()
        epoch = home.newest_epoch()
        if epoch is not None:
            self._launcher.kill(epoch, home.launch(epoch.number))

    def _popen(self) -> float:
        command = [str(self.runtime.spark_submit), "--master", "local[2]"]
        command += [str(self.folder / "script.py"), str(self.folder / "begun")]
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        took = time.perf_counter() - began
        process.kill()
        process.wait()
        return took

    def _submit(self) -> float:
        took = self._one("submit")
        end_all(self.folder, lambda line: None)
        return took

    def _home(self) -> StreamHome:
        return open_home(str(self.folder / "home")).stream("launched")


def tell(times: dict[str, list[float]], imports: str, *, is_cheap: bool, left: int) -> int:
    """Print the figures; the exit code is 1 when a goal was missed."""
    names = {
        "first": "first launch, fresh home",
        "relaunch": "relaunch after a kill",
        "adopt": "adoption of a running driver",
        "popen": "spark-submit started, nothing else",
        "submit": "SparkSubmitHook until the script begins",
    }
    print(f"\n{machine()}\n\nSeconds, each in a fresh interpreter")
    rows = [[names[kind], *_row(values)] for kind, values in times.items() if values]
    print(table(["", "n", "median", "p95", "max"], rows))
    launches = times["first"] + times["relaunch"]
    p95 = percentile(launches, 0.95)
    print(f"\nexecute() to deferred, all launches: p95 {p95:.2f} s; the goal is < {GOAL_SECONDS} s")
    print(f"\n{imports}")
    print(
        f"the goal, {GOAL_PARSE_MS:.0f} ms of CPU over a plain dag, is {'met' if is_cheap else 'missed'}"
    )
    return 0 if p95 < GOAL_SECONDS and is_cheap and left == 0 else 1


def _row(values: Sequence[float]) -> list[str]:
    told = (statistics.median(values), percentile(values, 0.95), max(values))
    return [str(len(values)), *(f"{value:.3f}" for value in told)]


if __name__ == "__main__":
    sys.exit(main())
