"""What verifications found of a backup: numbered records, each created once."""

from __future__ import annotations

from airflow_streaming.checkpoint.blobs import Blobs
from airflow_streaming.checkpoint.layout import check_path, checks_folder
from airflow_streaming.core.checkpoint.backup import Verification
from airflow_streaming.core.names import number_of
from airflow_streaming.core.wire import MAX_RECORD_BYTES
from airflow_streaming.exceptions import AlreadyExists, RecordError


def keep_check(blobs: Blobs, stream: str, found: Verification) -> None:
    """Keep what a verification found, under the next free number."""
    number = max(_numbers(blobs, stream, found.backup), default=0) + 1
    while True:
        try:
            blobs.create(check_path(stream, found.backup, number), found.to_bytes())
        except AlreadyExists:
            number += 1
        else:
            return


def read_checks(blobs: Blobs, stream: str, backup_id: str) -> list[Verification]:
    """Return what verifications of a backup found, oldest first; unreadable ones left out."""
    found = []
    for number in _numbers(blobs, stream, backup_id):
        try:
            data = blobs.read(check_path(stream, backup_id, number), MAX_RECORD_BYTES)
            one = None if data is None else Verification.from_bytes(data)
        except RecordError:
            continue
        if one is not None and one.backup == backup_id:
            found.append(one)
    return found


def delete_checks(blobs: Blobs, stream: str, backup_id: str) -> None:
    """Delete what verifications of a backup found."""
    for number in _numbers(blobs, stream, backup_id):
        blobs.delete(check_path(stream, backup_id, number))


def _numbers(blobs: Blobs, stream: str, backup_id: str) -> list[int]:
    entries = blobs.entries(checks_folder(stream, backup_id))
    numbers = [number_of(entry.name) for entry in entries]
    return sorted(number for number in numbers if number is not None)
