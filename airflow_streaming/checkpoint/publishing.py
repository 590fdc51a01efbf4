"""
Publishing a backup: its manifest is created when everything it names is seen in the store.

The manifest is created before the last look, and a run of retention marks what it is about to
delete before it reads the manifests: so at least one of the two sees the other. A backup that has
lost something, or that could not be looked at, is withdrawn, never listed for good. When whoever
publishes it is killed before that, the run that deleted something withdraws it.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_streaming.checkpoint.blobs import Blobs
from airflow_streaming.checkpoint.doomed import DoomedObjects
from airflow_streaming.checkpoint.layout import folder, manifest_path
from airflow_streaming.core.checkpoint.backup import Backup
from airflow_streaming.core.checkpoint.manifest import MAX_MANIFEST_BYTES, seal
from airflow_streaming.exceptions import (
    AlreadyExists,
    CheckpointBusy,
    HomeUnavailable,
    StreamingError,
)


def publish(blobs: Blobs, backup: Backup, needed: Mapping[str, int]) -> None:
    """
    Create the manifest of a backup.

    :param needed: Every object that it names, with its size.
    :raises AlreadyExists: there is a backup of this id.
    :raises CheckpointBusy: something it names was collected meanwhile.
    :raises HomeUnavailable: the store cannot be reached; the error says so when the backup may be
        listed all the same.
    :raises RecordError: it cannot be written.
    """
    manifest, path = seal(backup), manifest_path(backup.stream, backup.id)
    _look(blobs, backup, needed)
    try:
        blobs.create(path, manifest)
    except AlreadyExists:
        # A store that repeats a request whose reply got lost finds its own object.
        if blobs.read(path, MAX_MANIFEST_BYTES) != manifest:
            raise
    try:
        _look(blobs, backup, needed)
        _see(blobs, backup, path)
    except BaseException as err:
        # An interrupt as well: nobody would look at it again.
        _withdraw(blobs, backup, path, err)
        raise


def missing(blobs: Blobs, stream: str, needed: Mapping[str, int]) -> list[str]:
    """Return the objects that are not in the store in their size."""
    there = stored_sizes(blobs, stream)
    return sorted(path for path, size in needed.items() if there.get(path) != size)


def stored_sizes(blobs: Blobs, stream: str) -> dict[str, int]:
    """Return the size of every file in the folders that have objects, by its path."""
    return {
        f"{place}/{stored.name}": stored.size
        for place in (folder(stream, "packs"), folder(stream, "files"))
        for stored in blobs.entries(place)
        if not stored.is_folder and not stored.strange
    }


def _see(blobs: Blobs, backup: Backup, path: str) -> None:
    if blobs.size(path) is None:
        raise CheckpointBusy(
            f"Backup {backup.id} of {backup.stream} was withdrawn by retention, which had collected "
            f"something from {blobs.uri} that it names. Take it again."
        )


def _withdraw(blobs: Blobs, backup: Backup, path: str, why: BaseException) -> None:
    try:
        blobs.delete(path)
    except StreamingError as err:
        told = (
            f"Backup {backup.id} of {backup.stream} was created in {blobs.uri}, and could then be "
            f"neither checked nor withdrawn: {err} Verify it in full before it is relied on."
        )
        if isinstance(why, Exception):
            raise HomeUnavailable(told) from why
        why.add_note(told)


def _look(blobs: Blobs, backup: Backup, needed: Mapping[str, int]) -> None:
    going = DoomedObjects(blobs, backup.stream).going()
    lost = [*missing(blobs, backup.stream, needed), *sorted(going & needed.keys())]
    if lost:
        raise CheckpointBusy(
            f"Backup {backup.id} of {backup.stream} refers to {lost[0]}"
            f"{f' and {len(lost) - 1} more objects' if len(lost) > 1 else ''} that retention has "
            f"collected from {blobs.uri} meanwhile. The backup was not published; take it again."
        )
