"""
Both versions of a script over the same batches, each on its own copy of the pinned checkpoints.

The old version goes first: it runs the newest batch again and continues with the new input. Its
plans are then given to the new version batch by batch, on another copy of the same
pin, so that both get the same rows in the same batches. Where the checkpoint still has the plans of
all batches, and few enough, the new version also runs from scratch: the same plans from the first on,
without state. Both runs of the new version take turns in one Spark; the old version has another one, which ends
before.

Nothing but scratch copies is written, and the output is thrown away, as in a rehearsal.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.copies import OfBackup, OfCheckpoints
from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.exceptions import CheckpointError, RecordError
from airflow_streaming.gates.rehearsal_compare import Bag, Compared, Kind, SideRun, compare_runs
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.drill import DrilledQuery
from airflow_streaming.model.jobs.rehearsal import Bounds, RehearsalEvent, Seen
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.spark_jobs.migrated_copies import Migrating
from airflow_streaming.spark_jobs.rehearsal import PREFIX, run_events, scratch_order
from airflow_streaming.spark_jobs.runner import Program
from airflow_streaming.spark_jobs.scratch import Scratch, scratch_folder
from airflow_streaming.spark_jobs.shared_spark import SharedSpark
from airflow_streaming.storage.folders import open_folders

MOST_PAST: Final = 60
"""Batches of the past that are run from scratch; each is a start of the query of a second or two."""
_MOST_PLAN: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a script, and its Spark."""

    program: Program
    runtime: Runtime


def compare_versions(
    place: OfBackup | OfCheckpoints,
    old: Version,
    new: Version,
    *,
    bounds: Bounds = Bounds(),  # noqa: B008 - a frozen value
    most_past: int = MOST_PAST,
    plans: Sequence[QueryPlan] = (),
    migrating: Migrating | None = None,
    scratch: Path | None = None,
    progress: Progress = no_progress,
) -> Compared:
    """
    Run both versions over the same batches and compare their rows and state.

    :param place: The checkpoints to run against; see ``checkpoints_at`` and ``checkpoints_of``.
    :param bounds: How many batches the old version goes, and the time of each version.
    :param most_past: Most batches of the past for a run from scratch; 0 for none.
    :param plans: Plans of the new version, which tell whether a watermark ends its state.
    :param migrating: The new version continues from copies with migrated state.
    :param scratch: As of ``rehearse``; it holds three copies of all state, and two more of migrated state.
    :raises CheckpointError: the checkpoints cannot be copied.
    :raises LaunchError: a runtime's Spark could not be started.
    """
    begun = time.monotonic()
    memory = f"{bounds.memory_mb}m"
    with (
        SharedSpark(scratch, cores=bounds.cores, memory=memory) as spark,
        scratch_folder(spark.folder, PREFIX) as own,
    ):
        sides = _Sides(own, bounds, progress)
        pinned = place.copies(own.folder / "pinned", progress)
        first = _run(sides, "old", old, sides.copied(pinned, "old"))
        planned = {query.folder: _planned(first, query) for query in pinned}
        changed = sides.migrated(pinned, migrating)
        uncut = frozenset() if migrating is None else migrating.queries
        stepped = _stepped(sides, changed, "new", planned, uncut)
        second = _run(sides, "new", new, stepped, spark=spark)
        past, why_not = _past(place, pinned, planned, most_past)
        third = _run(sides, "fresh", new, _stepped(sides, past, "fresh", planned), spark=spark)
        found = tuple(
            compare_runs(
                query.folder,
                _kind(query, plans),
                first.side(query.folder),
                second.side(query.folder, planned[query.folder].steps),
                third.side(query.folder, planned[query.folder].steps)
                if query.folder not in why_not
                else None,
                no_fresh=why_not.get(query.folder, ""),
            )
            for query in pinned
        )
    return Compared(
        subject=place.subject, queries=found, seconds=round(time.monotonic() - begun, 1)
    )


class _Planned(NamedTuple):
    """
    The plans and commits of the old version.

    :param plans: Folder with the plans of all of its batches.
    """

    steps: tuple[int, ...]
    plans: Path
    sources: Path


class _Ran(NamedTuple):
    copies: Mapping[str, DrilledQuery]
    events: Sequence[RehearsalEvent]
    failure: str = ""

    def side(self, query: str, steps: Sequence[int] | None = None) -> SideRun:
        """Return a query's work; of its batches only ``steps``, without any all."""
        copy = self.copies.get(query)
        if copy is None:
            return SideRun(failure="It was not run: the old version has no batch.")
        return side_of(self.events, query, steps, failure=self.failure, run_note=copy.run_note)


def side_of(
    events: Sequence[RehearsalEvent],
    query: str,
    steps: Sequence[int] | None = None,
    *,
    failure: str = "",
    run_note: str = "",
) -> SideRun:
    """
    Return a query's work in one version, as Spark reported it.

    :param steps: The batches that count; ``None`` for all.
    :param failure: Why Spark itself came to no end; empty when it did.
    :param run_note: Why it needed new input to run a batch; empty when it did not.
    """
    told = [event for event in events if event.query == query]
    rows = {e.batch: _bag(e) for e in told if e.seen is Seen.ROWS and e.batch is not None}
    wanted = rows.keys() if steps is None else {*steps}
    figures = [e.figures for e in told if e.seen is Seen.BATCH and e.figures is not None]
    unread = [event.text for event in told if event.seen is Seen.STATE_UNREAD]
    broken = [e.text for e in told if e.seen is Seen.FAILED]
    script = [e.text for e in events if e.seen is Seen.SCRIPT_FAILED]
    if not rows:
        # A script that fails before its query has run a batch; with its query it is one failure.
        broken += script
    not_started = "" if rows or broken else _no_batch(told, run_note)
    return SideRun(
        batches={batch: bag for batch, bag in rows.items() if batch in wanted},
        inputs={one.batch_id: one.input_rows for one in figures if one.batch_id in wanted},
        state=None
        if unread
        else {event.subject: _bag(event) for event in told if event.seen is Seen.STATE},
        unread=next(iter(unread), ""),
        failure=next(iter(broken), "") or failure or not_started,
        broke=bool(broken),
        # Where a query failed, it may have ended the script with it.
        script_failure="" if any(e.seen is Seen.FAILED for e in events) else next(iter(script), ""),
    )


def _no_batch(events: Sequence[RehearsalEvent], run_note: str) -> str:
    if not any(event.seen is Seen.STARTED for event in events):
        return "It did not start the query."
    return f"It ran no batch: {run_note or 'the source has no new input.'}"


def _bag(event: RehearsalEvent) -> Bag:
    return Bag(rows=event.rows or 0, digest=event.digest)


class _Sides:
    """Makes the copies of each side, in a folder of its own."""

    def __init__(self, own: Scratch, bounds: Bounds, progress: Progress) -> None:
        self.own, self.bounds, self.progress = own, bounds, progress

    def folder(self, name: str) -> Path:
        made = self.own.folder / name
        made.mkdir(mode=0o700, exist_ok=True)
        return made

    def copied(self, pinned: Sequence[DrilledQuery], name: str) -> list[DrilledQuery]:
        """Return copies of copies; paths that Spark wrote down are rewritten in them."""
        place = OfCheckpoints(checkpoints={query.folder: query.copy for query in pinned})
        copies = place.copies(self.folder(name) / "checkpoints", self.progress)
        return [
            replace(copy, checkpoint=query.checkpoint)
            for copy, query in zip(copies, pinned, strict=True)
        ]

    def migrated(
        self, pinned: Sequence[DrilledQuery], migrating: Migrating | None
    ) -> Sequence[DrilledQuery]:
        """Return copies with migrated state; the pinned ones without a migration."""
        if migrating is None:
            return pinned
        folders = {query.folder: query for query in pinned}
        copies = migrating.copies(
            self.copied(pinned, "before"), self.folder("migrated"), self.progress
        )
        # A query without a migration is copied anew, because its copy here was not cut back.
        return [
            copy if copy.folder in migrating.queries else folders[copy.folder] for copy in copies
        ]


def _run(
    sides: _Sides,
    name: str,
    version: Version,
    copies: Sequence[DrilledQuery],
    *,
    spark: SharedSpark | None = None,
) -> _Ran:
    by_name = {copy.folder: copy for copy in copies}
    if not copies:
        return _Ran(by_name, ())
    folder = sides.folder(name)
    order = replace(
        scratch_order(
            Scratch(folder=folder, held=sides.own.held), list(copies), version.program, sides.bounds
        ),
        scratch=str(sides.own.folder),
        events=str(folder / "events.jsonl"),
        compares=True,
    )
    ended = run_events(order, version.runtime, version.program, folder, sides.progress, spark)
    return _Ran(by_name, ended.events, ended.failure)


def _planned(ran: _Ran, query: DrilledQuery) -> _Planned:
    copy = Path(ran.copies[query.folder].copy)
    told = {e.batch for e in ran.events if e.query == query.folder and e.seen is Seen.ROWS}
    committed = {int(one.name) for one in (copy / "commits").glob("[0-9]*") if one.name.isdigit()}
    steps = tuple(sorted(batch for batch in told if batch is not None and batch in committed))
    return _Planned(steps, copy / "offsets", copy / "sources")


def _stepped(
    sides: _Sides,
    pinned: Sequence[DrilledQuery],
    name: str,
    planned: Mapping[str, _Planned],
    uncut: Container[str] = (),
) -> list[DrilledQuery]:
    """
    Return copies on which the batches of the old version are run one by one.

    :param uncut: Queries whose copies end before these batches already.
    """
    able = [query for query in pinned if planned[query.folder].steps]
    made: list[DrilledQuery] = []
    for copy, query in zip(sides.copied(able, name), able, strict=True):
        found = planned[query.folder]
        plans = sides.folder(f"{name}-plans") / str(len(made))
        shutil.copytree(found.plans, plans)
        if found.sources.is_dir():
            # A file source numbers its files in a log of its own. The plans refer to these numbers.
            shutil.rmtree(Path(copy.copy) / "sources", ignore_errors=True)
            shutil.copytree(found.sources, Path(copy.copy) / "sources")
        begins = query.plans != ""
        if begins:
            _forget(Path(copy.copy))
            for path in Path(query.plans).iterdir():
                if not (plans / path.name).exists():
                    shutil.copy(path, plans / path.name)
        steps = tuple(range(found.steps[-1] + 1)) if begins else found.steps
        cut = () if begins or query.folder in uncut else copy.cut
        made.append(replace(copy, steps=steps, plans=str(plans), cut=cut))
    return made


def _forget(copy: Path) -> None:
    """Remove all batches of a copy; its id and its sources' logs stay."""
    for name in ("commits", "offsets", "state"):
        shutil.rmtree(copy / name, ignore_errors=True)
    for name in ("commits", "offsets"):
        (copy / name).mkdir()


def _past(
    place: OfBackup | OfCheckpoints,
    pinned: Sequence[DrilledQuery],
    planned: Mapping[str, _Planned],
    most: int,
) -> tuple[list[DrilledQuery], dict[str, str]]:
    """Return the queries that can be run from scratch, with their plans; and why others cannot."""
    able, why_not = [], {}
    for query in pinned:
        steps = planned[query.folder].steps
        reason = _why_no_past(place, steps, most)
        if not reason and isinstance(place, OfCheckpoints):
            plans = Path(query.copy).with_name(f"{Path(query.copy).name}-plans")
            missing = _fetch_plans(place, query, range(steps[0]), plans)
            reason = "" if missing is None else f"the plan of batch {missing} is gone."
            if not reason:
                able.append(replace(query, plans=str(plans)))
        if reason:
            why_not[query.folder] = reason
    return able, why_not


def _why_no_past(place: OfBackup | OfCheckpoints, steps: Sequence[int], most: int) -> str:
    if not steps:
        return "no batch was held back."
    if isinstance(place, OfBackup):
        return "a backup holds the newest plans alone."
    if steps[0] > most:
        return f"{steps[0]} batches lie before, and at most {most} are run."
    return ""


def _fetch_plans(
    place: OfCheckpoints, query: DrilledQuery, batches: Sequence[int], to: Path
) -> int | None:
    """Copy the plans of the past from the checkpoint; return the first that is missing."""
    folders = open_folders(query.checkpoint, place.storage_options)
    to.mkdir(mode=0o700)
    for batch in batches:
        try:
            data = folders.read(f"offsets/{batch}", _MOST_PLAN)
        except (CheckpointError, RecordError):
            return batch
        if data is None:
            return batch
        (to / str(batch)).write_bytes(data)
    return None


def _kind(query: DrilledQuery, plans: Sequence[QueryPlan]) -> Kind:
    known = [plan for plan in plans if plan.query == query.folder]
    plan = known[0] if known else plans[0] if len(plans) == 1 and not query.folder else None
    has_state = (Path(query.copy) / "state").is_dir() or (plan is not None and plan.is_stateful)
    ends = plan is not None and plan.is_stateful and all(one.ends for one in plan.operators)
    return Kind(has_state, ends=ends)
