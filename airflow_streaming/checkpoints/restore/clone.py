"""
Clone and carry-over: a new checkpoint straight from a live one.

A clone is a pinned copy, as a backup is, written to a new place instead of a store. It is a query of
its own: it gets a new id, and its paths are rewritten. A carry-over takes over nothing but how far
the sources were read.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_streaming.checkpoints.backup.live_copy import Source, copy_live
from airflow_streaming.checkpoints.backup.pin import choose_pin, pinned_listing, still_holds
from airflow_streaming.checkpoints.backup.pinned_logs import METADATA, Incomplete
from airflow_streaming.checkpoints.backup.records import COPY, Member
from airflow_streaming.checkpoints.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.checkpoints.read.reading import read_checkpoint
from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.restore.carry_over import CarryOver, plan_carry_over
from airflow_streaming.checkpoints.restore.checkpoint_writer import (
    LATE,
    NewFile,
    Written,
    discard,
    read_back,
    write_checkpoint,
)
from airflow_streaming.checkpoints.restore.refusal import of_place
from airflow_streaming.checkpoints.restore.relocation import names_paths, relocated
from airflow_streaming.checkpoints.restore.replay import RefusalCode
from airflow_streaming.checkpoints.restore.target import Target, open_target
from airflow_streaming.checkpoints.vault.layout import check_apart
from airflow_streaming.exceptions import CheckpointBusy, CheckpointRefused, RestoreRefused
from airflow_streaming.model.spark.listing import FileStat, Listing
from airflow_streaming.storage.blobs import Elsewhere
from airflow_streaming.storage.folders import Folders, open_folders, walk

_CHECKSUM = ".crc"

_ATTEMPTS = 5


class CloneTaker:
    """
    Writes the files of a live copy to a target.

    State is written at once. Logs, and files that must be rewritten, are small and are kept until
    the copy is complete.

    :param to: URI of the new checkpoint.
    :param instead: Replaced content of files, by path.
    """

    def __init__(self, target: Target, to: str, instead: Mapping[str, bytes]) -> None:
        self._target, self._to, self._instead = target, to, instead
        self._kept: dict[str, bytes] = {}
        self._taken: dict[str, Member] = {}

    def expect(self, files: Iterable[tuple[str, FileStat]]) -> None:
        """Do nothing: every file is written alone."""

    def known(self, path: str, size: int, stamp: str) -> Member | None:
        member = self._taken.get(path)
        is_same = member is not None and stamp and (member.size, member.stamp) == (size, stamp)
        return member if is_same else None

    def add(self, path: str, data: bytes, stamp: str = "") -> Member:
        if path.startswith(LATE) or _is_rewritten(path):
            self._kept[path] = data
        else:
            self._write(path, len(data), (data,))
        return self._note(path, len(data), stamp)

    def add_large(
        self,
        path: str,
        chunks: Iterable[bytes],
        stamp: str = "",
        *,
        elsewhere: Elsewhere | None = None,
    ) -> Member:
        if path.startswith(LATE) or _is_rewritten(path):
            return self.add(path, b"".join(chunks), stamp)
        sizes: list[int] = []
        self._write(path, -1, _measured(chunks, sizes))
        return self._note(path, sum(sizes), stamp)

    def close(self, members: Sequence[Member]) -> Written:
        """
        Write the kept files and remove unneeded ones.

        :raises RestoreRefused: It names files that cannot be moved.
        """
        paths = {member.path for member in members}
        for path in sorted(self._taken.keys() - paths - self._kept.keys()):
            self._target.remove(path)
        kept = {path: data for path, data in self._kept.items() if path in paths}
        files = {path: self._moved(path, data, paths) for path, data in kept.items()}
        written = {**files, **{path: self._instead[path] for path in self._instead}}
        # Spark's own checksum of a file that is rewritten would be wrong.
        stale = [path for path in written if _is_checksum(path)]
        for path in stale:
            del written[path]
        write_checkpoint(self._target, "", (NewFile(p, len(d), (d,)) for p, d in written.items()))
        size = sum(member.size for member in members if member.path not in stale)
        return Written(len(paths) - len(stale), size)

    def _moved(self, path: str, data: bytes, paths: set[str]) -> bytes:
        return relocated(path, data, has=paths.__contains__, to=self._to)

    def _write(self, path: str, size: int, chunks: Iterable[bytes]) -> None:
        if path in self._taken:
            self._target.remove(path)
        self._target.write(path, size, chunks)

    def _note(self, path: str, size: int, stamp: str) -> Member:
        member = Member(path=path, size=size, sha256="", stamp=stamp)
        self._taken[path] = member
        return member


def _is_rewritten(path: str) -> bool:
    return names_paths(path) or _is_checksum(path)


def _is_checksum(path: str) -> bool:
    return path.endswith(_CHECKSUM) and names_paths(path.removesuffix(_CHECKSUM))


def _measured(chunks: Iterable[bytes], sizes: list[int]) -> Iterable[bytes]:
    for chunk in chunks:
        sizes.append(len(chunk))
        yield chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloned:
    """
    The result of a clone.

    :param checkpoint: The new checkpoint, as read back.
    """

    uri: str
    query_id: str
    batch: int
    files: int
    size: int
    checkpoint: Checkpoint


def clone(
    uri: str,
    to: str,
    *,
    query_id: str | None = None,
    keep_query_id: bool = False,
    beside: Mapping[str, bytes] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    attempts: int = _ATTEMPTS,
    progress: Progress = no_progress,
) -> Cloned:
    """
    Copy a live checkpoint to a new place as an independent query.

    :param uri: A query's checkpoint; it is read only.
    :param to: A place that is missing or empty.
    :param query_id: The clone's id; a new random one when not given.
    :param keep_query_id: Keep the original's id instead, for a move.
    :param beside: More files of the new checkpoint, by path.
    :raises CheckpointRefused: it cannot be copied.
    :raises CheckpointBusy: it changed during every attempt.
    :raises SpecError: one of the two places lies inside the other, or the new one inside another
        checkpoint or a backup store.
    :raises RestoreRefused: there is something at ``to``, or its paths cannot be rewritten.
    :raises HomeUnavailable: a store is away; the message names leftovers.
    """
    source = Source(folder="", folders=open_folders(uri, storage_options, filesystem))
    new_id = query_id or str(uuid.uuid4())
    with _new_target(uri, to, storage_options, filesystem) as target:
        own = {} if keep_query_id else {METADATA: _metadata(new_id)}
        taker = CloneTaker(target, to, {**(beside or {}), **own})
        copied = copy_live(source, taker, attempts=attempts, progress=progress)
        written = taker.close(copied.members)
        wanted = copied.query.query_id if keep_query_id else new_id
        return _finish(target, written, batch=copied.pin.batch, query_id=wanted)


def carry_over(
    uri: str,
    to: str,
    *,
    sources: Sequence[str | None] | None = None,
    stateless: bool = False,
    query_id: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    progress: Progress = no_progress,
) -> Cloned:
    """
    Make a new checkpoint that continues at the positions of another one's sources.

    Batch numbers continue as well, so that a sink that remembers batch ids recognizes the next
    batch.

    :param sources: For each source of the new query, in its order, the name of the old source whose
        position it takes (``"0"``, ``"1"``, ...), or ``None`` for a source that starts from its
        beginning. Default: unchanged.
    :param stateless: The caller vouches that the query has no state, for checkpoints where this is
        unknown.
    :raises CheckpointRefused: The query has state, no committed batch, or is not sound.
    :raises CheckpointBusy: It changed during every attempt.
    :raises SpecError: One of the two places is inside the other, or the new one inside another
        checkpoint or a backup store.
    :raises RestoreRefused: ``to`` is not empty.
    :raises HomeUnavailable: A store is away; the message names leftovers.
    """
    folders = open_folders(uri, storage_options, filesystem)
    new_id = query_id or str(uuid.uuid4())
    with _new_target(uri, to, storage_options, filesystem) as target:
        plan, files = carried_files(folders, new_id, sources=sources, stateless=stateless)
        written = write_checkpoint(target, "", _new_files(files))
        progress(ProgressNow(phase=Phase.WRITE, files=written.files, size=written.size))
        return _finish(target, written, batch=plan.batch, query_id=new_id)


@contextlib.contextmanager
def _new_target(
    uri: str, to: str, storage_options: Mapping[str, Any] | None, filesystem: Any
) -> Iterator[Target]:
    """Claim the place of a new checkpoint for this block; clean up after an error."""
    check_apart(uri, to, other="new checkpoint")
    target = open_target(to, storage_options, filesystem)
    _check_empty(target)
    try:
        # A random name: leftovers of a dead clone are from another moment.
        target.begin(f"{COPY}{uuid.uuid4()}", [""])
        yield target
    except BaseException as err:
        discard(target, err)
        raise


def _check_empty(target: Target) -> None:
    # Begun on such a place, it would read as if another process had just written there.
    for refusal in of_place(target.uri, target.look([""]), ""):
        if refusal.code is RefusalCode.TARGET_NOT_EMPTY:
            raise RestoreRefused(refusal.message)


def _finish(target: Target, written: Written, *, batch: int, query_id: str | None) -> Cloned:
    report = read_back(target.written(), target.uri, batch=batch, query_id=query_id)
    target.finish()
    return Cloned(
        uri=target.uri,
        query_id=query_id or "",
        batch=batch,
        files=written.files,
        size=written.size,
        checkpoint=report,
    )


def _metadata(query_id: str) -> bytes:
    return json.dumps({"id": query_id}).encode()


def carried_files(
    folders: Folders,
    query_id: str,
    *,
    sources: Sequence[str | None] | None = None,
    stateless: bool = False,
) -> tuple[CarryOver, dict[str, bytes]]:
    """
    Return the files of a new checkpoint that continues at another one's position.

    :raises CheckpointRefused: the query has state, nothing was committed, or it is not sound.
    :raises CheckpointBusy: it changed under every attempt.
    """
    last: Incomplete | None = None
    for _ in range(_ATTEMPTS):
        found = _look(folders, query_id, sources, stateless)
        if not isinstance(found, Incomplete):
            return found
        if found == last and not found.is_moving:
            raise CheckpointRefused(f"{folders.uri} cannot be carried over. {found.why}")
        last = found
    raise CheckpointBusy(
        f"{folders.uri} changed under {_ATTEMPTS} attempts to read it. "
        f"{last.why if last else ''} Try again, or stop the query first."
    )


def _look(
    folders: Folders, query_id: str, sources: Sequence[str | None] | None, stateless: bool
) -> tuple[CarryOver, dict[str, bytes]] | Incomplete:
    listing = walk(folders)
    pin = choose_pin(listing, folders.read)
    if isinstance(pin, Incomplete):
        return pin
    following = f"offsets/{pin.batch + 1}"
    if pin.planned == pin.batch and listing.stat(following) is not None:
        return Incomplete(
            following, f"{following} names input that its source's log does not have."
        )
    pinned = pinned_listing(pin, listing)
    report = read_checkpoint(pinned, folders.read, uri=folders.uri)
    plan = plan_carry_over(
        report, pinned, folders.read, query_id=query_id, sources=sources, stateless=stateless
    )
    if isinstance(plan, Incomplete):
        return plan
    files = _read(folders, listing, plan)
    if isinstance(files, Incomplete):
        return files
    return still_holds(pin, listing, walk(folders)) or (plan, files)


def _read(folders: Folders, listing: Listing, plan: CarryOver) -> dict[str, bytes] | Incomplete:
    files = dict(plan.written)
    for new, old in plan.copied.items():
        stat = listing.stat(old)
        data = None if stat is None else folders.read(old, stat.size)
        if data is None:
            return Incomplete(old, f"{old} is gone.", is_moving=True)
        files[new] = data
    return files


def _new_files(files: Mapping[str, bytes]) -> Iterator[NewFile]:
    return (NewFile(path, len(data), (data,)) for path, data in files.items())
