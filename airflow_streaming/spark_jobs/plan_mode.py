"""
Plan mode: a script's plans without starting anything.

The script runs on a small Spark of this host, with ``AIRFLOW_STREAMING_PLAN=1`` in its environment.
Where it would start a query, the query's analyzed plan is written down, and the script gets a
stand-in that has ended. No source is read by it and no sink is written; the script's other work is
done here as well.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from airflow_streaming.checkpoints.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.exceptions import LaunchError
from airflow_streaming.launch.environment import write_private
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT
from airflow_streaming.model.spark.plan import PlanOrder, ScriptPlan
from airflow_streaming.spark_jobs.runner import Job, Program, Task, await_end, last_words, started
from airflow_streaming.spark_jobs.scratch import scratch_folder
from airflow_streaming.spark_jobs.shared_spark import SharedSpark

PREFIX: Final = "airflow-streaming-plan-"
PLAN_VARIABLE: Final = "AIRFLOW_STREAMING_PLAN"
"""Set to 1 in plan mode, for scripts that do more than start queries."""
DEFAULT_TIMEOUT: Final = 300.0
"""Seconds. Spark's start takes ten; the rest is for the script's work before its queries."""


def plan_script(
    program: Program,
    runtime: Runtime,
    *,
    scratch: Path | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    progress: Progress = no_progress,
    spark: SharedSpark | None = None,
) -> ScriptPlan:
    """
    Return the plan of every query that a script would start.

    A script that fails half-way gives the queries started until then, and ``problem`` says why it
    came to no end.

    :param timeout: Seconds for everything.
    :param spark: Run it in this Spark, whose scratch is used then; default: in one of its own.
    """
    start = started if spark is None else spark.started
    with scratch_folder(scratch if spark is None else spark.folder, PREFIX) as own:
        folder = own.folder
        order = PlanOrder(
            result=str(folder / "plan.json"),
            seconds=timeout,
            application=program.application,
            source=str(write_private(folder / "script.py", program.source)),
            output=program.output,
            checkpoint=program.checkpoint,
            arguments=tuple(
                a.replace(SCRATCH_OUTPUT, str(folder / "output")) for a in program.arguments
            ),
            held=str(own.held),
            scratch=str(folder),
        )
        task = Task(job=Job.PLAN, order=order, variable=PLAN_VARIABLE, cores=1)
        progress(ProgressNow(phase=Phase.DRILL, subject=program.application))
        with start(task, runtime, program, folder) as process:
            in_time = await_end(process, timeout)
        planned = _read(Path(order.result))
        if in_time and process.returncode == 0 and planned is not None:
            return planned
        why = (
            f"It ended with code {process.returncode}: {last_words(folder)}"
            if in_time
            else f"It was ended after {duration_text(timeout)}. Give it more time if the script needs it."
        )
        if planned is None:
            raise LaunchError(f"Spark {runtime.spark_version} gave no plan of the script. {why}")
        return replace(planned, problem=" ".join(filter(None, [planned.problem, why])))


def _read(path: Path) -> ScriptPlan | None:
    try:
        return ScriptPlan.from_bytes(path.read_bytes())
    except FileNotFoundError:
        return None
