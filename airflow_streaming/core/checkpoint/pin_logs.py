"""The two logs' part of a pin: the plans and commits that end with a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from airflow_streaming.core.checkpoint.listing import Listing, Read
from airflow_streaming.core.checkpoint.logs import (
    CommitLog,
    OffsetLog,
    parse_commit_log,
    parse_offset_log,
)
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES
from airflow_streaming.core.checkpoint.unready import Unready
from airflow_streaming.core.foreign.tail import batch_of
from airflow_streaming.exceptions import RecordError

METADATA: Final = "metadata"

Log = TypeVar("Log", OffsetLog, CommitLog)


class PinnedLogs(NamedTuple):
    """The plans and commits that are read: of the pinned batch and of its neighbours."""

    plan: OffsetLog
    next_plan: OffsetLog | None
    commits: dict[int, CommitLog]


def batches(listing: Listing, folder: str) -> list[int]:
    """Return the batches that a log has a file of, oldest first."""
    found = (batch_of(name) for name in listing.files(folder))
    return sorted(batch for batch in found if batch is not None)


def lacking_log(listing: Listing, batch: int) -> Unready | None:
    """
    Return what is missing of the two logs right below the batch.

    Holes further down do no harm: a purge may leave them for a moment.
    """
    if listing.stat(METADATA) is None:
        return Unready(METADATA, f"{METADATA} is missing, which holds the query's id.")
    if listing.stat(f"offsets/{batch}") is None:
        return Unready(f"offsets/{batch}", f"Batch {batch} is committed, but its plan is missing.")
    for folder in ("offsets", "commits"):
        numbers = batches(listing, folder)
        if batch - 1 not in numbers and numbers[0] < batch - 1:
            return Unready(
                f"{folder}/{batch - 1}",
                f"{folder}/{batch - 1} is missing among others. Either it was lost, or the query "
                "runs with asynchronous progress tracking or in real-time mode, whose checkpoints "
                "cannot be copied while it runs.",
            )
    return None


def read_logs(listing: Listing, read: Read, batch: int) -> PinnedLogs | Unready:
    """Read the plans and commits of a batch and of its neighbours."""
    plan = _load(read, f"offsets/{batch}", parse_offset_log)
    following = None
    if listing.stat(f"offsets/{batch + 1}") is not None:
        following = _load(read, f"offsets/{batch + 1}", parse_offset_log)
    if isinstance(plan, Unready):
        return plan
    if isinstance(following, Unready):
        return following
    commits = {}
    for number in (batch - 1, batch):
        if number != batch and listing.stat(f"commits/{number}") is None:
            continue
        commit = _load(read, f"commits/{number}", parse_commit_log)
        if isinstance(commit, Unready):
            return commit
        commits[number] = commit
    return PinnedLogs(plan, following, commits)


def _load(read: Read, path: str, parse: Callable[[bytes], Log]) -> Log | Unready:
    try:
        data = read(path, MAX_LOG_BYTES)
        return Unready(path, f"{path} is gone.", is_moving=True) if data is None else parse(data)
    except RecordError as err:
        return Unready(path, f"{path} cannot be used: {err}")


def logs_up_to(listing: Listing, folder: str, last: int) -> list[str]:
    """Return the files of a log that end with a batch and have no hole, oldest first."""
    numbers, first = set(batches(listing, folder)), last
    while first - 1 in numbers:
        first -= 1
    return [f"{folder}/{batch}" for batch in range(first, last + 1)]
