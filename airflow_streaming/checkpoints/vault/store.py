"""
The backup store: its layout and the order of writes.

::

STORE/store.json                           marks the folder as a backup store

STORE/clock.json                           written to read the store's clock

STORE/<stream>/backups/<id>.json           a backup's sealed manifest, created last

STORE/<stream>/packs/<sha256>.tar.gz       small files

STORE/<stream>/packs/<sha256>.index.gz     the index of a pack and its large files

STORE/<stream>/files/<sha256>              a large file

STORE/<stream>/checks/<id>/000001.json     the result of a verification

STORE/<stream>/holds/<uuid>.json           a process works with the stream's objects

STORE/<stream>/doomed/...                  objects that retention will delete
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from airflow_streaming.checkpoints.backup.index import backup_id
from airflow_streaming.checkpoints.backup.records import (
    Backup,
    Bundle,
    Member,
    Said,
    UnreadableVerification,
    Verification,
)
from airflow_streaming.checkpoints.vault.holds import Held, Hold, holding, read_holds
from airflow_streaming.checkpoints.vault.layout import (
    CLOCK,
    STORE,
    backup_id_of,
    check_outside,
    folder,
    manifest_path,
    object_name,
)
from airflow_streaming.checkpoints.vault.manifests import (
    Inside,
    chosen_of,
    delete_checks,
    inside,
    keep_check,
    manifest_digest,
    needed_of,
    publish,
    read_bundle,
    read_checks,
    read_manifest,
)
from airflow_streaming.exceptions import (
    AlreadyExists,
    BackupDamaged,
    BackupNotFound,
    CheckpointError,
    RecordError,
)
from airflow_streaming.model.names import is_path_part
from airflow_streaming.model.storage import Store
from airflow_streaming.model.wire import MAX_RECORD_BYTES
from airflow_streaming.storage.blobs import Blobs
from airflow_streaming.storage.folders import open_folders
from airflow_streaming.storage.fsspec_blobs import open_blobs
from airflow_streaming.storage.known_stores import (
    check_present,
    id_in,
    known_store,
    new_mark,
    remember,
)

One = TypeVar("One")
Other = TypeVar("Other")


class StoredObject(NamedTuple):
    """
    A pack, an index or a large file in the store.

    :param path: Relative to the store, for ``delete_object``.
    :param modified: When it was stored, by the store's clock; ``None`` where that does not tell.
    """

    path: str
    size: int
    modified: datetime | None


class Listed(NamedTuple):
    """
    A backup in a list.

    :param backup: ``None`` when its manifest cannot be used, for the reason in ``problem``.
    """

    stream: str
    id: str
    backup: Backup | None
    problem: str = ""


def open_backup_store(
    uri: str,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    *,
    create: bool = False,
    looks_only: bool = False,
    home: Store | None = None,
) -> BackupStore:
    """
    Return the backup store under a URI.

    :param create: Make it a backup store when it is empty; else an empty place is refused.
    :param home: The home whose streams the backups are of. It remembers the stores that were opened to be
        written to (``create``), and an empty place or another store there is refused.
    :raises SpecError: not a full URI, its file system is not installed, or a new store would lie
        inside a checkpoint or another store.
    :raises CheckpointError: no backup store, or one of a format this release does not know.
    :raises BackupStoreMissing: the home knows another store in this place.
    :raises HomeUnavailable: the store, or the home, cannot be reached.
    """
    blobs = open_blobs(uri, storage_options, filesystem, looks_only=looks_only)
    mark = blobs.read(STORE, MAX_RECORD_BYTES)
    known = None if home is None else known_store(home, uri)
    if home is not None and known is not None:
        check_present(home, known, mark)
    if mark is None and create:
        check_outside(open_folders(uri, storage_options, filesystem))
        mark = _create(blobs)
    if mark is None:
        raise CheckpointError(
            f"{blobs.uri} is not a backup store ({STORE} is missing). Pass the URI that the backups "
            "were written to. If it is that one, its volume is not mounted here."
        )
    store_id = id_in(mark)
    if store_id is None:
        raise CheckpointError(
            f"{blobs.uri}/{STORE} is not what this release writes. Use the release that wrote this "
            "backup store, or a newer one; or give another folder."
        )
    if home is not None and known is None and create:
        remember(home, uri, store_id)
    return BackupStore(blobs, store_id)


def _create(blobs: Blobs) -> bytes | None:
    if any(entry.name != STORE for entry in blobs.entries("")):
        raise CheckpointError(
            f"{blobs.uri} is not empty and no backup store. Give a folder of its own for backups."
        )
    mark = new_mark()
    try:
        blobs.create(STORE, mark)
    except AlreadyExists:
        return blobs.read(STORE, MAX_RECORD_BYTES)
    return mark


class BackupStore:
    """
    A store of backups; create it with ``open_backup_store``.

    Every method raises ``HomeUnavailable`` if the store cannot be reached.

    :param store_id: Identifies the store if another one takes its path; empty if unknown.
    """

    def __init__(self, blobs: Blobs, store_id: str = "") -> None:
        self.blobs, self.id = blobs, store_id
        self.uri = blobs.uri
        # An index never changes, and its digest names it.
        self._insides: dict[str, Inside] = {}

    def streams(self) -> list[str]:
        """Return the streams that have anything in the store, sorted."""
        return [
            entry.name
            for entry in self.blobs.entries("")
            if entry.is_folder and is_path_part(entry.name)
        ]

    def listed(self, stream: str | None = None) -> list[Listed]:
        """Return every backup, oldest first in its stream, those with a damaged manifest too."""
        names = [
            (one, backup_id)
            for one in (self.streams() if stream is None else [stream])
            for backup_id in self._ids(one)
        ]
        found = self.at_once(lambda name: self._listed(*name), names)
        return [listed for listed in found if listed is not None]

    def ids(self, stream: str) -> list[str]:
        """Return the ids of a stream's backups, oldest first; one listing, nothing is read."""
        return self._ids(stream)

    def backups(self, stream: str | None = None) -> list[Backup]:
        """Return the backups that can be read, oldest first in their stream."""
        return [one.backup for one in self.listed(stream) if one.backup is not None]

    def backup(self, backup_id: str, stream: str | None = None) -> Backup:
        """
        Return one backup.

        :param stream: Where to look; every stream by default.
        :raises BackupNotFound: The store has no backup with this id.
        :raises BackupDamaged: Its manifest is damaged.
        :raises RecordError: A newer release wrote it.
        """
        if is_path_part(backup_id):
            for one in self.streams() if stream is None else [stream]:
                backup = read_manifest(self.blobs, one, backup_id)
                if backup is not None:
                    return backup
        raise BackupNotFound(
            f"{self.uri} has no backup {backup_id!r:.120}"
            f"{f' of {stream}' if stream is not None else ''}. List the backups it has."
        )

    def stream_of(self, backup_id: str, stream: str | None = None) -> str:
        """
        Return the stream that has a backup of this id, whatever its manifest says.

        :param stream: Where to look; every stream when not given.
        :raises BackupNotFound: none has.
        """
        for one in self.streams() if stream is None else [stream]:
            if backup_id in self._ids(one) or self._has(one, backup_id):
                return one
        raise BackupNotFound(
            f"{self.uri} has no backup {backup_id!r:.120}. List the backups it has."
        )

    def _has(self, stream: str, backup_id: str) -> bool:
        return (
            is_path_part(backup_id)
            and self.blobs.size(manifest_path(stream, backup_id)) is not None
        )

    def bundle(self, stream: str, index: str) -> Bundle:
        """
        Read and check a bundle by the digest of its index.

        :raises BackupDamaged: The index is missing or damaged.
        :raises RecordError: A newer release wrote it.
        """
        bundle = read_bundle(self.blobs, stream, index)
        self._insides[index] = inside(bundle)
        return bundle

    def bundles(self, backup: Backup) -> Iterator[tuple[Bundle, tuple[int, ...]]]:
        """
        Return a backup's bundles, each with the numbers of its used members in order.

        :raises BackupDamaged: An index is damaged.
        """
        for use in backup.bundles:
            bundle = self.bundle(backup.stream, use.index)
            yield bundle, chosen_of(backup, use, len(bundle.members))

    def members(self, backup: Backup) -> list[Member]:
        """
        Return every member of a backup.

        :raises BackupDamaged: An index is damaged, or two members collide.
        """
        found = [bundle.members[n] for bundle, chosen in self.bundles(backup) for n in chosen]
        if len({member.path for member in found}) < len(found):
            raise BackupDamaged(f"Backup {backup.id} of {backup.stream} has one file twice.")
        return found

    def new_id(self, now: datetime) -> str:
        """Return an id for a backup begun now; ids sort by time."""
        return backup_id(now, secrets.token_hex(4))

    def publish(self, backup: Backup) -> None:
        """
        Create a backup's manifest after every object it names was seen in the store.

        :raises AlreadyExists: There is a backup with this id.
        :raises BackupDamaged: An index that it names is damaged.
        :raises CheckpointBusy: An object that it names was collected meanwhile; it was withdrawn.
        :raises RecordError: It cannot be written.
        """
        publish(self.blobs, backup, self.needed(backup))

    def needed(self, backup: Backup) -> dict[str, int]:
        """
        Return every object that a backup needs, with its size.

        :raises BackupDamaged: An index is damaged.
        """
        found: dict[str, int] = {}
        for use in backup.bundles:
            if use.index not in self._insides:
                self.bundle(backup.stream, use.index)
            found |= needed_of(backup, use, self._insides[use.index])
        return found

    def record(self, verification: Verification, stream: str) -> None:
        keep_check(self.blobs, stream, verification)

    def verifications(self, backup_id: str, stream: str | None = None) -> list[Said]:
        """
        Return a backup's verifications, oldest first, including unreadable ones.

        Verifications of another manifest are left out.
        """
        where = self.stream_of(backup_id) if stream is None else stream
        found = read_checks(self.blobs, where, backup_id)
        digest = self.manifest_digest(backup_id, where) if found else ""
        return [
            one
            for one in found
            if isinstance(one, UnreadableVerification) or one.manifest == digest
        ]

    def manifest_digest(self, backup_id: str, stream: str) -> str:
        """Return the SHA-256 of a backup's manifest; empty if it cannot be read."""
        return manifest_digest(self.blobs, stream, backup_id)

    def hold(self, stream: str, what: str, backup_id: str = "") -> AbstractContextManager[Hold]:
        """Keep the stream's objects from being collected while something is done with them."""
        return holding(self.blobs, stream, what, backup_id)

    def holds(self, stream: str) -> list[Held]:
        return read_holds(self.blobs, stream)

    def clock(self) -> datetime | None:
        """Return the time by the store's clock; ``None`` where it does not tell times."""
        self.blobs.put(CLOCK, secrets.token_hex(16).encode())
        entries = self.blobs.entries("")
        return next((entry.modified for entry in entries if entry.name == CLOCK), None)

    def objects(self, stream: str) -> list[StoredObject]:
        """Return every pack, index and large file of a stream."""
        return [
            StoredObject(path, entry.size, entry.modified)
            for place in (folder(stream, "packs"), folder(stream, "files"))
            for entry in self.blobs.entries(place)
            if object_name(path := f"{place}/{entry.name}") is not None and not entry.is_folder
        ]

    def referenced(self, stream: str) -> frozenset[str]:
        """
        Return the paths of all objects that the stream's backups need.

        :raises BackupDamaged: A manifest or an index cannot be read, so its objects are unknown; do
            not collect.
        :raises RecordError: A newer release wrote one of them.
        """
        found: set[str] = set()
        for listed in self.listed(stream):
            if listed.backup is None:
                raise BackupDamaged(
                    f"The objects of backup {listed.id} of {stream} are unknown: {listed.problem} "
                    "Verify the backup; delete it if it is damaged."
                )
            found.update(self.needed(listed.backup))
        return frozenset(found)

    def delete_object(self, path: str) -> None:
        """
        Delete a pack, an index or a large file; no error when it is missing.

        :raises RecordError: the path is of something else.
        """
        if object_name(path) is None:
            raise RecordError(
                f"{path!r:.200} is not an object of a backup store; it was not deleted."
            )
        self.blobs.delete(path)

    def delete_backup(self, backup_id: str, stream: str) -> None:
        """Delete a backup: its manifest first, then what verifications found of it."""
        self.blobs.delete(manifest_path(stream, backup_id))
        delete_checks(self.blobs, stream, backup_id)

    def at_once(self, act: Callable[[One], Other], items: Iterable[One]) -> list[Other]:
        """Return an act's answers in order, as many at once as help with this store."""
        asked = list(items)
        workers = min(self.blobs.workers, len(asked))
        if workers < 2:
            return [act(one) for one in asked]
        with ThreadPoolExecutor(workers, "store") as pool:
            return list(pool.map(act, asked))

    def wrote(self, index: str, bundle: Bundle) -> None:
        """Cache a bundle that was just written, so that it is not read again."""
        self._insides[index] = inside(bundle)

    def _listed(self, stream: str, backup_id: str) -> Listed | None:
        try:
            backup = read_manifest(self.blobs, stream, backup_id)
        except (BackupDamaged, RecordError) as err:
            return Listed(stream, backup_id, None, str(err))
        # Deleted between the listing and now.
        return None if backup is None else Listed(stream, backup_id, backup)

    def _ids(self, stream: str) -> list[str]:
        entries = self.blobs.entries(folder(stream, "backups"))
        ids = [backup_id_of(entry.name) for entry in entries if not entry.is_folder]
        return sorted(found for found in ids if found is not None)
