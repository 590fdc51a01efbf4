"""The state files that the next batch loads: all there, and whole as far as that shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_streaming.core.checkpoint.finding import Finding, FindingCode
from airflow_streaming.core.checkpoint.integrity.logs import RESTORE
from airflow_streaming.core.checkpoint.listing import Listing, Read
from airflow_streaming.core.checkpoint.state.chain import Chain, Missing, files_for
from airflow_streaming.core.checkpoint.state.checks import check_files
from airflow_streaming.core.checkpoint.state.stores import StoreRef
from airflow_streaming.core.checkpoint.stateful import STATE, State

CONTENT_BYTES: Final = 64 * 1024 * 1024
"""State files that are looked into when nobody asks for more; a state may have terabytes."""


class Depth(Enum):
    """Which state files are looked into; that all are there is always looked at."""

    NAMES = "names"
    """None."""
    NEXT = "next"
    """Those the next batch needs, up to ``CONTENT_BYTES``."""
    COPIED = "copied"
    """The same, and Spark's own checksums of them, which take a second for 20 MB."""
    ALL = "all"
    """Those of any batch, of any number and size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """
    What was found of the files of one version.

    :param unchecked: Stores whose files are all there but were not looked into, to save time.
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
    """Say what was not looked into."""
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
        message=f"A snapshot of the state in {chain.store.folder} cannot be loaded: "
        f"{' '.join(avoided.why for avoided in chain.avoided)} Spark 4.2 and newer go back to an "
        "older one and the changes since (autoSnapshotRepair); older ones fail "
        "(CANNOT_LOAD_STATE_STORE.UNCATEGORIZED). Take "
        f"care that nobody deletes what is left. {RESTORE}",
    )


def _conflict(chain: Chain) -> Finding:
    return Finding(
        code=FindingCode.STATE_FILE_DAMAGED,
        path=chain.files[-1] if chain.files else chain.store.folder,
        message=f"The state in {chain.store.folder} is not the one that the commit log tells of: "
        f"{chain.conflict} Spark goes by the state file, so results may be of another timeline; "
        f"4.2 and newer may refuse (STATE_STORE_BASE_CHECKPOINT_ID_MISMATCH). {RESTORE}",
    )
