"""
How long is a stream down when its driver is killed, and what does it cost to watch for that?

One script runs under four keepers, one after the other: a shell loop around ``spark-submit``, this
provider without and with a hot standby, and ``SparkSubmitOperator`` with retries and no retry delay. The loop runs twice, on a
machine of its own and beside an idle Airflow, so that Airflow's appetite can be told from the time
a keeper needs. The driver's JVM gets SIGKILL at random moments; the clock runs until the checkpoint
has a commit that it had not when the JVM was gone. Meanwhile Airflow is asked twice a second how
many worker slots the keeper's dag takes.

    python -m benchmarks.restart --kills 3

Goal: the provider's median is at most 8 s above that of the loop alone (5 s between two looks, 1 to
2 s to resume). A standby is warm when its driver is killed. ``--only`` runs the named keepers alone,
and then no goal is judged.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import psutil

from airflow_streaming.launch.environment import driver_environment
from airflow_streaming.launch.runtime import Runtime, resolve_runtime
from benchmarks.figures import end_all, heed_signals, machine, table
from benchmarks.keepers import DAGS, Keeper, Provider, ShellLoop, Submit
from demo.airflow import Airflow
from demo.stage import MARK, REPOSITORY
from demo.waiting import Progress, Say, wait_for

GOAL_SECONDS: Final = 8.0
KEEPERS: Final = ("loop", "beside", "provider", "standby", "submit")
PATIENCE: Final = 180.0
LOOK_SECONDS: Final = 0.02
SAMPLE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """
    What one keeper needed.

    :param restarts: Seconds from each kill to the next commit.
    :param watched: Seconds over which slots were counted.
    :param slot_seconds: Worker slots taken, integrated over them.
    """

    name: str
    restarts: Sequence[float]
    watched: float
    slot_seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=KEEPERS, default=KEEPERS)
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    parser.add_argument("--runtime", type=Path, default=REPOSITORY / ".runtimes" / "spark-4.3")
    args = parser.parse_args()
    heed_signals()
    say = Progress()
    runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(args.runtime.absolute())})
    with tempfile.TemporaryDirectory(
        prefix="airflow-streaming-bench-", ignore_cleanup_errors=True
    ) as made:
        folder = Path(made).resolve()
        os.environ[MARK] = str(folder)
        try:
            bench = Bench(folder, runtime, kills=args.kills, seed=args.seed, say=say)
            results = bench.run(args.runtime.absolute(), args.only)
        except (RuntimeError, KeyboardInterrupt) as err:
            say(f"The benchmark ended early: {str(err) or 'it was interrupted'}")
            return 2
        finally:
            left = end_all(folder, say)
    return tell(results, left)


class Bench:
    """Runs every keeper in turn; two Sparks never run at once."""

    def __init__(self, folder: Path, runtime: Runtime, *, kills: int, seed: int, say: Say) -> None:
        self._folder, self._runtime, self._say = folder, runtime, say
        self._kills, self._seed = kills, seed
        self._environment = {
            **driver_environment(os.environ, runtime, {}),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def run(self, path: Path, only: Sequence[str]) -> list[Result]:
        airflow = Airflow(
            self._folder / "airflow", dags=DAGS, environment=self._airflow_settings(path)
        )
        streams = self._folder / "streams"
        beside: dict[str, Callable[[], Keeper]] = {
            "beside": lambda: self._loop("shell loop beside Airflow"),
            "provider": lambda: Provider(streams, airflow),
            "standby": lambda: Provider(streams, airflow, standby=True),
            "submit": lambda: Submit(self._folder / "submitted", airflow),
        }
        results = [self._measure(self._loop("shell loop alone"))] if "loop" in only else []
        try:
            airflow.start(self._say)
            results += [self._measure(make()) for name, make in beside.items() if name in only]
        finally:
            self._say("Stopping Airflow")
            airflow.stop()
        return results

    def _loop(self, name: str) -> ShellLoop:
        folder = self._folder / name.replace(" ", "-")
        return ShellLoop(name, folder, self._runtime, self._environment)

    def _airflow_settings(self, path: Path) -> Mapping[str, str]:
        binaries = str(self._runtime.spark_home / "bin")
        return {
            MARK: str(self._folder),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW_VAR_STREAMS_HOME": str(self._folder / "streams"),
            "AIRFLOW_VAR_SUBMITTED": str(self._folder / "submitted"),
            "AIRFLOW__STREAMING__RUNTIMES": json.dumps({"spark-4.3": str(path)}),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # SparkSubmitOperator takes its Spark from the worker's environment.
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "SPARK_HOME": str(self._runtime.spark_home),
            "PYSPARK_PYTHON": str(self._runtime.python),
        }

    def _measure(self, keeper: Keeper) -> Result:
        chance = random.Random(self._seed)
        self._say(f"== {keeper.name} ==")
        try:
            keeper.start(self._say)
            wait_for(
                lambda: newest_commit(keeper) >= 0,
                what="the first batch",
                seconds=PATIENCE,
                say=self._say,
            )
            with SlotMeter(keeper.slots) as meter:
                restarts = [
                    self._kill_once(keeper, chance.uniform(*keeper.rest_seconds))
                    for _ in range(self._kills)
                ]
        finally:
            keeper.stop(self._say)
        return Result(
            name=keeper.name,
            restarts=restarts,
            watched=meter.watched,
            slot_seconds=meter.slot_seconds,
        )

    def _kill_once(self, keeper: Keeper, rest: float) -> float:
        time.sleep(rest)
        wait_for(
            keeper.is_ready,
            what=f"{keeper.name} to be ready",
            seconds=PATIENCE,
            say=self._say,
        )
        driver = keeper.driver()
        if driver is None:
            raise RuntimeError(f"{keeper.name}: there is no driver to kill in {keeper.folder}.")
        began = time.monotonic()
        driver.kill()
        while is_alive(driver) and time.monotonic() - began < PATIENCE:
            time.sleep(LOOK_SECONDS)
        last = newest_commit(keeper)
        while newest_commit(keeper) <= last:
            if time.monotonic() - began > PATIENCE:
                raise RuntimeError(f"{keeper.name}: no batch within {PATIENCE:.0f} s of the kill.")
            time.sleep(LOOK_SECONDS)
        took = time.monotonic() - began
        self._say(f"{keeper.name}: killed JVM {driver.pid}, next batch after {took:.1f} s")
        return took


class SlotMeter(threading.Thread):
    """
    Integrates the worker slots that are taken, from samples.

    :param slots: Returns how many are taken now.
    """

    def __init__(self, slots: Callable[[], int]) -> None:
        super().__init__(name="slot-meter", daemon=True)
        self._slots = slots
        self._ending = threading.Event()
        self.watched = 0.0
        self.slot_seconds = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self.join()

    def run(self) -> None:
        before, taken = time.monotonic(), 0
        while True:
            with contextlib.suppress(OSError):  # a busy API server: the last answer holds
                taken = self._slots()
            is_last = self._ending.wait(SAMPLE_SECONDS)
            now = time.monotonic()
            self.watched += now - before
            self.slot_seconds += taken * (now - before)
            before = now
            if is_last:
                return


def newest_commit(keeper: Keeper) -> int:
    """Return the newest committed batch in the checkpoint, or -1."""
    try:
        names = os.listdir(keeper.commits())  # noqa: PTH208  # fifty times a second
    except FileNotFoundError:
        return -1
    return max((int(name) for name in names if name.isdigit()), default=-1)


def is_alive(process: psutil.Process) -> bool:
    """Tell whether a process can still write; a zombie that is never reaped cannot."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def tell(results: Sequence[Result], left: int) -> int:
    """Print the comparison; the exit code is 1 when the goal was missed."""
    rows = [
        [
            result.name,
            str(len(result.restarts)),
            f"{statistics.median(result.restarts):.1f}",
            f"{max(result.restarts):.1f}",
            f"{result.slot_seconds:.1f}",
            f"{result.watched:.0f}",
        ]
        for result in results
    ]
    print(f"\n{machine()}\n\nSeconds from SIGKILL of the driver's JVM to the next committed batch")
    print(table(["", "kills", "median", "max", "slot seconds", "of seconds"], rows))
    if len(results) < len(KEEPERS):
        return 0 if left == 0 else 1
    alone, beside, provider, _, _ = (statistics.median(result.restarts) for result in results)
    more = provider - alone
    print(
        f"\nThe provider needs {more:+.1f} s over the loop alone "
        f"({provider - beside:+.1f} s over the loop beside Airflow); the goal is at most "
        f"{GOAL_SECONDS:.0f} s: {'met' if more <= GOAL_SECONDS else 'missed'}."
    )
    return 0 if more <= GOAL_SECONDS and left == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
