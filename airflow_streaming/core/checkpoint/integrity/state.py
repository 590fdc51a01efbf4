"""State that is not there, in another number of partitions, damaged, or of another timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from airflow_streaming.core.checkpoint.finding import Finding, FindingCode
from airflow_streaming.core.checkpoint.integrity.logs import RESTORE
from airflow_streaming.core.checkpoint.journal import PARTITIONS, Journal
from airflow_streaming.core.checkpoint.stateful import STATE, State

MOST_NAMED: Final = 20
"""Findings of one sort that are told one by one; a thousand partitions may lack the same."""


JOIN_STORES: Final = frozenset(
    f"{side}-{what}"
    for side in ("left", "right")
    for what in ("keyToNumValues", "keyWithIndexToValue")
)
"""What a stream-stream join keeps; where one of the four is, all are (SymmetricHashJoin)."""


def state_problems(journal: Journal, state: State) -> Iterator[Finding]:
    """Return what is wrong with the state as a whole, by the names of its files."""
    if journal.next_batch > 0:
        yield from _missing_operators(journal, state)
        yield from _partitions(journal, state)
        yield from _missing_stores(state)
    yield from _future(journal, state)


def state_remarks(journal: Journal, state: State) -> Iterator[Finding]:
    """Return what cannot be told of the state."""
    if journal.next_batch > 0 and is_stateful(journal, state) is None and not _watermark(journal):
        yield _finding(
            FindingCode.STATE_UNKNOWN,
            STATE,
            "There is no state folder, as for any query without state. That the folder of a query "
            "with state was lost cannot be told from these logs: if the query aggregates, joins or "
            "drops duplicates, the checkpoint is not whole.",
        )


def is_stateful(journal: Journal, state: State) -> bool | None:
    """Tell whether the query has state; ``None`` where nothing in the checkpoint tells."""
    if state.operators or told_operators(journal):
        return True
    commit = journal.newest_commit
    # A commit of version 2 names the state of every operator, so none is an answer.
    return False if commit is not None and commit.log_version == 2 else None


def capped(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the first findings one by one, and the others as a number."""
    found = iter(findings)
    first = list(islice(found, MOST_NAMED))
    yield from first
    more = sum(1 for _ in found)
    if more:
        yield _finding(
            first[-1].code, STATE, f"The same is wrong in {more} more places. {first[-1].message}"
        )


def _missing_operators(journal: Journal, state: State) -> Iterator[Finding]:
    told = told_operators(journal)
    missing = sorted((told | set(range(max(state.operators, default=-1)))) - set(state.operators))
    empty = [number for number in state.operators if not state.partitions[number]]
    for number in (*missing, *empty):
        yield _finding(
            FindingCode.STATE_MISSING,
            f"{STATE}/{number}",
            f"The state of operator {number} is missing, and the next batch needs it. "
            f"{_NO_STATE} {RESTORE}",
        )
    if not state.operators and not told and _watermark(journal):
        yield _finding(
            FindingCode.STATE_MISSING,
            STATE,
            "The query has a watermark and there is no state folder. Most queries with a watermark "
            "aggregate, join or drop duplicates, so its state has probably been lost; only if this "
            f"one does none of it, nothing is wrong. {_NO_STATE} {RESTORE}",
        )


_NO_STATE: Final = (
    "Spark 4.2 and newer refuse to start (STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY); an "
    "older one fails on the first missing state file (CANNOT_LOAD_STATE_STORE)."
)


def _partitions(journal: Journal, state: State) -> Iterator[Finding]:
    for operator, present in state.partitions.items():
        expected = state.expected[operator]
        if not present or expected is None:
            continue
        lacking = [number for number in range(min(expected, 100_000)) if number not in present]
        if lacking:
            yield _finding(
                FindingCode.STATE_PARTITIONS,
                f"{STATE}/{operator}/{lacking[0]}",
                f"Operator {operator} has {expected} state partitions by the checkpoint's own "
                f"account ({PARTITIONS}); there is no folder for partition {_some(lacking)}. Spark fails "
                f"when it loads one of them (CANNOT_LOAD_STATE_STORE). {RESTORE}",
            )
    yield from _extra_partitions(journal, state)


def _extra_partitions(journal: Journal, state: State) -> Iterator[Finding]:
    told: set[int] = set()
    for ref in state.extra:
        newest = max((file.version for file in state.files[ref]), default=-1)
        # Older files are what a repartition left behind.
        if newest < journal.next_batch or ref.operator in told:
            continue
        told.add(ref.operator)
        expected = state.expected[ref.operator]
        yield _finding(
            FindingCode.STATE_PARTITIONS,
            f"{STATE}/{ref.operator}/{ref.partition}",
            f"Operator {ref.operator} has state of batch {newest - 1} in partition {ref.partition}, "
            f"but the newest plan pins {expected} partitions only. Spark starts and never reads "
            "the state in the others: results are wrong without a word. The pinned number "
            f"({PARTITIONS}) was changed by hand, or two checkpoints were mixed. {RESTORE}",
        )


def _missing_stores(state: State) -> Iterator[Finding]:
    for operator in state.operators:
        present = {ref.name for ref in state.of(operator)}
        metadata = state.metadata.get(operator)
        needed = {store.name for store in metadata.stores} if metadata else set()
        if present & JOIN_STORES:
            needed |= JOIN_STORES
        for name in sorted(needed - present if present else ()):
            yield _finding(
                FindingCode.STATE_MISSING,
                f"{STATE}/{operator}",
                f"The state store {name} of operator {operator} has no folder in any "
                f"partition. Spark fails when it loads it (CANNOT_LOAD_STATE_STORE). {RESTORE}",
            )


def _future(journal: Journal, state: State) -> Iterator[Finding]:
    if state.state_format == 2:
        return
    newest = journal.last_possible + 1
    left = _beyond(newest, state) if journal.planned or journal.committed else []
    if left:
        yield _finding(
            FindingCode.STATE_FROM_THE_FUTURE,
            left[0],
            f"{len(left)} state files are of versions after {newest}, which the newest planned "
            f"batch {journal.last_possible} leaves behind, e.g. {left[0]}. They belong to a "
            "timeline that was given up, e.g. by going back to an older batch in place. Spark "
            "starts, and when it gets to those versions it may load them instead of its own: wrong "
            "results without a word (measured with snapshots and with RocksDB). Stop the query and "
            f"delete every state file of a version after {newest}, or restore a backup into a new "
            "place.",
        )


def _beyond(version: int, state: State) -> list[str]:
    return sorted(
        f"{ref.folder}/{file.name}"
        for ref, files in state.files.items()
        for file in files
        if file.version > version
    )


def told_operators(journal: Journal) -> set[int]:
    """Return the operators whose state the newest commit names, in state checkpoint format 2."""
    commit = journal.newest_commit
    return set(commit.state_ids) if commit else set()


def _watermark(journal: Journal) -> bool:
    commit, plan = journal.newest_commit, journal.newest_plan
    told = (commit.watermark_ms if commit else None, plan.watermark_ms if plan else None)
    return any(watermark is not None and watermark > 0 for watermark in told)


def _some(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return f"{shown} and {len(numbers) - 5} more" if len(numbers) > 5 else shown


def _finding(code: FindingCode, path: str, message: str) -> Finding:
    return Finding(code=code, path=path, message=message)
