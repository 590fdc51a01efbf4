"""
Which files a report will most likely read, told by their names alone.

On an object store every read is a journey, so whoever reads from one fetches these all at once.
Reading is the same without; a file that was not thought of is read when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.checkpoint.journal import COMMITS, MOST_READ, OFFSETS, log_batches
from airflow_streaming.core.checkpoint.listing import Listing
from airflow_streaming.core.checkpoint.rollback import MOST_ZIPS
from airflow_streaming.core.checkpoint.state.names import SIDECAR, StateFile, StateForm
from airflow_streaming.core.checkpoint.state.stores import SST_FOLDER, state_files, stores

MOST_BYTES: Final = 64 * 1024 * 1024
LARGEST: Final = 4 * 1024 * 1024

_SOURCE_TAIL: Final = 20
"""Entries of a source's log after its newest compacted one, which comes every ten."""
_WHOLE: Final = frozenset({StateForm.SNAPSHOT, StateForm.ZIP})


def likely_reads(listing: Listing) -> list[str]:
    """Return paths of small files, the surest first, of ``MOST_BYTES`` together at most."""
    left, chosen = MOST_BYTES, []
    for path in dict.fromkeys(_candidates(listing)):
        stat = listing.stat(path)
        if stat is None or stat.size > LARGEST:
            continue
        left -= stat.size
        if left < 0:
            break
        chosen.append(path)
    return chosen


def _candidates(listing: Listing) -> Iterator[str]:
    yield from ("metadata", ".metadata.crc")
    for log in (OFFSETS, COMMITS):
        for batch in log_batches(listing.files(log))[-MOST_READ:]:
            yield f"{log}/{batch}"
            yield f"{log}/.{batch}.crc"
    for folder in listing.folders:
        if "_metadata" in folder or "_stateSchema" in folder:
            yield from (f"{folder}/{name}" for name in listing.files(folder))
    for source in listing.subfolders("sources"):
        names = listing.files(f"sources/{source}")
        newest = sorted(names, key=lambda name: (len(name.split(".")[0]), name))
        yield from (f"sources/{source}/{name}" for name in newest[-_SOURCE_TAIL:])
    yield from _of_state(listing)


def _of_state(listing: Listing) -> Iterator[str]:
    for ref in stores(listing):
        files = state_files(listing, ref)
        base = max((file.version for file in files if file.form in _WHOLE), default=0)
        for file in sorted(files, key=_by_version):
            if file.version >= base:
                yield f"{ref.folder}/{file.name}"
                yield f"{ref.folder}/{file.name}{SIDECAR}"
                yield f"{ref.folder}/.{file.name}{SIDECAR}"
        inner = f"{ref.folder}/{SST_FOLDER}"
        yield from (f"{inner}/{name}" for name in listing.files(inner))
    yield from _older(listing)


def _older(listing: Listing) -> Iterator[str]:
    """Return what tells of older versions of RocksDB, unless there is too much of it to read."""
    found = [
        f"{ref.folder}/{file.name}"
        for ref in stores(listing)
        for file in state_files(listing, ref)
        if file.form is StateForm.ZIP or (file.form is StateForm.CHANGELOG and file.unique_id)
    ]
    if len(found) <= MOST_ZIPS:
        yield from found


def _by_version(file: StateFile) -> int:
    return file.version
