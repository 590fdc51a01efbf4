"""
Manifests, indexes and verification records of a store: read, checked, published.

A backup that lost an object to a concurrent retention run is withdrawn; ``holds`` explains the
order of both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from airflow_streaming.checkpoints.backup.index import (
    MAX_INDEX_BYTES,
    MAX_MANIFEST_BYTES,
    decode_index,
    from_ranges,
    seal,
    unseal,
)
from airflow_streaming.checkpoints.backup.records import (
    Backup,
    Bundle,
    BundleUse,
    Said,
    UnreadableVerification,
    Verification,
)
from airflow_streaming.checkpoints.vault.holds import DoomedObjects
from airflow_streaming.checkpoints.vault.layout import (
    check_path,
    checks_folder,
    file_path,
    folder,
    index_path,
    manifest_path,
    pack_path,
)
from airflow_streaming.exceptions import (
    AlreadyExists,
    BackupDamaged,
    CheckpointBusy,
    HomeUnavailable,
    RecordError,
    StreamingError,
)
from airflow_streaming.model.names import check_named, number_of
from airflow_streaming.model.wire import MAX_RECORD_BYTES
from airflow_streaming.storage.blobs import Blobs

ADVICE = "Do not rely on this backup; take a new one, and look for what damages the store."


def read_manifest(blobs: Blobs, stream: str, backup_id: str) -> Backup | None:
    """
    Return a backup, ``None`` if it does not exist.

    :raises BackupDamaged: Its manifest is damaged or belongs to another backup.
    :raises RecordError: A newer release wrote it.
    """
    path = manifest_path(stream, backup_id)
    try:
        data = blobs.read(path, MAX_MANIFEST_BYTES)
    except RecordError as err:
        raise BackupDamaged(f"{err} {ADVICE}") from err
    if data is None:
        return None
    try:
        backup = unseal(data)
    except BackupDamaged as err:
        raise BackupDamaged(f"{blobs.uri}/{path}: {err} {ADVICE}") from err
    if (backup.stream, backup.id) != (stream, backup_id):
        raise BackupDamaged(
            f"{blobs.uri}/{path} is the manifest of backup {backup.id} of {backup.stream}. {ADVICE}"
        )
    return backup


def manifest_digest(blobs: Blobs, stream: str, backup_id: str) -> str:
    """Return the SHA-256 of a stored manifest; empty if it cannot be read."""
    try:
        data = blobs.read(manifest_path(stream, backup_id), MAX_MANIFEST_BYTES)
    except RecordError:
        return ""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def read_bundle(blobs: Blobs, stream: str, index: str) -> Bundle:
    """
    Return a bundle by the digest of its index.

    :raises BackupDamaged: The index is missing or damaged.
    :raises RecordError: The index is intact, and this release cannot read it.
    """
    path = index_path(stream, index)
    try:
        data = blobs.read(path, MAX_INDEX_BYTES)
    except RecordError as err:
        raise BackupDamaged(f"{err} {ADVICE}") from err
    if data is None:
        raise BackupDamaged(f"{blobs.uri}/{path} is missing. {ADVICE}")
    if hashlib.sha256(data).hexdigest() != index:
        raise BackupDamaged(f"{blobs.uri}/{path} differs from its digest. {ADVICE}")
    return decode_index(data)


def chosen_of(backup: Backup, use: BundleUse, count: int) -> tuple[int, ...]:
    """
    Return the numbers of the members that a backup uses of a bundle, rising.

    :param count: How many the bundle has.
    :raises BackupDamaged: the bundle has fewer members.
    """
    try:
        return from_ranges(use.chosen, count)
    except RecordError as err:
        raise BackupDamaged(
            f"Backup {backup.id} of {backup.stream} and its index {use.index} do not belong "
            f"together: {err} {ADVICE}"
        ) from err


class Inside(NamedTuple):
    """
    The objects of a bundle; a small part of its index.

    :param alone: Digest and size of members stored as single files, by number.
    """

    members: int
    pack: str
    pack_size: int
    alone: Mapping[int, tuple[str, int]]


def inside(bundle: Bundle) -> Inside:
    """Return what objects a bundle consists of."""
    alone = {n: (m.sha256, m.size) for n, m in enumerate(bundle.members) if m.is_alone}
    return Inside(len(bundle.members), bundle.pack, bundle.pack_size, alone)


def needed_of(backup: Backup, use: BundleUse, bundle: Inside) -> dict[str, int]:
    """
    Return the objects that a backup uses of a bundle, each with its size.

    :raises BackupDamaged: The bundle has fewer members.
    """
    chosen = chosen_of(backup, use, bundle.members)
    alone = [bundle.alone[number] for number in chosen if number in bundle.alone]
    found = {file_path(backup.stream, sha256): size for sha256, size in alone}
    if len(alone) < len(chosen):
        found[pack_path(backup.stream, bundle.pack)] = bundle.pack_size
    found[index_path(backup.stream, use.index)] = use.index_size
    return found


def keep_check(blobs: Blobs, stream: str, found: Verification) -> None:
    """Record a verification under the next free number."""
    number = max(_numbers(blobs, stream, found.backup), default=0) + 1
    while True:
        try:
            blobs.create(check_path(stream, found.backup, number), found.to_bytes())
        except AlreadyExists:
            number += 1
        else:
            return


def read_checks(blobs: Blobs, stream: str, backup_id: str) -> list[Said]:
    """Return what verifications of a backup found, oldest first, and which cannot be read."""
    found: list[Said] = []
    for number in _numbers(blobs, stream, backup_id):
        path = check_path(stream, backup_id, number)
        try:
            data = blobs.read(path, MAX_RECORD_BYTES)
            if data is not None:
                found.append(_check_of(backup_id, data))
        except RecordError as err:
            found.append(
                UnreadableVerification(backup=backup_id, problem=f"{blobs.uri}/{path}: {err}")
            )
    return found


def _check_of(backup_id: str, data: bytes) -> Verification:
    found = Verification.from_bytes(data)
    check_named(found, "backup", backup_id)
    return found


def delete_checks(blobs: Blobs, stream: str, backup_id: str) -> None:
    """Delete what verifications of a backup found."""
    for number in _numbers(blobs, stream, backup_id):
        blobs.delete(check_path(stream, backup_id, number))


def _numbers(blobs: Blobs, stream: str, backup_id: str) -> list[int]:
    entries = blobs.entries(checks_folder(stream, backup_id))
    numbers = [number_of(entry.name) for entry in entries]
    return sorted(number for number in numbers if number is not None)


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
        # Withdraw after an interrupt too: no later run would check this backup.
        _withdraw(blobs, backup, path, err)
        raise


def missing(blobs: Blobs, stream: str, needed: Mapping[str, int]) -> list[str]:
    """Return the objects that are not in the store in their size."""
    there = stored_sizes(blobs, stream)
    unlisted = [path for path, size in needed.items() if there.get(path) != size]
    # A listing may be late; ask for each unlisted object by name.
    return sorted(path for path in unlisted if blobs.size(path) != needed[path])


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
        message = (
            f"Backup {backup.id} of {backup.stream} was created in {blobs.uri}, and could then be "
            f"neither checked nor withdrawn: {err} Verify it in full before it is relied on."
        )
        if isinstance(why, Exception):
            raise HomeUnavailable(message) from why
        why.add_note(message)


def _look(blobs: Blobs, backup: Backup, needed: Mapping[str, int]) -> None:
    going = DoomedObjects(blobs, backup.stream).going()
    lost = [*missing(blobs, backup.stream, needed), *sorted(going & needed.keys())]
    if lost:
        raise CheckpointBusy(
            f"Backup {backup.id} of {backup.stream} refers to {lost[0]}"
            f"{f' and {len(lost) - 1} more objects' if len(lost) > 1 else ''} that retention has "
            f"collected from {blobs.uri} meanwhile. The backup was not published; take it again."
        )
