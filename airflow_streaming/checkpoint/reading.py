"""Reads manifests and indexes from the store, each checked against the name it was asked by."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from airflow_streaming.checkpoint.blobs import Blobs
from airflow_streaming.checkpoint.layout import file_path, index_path, manifest_path, pack_path
from airflow_streaming.core.checkpoint.backup import Backup, Bundle, BundleUse
from airflow_streaming.core.checkpoint.index import MAX_INDEX_BYTES, decode_index
from airflow_streaming.core.checkpoint.manifest import MAX_MANIFEST_BYTES, unseal
from airflow_streaming.core.checkpoint.ranges import from_ranges
from airflow_streaming.exceptions import BackupDamaged, RecordError

ADVICE = "Do not rely on this backup; take a new one, and look for what damages the store."


def read_manifest(blobs: Blobs, stream: str, backup_id: str) -> Backup | None:
    """
    Return a backup, ``None`` when there is none of that id.

    :raises BackupDamaged: its manifest is not what was written, or that of another backup.
    :raises RecordError: a newer release wrote it.
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


def read_bundle(blobs: Blobs, stream: str, index: str) -> Bundle:
    """
    Return a bundle by the digest of its index.

    :raises BackupDamaged: the index is missing or not what was written.
    :raises RecordError: it is what was written, and this release cannot read it.
    """
    path = index_path(stream, index)
    try:
        data = blobs.read(path, MAX_INDEX_BYTES)
    except RecordError as err:
        raise BackupDamaged(f"{err} {ADVICE}") from err
    if data is None:
        raise BackupDamaged(f"{blobs.uri}/{path} is missing. {ADVICE}")
    if hashlib.sha256(data).hexdigest() != index:
        raise BackupDamaged(f"{blobs.uri}/{path} is not what was written. {ADVICE}")
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
    What objects a bundle consists of; a small part of what its index says.

    :param members: How many members it has.
    :param alone: Digest and size of those that are alone, by number.
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
    Return the objects that hold what a backup uses of a bundle, each with its size.

    :raises BackupDamaged: the bundle has fewer members.
    """
    chosen = chosen_of(backup, use, bundle.members)
    alone = [bundle.alone[number] for number in chosen if number in bundle.alone]
    found = {file_path(backup.stream, sha256): size for sha256, size in alone}
    if len(alone) < len(chosen):
        found[pack_path(backup.stream, bundle.pack)] = bundle.pack_size
    found[index_path(backup.stream, use.index)] = use.index_size
    return found
