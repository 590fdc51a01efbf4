"""
What does a dag file with a stream cost at parse, beyond the cost of Airflow alone?

Every figure is the median over fresh interpreters. Airflow is imported first and is not counted; it
loads parts of itself only when a dag is made, so a second base line makes a plain dag first. The
goal is held against CPU time: an import computes, and on a busy machine the wall clock tells of the
neighbors. What Airflow has loaded is frozen, as its dag processor does before it parses: otherwise
one pass of the garbage collector over all of Airflow (80 ms) falls on the code that runs by chance.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import table
from demo.stage import REPOSITORY

GOAL_MS = 120.0
ROUNDS = 5

BARE = "from airflow.sdk import DAG, BaseOperator"
PLAIN = """
from airflow.sdk import DAG, BaseOperator, BaseSensorOperator, Param, task
from airflow.triggers.base import BaseTrigger

with DAG("plain", schedule="@continuous", max_active_runs=1, params={"x": Param("a",
type="string")}):
    @task
    def work(): ...

    BaseOperator(task_id="plain") >> work()
"""
MEASURE = """
import gc, runpy, sys, time

base, what = sys.argv[1:]
def clocks():
    return time.perf_counter(), time.process_time()

began = clocks()
exec(base, {})
ready = clocks()
gc.freeze()
times = [began, ready, clocks()]
runpy.run_path(what) if what.endswith(".py") else __import__(what)
times.append(clocks())
print(*(after - before for a, b in [times[:2], times[2:]] for before, after in zip(a, b)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Milliseconds of the base line, and of what came on top of it."""

    base_wall: float
    base_cpu: float
    wall: float
    cpu: float


def parse_costs(environment: Mapping[str, str]) -> tuple[str, bool]:
    """Return the table, and whether the goal is met by every row."""
    dags = sorted((REPOSITORY / "dags").glob("*.py"))
    names = {"airflow_streaming": "import airflow_streaming"}
    names |= {str(dag): f"parse dags/{dag.name}" for dag in dags}
    rows, worst = [], 0.0
    for what, name in names.items():
        bare, plain = (cost_of(base, what, environment) for base in (BARE, PLAIN))
        worst = max(worst, plain.cpu)
        rows.append([name, *_shown(bare.wall, bare.cpu, plain.wall, plain.cpu)])
    rows.append(
        ["(base line)", *_shown(bare.base_wall, bare.base_cpu, plain.base_wall, plain.base_cpu)]
    )
    head = ["milliseconds", "over airflow.sdk", "CPU", "over a plain dag", "CPU"]
    return table(head, rows), worst <= GOAL_MS


def cost_of(base: str, what: str, environment: Mapping[str, str]) -> Cost:
    """Return the medians over fresh interpreters."""
    runs = [_run(base, what, environment) for _ in range(ROUNDS)]
    medians = [1000 * statistics.median(column) for column in zip(*runs, strict=True)]
    return Cost(base_wall=medians[0], base_cpu=medians[1], wall=medians[2], cpu=medians[3])


def _shown(*milliseconds: float) -> list[str]:
    return [f"{value:.0f}" for value in milliseconds]


def _run(base: str, what: str, environment: Mapping[str, str]) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, base, what],
        env={**os.environ, **environment},
        cwd=Path(environment["AIRFLOW_HOME"]),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return [float(figure) for figure in done.stdout.splitlines()[-1].split()]
