"""
Which files of a live checkpoint make up one committed batch.

In state checkpoint format 2 a changelog names its own ancestors, but only an LZ4-compressed one can
be read here. For any other codec every commit holds the ids of its batch's state, and the chain is
followed from commit to commit, down to a snapshot or to the empty state.

A copy of all files would be torn, because the query continues meanwhile. The files of one committed
batch are never rewritten, only purged. So the newest complete batch is pinned, and its files are
copied in the order of their risk.

From batch n a query continues with the plan of batch n + 1, if there is one, and loads version n +
1 of every state store. Newer state must not be copied: state of an abandoned timeline loads
silently. Version n is copied if present, so that a drill can run batch n again. If batch n read no
data, as Spark runs one after each burst, the version before the newest batch with data is copied.

A listing of a live checkpoint is not atomic either. An incomplete file in it may have been purged
or written during the walk, and the next walk may find it whole: this is ``Incomplete``. Damage that
another walk cannot resolve is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, zip_longest
from typing import Final

from airflow_streaming.checkpoints.backup.pinned_logs import (
    METADATA,
    Incomplete,
    PinnedLogs,
    batches,
    everything,
    lacking_log,
    logs_up_to,
    read_logs,
    source_files,
)
from airflow_streaming.checkpoints.read.journal import (
    COMMITS,
    MOST_READ,
    OFFSETS,
    recent_with_input,
)
from airflow_streaming.checkpoints.state.chain import Chain, Missing, files_for
from airflow_streaming.checkpoints.state.stores import StateForm, StateIds, StoreRef, ids_of, stores
from airflow_streaming.exceptions import CheckpointRefused, RecordError
from airflow_streaming.model.spark.listing import RESTORE_MARKER, FileStat, Listing, Read
from airflow_streaming.model.spark.logs import MAX_LOG_BYTES, OffsetLog, parse_commit_log
from airflow_streaming.model.spark.tail import batch_of

_WHOLE: Final = (StateForm.SNAPSHOT, StateForm.ZIP)

_DESCRIPTIONS: Final = frozenset({"_metadata", "_stateSchema"})

SHOWN: Final = 3
"""Strange files that a message names."""


class ToldIds:
    """
    Ids of state by batch, to which older commits are added where one lacks them.

    :param commits: Ids of the newest commits, which were read already.
    """

    def __init__(self, listing: Listing, read: Read, commits: Mapping[int, StateIds]) -> None:
        self._listing, self._read = listing, read
        self._ids = dict(commits)
        self._is_ended = not any(commits.values())

    @property
    def oldest(self) -> int:
        """Return the oldest commit that was read."""
        return min(self._ids)

    def chain(self, ref: StoreRef, version: int) -> Chain | Missing:
        """
        Return the files that load a version of a store; see ``files_for``.

        :raises HomeUnavailable: the checkpoint cannot be read.
        """
        while True:
            ids = ids_of(ref, self._ids, self._listing)
            found = files_for(self._listing, self._read, ref, version, ids)
            if isinstance(found, Chain) or not _lacks_ids(found) or not self._went_back(ref):
                return found

    def _went_back(self, ref: StoreRef) -> bool:
        """Read on, down to a commit whose batch left a whole snapshot of the store behind."""
        before = self.oldest
        while self._read_one():
            if self._has_whole(ref, self.oldest):
                return True
        return self.oldest < before

    def _read_one(self) -> bool:
        batch = self.oldest - 1
        path = f"{COMMITS}/{batch}"
        if self._is_ended or len(self._ids) >= MOST_READ or self._listing.stat(path) is None:
            return False
        try:
            data = self._read(path, MAX_LOG_BYTES)
            ids = None if data is None else parse_commit_log(data).state_ids
        except RecordError:
            ids = None
        if ids is None:
            # Purged or damaged; the chain below is unusable.
            self._is_ended = True
            return False
        self._ids[batch] = ids
        return True

    def _has_whole(self, ref: StoreRef, batch: int) -> bool:
        ids = ids_of(ref, {batch: self._ids[batch]}, self._listing) or {}
        unique_id = ids.get(batch + 1)
        names = self._listing.files(ref.folder)
        return any(f"{batch + 1}_{unique_id}.{form}" in names for form in _WHOLE)


def _lacks_ids(found: Missing) -> bool:
    # A file that is too large to be read is named; an id that nothing tells has no file.
    return found.is_unknown and found.path == found.store.folder


def state_files_of(
    listing: Listing, batch: int, state_ids: ToldIds, *, runs_again: int | None = None
) -> list[str] | Incomplete:
    """
    Return the files of the state after a batch, oldest of every store first.

    The files of the state before the batch are included if whole.

    :param state_ids: Ids of state from the commit log, of this batch and at least the one before.
    :param runs_again: An older batch whose files are included too.
    """
    begins = [batch] if runs_again is None or runs_again > batch else [runs_again, batch]
    needed: list[list[str]] = []
    spare: dict[int, list[list[str]]] = {version: [] for version in begins}
    for ref in stores(listing):
        found = _chain(ref, batch + 1, state_ids)
        if isinstance(found, Incomplete):
            return found
        needed.append(found)
        for version, chains in spare.items():
            earlier = _chain(ref, version, state_ids)
            chains.append([] if isinstance(earlier, Incomplete) else earlier)
    # A purge removes the oldest files of all stores alike.
    return list(dict.fromkeys(chain.from_iterable(map(_in_turn, [*spare.values(), needed]))))


def described_state(listing: Listing, planned: int) -> list[str]:
    """
    Return the schemas and the metadata of all operators.

    :param planned: The newest batch that is taken; Spark notes the batch in some of the names.
    """
    described = chain.from_iterable(
        everything(listing, folder) for folder in _described(listing, "state")
    )
    return [path for path in described if _noted_batch(path) <= planned]


def is_versioned_metadata(path: str) -> bool:
    """Tell whether a file is operator metadata that names its schemas by absolute paths."""
    return path.startswith("state/") and "/_metadata/v2/" in path


def _chain(ref: StoreRef, version: int, state_ids: ToldIds) -> list[str] | Incomplete:
    found = state_ids.chain(ref, version)
    if isinstance(found, Missing):
        return Incomplete(found.path, found.why)
    return list(found.files)


def _in_turn(chains: Iterable[list[str]]) -> Iterator[str]:
    for files in zip_longest(*chains):
        yield from (path for path in files if path is not None)


def _described(listing: Listing, folder: str) -> Iterator[str]:
    for name in listing.subfolders(folder):
        path = f"{folder}/{name}"
        if name in _DESCRIPTIONS:
            yield path
        else:
            yield from _described(listing, path)


def _noted_batch(path: str) -> int:
    """Return the batch in the name of a schema or of versioned metadata; -1 for other files."""
    name = path.rpartition("/")[2]
    if is_versioned_metadata(path):
        batch = batch_of(name)
    elif "/_stateSchema/" in path:
        batch = batch_of(name.partition("_")[0])
    else:
        batch = None
    return -1 if batch is None else batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """
    A batch and its files.

    :param planned: ``batch + 1`` if its plan is among the files, else ``batch``.
    :param files: Paths in the checkpoint; the first to be purged come first.
    :param plan: The plan of the batch.
    :param has_absolute_paths: The checkpoint names files of its own by absolute paths.
    :param oldest_told: The oldest commit that was read for ids of state.
    :param oldest_needed: The oldest batch whose plan and commit the copy needs. Older ones are
        included so that the copy can be inspected, and cut back, as far as the original.
    """

    batch: int
    planned: int
    files: tuple[str, ...]
    plan: OffsetLog
    has_absolute_paths: bool = False
    oldest_told: int | None = None
    oldest_needed: int = 0


def choose_pin(listing: Listing, read: Read, *, at_least: int | None = None) -> Pin | Incomplete:
    """
    Return the newest complete committed batch of a listing, or the gap of the newest one.

    :param at_least: A batch that was committed before the walk began, so this or a later one must
        be complete; without it only the newest one is tried.
    :raises CheckpointRefused: A retry will not help: not a Spark checkpoint, no committed batch
        yet, or it holds links, pipes or devices.
    """
    _refuse(listing)
    commits = batches(listing, "commits")
    lowest = commits[-1] if at_least is None else at_least
    first: Incomplete | None = None
    for batch in reversed(commits):
        found = _pin_at(batch, listing, read)
        if isinstance(found, Pin):
            return found
        first = first or found
        if batch <= lowest:
            break
    return first or Incomplete("commits", "No batch is committed.")


def still_holds(pin: Pin, before: Listing, after: Listing) -> Incomplete | None:
    """
    Return why a copied pin may be torn; ``None`` if it is whole.

    A file purged after it was copied does no harm; a rewritten one does.

    :param before: The listing of the pin.
    :param after: A listing made after the last file was copied.
    """
    changed = next((path for path in pin.files if is_changed(path, before, after)), None)
    if changed is not None:
        return Incomplete(
            changed, f"{changed} was written anew while it was copied.", is_moving=True
        )
    if after.stat(METADATA) is None:
        return Incomplete(METADATA, f"{METADATA} is gone.")
    commits = batches(after, "commits")
    if not commits or commits[-1] < pin.batch or _is_lost(pin.batch, commits):
        return Incomplete(f"commits/{pin.batch}", f"The commit of batch {pin.batch} is gone.")
    return _skipped(pin, before, commits)


def without(pin: Pin, purged: Iterable[str]) -> Pin | None:
    """
    Return a pin that does without old plans and commits; ``None`` when it needs one of the files.

    A query that is quick keeps them for less time than a store that is slow takes to be read. With one
    of them all older ones go, of both logs, so that neither has a hole.

    :param purged: Files that were gone before they could be copied.
    """
    gone = list(map(_logged_batch, purged))
    oldest = max((-1 if batch is None else batch for batch in gone), default=-1) + 1
    if None in gone or oldest > pin.oldest_needed:
        return None
    files = [(path, _logged_batch(path)) for path in pin.files]
    kept = tuple(path for path, batch in files if batch is None or batch >= oldest)
    return replace(pin, files=kept)


def _logged_batch(path: str) -> int | None:
    """Return the batch of a plan or a commit; ``None`` for other files."""
    folder, _, name = path.partition("/")
    return batch_of(name) if folder in (OFFSETS, COMMITS) else None


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
    return "It is not a checkpoint: it has no metadata, no plans and no commits."


def _pin_at(batch: int, listing: Listing, read: Read) -> Pin | Incomplete:
    lacking = lacking_log(listing, batch)
    if lacking is not None:
        return lacking
    logs = read_logs(listing, read, batch)
    if isinstance(logs, Incomplete):
        return logs
    ids = {number: commit.state_ids for number, commit in logs.commits.items()}
    state_ids = ToldIds(listing, read, ids)
    again = _runs_again(listing, read, batch)
    state = state_files_of(listing, batch, state_ids, runs_again=again)
    if isinstance(state, Incomplete):
        return state
    pin = _assembled(batch, listing, logs, state)
    if isinstance(pin, Incomplete):
        return pin
    executed = batch if again is None else min(again, batch)
    # A batch is executed again from the commit of the one before it.
    needed = max(0, min(executed - 1, state_ids.oldest))
    return replace(pin, oldest_told=state_ids.oldest, oldest_needed=needed)


def _runs_again(listing: Listing, read: Read, batch: int) -> int | None:
    """Return the newest batch that read something, counting the planned one; none without state."""
    if not listing.subfolders("state"):
        return None
    following = batch + 1
    newest = batch if listing.stat(f"{OFFSETS}/{following}") is None else following
    return next(recent_with_input(read, newest), None)


def _assembled(
    batch: int, listing: Listing, logs: PinnedLogs, state: list[str]
) -> Pin | Incomplete:
    current = source_files(listing, logs.plan)
    following = None if logs.next_plan is None else source_files(listing, logs.next_plan)
    # The next plan may be newer than the walk of the sources; then it is left out.
    planned = batch + 1 if isinstance(following, list) else batch
    if isinstance(current, Incomplete):
        # Files of this batch alone may have been compacted; the next plan is enough.
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


def _skipped(pin: Pin, before: Listing, commits: Sequence[int]) -> Incomplete | None:
    """Return a batch that was planned after a batch that is still not committed."""
    planned = [batch for batch in batches(before, "offsets") if batch > pin.planned]
    lost = next((batch - 1 for batch in planned if _is_lost(batch - 1, commits)), None)
    if lost is None:
        return None
    return Incomplete(
        f"offsets/{lost + 1}",
        f"Batch {lost + 1} is planned, but batch {lost} is not committed. Spark would run the last "
        f"plan only, and what batch {lost} was to read is never read.",
    )


def _is_lost(batch: int, commits: Sequence[int]) -> bool:
    return batch >= commits[0] and batch not in commits


def pinned_listing(pin: Pin, listing: Listing) -> Listing:
    """Return the listing of the pinned files, as a walk of the copy will find it."""
    folders: dict[str, dict[str, FileStat]] = {"": {}}
    for path in pin.files:
        folder, _, name = path.rpartition("/")
        for parent in accumulate(folder.split("/"), "{}/{}".format):
            folders.setdefault(parent, {})
        stat = listing.stat(path)
        if stat is not None:
            folders[folder][name] = stat
    return Listing(folders)


def with_checksums(pinned: Listing, live: Listing) -> Listing:
    """
    Add the checksums that Hadoop keeps beside the pinned files to the listing.

    They are not copied, but the copy is checked against them: damage that Spark would notice in the
    original must not enter a backup.
    """
    folders = {
        folder: {
            **files,
            **{
                hidden: stat
                for hidden in (f".{name}.crc" for name in files)
                if (stat := live.files(folder).get(hidden)) is not None
            },
        }
        for folder, files in pinned.folders.items()
    }
    return Listing(folders)


def lost_operators(pinned: Listing, live: Listing) -> list[str]:
    """Return the operators that have a folder, and nothing in it that could be pinned."""
    return sorted(
        set(filter(str.isdecimal, live.subfolders("state"))) - set(pinned.subfolders("state"))
    )
