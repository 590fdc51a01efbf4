"""
How long do the checks of an upgrade take, and how many JVMs do they start?

The Spark jobs of one run of each kind, once with a Spark for every job and once with a shared one, in turns:

- ``upgrade``: plan mode and the rehearsal;
- ``gate``: ``gate change --old-script OLD --rehearse``, which makes two plans and rehearses;
- ``cutover``: the preflight of a cutover of three streams, which makes three plans.

The checkpoints are those of three small queries that really ran. A JVM is a process ``java``; each Spark has
two, because Spark's launcher is a short one of its own. The driver that an upgrade starts comes on top,
in both columns.

    python -m benchmarks.upgrade_checks --rounds 2
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, Self

import psutil

from airflow_streaming.checkpoints.copies import checkpoints_at
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.launch.runtime import Runtime, resolve_runtime
from airflow_streaming.model.jobs.rehearsal import Bounds
from airflow_streaming.spark_jobs import runner
from airflow_streaming.spark_jobs.plan_mode import plan_script
from airflow_streaming.spark_jobs.rehearsal import rehearse
from airflow_streaming.spark_jobs.runner import Program, RunningJob, Task
from airflow_streaming.spark_jobs.shared_spark import SharedSpark
from benchmarks.figures import heed_signals, machine, table
from tests.conftest import find_runtimes
from tests.integration.upgrade.test_rehearsal_compare import SCRIPT, World

APART, SHARED = "a Spark for each job", "one shared Spark"
STREAMS: Final = 3
QUERIES: Final = 3
BOUNDS: Final = Bounds(batches=3)
LOOK_SECONDS: Final = 0.02


class Apart(SharedSpark):
    """Starts each job in a Spark of its own."""

    def started(
        self, task: Task, runtime: Runtime, program: Program | None, scratch: Path
    ) -> AbstractContextManager[RunningJob]:
        return runner.started(task, runtime, program, scratch)


class Jvms:
    """Counts the processes ``java`` that start below this one, in a thread of its own."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, float]] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jvms", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def count(self) -> int:
        return len(self._seen)

    def _run(self) -> None:
        ours = psutil.Process()
        while not self._over.wait(LOOK_SECONDS):
            with contextlib.suppress(psutil.Error):
                for process in ours.children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        if process.name() == "java":
                            self._seen.add((process.pid, process.create_time()))


class Checks:
    """The jobs of one run of each kind."""

    def __init__(self, world: World) -> None:
        arguments = (str(world.input), str(world.checkpoints))
        self._old = Program(
            application=str(SCRIPT), source=SCRIPT.read_bytes(), arguments=arguments
        )
        self._new = replace(self._old, source=self._old.source + b"# another version\n")
        self._runtime, self._place = world.runtime, checkpoints_at(str(world.checkpoints))

    def upgrade(self, spark: SharedSpark) -> None:
        """Plan and rehearse."""
        self._plan(self._new, spark)
        found = rehearse(*(self._place, self._new, self._runtime), bounds=BOUNDS, spark=spark)
        check(found.decision is GateDecision.ALLOWED, found.findings)

    def gate(self, spark: SharedSpark) -> None:
        """Plan both versions and rehearse."""
        self._plan(self._old, spark)
        self.upgrade(spark)

    def cutover(self, spark: SharedSpark) -> None:
        """Plan the scripts of several streams."""
        for _ in range(STREAMS):
            self._plan(self._new, spark)

    def _plan(self, program: Program, spark: SharedSpark) -> None:
        plan = plan_script(program, self._runtime, spark=spark)
        check(len(plan.queries) == QUERIES, plan.problem)


def check(is_right: bool, found: object) -> None:
    """End the benchmark where a job has not done its work."""
    if not is_right:
        raise SystemExit(f"A job found something else than it should: {found}")


class Cost(NamedTuple):
    """What one run cost."""

    seconds: float
    jvms: int


def measured(work: Callable[[SharedSpark], None], spark: SharedSpark) -> Cost:
    """Run the jobs of one run and return what they cost."""
    began = time.monotonic()
    with Jvms() as jvms, spark:
        work(spark)
    return Cost(time.monotonic() - began, jvms.count)


def rows(costs: Mapping[tuple[str, str], Sequence[Cost]]) -> Iterator[Sequence[str]]:
    """Yield a row for each kind: seconds and JVMs of both ways, side by side."""
    for kind in dict.fromkeys(kind for kind, _ in costs):
        cells = [kind]
        for way in (APART, SHARED):
            found = costs[kind, way]
            seconds = statistics.median(cost.seconds for cost in found)
            cells += [f"{seconds:.1f}", str(max(cost.jvms for cost in found))]
        yield cells


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print both ways side by side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--runtime", type=Path, default=find_runtimes().get("spark-4.3"))
    kinds = ("upgrade", "gate", "cutover")
    parser.add_argument("--only", nargs="*", choices=kinds, default=kinds)
    given = parser.parse_args(arguments)
    if given.runtime is None:
        parser.error("there is no runtime spark-4.3; name one with --runtime")
    heed_signals()
    print(machine(), flush=True)
    costs: dict[tuple[str, str], list[Cost]] = {}
    with tempfile.TemporaryDirectory(prefix="upgrade-checks-") as folder:
        runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(given.runtime)})
        checks = Checks(World(Path(folder), runtime))
        for _ in range(given.rounds):
            for kind in given.only:
                for way, spark in ((APART, Apart()), (SHARED, SharedSpark())):
                    cost = measured(getattr(checks, kind), spark)
                    costs.setdefault((kind, way), []).append(cost)
                    load = os.getloadavg()[0]
                    print(
                        f"{kind}, {way}: {cost.seconds:.1f} s, {cost.jvms} JVMs; load {load:.1f}",
                        flush=True,
                    )
    print(table(("run", "s, apart", "JVMs", "s, shared", "JVMs"), [*rows(costs)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
