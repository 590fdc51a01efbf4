"""
The manifest: a backup's record with its own checksum.

The file is one JSON object, ``{"backup": {...}, "sha256": "..."}``. The checksum is of the record
exactly as it stands there, so that every changed byte is found, be it only a space; and nothing is
parsed before the checksum holds.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Final

from airflow_streaming.core.checkpoint.backup import Backup, BundleUse
from airflow_streaming.core.checkpoint.index import MAX_INDEX_BYTES, MAX_MEMBERS, is_sha256
from airflow_streaming.core.checkpoint.ranges import from_ranges
from airflow_streaming.core.names import is_path_part
from airflow_streaming.core.wire import MAX_RECORD_BYTES
from airflow_streaming.exceptions import BackupDamaged, RecordError

_ID: Final = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]{6}-[0-9A-Za-z]+")
_BEGIN: Final = b'{"backup": '
_MIDDLE: Final = b', "sha256": "'
_END: Final = b'"}\n'
_TAIL: Final = re.compile(re.escape(_MIDDLE) + rb"([0-9a-f]{64})" + re.escape(_END))
_TAIL_BYTES: Final = len(_MIDDLE) + 64 + len(_END)

MAX_MANIFEST_BYTES: Final = MAX_RECORD_BYTES + len(_BEGIN) + _TAIL_BYTES


def backup_id(now: datetime, token: str) -> str:
    """Return an id for a backup begun now: its time in UTC and a random token."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S-%f}-{token}"


def is_backup_id(text: str) -> bool:
    """Tell whether a text has the form that ``backup_id`` gives."""
    return _ID.fullmatch(text) is not None


def seal(backup: Backup) -> bytes:
    """
    Return the manifest of a backup.

    :raises RecordError: no reader would take it: too large, or what it says of itself is wrong.
    """
    _check(backup)
    record = backup.to_bytes().rstrip(b"\n")
    return _BEGIN + record + _MIDDLE + hashlib.sha256(record).hexdigest().encode() + _END


def unseal(data: bytes) -> Backup:
    """
    Read a manifest.

    :raises BackupDamaged: it is not what was written.
    :raises RecordError: it is, and this release cannot read it.
    """
    record, tail = data[len(_BEGIN) : -_TAIL_BYTES], _TAIL.fullmatch(data[-_TAIL_BYTES:])
    if len(data) > MAX_MANIFEST_BYTES or not data.startswith(_BEGIN) or tail is None:
        raise BackupDamaged("The manifest is cut off or is no manifest.")
    if hashlib.sha256(record).hexdigest().encode() != tail[1]:
        raise BackupDamaged("The manifest was changed after it was written: its checksum is wrong.")
    backup = Backup.from_bytes(record)
    _check(backup)
    return backup


def _check(backup: Backup) -> None:
    if not is_path_part(backup.id) or not is_path_part(backup.stream):
        raise RecordError(
            f"A backup cannot be called {backup.id!r:.120} of {backup.stream!r:.120}."
        )
    if len({use.index for use in backup.bundles}) < len(backup.bundles):
        raise RecordError(f"Backup {backup.id} names a bundle twice.")
    chosen = sum(_chosen(use) for use in backup.bundles)
    if chosen != backup.files or backup.size < 0:
        raise RecordError(
            f"Backup {backup.id} says that it has {backup.files} files, and names {chosen}."
        )


def _chosen(use: BundleUse) -> int:
    if not is_sha256(use.index) or not 0 < use.index_size <= MAX_INDEX_BYTES:
        raise RecordError(f"{use.index!r:.80} cannot be an index of {use.index_size} bytes.")
    return len(from_ranges(use.chosen, MAX_MEMBERS))
