"""
Which committed batches the query could go on from, were its checkpoint cut back to them.

A batch needs its commit, its plan and the plan before it, and its version of every state store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from airflow_streaming.core.checkpoint.finding import Finding
from airflow_streaming.core.checkpoint.integrity.chains import Depth, judge_version, loads
from airflow_streaming.core.checkpoint.integrity.state import capped, told_operators
from airflow_streaming.core.checkpoint.journal import PARTITIONS, Journal
from airflow_streaming.core.checkpoint.listing import Listing, Read
from airflow_streaming.core.checkpoint.state.names import StateForm
from airflow_streaming.core.checkpoint.state.stores import StoreRef
from airflow_streaming.core.checkpoint.stateful import State

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
