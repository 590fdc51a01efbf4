"""What lies in a stream's folders of a backup store without being what its name says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from airflow_streaming.checkpoint.blobs import is_unfinished
from airflow_streaming.checkpoint.examining import Found, wrong_content
from airflow_streaming.checkpoint.layout import FOLDERS, backup_id_of, folder, object_name
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.core.checkpoint.backup import Backup
from airflow_streaming.core.checkpoint.manifest import is_backup_id
from airflow_streaming.exceptions import BackupDamaged, RecordError


def note_strangers(store: BackupStore, backup: Backup, found: Found) -> None:
    """
    Note everything in the stream's folders that is not what its name says.

    What other backups need is theirs to verify and is not read; what a killed run left is, because
    a later backup may refer to it.
    """
    stream = backup.stream
    explained = _explained(store, stream)
    for path, is_object in _lying(store, stream):
        if not is_object:
            found.problems.append(
                f"{store.uri}/{path} is not anything a backup store has. Find out who put it there "
                "and delete it."
            )
        elif path not in explained and (problem := wrong_content(store, path, gone="")):
            found.note(
                path,
                f"{store.uri}/{path} {problem}. No backup needs it; find out what damages the "
                "store and delete it.",
            )


def _explained(store: BackupStore, stream: str) -> frozenset[str]:
    found: set[str] = set()
    for backup in store.backups(stream):
        # A damaged backup explains nothing; its objects are read.
        with contextlib.suppress(BackupDamaged, RecordError):
            found.update(store.needed(backup))
    return frozenset(found)


def _lying(store: BackupStore, stream: str) -> Iterator[tuple[str, bool]]:
    """Return the path of all that lies where objects and manifests are; whether it is an object."""
    for place in ("packs", "files", "backups"):
        for entry in store.blobs.entries(folder(stream, place)):
            path = f"{folder(stream, place)}/{entry.name}"
            is_file = not entry.is_folder and not entry.strange
            if is_file and (is_unfinished(entry.name) or _is_manifest(place, entry.name)):
                continue
            yield path, is_file and object_name(path) is not None
    for entry in store.blobs.entries(stream):
        if not entry.is_folder or entry.name not in FOLDERS:
            yield f"{stream}/{entry.name}", False


def _is_manifest(place: str, name: str) -> bool:
    return place == "backups" and is_backup_id(backup_id_of(name) or "")
