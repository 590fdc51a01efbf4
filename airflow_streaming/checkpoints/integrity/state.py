"""State that is missing, damaged, or in another number of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Final

from airflow_streaming.checkpoints.integrity.logs import RESTORE
from airflow_streaming.checkpoints.read.journal import PARTITIONS, Journal
from airflow_streaming.checkpoints.read.report import Finding, FindingCode
from airflow_streaming.checkpoints.read.stateful import STATE, State
from airflow_streaming.checkpoints.state.chain import Chain, Missing, files_for
from airflow_streaming.checkpoints.state.file_checks import check_files
from airflow_streaming.checkpoints.state.stores import StoreRef
from airflow_streaming.model.spark.listing import Listing, Read

CONTENT_BYTES: Final = 64 * 1024 * 1024
"""State files that are looked into by default; a state may have terabytes."""

MOST_NAMED: Final = 20
"""Findings of one kind that are reported one by one; a thousand partitions may lack the same."""
JOIN_STORES: Final = frozenset(
    f"{side}-{what}"
    for side in ("left", "right")
    for what in ("keyToNumValues", "keyWithIndexToValue")
)
"""The four stores of a stream-stream join; they exist together (SymmetricHashJoin)."""

_NO_STATE: Final = (
    "Spark 4.2 and newer refuse to start (STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY); an "
    "older one fails on the first missing state file (CANNOT_LOAD_STATE_STORE)."
)


class Depth(Enum):
    """Which state files are read; presence is always checked."""

    NAMES = "names"
    """None."""
    NEXT = "next"
    """Files the next batch needs, up to ``CONTENT_BYTES``."""
    COPIED = "copied"
    """The same, and Spark's own checksums of them, which take a second for 20 MB."""
    ALL = "all"
    """Files of all batches, of any number and size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """
    The result of checking the files of one version.

    :param unchecked: Stores whose files are present but were not read, to save time.
    """

    problems: tuple[Finding, ...]
    remarks: tuple[Finding, ...]
    unchecked: int = 0


def judge_version(listing: Listing, read: Read, state: State, version: int, depth: Depth) -> Judged:
    """
    Judge the files that load one version of every store.

    :param version: Batch N loads version N; 0 is the empty state and needs no file.
    """
    judge = _Judge(listing, read, depth)
    if version > 0:
        for ref in state.refs:
            judge.look_at(files_for(listing, read, ref, version, state.ids[ref]))
    return Judged(
        problems=tuple(judge.problems), remarks=tuple(judge.remarks), unchecked=judge.unchecked
    )


def loads(listing: Listing, read: Read, ref: StoreRef, state: State, version: int) -> bool:
    """Tell whether a store can load a version, its zip looked into."""
    chain = files_for(listing, read, ref, version, state.ids[ref])
    return isinstance(chain, Chain) and not chain.avoided


class _Judge:
    def __init__(self, listing: Listing, read: Read, depth: Depth) -> None:
        self._listing, self._read, self._depth = listing, read, depth
        self._left = CONTENT_BYTES
        self.problems: list[Finding] = []
        self.remarks: list[Finding] = []
        self.unchecked = 0

    def look_at(self, chain: Chain | Missing) -> None:
        if isinstance(chain, Missing):
            (self.remarks if chain.is_unknown else self.problems).append(_missing(chain))
            return
        if chain.avoided:
            self.problems.append(_avoided(chain))
        if chain.conflict:
            self.problems.append(_conflict(chain))
        if self._depth is Depth.NAMES:
            return
        self._left -= sum(self._size(path) for path in chain.files)
        thorough = self._depth is Depth.ALL
        if self._left < 0 and not thorough:
            self.unchecked += 1
            return
        found = check_files(
            chain,
            self._listing,
            self._read,
            thorough=thorough,
            checksums=self._depth is Depth.COPIED,
        )
        self.problems.extend(found)

    def _size(self, path: str) -> int:
        stat = self._listing.stat(path)
        return stat.size if stat else 0


def unchecked_remark(judged: Judged) -> Iterator[Finding]:
    """Report the unread stores."""
    if judged.unchecked:
        yield Finding(
            code=FindingCode.TOO_LARGE,
            path=STATE,
            message=f"The state is large: the files of {judged.unchecked} stores are all there in "
            "their number, but were not looked into. A thorough inspection does.",
        )


def _missing(missing: Missing) -> Finding:
    ref, version = missing.store, missing.state_version
    where = f"Version {version} of the state in {ref.folder}, which the next batch needs"
    if missing.is_unknown:
        return Finding(
            code=FindingCode.STATE_VERSION_MISSING,
            path=missing.path,
            message=f"{where}, may or may not be whole: {missing.why}",
        )
    if missing.is_damaged:
        return Finding(
            code=FindingCode.STATE_FILE_DAMAGED,
            path=missing.path,
            message=f"{where}, cannot be loaded: {missing.why} Spark fails on it "
            f"(CANNOT_LOAD_STATE_STORE.UNCATEGORIZED). {RESTORE}",
        )
    return Finding(
        code=FindingCode.STATE_VERSION_MISSING,
        path=missing.path,
        message=f"{where}, is not whole: {missing.why} Spark fails on it "
        "(CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS for the HDFS-backed store, "
        f"CANNOT_READ_STREAMING_STATE_FILE for RocksDB). {RESTORE}",
    )


def _avoided(chain: Chain) -> Finding:
    return Finding(
        code=FindingCode.STATE_FILE_DAMAGED,
        path=chain.avoided[0].path,
        message=(
            f"A snapshot of the state in {chain.store.folder} cannot be loaded: "
            f"{' '.join(avoided.why for avoided in chain.avoided)} Spark 4.2 and newer use an "
            "older one and the changes since (autoSnapshotRepair); older ones fail "
            "(CANNOT_LOAD_STATE_STORE.UNCATEGORIZED). Do not delete the remaining files. "
            f"{RESTORE}"
        ),
    )


def _conflict(chain: Chain) -> Finding:
    return Finding(
        code=FindingCode.STATE_FILE_DAMAGED,
        path=chain.files[-1] if chain.files else chain.store.folder,
        message=(
            f"The state in {chain.store.folder} is not the one named in the commit log: "
            f"{chain.conflict} Spark uses the state file, so results may be of another timeline; "
            f"4.2 and newer may refuse (STATE_STORE_BASE_CHECKPOINT_ID_MISMATCH). {RESTORE}"
        ),
    )


def state_problems(journal: Journal, state: State) -> Iterator[Finding]:
    """Check the state as a whole, by the names of its files."""
    if journal.next_batch > 0:
        yield from _missing_operators(journal, state)
        yield from _partitions(journal, state)
        yield from _missing_stores(state)
    yield from _future(journal, state)


def state_remarks(journal: Journal, state: State) -> Iterator[Finding]:
    """Return unknowns of the state."""
    if journal.next_batch > 0 and is_stateful(journal, state) is None and not _watermark(journal):
        yield _finding(
            FindingCode.STATE_UNKNOWN,
            STATE,
            "There is no state folder, as for any query without state. These logs cannot show "
            "whether the folder of a stateful query was lost: if the query aggregates, joins or "
            "drops duplicates, the checkpoint is incomplete.",
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
            "The query has a watermark and there is no state folder. Most queries with a "
            "watermark aggregate, join or drop duplicates, so its state has probably been lost. "
            f"Ignore this only if the query does none of them. {_NO_STATE} {RESTORE}",
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
                f"Operator {operator} has {expected} state partitions according to the checkpoint "
                f"({PARTITIONS}); there is no folder for partition {_some(lacking)}. Spark fails "
                f"when it loads one of them (CANNOT_LOAD_STATE_STORE). {RESTORE}",
            )
    yield from _extra_partitions(journal, state)


def _extra_partitions(journal: Journal, state: State) -> Iterator[Finding]:
    told: set[int] = set()
    for ref in state.extra:
        newest = max((file.version for file in state.files[ref]), default=-1)
        # Older files are leftovers of a repartition.
        if newest < journal.next_batch or ref.operator in told:
            continue
        told.add(ref.operator)
        expected = state.expected[ref.operator]
        yield _finding(
            FindingCode.STATE_PARTITIONS,
            f"{STATE}/{ref.operator}/{ref.partition}",
            f"Operator {ref.operator} has state of batch {newest - 1} in partition {ref.partition}, "
            f"but the newest plan pins {expected} partitions only. Spark starts and never reads "
            "the state in the others: results are silently wrong. The pinned number "
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
            f"{len(left)} state files have versions after {newest}, the version of the newest "
            f"planned batch {journal.last_possible}, e.g. {left[0]}. They belong to an abandoned "
            "timeline, e.g. after a return to an older batch in place. Spark starts, and when it "
            "reaches those versions it may load them instead of its own: wrong results without "
            "an error (measured with snapshots and with RocksDB). Stop the query and delete "
            f"every state file of a version after {newest}, or restore a backup into a new place.",
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
    text = ", ".join(map(str, numbers[:5]))
    return f"{text} and {len(numbers) - 5} more" if len(numbers) > 5 else text


def _finding(code: FindingCode, path: str, message: str) -> Finding:
    return Finding(code=code, path=path, message=message)
