"""
How soon after a deferral may a trigger fire? Airflow 3.3 fails a task whose trigger fires too soon.

Tasks of a real Airflow (LocalExecutor, SQLite) defer again and again, and each trigger fires a fixed time
after its deferral. A try that Airflow fails is counted; the task then continues with its next try. Streams hold
their events for 15 s after a deferral for this reason (ADR 25).

    python -m benchmarks.deferrals --holds 15 3 0 --tasks 50 --times 10
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.deferring import FOLDER, HOLD, TIMES
from benchmarks.figures import end_all, heed_signals, machine, table
from benchmarks.keepers import DAGS
from demo.airflow import Airflow
from demo.stage import MARK, REPOSITORY
from demo.waiting import Progress, Say, wait_for

DAG_ID: Final = "bench_deferrals"
PATIENCE: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """
    What became of the deferrals with one hold.

    :param deferrals: How many there were.
    :param failed: Tries that Airflow failed.
    """

    hold: float
    deferrals: int
    failed: int
    seconds: float
    load: float


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--holds", type=float, nargs="+", default=[15.0, 3.0, 0.0])
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--times", type=int, default=10, help="deferrals of each task")
    args = parser.parse_args()
    heed_signals()
    say = Progress()
    results = []
    with tempfile.TemporaryDirectory(
        prefix="airflow-streaming-bench-", ignore_cleanup_errors=True
    ) as made:
        folder = Path(made).resolve()
        os.environ[MARK] = str(folder)
        try:
            for hold in args.holds:
                results.append(measure(folder / f"{hold:g}", hold, args.tasks, args.times, say))
        except (RuntimeError, KeyboardInterrupt) as err:
            say(f"The benchmark ended early: {str(err) or 'it was interrupted'}")
        finally:
            end_all(folder, say)
    print(f"\n{machine()}\n")
    columns = ("seconds after the deferral", "deferrals", "tries failed", "took s", "load")
    rows = [
        (f"{r.hold:g}", str(r.deferrals), str(r.failed), f"{r.seconds:.0f}", f"{r.load:.0f}")
        for r in results
    ]
    print(table(columns, rows))
    return 0 if len(results) == len(args.holds) else 2


def measure(folder: Path, hold: float, tasks: int, times: int, say: Say) -> Result:
    """Let the tasks defer in an Airflow of their own; return what became of them."""
    notes = folder / "notes"
    notes.mkdir(parents=True)
    environment = {
        MARK: str(folder.parent),
        "PYTHONPATH": str(REPOSITORY),
        "BENCH_TASKS": str(tasks),
        FOLDER: str(notes),
        HOLD: str(hold),
        TIMES: str(times),
    }
    airflow = Airflow(folder / "airflow", dags=DAGS, environment=environment)
    say(f"== fired {hold:g} s after the deferral ==")
    try:
        airflow.start(say)
        wait_for(lambda: airflow.has_dag(DAG_ID), what="the dag processor", say=say)
        began = time.monotonic()
        airflow.trigger(DAG_ID)
        wait_for(
            lambda: len(list(notes.glob("*.done"))) == tasks,
            what=f"{tasks} tasks to defer {times} times each",
            seconds=PATIENCE,
            say=say,
        )
        seconds = time.monotonic() - began
    finally:
        airflow.stop()
    tries = [file.read_text().splitlines() for file in notes.glob("task_???")]
    return Result(
        hold=hold,
        # The last line of a task is its end; every other one is a deferral.
        deferrals=sum(len(lines) - 1 for lines in tries),
        failed=sum(int(lines[-1]) - 1 for lines in tries),
        seconds=seconds,
        load=os.getloadavg()[1],
    )


if __name__ == "__main__":
    raise SystemExit(main())
