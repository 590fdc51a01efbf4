"""
The rehearsal: a new script on copies of checkpoints.

Everything happens in a folder of its own, and neither process nor folder stays behind, whichever
process is killed. Sources are only read: they clean up nothing, and a consumer group that the
script chose is another one here.

The script's other work is done in a rehearsal as well; it can see that it is
one by ``AIRFLOW_STREAMING_REHEARSAL=1``.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from airflow_streaming.checkpoints.copies import (
    OfBackup,
    OfCheckpoints,
    checkpoints_at,
    checkpoints_of,
)
from airflow_streaming.checkpoints.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.exceptions import CheckpointError, StreamingError
from airflow_streaming.gates.rehearsal import Pace, Rehearsed, no_copy
from airflow_streaming.gates.rehearsal_judge import judge_rehearsal, pace_of
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.environment import write_private
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT, DrilledQuery
from airflow_streaming.model.jobs.rehearsal import (
    QUICK,
    Bounds,
    RehearsalEvent,
    RehearsalOrder,
    Seen,
    read_told,
)
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.spark_jobs.runner import (
    Job,
    Program,
    Task,
    await_end,
    ends_in_our_code,
    last_words,
    started,
)
from airflow_streaming.spark_jobs.scratch import Scratch, scratch_folder
from airflow_streaming.spark_jobs.shared_spark import SharedSpark

log: Final = logging.getLogger(__name__)
_BATCHES: Final = 200

__all__ = [
    "QUICK",
    "Bounds",
    "OfBackup",
    "OfCheckpoints",
    "Rehearsed",
    "checkpoints_at",
    "checkpoints_of",
    "rehearse",
]
PREFIX: Final = "airflow-streaming-rehearsal-"
REHEARSAL_VARIABLE: Final = "AIRFLOW_STREAMING_REHEARSAL"
"""Set to 1 in a rehearsal, for scripts that do more than start queries."""
_BEGINNING: Final = 90.0
"""Seconds for Spark to start and to end, on top of the time that the queries have."""


class CheckpointPlace(Protocol):
    """Checkpoints that can be copied, such as ``OfBackup``."""

    @property
    def subject(self) -> str:
        """Return what this is, in words."""

    def copies(self, folder: Path, progress: Progress) -> list[DrilledQuery]:
        """Copy all checkpoints into a folder."""


class RunningDeployment(NamedTuple):
    """
    The known facts of the running deployment.

    :param paces: How fast each query is, by its name.
    :param plans: The plan of each, where its driver recorded them.
    """

    paces: Mapping[str, Pace] = {}
    plans: Sequence[QueryPlan] = ()


def live_figures(home: StreamHome | None) -> RunningDeployment:
    """Return the facts of a home; unreadable facts are left out, for a rehearsal needs none."""
    if home is None:
        return RunningDeployment()
    try:
        epoch = home.newest_epoch()
        batches = [] if epoch is None else home.read_progress(epoch.number, _BATCHES)
        return RunningDeployment(paces=_paces(batches), plans=home.newest_plans())
    except StreamingError as err:
        log.warning("The rehearsal is not compared with stream %s: %s", home.name, err)
        return RunningDeployment()


def _paces(batches: Sequence[BatchProgress]) -> dict[str, Pace]:
    names = {batch.query for batch in batches}
    paces = {name: pace_of([b for b in batches if b.query == name]) for name in names}
    return {name: pace for name, pace in paces.items() if pace is not None}


def rehearse(
    place: CheckpointPlace,
    program: Program,
    runtime: Runtime,
    *,
    bounds: Bounds = Bounds(),  # noqa: B008 - a frozen value
    compare_with: StreamHome | None = None,
    scratch: Path | None = None,
    progress: Progress = no_progress,
    spark: SharedSpark | None = None,
    check: Callable[[], None] = lambda: None,
) -> Rehearsed:
    """
    Run a script on copies of checkpoints for a bounded while, its output thrown away.

    Each failure is a finding of the outcome, checkpoints that cannot be copied included.

    :param place: The checkpoints to run against; see ``checkpoints_at`` and ``checkpoints_of``.
    :param runtime: The Spark that the script is meant for.
    :param bounds: How far to go; ``QUICK`` is one replayed batch.
    :param compare_with: The running stream, for its pace and the columns of its output.
    :param scratch: A local folder, in which a new one is made and removed again; default: the
        user's own folder for scratch. The state of all queries must fit there.
    :param spark: Run it in this Spark, whose scratch is used then; default: in one of its own.
    :param check: Called while Spark runs; its exception ends the rehearsal.
    """
    begun = time.monotonic()
    subject, live = place.subject, live_figures(compare_with)
    with scratch_folder(scratch if spark is None else spark.folder, PREFIX) as own:
        try:
            copies = place.copies(own.folder / "checkpoints", progress)
        except CheckpointError as err:
            return Rehearsed(
                application=program.application,
                spark="",
                subject=subject,
                seconds=round(time.monotonic() - begun, 1),
                findings=(no_copy(str(err)),),
            )
        order = scratch_order(own, copies, program, bounds)
        ended = run_events(order, runtime, program, own.folder, progress, spark, check)
        found = judge_rehearsal(
            order,
            ended.events,
            subject=subject,
            seconds=time.monotonic() - begun,
            failure=ended.failure,
            is_late=ended.is_late,
            in_our_code=ended.in_our_code,
            live=live.paces,
            plans=live.plans,
        )
    return replace(found, leftovers=str(own.folder) if own.folder.exists() else "")


class Ended(NamedTuple):
    """The answers of a rehearsal's Spark, and its end other than by its own word."""

    events: list[RehearsalEvent]
    failure: str = ""
    is_late: bool = False
    in_our_code: bool = False


def scratch_order(
    own: Scratch, copies: list[DrilledQuery], program: Program, bounds: Bounds
) -> RehearsalOrder:
    """Return the order of a rehearsal of a program on copies, all in one scratch folder."""
    output = str(own.folder / "output")
    return RehearsalOrder(
        events=str(own.folder / "events.jsonl"),
        seconds=bounds.seconds + _BEGINNING,
        bounds=bounds,
        queries=tuple(copies),
        application=program.application,
        source=str(write_private(own.folder / "script.py", program.source)),
        scratch=str(own.folder),
        held=str(own.held),
        arguments=tuple(a.replace(SCRATCH_OUTPUT, output) for a in program.arguments),
    )


def run_events(
    order: RehearsalOrder,
    runtime: Runtime,
    program: Program,
    scratch: Path,
    progress: Progress,
    spark: SharedSpark | None = None,
    check: Callable[[], None] = lambda: None,
) -> Ended:
    """
    Run a rehearsal's job to its end.

    :param scratch: A private folder for the files of this job.
    :param spark: As of ``rehearse``, like ``check``.
    :raises LaunchError: it could not be started.
    """
    task = Task(
        job=Job.REHEARSE,
        order=order,
        variable=REHEARSAL_VARIABLE,
        cores=order.bounds.cores,
        memory=f"{order.bounds.memory_mb}m",
    )
    telling = _Telling(order, progress, check)
    start = started if spark is None else spark.started
    with start(task, runtime, program, scratch) as process:
        in_time = await_end(process, order.seconds, telling.tell)
    events = _events(order)
    if any(event.seen is Seen.END for event in events):
        return Ended(events)
    if not in_time:
        return Ended(events, f"It was ended after {duration_text(order.seconds)}.", is_late=True)
    return Ended(
        events,
        f"The Spark of the rehearsal ended with code {process.returncode}: {last_words(scratch)}",
        in_our_code=ends_in_our_code(scratch),
    )


class _Telling:
    def __init__(
        self, order: RehearsalOrder, progress: Progress, check: Callable[[], None]
    ) -> None:
        self._order, self._progress, self._check = order, progress, check
        self._told = 0
        self._batches: Counter[str] = Counter()

    def tell(self) -> None:
        self._check()
        for event in _events(self._order)[self._told :]:
            self._told += 1
            self._batches[event.query] += event.seen is Seen.BATCH
            done = self._batches[event.query]
            self._progress(ProgressNow(phase=Phase.REHEARSAL, subject=event.query, files=done))


def _events(order: RehearsalOrder) -> list[RehearsalEvent]:
    try:
        return read_told(Path(order.events).read_bytes())
    except FileNotFoundError:
        return []
