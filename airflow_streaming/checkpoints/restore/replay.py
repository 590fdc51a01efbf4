"""
The effects of a restore: replayed batches and input that is read again.

A batch needs its commit, its plan and the plan before it, and its version of every state store.

If the present checkpoint cannot be read, the distance is reported as unknown; offsets without
numbers appear as Spark wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from airflow_streaming.checkpoints.integrity.state import (
    Depth,
    capped,
    judge_version,
    loads,
    told_operators,
)
from airflow_streaming.checkpoints.read.journal import PARTITIONS, Journal
from airflow_streaming.checkpoints.read.report import Finding, SourceType
from airflow_streaming.checkpoints.read.stateful import State
from airflow_streaming.checkpoints.state.stores import StateForm, StoreRef
from airflow_streaming.model.codec import encode
from airflow_streaming.model.spark.listing import Listing, Read

MOST_ZIPS: Final = 1_000
"""
Versions of RocksDB stores that are looked into one by one. Beyond it only the names of their files
count, unless the inspection is thorough.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """
    The batches, oldest first.

    :param problems: Damage that shows only because every version was looked into.
    """

    batches: tuple[int, ...]
    problems: tuple[Finding, ...] = ()


def rollback_batches(
    listing: Listing, read: Read, journal: Journal, state: State, thorough: bool
) -> Rollback:
    """
    Return the batches one could go back to.

    :param thorough: Look into the files of every version.
    """
    batches = tuple(batch for batch in _in_logs(journal) if _in_state(batch, journal, state))
    if not thorough:
        return Rollback(batches=_whole(listing, read, state, batches))
    found: list[int] = []
    problems: list[Finding] = []
    for batch in batches:
        judged = judge_version(listing, read, state, batch + 1, Depth.ALL)
        if not judged.problems:
            found.append(batch)
        elif batch + 1 != journal.next_batch:
            problems += judged.problems
    distinct = {(problem.code, problem.path): problem for problem in problems}
    return Rollback(batches=tuple(found), problems=tuple(capped(distinct.values())))


def _in_logs(journal: Journal) -> Iterator[int]:
    plan = journal.committed_plan
    pinned = plan.conf.get(PARTITIONS) if plan else None
    planned = set(journal.planned)
    for batch in journal.committed:
        own = journal.plans.get(batch)
        if own is None or batch not in journal.commits or own.conf.get(PARTITIONS) != pinned:
            continue
        if batch == 0 or batch - 1 in planned or journal.is_async:
            yield batch


def _in_state(batch: int, journal: Journal, state: State) -> bool:
    if any(not state.of(operator) for operator in told_operators(journal) | set(state.operators)):
        return False
    return all(batch + 1 in state.loadable[ref] for ref in state.refs)


def _whole(listing: Listing, read: Read, state: State, batches: tuple[int, ...]) -> tuple[int, ...]:
    zipped = [ref for ref in state.refs if _has_zips(state, ref)]
    if not zipped or len(zipped) * len(batches) > MOST_ZIPS:
        return batches
    return tuple(
        batch
        for batch in batches
        if all(loads(listing, read, ref, state, batch + 1) for ref in zipped)
    )


def _has_zips(state: State, ref: StoreRef) -> bool:
    return any(file.form is StateForm.ZIP for file in state.files[ref])


class RefusalCode(StrEnum):
    """Why a restore is refused."""

    TARGET_NOT_EMPTY = "target_not_empty"
    """The place to restore to has files."""
    OTHER_RESTORE = "other_restore"
    """Another restore died, or is at work, at the same place."""
    DRIVER_ALIVE = "driver_alive"
    """The stream's driver runs."""
    DRIVER_UNPROVED = "driver_unproved"
    """It cannot be seen whether the driver is gone."""
    WANTED_RUNNING = "wanted_running"
    """The stream's desired state is running."""
    OTHER_STREAM = "other_stream"
    """The backup is one of another stream."""
    QUERY_ID_DIFFERS = "query_id_differs"
    """The backup belongs to another query than the owner of the stream's checkpoint."""
    QUERY_MISSING = "query_missing"
    """The stream runs a query that the backup does not have; it would start from nothing."""
    OWN_LOCATION = "own_location"
    """The script chose the query's checkpoint itself, so no deployment can move it."""
    FORMAT_TOO_NEW = "format_too_new"
    """The runtime cannot read the backup's formats."""
    UNSOUND = "unsound"
    """The backup is intact, but Spark could not continue from its checkpoint."""
    ABSOLUTE_PATHS = "absolute_paths"
    """It names its own files by paths that cannot be rewritten."""
    BEFORE_HANDOVER = "before_handover"
    """The query wrote to another output then, before a cutover handed it the present one."""
    SINK_GAP = "sink_gap"
    """The file sink would silently drop rows."""
    SINK_SKIPS_STATE = "sink_skips_state"
    """Spark would not execute batches that the file sink has, so the query would lack their state."""
    SINK_BEHIND = "sink_behind"
    """The file sink lacks batches that the checkpoint has committed, which would never be written again."""
    SINK_UNSEEN = "sink_unseen"
    """A file sink's log is not where it is known to be, or cannot be read."""
    SINK_NOT_REWOUND = "sink_not_rewound"
    """A sink that is to be put back cannot be."""
    CHANGE_PENDING = "change_pending"
    """Another change of the stream's checkpoint was begun and not finished."""


OF_SINKS: Final = frozenset(
    {
        RefusalCode.SINK_GAP,
        RefusalCode.SINK_SKIPS_STATE,
        RefusalCode.SINK_BEHIND,
        RefusalCode.SINK_UNSEEN,
    }
)
"""A file sink does not fit the checkpoint, or it cannot be seen whether it does."""
ACCEPTABLE: Final = OF_SINKS | {
    RefusalCode.OTHER_STREAM,
    RefusalCode.QUERY_ID_DIFFERS,
    RefusalCode.QUERY_MISSING,
}
"""Refusals that a user may accept; no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """
    A reason not to restore, with the next step.

    :param query: The affected query; empty for the whole backup.
    """

    code: RefusalCode
    message: str
    query: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReplay:
    """
    How far one source goes back.

    :param back_to: The position after the restore, in the source's own terms.
    :param from_: The position of the checkpoint in use; ``None`` if unknown.
    :param amount: Records, or entries of the file source's log, that are read again; negative if
        the restore skips them; ``None`` if offsets cannot be subtracted.
    """

    name: str
    source: SourceType
    back_to: Any
    from_: Any = None
    amount: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfStep:
    """
    How a file sink and a checkpoint do not fit; see ``sink_step.out_of_step``.

    :param code: ``sink_gap``, ``sink_skips_state`` or ``sink_behind``.
    :param first: The first batch that is lost, or lacks its state; ``last`` the last one.
    """

    code: RefusalCode
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReplay:
    """
    The effects of a restore on one query.

    :param batch: The newest committed batch in the backup; the next one is ``batch + 1``.
    :param current: The newest committed batch of the checkpoint in use; ``None`` if unknown.
    :param again: First and last batch id that the sink will receive again; ``None`` if unknown or
        empty.
    :param sink_batch: Newest batch in the file sink's log, if read.
    :param sink_step: How the file sink does not fit; ``None`` if it fits or was not seen.
    :param watermark_ms: Watermark after the restore, in milliseconds since 1970.
    :param says: The same in sentences.
    """

    folder: str
    query_id: str | None
    batch: int
    current: int | None = None
    again: tuple[int, int] | None = None
    sources: tuple[SourceReplay, ...] = ()
    sink_batch: int | None = None
    sink_step: OutOfStep | None = None
    watermark_ms: int | None = None
    says: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """
    The effects of a restore, and the reasons of a refusal.

    :param target: The folder of the new checkpoints.
    :param refusals: Reasons against it that were not accepted; a restore with any raises.
    :param accepted: Reasons against it that the caller accepted.
    :param warnings: Warnings that do not refuse it.
    :param files: Files that will be written; ``size`` is their bytes.
    """

    backup: str
    stream: str
    target: str
    queries: tuple[QueryReplay, ...]
    refusals: tuple[Refusal, ...] = ()
    accepted: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    files: int = 0
    size: int = 0

    @property
    def is_refused(self) -> bool:
        """Tell whether a restore by this plan would raise."""
        return bool(self.refusals)

    def sentences(self) -> tuple[str, ...]:
        """Return the plan for readers, refusals first."""
        refused = (f"Refused: {refusal.message}" for refusal in self.refusals)
        accepted = (f"Accepted: {refusal.message}" for refusal in self.accepted)
        said = (sentence for query in self.queries for sentence in query.says)
        return (*refused, *accepted, *said, *self.warnings)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {**encode(self), "is_refused": self.is_refused, "sentences": self.sentences()}
