"""
Clone and carry-over: a new checkpoint straight from one that is in use.

A clone is a pinned copy, as a backup is, written to a new place instead of a store. It is a query of
its own: it gets a new id, and its paths are rewritten. A carry-over takes over nothing but how far
the sources were read.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_streaming.checkpoint.apart import check_apart
from airflow_streaming.checkpoint.clone_taker import CloneTaker
from airflow_streaming.checkpoint.folders import Folders, open_folders
from airflow_streaming.checkpoint.live_copy import copy_live
from airflow_streaming.checkpoint.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.checkpoint.sources import Source
from airflow_streaming.checkpoint.target import Target, open_target
from airflow_streaming.checkpoint.walk import walk
from airflow_streaming.checkpoint.writing import (
    NewFile,
    Written,
    discard,
    read_back,
    write_checkpoint,
)
from airflow_streaming.core.checkpoint.carry_over import CarryOver, plan_carry_over
from airflow_streaming.core.checkpoint.listing import Listing
from airflow_streaming.core.checkpoint.marker import COPY
from airflow_streaming.core.checkpoint.pin import choose_pin, still_holds
from airflow_streaming.core.checkpoint.pin_logs import METADATA
from airflow_streaming.core.checkpoint.pinned import pinned_listing
from airflow_streaming.core.checkpoint.reading import read_checkpoint
from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.checkpoint.unready import Unready
from airflow_streaming.exceptions import CheckpointBusy, CheckpointRefused

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloned:
    """
    What was made.

    :param batch: Its newest committed batch.
    :param checkpoint: The new checkpoint, as it was read back.
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
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    attempts: int = _ATTEMPTS,
    progress: Progress = no_progress,
) -> Cloned:
    """
    Copy a live checkpoint to a new place as an independent query.

    :param uri: One query's checkpoint; it is read only.
    :param to: A place that is missing or empty.
    :param query_id: The clone's id; a new random one when not given.
    :param keep_query_id: Keep the original's id instead, for a move.
    :param filesystem: An fsspec file system to use for both instead of new ones.
    :raises CheckpointRefused: it cannot be copied as it is.
    :raises CheckpointBusy: it changed under every attempt.
    :raises SpecError: one of the two places lies inside the other, or the new one inside another
        checkpoint or a backup store.
    :raises RestoreRefused: there is something at ``to``, or its paths cannot be rewritten.
    :raises HomeUnavailable: a store is away; the message says so when something was left behind.
    """
    source = Source(folder="", folders=open_folders(uri, storage_options, filesystem))
    check_apart(uri, to, other="new checkpoint")
    target = open_target(to, storage_options, filesystem)
    new_id = query_id or str(uuid.uuid4())
    try:
        _begin(target)
        taker = CloneTaker(target, to, {} if keep_query_id else {METADATA: _metadata(new_id)})
        copied = copy_live(source, taker, attempts=attempts, progress=progress)
        written = taker.close(copied.members)
        wanted = copied.query.query_id if keep_query_id else new_id
        return _finish(target, written, batch=copied.pin.batch, query_id=wanted)
    except BaseException as err:
        discard(target, err)
        raise


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
    Make a new checkpoint that goes on where the sources of another one have got to.

    Batch numbers go on as well, so that a sink that remembers batch ids takes the next batch for
    what it is.

    :param sources: For each source of the new query, in its order, the name of the old source whose
        position it takes (``"0"``, ``"1"``, ...), or ``None`` for a source that begins anew; as
        they were when not given.
    :param stateless: The caller vouches that the query has no state, for checkpoints that do not
        tell.
    :param filesystem: An fsspec file system to use for both instead of new ones.
    :raises CheckpointRefused: the query has state, nothing was committed, or it is not sound.
    :raises CheckpointBusy: it changed under every attempt.
    :raises SpecError: one of the two places lies inside the other, or the new one inside another
        checkpoint or a backup store.
    :raises RestoreRefused: there is something at ``to``.
    :raises HomeUnavailable: a store is away; the message says so when something was left behind.
    """
    folders = open_folders(uri, storage_options, filesystem)
    check_apart(uri, to, other="new checkpoint")
    target = open_target(to, storage_options, filesystem)
    new_id = query_id or str(uuid.uuid4())
    try:
        _begin(target)
        plan, files = carried_files(folders, new_id, sources=sources, stateless=stateless)
        written = write_checkpoint(target, "", _new_files(files))
        progress(ProgressNow(phase=Phase.WRITE, files=written.files, size=written.size))
        return _finish(target, written, batch=plan.batch, query_id=new_id)
    except BaseException as err:
        discard(target, err)
        raise


def _begin(target: Target) -> None:
    # Under a name of its own: what a dead clone has left is of another moment.
    target.begin(f"{COPY}{uuid.uuid4()}", [""])


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
    Return the files of a new checkpoint that goes on at another one's position.

    :raises CheckpointRefused: the query has state, nothing was committed, or it is not sound.
    :raises CheckpointBusy: it changed under every attempt.
    """
    last: Unready | None = None
    for _ in range(_ATTEMPTS):
        found = _look(folders, query_id, sources, stateless)
        if not isinstance(found, Unready):
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
) -> tuple[CarryOver, dict[str, bytes]] | Unready:
    listing = walk(folders)
    pin = choose_pin(listing, folders.read)
    if isinstance(pin, Unready):
        return pin
    following = f"offsets/{pin.batch + 1}"
    if pin.planned == pin.batch and listing.stat(following) is not None:
        return Unready(following, f"{following} names input that its source's log does not have.")
    pinned = pinned_listing(pin, listing)
    report = read_checkpoint(pinned, folders.read, uri=folders.uri)
    plan = plan_carry_over(
        report, pinned, folders.read, query_id=query_id, sources=sources, stateless=stateless
    )
    if isinstance(plan, Unready):
        return plan
    files = _read(folders, listing, plan)
    if isinstance(files, Unready):
        return files
    return still_holds(pin, listing, walk(folders)) or (plan, files)


def _read(folders: Folders, listing: Listing, plan: CarryOver) -> dict[str, bytes] | Unready:
    files = dict(plan.written)
    for new, old in plan.copied.items():
        stat = listing.stat(old)
        data = None if stat is None else folders.read(old, stat.size)
        if data is None:
            return Unready(old, f"{old} is gone.", is_moving=True)
        files[new] = data
    return files


def _new_files(files: Mapping[str, bytes]) -> Iterator[NewFile]:
    return (NewFile(path, len(data), (data,)) for path, data in files.items())
