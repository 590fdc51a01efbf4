"""
The ids of backup stores, and the records of the stores that a home has used.

An unmounted volume looks like an empty folder, and a wrong volume may hold another store. A task that created a
store there would write full backups beside the real backups, and no user would notice. Each store has an id, and
a home records the id of each store that its tasks have written to.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Final

from airflow_streaming.exceptions import AlreadyExists, BackupStoreMissing, RecordError
from airflow_streaming.model.storage import Store
from airflow_streaming.model.uris import is_local, join, local_path, to_fsspec
from airflow_streaming.model.wire import Record

MARK: Final = "store.json"
"""The file that makes a folder a backup store."""
_FOLDER: Final = "_store"
_PREFIX: Final = "backups-"
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMark(Record):
    """
    Mark of a backup store.

    :param id: Random and unique.
    """

    KIND: ClassVar[str] = "backup-store"

    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownStore(Record):
    """
    A backup store of a home.

    :param uri: URI of the first use, in the spelling of its caller.
    :param id: See ``StoreMark``.
    :param since: Time of the first use.
    """

    KIND: ClassVar[str] = "known_backup_store"

    uri: str
    id: str
    since: datetime


def new_mark() -> bytes:
    """Return the mark of a new store."""
    return StoreMark(id=uuid.uuid4().hex).to_bytes()


def id_in(mark: bytes) -> str | None:
    """Return the id of a store by its mark; ``None`` for a format that this release does not know."""
    try:
        return StoreMark.from_bytes(mark).id
    except RecordError:
        return None


def known_store(home: Store, uri: str) -> KnownStore | None:
    """
    Return the record of the store under a URI; ``None`` when no task of the home has written there.

    :raises RecordError: the record is damaged.
    """
    data = home.read(_path(uri))
    return None if data is None else _parsed(home, _path(uri), data)


def known_stores(home: Store) -> list[KnownStore]:
    """
    Return all backup stores that a home has used.

    :raises RecordError: a record is damaged.
    """
    found = []
    for name in sorted(home.names(_FOLDER)):
        path = f"{_FOLDER}/{name}"
        data = home.read(path) if name.startswith(_PREFIX) else None
        if data is not None:
            found.append(_parsed(home, path, data))
    return found


def remember(home: Store, uri: str, store_id: str) -> None:
    """
    Record that a home uses a store; again changes nothing.

    :raises HomeUnavailable: the home cannot be written.
    """
    known = KnownStore(uri=uri, id=store_id, since=datetime.now(UTC))
    try:
        home.create(_path(uri), known.to_bytes())
    except AlreadyExists:
        return


def check_present(home: Store, known: KnownStore, mark: bytes | None) -> None:
    """
    Do nothing when the known store is under its URI.

    :param mark: Present content of the mark; ``None`` for an empty place.
    :raises BackupStoreMissing: the store is missing, or another store is there.
    """
    if problem := absence(known, mark):
        raise BackupStoreMissing(
            f"{problem} Its volume is not mounted here, or path, bucket or host have changed. Nothing was "
            "written. Bring the store back and try again. To abandon its backups, delete "
            f"{join(home.uri, _path(known.uri))}; the next backup then creates a new store."
        )


def absence(known: KnownStore, mark: bytes | None) -> str:
    """Return a sentence on a known store that is not under its URI; empty when it is there."""
    used = f"this home has written backups since {known.since:%Y-%m-%d}"
    if mark is None:
        return f"The backup store at {known.uri} is missing, where {used}."
    if id_in(mark) not in (known.id, None):
        return f"Another backup store is at {known.uri}, where {used}."
    return ""


def _path(uri: str) -> str:
    place = (local_path(uri) if is_local(uri) else to_fsspec(uri)).rstrip("/")
    return f"{_FOLDER}/{_PREFIX}{hashlib.sha256(place.encode()).hexdigest()[:_DIGITS]}.json"


def _parsed(home: Store, path: str, data: bytes) -> KnownStore:
    try:
        return KnownStore.from_bytes(data)
    except RecordError as err:
        raise RecordError(
            f"{join(home.uri, path)} cannot be read: {err} The file records a backup store of the home. "
            "Delete it if the store is in its place; the next backup writes it again."
        ) from err
