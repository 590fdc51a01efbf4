"""
What do our modules cost where Airflow imports them, beside what others cost there?

A DAG file is parsed every half minute, so its imports are paid again and again; a task and a triggerer
pay theirs once. Every row is the median over fresh interpreters, and the rows take turns, so that a
busy neighbor slows all of them. Airflow is loaded before the clock starts and a plain DAG is made first,
because Airflow loads parts of itself only then. All of that is frozen, as its DAG processor does before
a parse: otherwise one pass of the garbage collector over Airflow (80 ms) falls on any row by chance.

    python -m benchmarks.imports
    pip install --target /tmp/peers --no-deps astronomer-cosmos apache-airflow-providers-cncf-kubernetes ...
    python -m benchmarks.imports --peers /tmp/peers

Goals: 60 ms of CPU for ``SparkStreamOperator`` with ``StreamSpec``, 90 ms for any other public module,
150 ms for ``airflow-streaming --help``. CPU time grows when neighbors share the caches. So a fixed piece
of work is timed in the same interpreter, and the second figure of a row is its cost in such pieces.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.figures import machine, table
from demo.stage import REPOSITORY

GOAL_MS: Final = 60.0
GOAL_MODULE_MS: Final = 90.0
GOAL_HELP_MS: Final = 150.0
GOAL_PARSE_MS: Final = 120.0
"""Of a whole example DAG file: its imports, its tasks and the checks of their arguments."""
_ROOMS: Final = ("operators", "sensors", "notifications", "orchestration")
_MODULES: Final = ("spec", "options", "settings", "assets", "live", "pointers")
_DAG: Final = """
import airflow.triggers.base
from airflow.sdk import DAG, BaseOperator, BaseSensorOperator, Param, task

with DAG("plain", schedule="@continuous", max_active_runs=1, params={"x": Param("a",
type="string")}):
    @task
    def work(): ...

    BaseOperator(task_id="plain") >> work()
"""
_TRIGGERER: Final = "import airflow.jobs.triggerer_job_runner"
_OPERATOR: Final = """
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import StreamSpec
"""
_TASK: Final = f"""{_OPERATOR}
import airflow_streaming.hooks.stream, airflow_streaming.operators.common.keep_alive
"""
_LOOK: Final = """
from airflow_streaming.triggers.stream import StreamTrigger

StreamTrigger(home={home!r}, stream="orders", deferred_at="2026-01-01T00:00:00+00:00").look_once()
"""
_HELP: Final = """
from airflow_streaming.cli.main import main

sys.argv = ["airflow-streaming", "--help"]
with contextlib.suppress(SystemExit):
    main()
"""
_SPARK: Final = (
    "from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator"
)
_KUBERNETES: Final = "airflow.providers.cncf.kubernetes"
_MEASURE: Final = """
import contextlib, gc, io, sys, time

base, measured = sys.argv[1:]
exec(base, {})
gc.freeze()
# Without a base the start of the interpreter is a part of the cost.
loaded, wall, cpu = len(sys.modules), time.perf_counter(), time.process_time() if base else 0.0
with contextlib.redirect_stdout(io.StringIO()):
    exec(measured, {"contextlib": contextlib, "sys": sys})
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
loaded = len(sys.modules) - loaded

import json
from dataclasses import make_dataclass

begun = time.process_time()
for number in range(10):
    make_dataclass(f"Fixed{number}", ["a", "b", "c", "d", "e"], frozen=True)
piece = (time.process_time() - begun) / 10
print(json.dumps([1000 * cpu, 1000 * wall, loaded, cpu / piece]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    A measured piece of code.

    :param package: Top-level module that it needs; empty for none but Airflow's.
    :param base: Code that runs before the clock starts.
    """

    name: str
    code: str
    base: str = _DAG
    goal: float | None = None
    package: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peers", default="", help="folder with other packages, for comparison")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="airflow-streaming-bench-") as folder:
        environment = {
            "AIRFLOW_HOME": folder,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(REPOSITORY), args.peers))),
        }
        rows = [*dag_rows(), *process_rows(folder)]
        known = [row for row in rows if _is_installed(row.package, environment)]
        costs = measured(known, environment, rounds=args.rounds)
        modules = measured(module_rows(), environment, rounds=max(args.rounds // 3, 1))
    print(
        f"{machine()}; median of {args.rounds} fresh interpreters, milliseconds over Airflow's own\n"
    )
    print(_told(costs))
    for row in rows:
        if row not in known:
            print(f"{row.name} is left out: {row.package} is not installed; see --peers.")
    print(f"\nEvery other public module, median of {max(args.rounds // 3, 1)}\n\n{_told(modules)}")
    missed = [row.name for row, cost in (*costs, *modules) if row.goal and cost[0] > row.goal]
    print(f"\nGoals: {'missed by ' + ', '.join(missed) if missed else 'met by every row'}")
    return 1 if missed else 0


def dag_rows() -> Iterator[Row]:
    """Yield the imports of a DAG file: ours, then the others'."""
    yield Row(name="dag: SparkStreamOperator, StreamSpec", code=_OPERATOR, goal=GOAL_MS)
    yield Row(name="dag: Spark provider, SparkSubmitOperator", code=_SPARK)
    pod = f"from {_KUBERNETES}.operators.pod import KubernetesPodOperator"
    yield Row(name="dag: cncf.kubernetes, KubernetesPodOperator", code=pod, package=_KUBERNETES)
    yield Row(name="dag: cosmos, DbtDag", code="from cosmos import DbtDag", package="cosmos")


def process_rows(folder: str) -> Iterator[Row]:
    """
    Yield the first work of a task, of the triggerer and of the command.

    :param folder: Scratch, for a home.
    """
    home = f"{folder}/home"
    look = f"from airflow_streaming.home.home import init_home\ninit_home({home!r})"
    subprocess.run([sys.executable, "-c", look], cwd=REPOSITORY, check=True)
    hook = "from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook"
    yield Row(name="task: SparkStreamOperator and its work", code=_TASK)
    yield Row(name="task: Spark provider, operator and hook", code=f"{_SPARK}\n{hook}")
    local = "from cosmos.operators.local import DbtRunLocalOperator"
    yield Row(name="task: cosmos, DbtRunLocalOperator", code=local, package="cosmos")
    yield Row(name="triggerer: our first look", code=_LOOK.format(home=home), base=_TRIGGERER)
    pod = f"from {_KUBERNETES}.triggers.pod import KubernetesPodTrigger"
    yield Row(
        name="triggerer: cncf.kubernetes, import only",
        code=pod,
        base=_TRIGGERER,
        package=_KUBERNETES,
    )
    yield Row(name="airflow-streaming --help", code=_HELP, base="", goal=GOAL_HELP_MS)


def module_rows() -> list[Row]:
    """Return a row for each public module."""
    package = REPOSITORY / "airflow_streaming"
    files = [path for room in _ROOMS for path in sorted((package / room).glob("[!_]*.py"))]
    names = [*_MODULES, *(f"{path.parent.name}.{path.stem}" for path in files)]
    return [
        Row(name=name, code=f"import airflow_streaming.{name}", goal=GOAL_MODULE_MS)
        for name in names
    ]


def parse_costs(environment: Mapping[str, str], *, rounds: int = 5) -> tuple[str, bool]:
    """Return the table of the example DAG files, and whether each is parsed within the goal."""
    rows = [
        Row(
            name=f"parse dags/{dag.name}",
            code=f"import runpy\nrunpy.run_path({str(dag)!r})",
            goal=GOAL_PARSE_MS,
        )
        for dag in sorted((REPOSITORY / "dags").glob("*.py"))
    ]
    costs = measured(rows, environment, rounds=rounds)
    return _told(costs), all(cost[0] <= GOAL_PARSE_MS for _, cost in costs)


def measured(
    rows: Sequence[Row], environment: Mapping[str, str], *, rounds: int
) -> list[tuple[Row, list[float]]]:
    """Return each row with the medians of CPU, wall clock, modules and fixed pieces."""
    runs = [[_run(row, environment) for row in rows] for _ in range(rounds)]
    return [
        (row, [statistics.median(column) for column in zip(*figures, strict=True)])
        for row, figures in zip(rows, zip(*runs, strict=True), strict=True)
    ]


def _run(row: Row, environment: Mapping[str, str]) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _MEASURE, row.base, row.code],
        env={**os.environ, **environment},
        cwd=Path(environment["AIRFLOW_HOME"]),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    figures: list[float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _is_installed(package: str, environment: Mapping[str, str]) -> bool:
    code = f"import {package}" if package else "pass"
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, check=False
    )
    return done.returncode == 0


def _told(costs: Sequence[tuple[Row, Sequence[float]]]) -> str:
    rows = [
        [
            row.name,
            f"{cpu:.0f}",
            f"{wall:.0f}",
            f"{modules:.0f}",
            f"{pieces:.0f}",
            f"{row.goal:.0f}" if row.goal else "",
        ]
        for row, (cpu, wall, modules, pieces) in costs
    ]
    return table(["", "CPU", "wall", "modules", "fixed pieces", "goal"], rows)


if __name__ == "__main__":
    sys.exit(main())
