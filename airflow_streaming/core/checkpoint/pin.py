"""
Pin: which files of a live checkpoint make up one committed batch.

A copy of everything is torn, because the query goes on underneath. A copy of what one committed
batch needs is not: its files are never written again, they can only be purged. So a batch is
pinned, the newest one of which everything is there, and its files are copied in the order in which
they are at risk.

From batch n a query goes on with the plan of batch n + 1, if there is one, and loads version n + 1
of every state store. Nothing newer may be taken along: state of an abandoned timeline loads without
a word. Version n is taken where it is still there, so that a drill can run batch n again.

A listing of a live checkpoint is not a moment either. What is not whole in it may have been purged,
or written, while the walk went by, and may be found whole by the next walk: that is ``Unready``. What
will not get better by looking again is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_streaming.core.checkpoint.listing import RESTORE_MARKER, Listing, Read
from airflow_streaming.core.checkpoint.logs import OffsetLog
from airflow_streaming.core.checkpoint.pin_ids import ToldIds
from airflow_streaming.core.checkpoint.pin_logs import (
    METADATA,
    PinnedLogs,
    batches,
    lacking_log,
    logs_up_to,
    read_logs,
)
from airflow_streaming.core.checkpoint.pin_sources import source_files
from airflow_streaming.core.checkpoint.pin_state import (
    described_state,
    is_versioned_metadata,
    state_files_of,
)
from airflow_streaming.core.checkpoint.unready import Unready
from airflow_streaming.exceptions import CheckpointRefused

SHOWN: Final = 3
"""Strange files that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """
    One batch and its files.

    :param batch: The committed batch.
    :param planned: ``batch + 1`` when its plan is among the files, else ``batch``.
    :param files: Paths in the checkpoint; what is purged first comes first.
    :param plan: The plan of the batch.
    :param has_absolute_paths: The checkpoint names files of its own by absolute paths.
    :param oldest_told: The oldest commit that was read to tell the ids of state.
    """

    batch: int
    planned: int
    files: tuple[str, ...]
    plan: OffsetLog
    has_absolute_paths: bool = False
    oldest_told: int | None = None


def choose_pin(listing: Listing, read: Read, *, at_least: int | None = None) -> Pin | Unready:
    """
    Return the newest committed batch that is whole in a listing, or what the newest one lacks.

    :param at_least: A batch that was committed before the walk began, so that it or a later one
        must be whole; only the newest one is tried without it.
    :raises CheckpointRefused: looking again will not help: it is no checkpoint of Spark, nothing
        is committed yet, or it holds links, pipes or devices.
    :raises HomeUnavailable: the store cannot be reached.
    """
    _refuse(listing)
    commits = batches(listing, "commits")
    lowest = commits[-1] if at_least is None else at_least
    first: Unready | None = None
    for batch in reversed(commits):
        found = _pin_at(batch, listing, read)
        if isinstance(found, Pin):
            return found
        first = first or found
        if batch <= lowest:
            break
    return first or Unready("commits", "No batch is committed.")


def still_holds(pin: Pin, before: Listing, after: Listing) -> Unready | None:
    """
    Tell why what was copied for a pin may be torn; ``None`` when it is not.

    A file that was purged after it was copied does no harm; one that was written anew does.

    :param before: The listing that the pin was chosen from.
    :param after: A listing made after the last file was copied.
    """
    changed = next((path for path in pin.files if is_changed(path, before, after)), None)
    if changed is not None:
        return Unready(changed, f"{changed} was written anew while it was copied.", is_moving=True)
    if after.stat(METADATA) is None:
        return Unready(METADATA, f"{METADATA} is gone.")
    commits = batches(after, "commits")
    if not commits or commits[-1] < pin.batch or _is_lost(pin.batch, commits):
        return Unready(f"commits/{pin.batch}", f"The commit of batch {pin.batch} is gone.")
    return _skipped(pin, before, commits)


def is_changed(path: str, before: Listing, after: Listing) -> bool:
    """Tell whether a file was written anew; a purged one was not."""
    now = after.stat(path)
    return now is not None and now != before.stat(path)


def _refuse(listing: Listing) -> None:
    if listing.strange:
        shown = sorted(listing.strange.items())[:SHOWN]
        named = ", ".join(f"{path} ({what})" for path, what in shown)
        raise CheckpointRefused(
            f"The checkpoint holds {len(listing.strange)} things that Spark never makes: {named}. "
            "Nothing of them was followed or opened. Remove them and try again."
        )
    if listing.stat(RESTORE_MARKER) is not None:
        raise CheckpointRefused(
            "A restore into this checkpoint was not finished. Finish or abandon it first."
        )
    if not batches(listing, "commits"):
        raise CheckpointRefused(_nothing_committed(listing))


def _nothing_committed(listing: Listing) -> str:
    planned = batches(listing, "offsets")
    if len(planned) > 1:
        return (
            f"{len(planned)} batches are planned and none is committed: the commits are lost. "
            "Restore a backup, or look at the checkpoint with inspect."
        )
    if planned or listing.stat(METADATA) is not None:
        return "The query has not committed a batch yet. Try again after its first one."
    return "It is no checkpoint: it has no metadata, no plans and no commits."


def _pin_at(batch: int, listing: Listing, read: Read) -> Pin | Unready:
    lacking = lacking_log(listing, batch)
    if lacking is not None:
        return lacking
    logs = read_logs(listing, read, batch)
    if isinstance(logs, Unready):
        return logs
    ids = {number: commit.state_ids for number, commit in logs.commits.items()}
    told = ToldIds(listing, read, ids)
    state = state_files_of(listing, batch, told)
    if isinstance(state, Unready):
        return state
    pin = _assembled(batch, listing, logs, state)
    return pin if isinstance(pin, Unready) else replace(pin, oldest_told=told.oldest)


def _assembled(batch: int, listing: Listing, logs: PinnedLogs, state: list[str]) -> Pin | Unready:
    current = source_files(listing, logs.plan)
    following = None if logs.next_plan is None else source_files(listing, logs.next_plan)
    # The next plan may be younger than what the walk saw of the sources: then it is left out.
    planned = batch + 1 if isinstance(following, list) else batch
    if isinstance(current, Unready):
        # What only this batch needs may have been compacted away; the next plan is enough.
        if planned == batch:
            return current
        current = []
    described = described_state(listing, planned)
    files = [
        *state,
        *current,
        *(following if isinstance(following, list) else []),
        *logs_up_to(listing, "offsets", planned),
        *logs_up_to(listing, "commits", batch),
        *described,
        METADATA,
    ]
    return Pin(
        batch=batch,
        planned=planned,
        files=tuple(dict.fromkeys(files)),
        plan=logs.plan,
        has_absolute_paths=any(map(is_versioned_metadata, described)),
    )


def _skipped(pin: Pin, before: Listing, commits: Sequence[int]) -> Unready | None:
    """Tell of a batch that was planned after one that is still not committed."""
    planned = [batch for batch in batches(before, "offsets") if batch > pin.planned]
    lost = next((batch - 1 for batch in planned if _is_lost(batch - 1, commits)), None)
    if lost is None:
        return None
    return Unready(
        f"offsets/{lost + 1}",
        f"Batch {lost + 1} is planned, but batch {lost} is not committed. Spark would run the last "
        f"plan only, and what batch {lost} was to read is never read.",
    )


def _is_lost(batch: int, commits: Sequence[int]) -> bool:
    return batch >= commits[0] and batch not in commits
