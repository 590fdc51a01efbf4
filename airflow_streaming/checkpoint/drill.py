"""
The drill: a real Spark opens the state of a restored copy, and the query runs one more batch on it.

Everything happens in a folder of its own: the backup is restored there, cut back by one batch, and
used by a Spark of the version that wrote it, with its output discarded. Neither the production
checkpoint nor its output is touched. What the user's script does besides starting queries, it does
in a drill as well; it can see that it is one by ``AIRFLOW_STREAMING_DRILL=1``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from airflow_streaming.checkpoint.drill_program import Program
from airflow_streaming.checkpoint.drill_spark import run_spark
from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.progress import Progress, no_progress
from airflow_streaming.checkpoint.restore import Place, restore
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.checkpoint.walk import walk
from airflow_streaming.core.checkpoint.backup import Backup, QueryBackup
from airflow_streaming.core.checkpoint.drill import (
    SCRATCH_OUTPUT,
    Drilled,
    DrilledQuery,
    DrillOrder,
)
from airflow_streaming.core.checkpoint.drill_cut import plan_cut, state_ids
from airflow_streaming.core.checkpoint.drill_judge import judge
from airflow_streaming.core.checkpoint.listing import Listing
from airflow_streaming.core.checkpoint.replay import ACCEPTABLE
from airflow_streaming.core.conf import parse_spark_version
from airflow_streaming.core.uris import local_path
from airflow_streaming.exceptions import BackupDamaged, RestoreRefused
from airflow_streaming.launch.private import write_private
from airflow_streaming.launch.runtime import Runtime

__all__ = ["Copy", "Drilled", "Program", "drill", "drill_copies"]

DEFAULT_TIMEOUT: Final = 600.0
"""Seconds for Spark. Starting it takes ten; the rest is for the state and one batch."""


class Copy(NamedTuple):
    """
    A query's restored checkpoint.

    :param query: What the backup says of it.
    :param folder: Where it lies; the drill writes there.
    """

    query: QueryBackup
    folder: Path


def drill(
    store: BackupStore,
    backup: Backup,
    *,
    runtime: Runtime,
    program: Program | None = None,
    scratch: Path | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    progress: Progress = no_progress,
) -> Drilled:
    """
    Restore a backup into a scratch folder and have Spark use it.

    What does not work becomes a problem of the outcome, a backup that is damaged or that no restore
    would take included. ``functools.partial`` with the runtime and
    program makes of it what ``verify`` takes.

    :param program: The user's script; without one only the state is opened, and that is said.
    :param scratch: A local folder, in which a new one is made and removed again; default: the
        system's folder for temporary files.
    :param timeout: Seconds for Spark in total; what is not done by then is a problem.
    :raises BackupNotFound: the store has no such backup any more.
    :raises LaunchError: the runtime's Spark could not be started.
    """
    with _scratch_in(scratch) as folder:
        try:
            copies = _restore(store, backup, folder / "checkpoints", progress)
        except (BackupDamaged, RestoreRefused) as err:
            return Drilled(problems=(str(err),))
        return drill_copies(
            copies,
            runtime=runtime,
            program=program,
            scratch=folder,
            timeout=timeout,
            progress=progress,
        )


def drill_copies(
    copies: Sequence[Copy],
    *,
    runtime: Runtime,
    program: Program | None = None,
    scratch: Path,
    timeout: float = DEFAULT_TIMEOUT,
    progress: Progress = no_progress,
) -> Drilled:
    """
    Have Spark use checkpoints that are scratch copies already; they are changed by it.

    :param scratch: An empty local folder for everything else; it is not removed.
    :raises LaunchError: the runtime's Spark could not be started.
    """
    order = DrillOrder(
        events=str(scratch / "events.jsonl"),
        seconds=timeout,
        queries=tuple(_plan(copy, runtime) for copy in copies),
    )
    if program is not None:
        source = write_private(scratch / "script.py", program.source)
        output = str(scratch / "output")
        order = replace(
            order,
            application=program.application,
            source=str(source),
            arguments=tuple(a.replace(SCRATCH_OUTPUT, output) for a in program.arguments),
        )
    events, failure = run_spark(order, runtime, program, scratch=scratch, progress=progress)
    drilled = judge(order, events, failure)
    if program is None or not program.left_out:
        return drilled
    left_out = ", ".join(program.left_out)
    return drilled._replace(facts={**drilled.facts, "conf_left_out": left_out})


def _plan(copy: Copy, runtime: Runtime) -> DrilledQuery:
    folders = open_folders(str(copy.folder))
    listing = walk(folders)
    cut = plan_cut(listing, folders.read, copy.query.batch)
    note = _why_state_is_not_read(listing, runtime)
    return DrilledQuery(
        folder=copy.query.folder,
        checkpoint=copy.query.checkpoint,
        copy=str(copy.folder),
        batch=copy.query.batch,
        reads_state=not note,
        state_format=2 if state_ids(folders.read, copy.query.batch) else 1,
        state_note=note,
        runs=cut.runs,
        has_input=cut.has_input,
        cut=cut.remove,
        run_note=cut.why_not,
    )


def _why_state_is_not_read(listing: Listing, runtime: Runtime) -> str:
    operators = listing.subfolders("state")
    if not operators:
        return "none: the query has no state"
    if parse_spark_version(runtime.spark_version) < (4, 0, 0):
        return f"not opened: Spark {runtime.spark_version} has no state reader"
    if not all("_metadata" in listing.subfolders(f"state/{operator}") for operator in operators):
        return (
            "not opened: a Spark before 4.0 wrote it, without the operator metadata that the state "
            "reader needs"
        )
    return ""


def _restore(store: BackupStore, backup: Backup, folder: Path, progress: Progress) -> list[Copy]:
    place = Place(to=str(folder))
    # What a restore is warned of concerns the sink, which a drill does not have.
    restored = restore(store, backup.id, place, accept=ACCEPTABLE, progress=progress)
    return [
        Copy(query, Path(local_path(restored.checkpoints[query.folder])))
        for query in backup.queries
    ]


@contextmanager
def _scratch_in(parent: Path | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="airflow-streaming-drill-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
