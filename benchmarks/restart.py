"""
How long is a stream down when its driver is killed, and what does it cost to watch for that?

One script runs under several keepers at once, each with a stream of its own: a shell loop around
``spark-submit``, the same loop with the class data archive that the provider makes, this provider without and with a
hot standby, and ``SparkSubmitOperator`` with retries and no retry delay, the last three in one real Airflow. In every round each driver's JVM gets SIGKILL once, one
after the other in a random order, when no keeper starts anything; the clock runs until the checkpoint has a
commit that it had not when the JVM was gone. So all keepers meet the same machine. Meanwhile Airflow is asked
once a second which worker slots are taken.

    python -m benchmarks.restart --kills 20            # on a machine that does nothing else
    python -m benchmarks.restart --kills 20 --busy 3   # beside so many processes that compute without end

Goals: the provider's median is at most 1.5 s above that of the loop; with a standby it is at most 5 s, and 8 s
beside others. ``--only`` runs the named keepers alone, and goals of what did not run are not judged.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import psutil

from airflow_streaming.launch.runtime import resolve_runtime
from benchmarks.figures import end_all, heed_signals, machine, table
from benchmarks.keepers import DAGS, Keeper, Provider, ShellLoop, Submit, taken_slots
from demo.airflow import Airflow
from demo.stage import MARK, REPOSITORY
from demo.waiting import Progress, Say, wait_for

OVER_LOOP_SECONDS: Final = 1.5
STANDBY_SECONDS: Final = 5.0
STANDBY_BUSY_SECONDS: Final = 8.0
KEEPERS: Final = ("loop", "archived", "provider", "standby", "submit")
PATIENCE: Final = 300.0
LOOK_SECONDS: Final = 0.02
SAMPLE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """
    What one kill brought.

    :param until_driver: Seconds from the kill to the start of the next driver's JVM; negative if it waited.
    :param until_commit: Seconds from the kill to the next commit.
    """

    until_driver: float
    until_commit: float


@dataclass(slots=True)
class Kept:
    """A keeper, and what was seen of it."""

    keeper: Keeper
    restarts: list[Restart] = field(default_factory=list)
    rested_at: float = 0.0
    """Moment from which its driver may be killed again, in :func:`time.monotonic`'s seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--kills", type=int, default=3, help="of each keeper's driver")
    parser.add_argument("--busy", type=int, default=0, help="processes that compute meanwhile")
    parser.add_argument("--only", nargs="*", choices=KEEPERS, default=KEEPERS)
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    parser.add_argument("--runtime", type=Path, default=REPOSITORY / ".runtimes" / "spark-4.3")
    args = parser.parse_args()
    heed_signals()
    say = Progress()
    with tempfile.TemporaryDirectory(
        prefix="airflow-streaming-bench-", ignore_cleanup_errors=True
    ) as made:
        folder = Path(made).resolve()
        os.environ[MARK] = str(folder)
        bench = Bench(folder, args.runtime.absolute(), seed=args.seed, say=say)
        try:
            bench.run(args.only, kills=args.kills, busy=args.busy)
        except (RuntimeError, KeyboardInterrupt) as err:
            say(f"The benchmark ended early: {str(err) or 'it was interrupted'}")
            return 2
        finally:
            left = end_all(folder, say)
    return tell(bench, left, is_busy=args.busy > 0)


class Bench:
    """
    Runs all keepers at once and kills their drivers in turn.

    :param folder: Holds all of it, and marks its processes.
    :param runtime: The folder with Spark.
    """

    def __init__(self, folder: Path, runtime: Path, *, seed: int, say: Say) -> None:
        self._folder, self._say = folder, say
        self._runtimes = {"spark-4.3": str(runtime)}
        self._runtime = resolve_runtime("spark-4.3", self._runtimes)
        self._chance = random.Random(seed)
        self._airflow = Airflow(folder / "airflow", dags=DAGS, environment=self._airflow_settings())
        self.kept: dict[str, Kept] = {}
        self.meter = SlotMeter(self._airflow)
        self.loads: list[float] = []

    def run(self, only: Sequence[str], *, kills: int, busy: int) -> None:
        """
        Start the keepers, kill each one's driver so often, and stop them.

        :raises RuntimeError: a keeper brought no batch in time, or a component of Airflow ended.
        """
        try:
            self._airflow.start(self._say)
            for name in only:
                self._start(name)
            with self.meter, burning(busy):
                for round_ in range(1, kills + 1):
                    self._say(f"== round {round_} of {kills} ==")
                    self._kill_each()
        finally:
            for kept in self.kept.values():
                kept.keeper.stop(self._say)
            self._say("Stopping Airflow")
            self._airflow.stop()

    def _start(self, name: str) -> None:
        """Start a keeper and wait for its first batch, so that no two start at once."""
        keeper = self._make(name)
        self.kept[name] = Kept(keeper)
        keeper.start(self._say)
        wait_for(
            lambda: newest_commit(keeper) >= 0,
            what=f"the first batch of {keeper.name}",
            seconds=PATIENCE,
            say=self._say,
        )
        self.kept[name].rested_at = time.monotonic() + keeper.rest_seconds[0]

    def _make(self, name: str) -> Keeper:
        streams = self._folder / "streams"
        match name:
            case "loop" | "archived":
                return ShellLoop(self._folder / name, self._runtime, has_archive=name == "archived")
            case "submit":
                return Submit(self._folder / "submitted", self._airflow)
            case _:
                return Provider(streams, self._airflow, standby=name == "standby")

    def _airflow_settings(self) -> Mapping[str, str]:
        home = self._runtime.spark_home
        return {
            MARK: str(self._folder),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW_VAR_STREAMS_HOME": str(self._folder / "streams"),
            "AIRFLOW_VAR_SUBMITTED": str(self._folder / "submitted"),
            "AIRFLOW__STREAMING__RUNTIMES": json.dumps(self._runtimes),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # SparkSubmitOperator takes its Spark from the worker's environment.
            "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": str(self._runtime.python),
        }

    def _kill_each(self) -> None:
        kept = list(self.kept.values())
        self._chance.shuffle(kept)
        for one in kept:
            self._await_calm(one)
            self.loads.append(os.getloadavg()[0])
            one.restarts.append(self._kill(one.keeper))
            one.rested_at = time.monotonic() + self._chance.uniform(*one.keeper.rest_seconds)

    def _await_calm(self, one: Kept) -> None:
        """Wait until this keeper has rested and no keeper starts anything."""
        time.sleep(max(0.0, one.rested_at - time.monotonic()))
        wait_for(
            lambda: all(other.keeper.is_ready() for other in self.kept.values()),
            what="all keepers to be ready",
            seconds=PATIENCE,
            say=self._say,
        )

    def _kill(self, keeper: Keeper) -> Restart:
        driver = keeper.driver()
        if driver is None:
            raise RuntimeError(f"{keeper.name}: there is no driver to kill in {keeper.folder}.")
        began, since = time.monotonic(), time.time()
        driver.kill()
        while is_alive(driver) and time.monotonic() - began < PATIENCE:
            time.sleep(LOOK_SECONDS)
        last = newest_commit(keeper)
        while newest_commit(keeper) <= last:
            if time.monotonic() - began > PATIENCE:
                raise RuntimeError(f"{keeper.name}: no batch within {PATIENCE:.0f} s of the kill.")
            time.sleep(LOOK_SECONDS)
        took = time.monotonic() - began
        successor = keeper.driver()
        if successor is None:
            raise RuntimeError(f"{keeper.name}: its driver committed a batch and ended.")
        launched = successor.create_time() - since
        self._say(
            f"{keeper.name}: next driver after {launched:.1f} s, next batch after {took:.1f} s"
        )
        return Restart(until_driver=launched, until_commit=took)


class SlotMeter(threading.Thread):
    """
    Integrates the worker slots that are taken, from samples.

    :param airflow: Is asked which dags' tasks take slots now.
    """

    def __init__(self, airflow: Airflow) -> None:
        super().__init__(name="slot-meter", daemon=True)
        self._airflow = airflow
        self._ending = threading.Event()
        self.watched = 0.0
        self.slot_seconds: defaultdict[str, float] = defaultdict(float)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self.join()

    def run(self) -> None:
        before = time.monotonic()
        taken: Mapping[str, int] = {}
        while True:
            with contextlib.suppress(OSError):  # a busy API server: the last answer holds
                taken = taken_slots(self._airflow)
            is_last = self._ending.wait(SAMPLE_SECONDS)
            now = time.monotonic()
            self.watched += now - before
            for dag_id, slots in taken.items():
                self.slot_seconds[dag_id] += slots * (now - before)
            before = now
            if is_last:
                return


@contextlib.contextmanager
def burning(processes: int) -> Iterator[None]:
    """Have so many processes compute without end, in the block."""
    burners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)
    ]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


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


def tell(bench: Bench, left: int, *, is_busy: bool) -> int:
    """Print the comparison; the exit code is 1 when a goal was missed."""
    rows = [
        [
            kept.keeper.name,
            str(len(kept.restarts)),
            *spread([restart.until_driver for restart in kept.restarts]),
            *spread([restart.until_commit for restart in kept.restarts]),
            f"{bench.meter.slot_seconds[kept.keeper.dag_id]:.0f}" if kept.keeper.dag_id else "-",
        ]
        for kept in bench.kept.values()
    ]
    load = f"{min(bench.loads):.1f} to {max(bench.loads):.1f}, median {statistics.median(bench.loads):.1f}"
    print(f"\n{machine()}; at the kills {load}")
    print(
        f"Seconds from SIGKILL of the driver's JVM; worker slots over {bench.meter.watched:.0f} s\n"
    )
    head = ["", "kills", "next driver", "max", "next commit", "max", "slot seconds"]
    print(table(head, rows))
    is_met = [left == 0]
    medians = {
        name: statistics.median(restart.until_commit for restart in kept.restarts)
        for name, kept in bench.kept.items()
    }
    if "loop" in medians and "provider" in medians:
        more = medians["provider"] - medians["loop"]
        is_met.append(judge("The provider over the loop", more, OVER_LOOP_SECONDS))
    if "archived" in medians and "provider" in medians:
        more = medians["provider"] - medians["archived"]
        print(f"The provider over a loop with the provider's archive: {more:.1f} s.")
    if "standby" in medians:
        goal = STANDBY_BUSY_SECONDS if is_busy else STANDBY_SECONDS
        is_met.append(judge("With a standby", medians["standby"], goal))
    return 0 if all(is_met) else 1


def spread(seconds: Sequence[float]) -> tuple[str, str]:
    """Return the median and the largest of some seconds, as text."""
    return f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}"


def judge(what: str, seconds: float, goal: float) -> bool:
    """Print whether a goal is met, and return it."""
    print(
        f"{what}: {seconds:.1f} s; goal at most {goal:.1f} s: {'met' if seconds <= goal else 'missed'}."
    )
    return seconds <= goal


if __name__ == "__main__":
    sys.exit(main())
