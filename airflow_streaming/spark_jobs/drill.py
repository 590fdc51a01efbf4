"""
The drill: a real Spark opens the state of a restored copy.

The backup is restored to a scratch folder, cut back by one batch, and used by a Spark of the
version that wrote it, with its output discarded. The script's other work is done as well; the
script can see the drill by ``AIRFLOW_STREAMING_DRILL=1``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from airflow_streaming.checkpoints.backup.records import Backup, QueryBackup
from airflow_streaming.checkpoints.drill_cut import (
    choose_spark,
    describe_spark,
    plan_cut,
    state_ids,
)
from airflow_streaming.checkpoints.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.checkpoints.restore.replay import ACCEPTABLE
from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import BackupDamaged, RestoreRefused, RuntimeNotFound, SpecError
from airflow_streaming.launch.environment import write_private
from airflow_streaming.launch.runtime import Runtime, expanded, resolve_runtime
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.jobs.drill import (
    SCRATCH_OUTPUT,
    Drilled,
    DrilledQuery,
    DrillEvent,
    DrillEventKind,
    DrillOrder,
    judge,
    read_events,
)
from airflow_streaming.model.spark.conf import parse_spark_version
from airflow_streaming.model.spark.listing import Listing
from airflow_streaming.model.uris import local_path
from airflow_streaming.spark_jobs.runner import Job, Program, Task, await_end, last_words, started
from airflow_streaming.spark_jobs.scratch import scratch_folder
from airflow_streaming.storage.folders import open_folders, walk

RUNTIMES_VARIABLE: Final = "AIRFLOW__STREAMING__RUNTIMES"
"""Where a command line without Airflow finds ``[streaming] runtimes``."""

PREFIX: Final = "airflow-streaming-drill-"
DRILL_VARIABLE: Final = "AIRFLOW_STREAMING_DRILL"
"""Set to 1 in a drill, for scripts that do more than start queries."""

__all__ = ["Copy", "Drilled", "Program", "drill", "drill_copies"]
DEFAULT_TIMEOUT: Final = 600.0
"""Seconds for Spark. Starting it takes ten; the rest is for the state and one batch."""


def runtimes_from(environment: Mapping[str, str]) -> Mapping[str, Any]:
    """
    Read the runtimes from AIRFLOW__STREAMING__RUNTIMES; none when it is not set.

    :raises SpecError: it is not a JSON object.
    """
    try:
        runtimes = json.loads(environment.get(RUNTIMES_VARIABLE) or "{}")
    except ValueError as err:
        raise SpecError(f"{RUNTIMES_VARIABLE} is not valid JSON: {err}") from err
    if not isinstance(runtimes, dict):
        raise SpecError(
            f"{RUNTIMES_VARIABLE} must be a JSON object of names and folders, for example "
            '{"spark-4.3": "/opt/spark-4.3"}.'
        )
    return runtimes


def choose_runtime(
    runtimes: Mapping[str, Any], backup: Backup, name: str | None = None, *, newer: bool = False
) -> Runtime:
    """
    Return the runtime to drill a backup with.

    :param runtimes: As in ``[streaming] runtimes``.
    :param name: A name among them, or the absolute path of an installation; by default the one of
        the minor version that wrote the backup.
    :param newer: Take a newer Spark where that version is missing.
    :raises RuntimeNotFound: no runtime fits, or the fitting one is broken.
    """
    if name is not None:
        is_path = name not in runtimes and expanded(name).is_absolute()
        return resolve_runtime(name, {name: name} if is_path else runtimes)
    usable, broken = _resolve_all(runtimes)
    versions = {name: runtime.spark_version for name, runtime in usable.items()}
    chosen = choose_spark(backup, versions, newer=newer)
    if chosen is not None:
        return usable[chosen]
    known = ", ".join(f"{name} (Spark {version})" for name, version in sorted(versions.items()))
    raise RuntimeNotFound(
        f"Backup {backup.id!r} wants {describe_spark(backup)}, and no such runtime is known; there "
        f"are: {known or 'none'}.{_sentences(broken)} Name one, allow a newer one, or define it "
        f"under [streaming] runtimes (in the environment: {RUNTIMES_VARIABLE}), for example "
        '{"spark-4.3": "/opt/spark-4.3"}.'
    )


def _resolve_all(runtimes: Mapping[str, Any]) -> tuple[dict[str, Runtime], list[str]]:
    usable: dict[str, Runtime] = {}
    broken: list[str] = []
    for name in runtimes:
        try:
            usable[name] = resolve_runtime(name, runtimes)
        except RuntimeNotFound as err:
            broken.append(str(err))
    return usable, broken


def _sentences(broken: list[str]) -> str:
    return "".join(f" {sentence}" for sentence in broken)


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

    :param scratch: A private folder for its files; its processes end before this returns.
    :return: Its answers, and a sentence when it did not finish.
    :raises LaunchError: it could not be started.
    """
    task = Task(job=Job.DRILL, order=order, variable=DRILL_VARIABLE)
    told = _Telling(order, progress)
    with started(task, runtime, program, scratch) as process:
        in_time = await_end(process, order.seconds, told.tell)
    events = read_told(order)
    if any(event.told is DrillEventKind.END for event in events):
        return events, ""
    if not in_time:
        return events, (
            f"The drill was ended after {duration_text(order.seconds)}, {_doing(events)}. Give it more time "
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
    """Return the outcome so far."""
    try:
        return read_events(Path(order.events).read_bytes())
    except FileNotFoundError:
        return []


def _doing(events: list[DrillEvent]) -> str:
    last = events[-1] if events else None
    if last is None:
        return "before Spark was there"
    if last.told is DrillEventKind.STARTED:
        return f"while {f'query {last.query!r}' if last.query else 'the query'} ran a batch"
    return f"after {last.told.value.replace('_', ' ')} of {last.query or 'the query'}"


class Copy(NamedTuple):
    """
    A query's restored checkpoint.

    :param query: The backup's record of it.
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

    Each failure becomes a problem of the outcome, a backup that is damaged or that no restore
    would take included. ``functools.partial`` with the runtime and
    program makes of it what ``verify`` takes.

    :param program: The user's script; without one only the state is opened, and the outcome says so.
    :param timeout: Seconds for Spark in total; unfinished work is a problem then.
    :raises BackupNotFound: the store has no such backup any more.
    """
    with scratch_folder(scratch, PREFIX) as own:
        try:
            copies = _restore(store, backup, own.folder / "checkpoints", progress)
        except (BackupDamaged, RestoreRefused) as err:
            return Drilled(problems=(str(err),))
        return drill_copies(
            copies,
            runtime=runtime,
            program=program,
            scratch=own.folder,
            held=str(own.held),
            timeout=timeout,
            progress=progress,
        )


def drill_copies(
    copies: Sequence[Copy],
    *,
    runtime: Runtime,
    program: Program | None = None,
    scratch: Path,
    held: str = "",
    timeout: float = DEFAULT_TIMEOUT,
    progress: Progress = no_progress,
) -> Drilled:
    """
    Have Spark use checkpoints that are scratch copies already; they are changed by it.

    :param scratch: An empty local folder for everything else; it is not removed.
    :param held: The file by which the Spark sees that this process lives; empty: it does not look.
    """
    order = DrillOrder(
        events=str(scratch / "events.jsonl"),
        seconds=timeout,
        queries=tuple(_plan(copy, runtime) for copy in copies),
        held=held,
        scratch=str(scratch),
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
    # A restore's warnings concern the sink, which a drill does not have.
    restored = restore(store, backup.id, place, accept=ACCEPTABLE, progress=progress)
    return [
        Copy(query, Path(local_path(restored.checkpoints[query.folder])))
        for query in backup.queries
    ]
