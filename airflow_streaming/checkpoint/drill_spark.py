"""The Spark of a drill, and what it tells while it works."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from airflow_streaming.checkpoint.drill_program import Program
from airflow_streaming.checkpoint.progress import Phase, Progress, ProgressNow
from airflow_streaming.checkpoint.scratch_spark import Task, await_end, last_words, started
from airflow_streaming.core.checkpoint.drill import DrillEvent, DrillOrder, Told, read_events
from airflow_streaming.launch.runtime import Runtime

DRILL_VARIABLE: Final = "AIRFLOW_STREAMING_DRILL"
"""Set to 1 in a drill, for scripts that do more than start queries."""


def run_spark(
    order: DrillOrder,
    runtime: Runtime,
    program: Program | None,
    *,
    scratch: Path,
    progress: Progress,
) -> tuple[list[DrillEvent], str]:
    """
    Have a Spark do the order.

    :param scratch: A private folder for its files; what it starts is gone when this returns.
    :return: What it told, and a sentence when it did not come to its end.
    :raises LaunchError: it could not be started.
    """
    task = Task(module="drill.run", order=order, variable=DRILL_VARIABLE)
    told = _Telling(order, progress)
    with started(task, runtime, program, scratch) as process:
        in_time = await_end(process, order.seconds, told.tell)
    events = read_told(order)
    if any(event.told is Told.END for event in events):
        return events, ""
    if not in_time:
        return events, (
            f"The drill was ended after {order.seconds:.0f} s, {_doing(events)}. Give it more time "
            "if the state or the batch is large."
        )
    return events, (
        f"The Spark of the drill ended with code {process.returncode}, {_doing(events)}: "
        f"{last_words(scratch)}"
    )


class _Telling:
    def __init__(self, order: DrillOrder, progress: Progress) -> None:
        self._order, self._progress = order, progress
        self._told = 0

    def tell(self) -> None:
        for event in read_told(self._order)[self._told :]:
            self._told += 1
            self._progress(ProgressNow(phase=Phase.DRILL, subject=event.query, files=self._told))


def read_told(order: DrillOrder) -> list[DrillEvent]:
    """Return what was told so far."""
    try:
        return read_events(Path(order.events).read_bytes())
    except FileNotFoundError:
        return []


def _doing(events: list[DrillEvent]) -> str:
    last = events[-1] if events else None
    if last is None:
        return "before Spark was there"
    if last.told is Told.STARTED:
        return f"while {f'query {last.query!r}' if last.query else 'the query'} ran a batch"
    return f"after {last.told.value.replace('_', ' ')} of {last.query or 'the query'}"
