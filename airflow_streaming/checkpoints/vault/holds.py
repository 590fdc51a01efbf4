"""
Holds of running processes on a store, and the deletion marks of retention.

A hold is a small record that a thread rewrites every 30 s. Its age is measured by the store's clock
alone, so no two machines' clocks are compared. A killed holder stops rewriting, and after a while
retention ignores its hold. A reader without write access continues without a hold, because it
verifies every byte it reads.

Writers of backups ask two questions. ``doomed``: the objects that a new backup must not count as
present. ``going``, asked *after* the manifest was created: if the manifest names one of these
objects, the backup must be withdrawn. A collection marks a record as going *before* it reads the
manifests, and a backup creates its manifest *before* it looks for marks. So at least one of the two
sees the other, and no published backup loses an object. A backup that is killed in between does not
look; so the collection reads the manifests again after the deletion and withdraws such a backup
before it removes the record.

::

STORE/<stream>/doomed/<id>.json              the objects; created once

STORE/<stream>/doomed/<id>.bystanders.json   the holders at that time

STORE/<stream>/doomed/<id>.going.json        the objects are being deleted
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar, Final, NamedTuple, TypeVar

from airflow_streaming.checkpoints.vault.layout import folder, hold_path, is_hold_id
from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable, RecordError
from airflow_streaming.model.names import check_folder_name, check_named
from airflow_streaming.model.wire import MAX_RECORD_BYTES, Record
from airflow_streaming.storage.blobs import Blobs
from airflow_streaming.storage.folders import is_for_want_of_rights

MOST_OBJECTS: Final = 5000
"""Objects in one record; the largest path has about 180 characters, and a record 1 MiB at most."""

log: Final = logging.getLogger(__name__)
BEAT_SECONDS: Final = 30.0
_READING: Final = frozenset({"restore", "verify"})

R = TypeVar("R", bound=Record)
_NAME: Final = re.compile(r"([0-9a-f]{32})(?:\.(bystanders|going))?\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class GcCandidate(Record):
    """
    Objects that nothing referred to.

    :param id: Its name in the store.
    :param objects: Their paths, relative to the store.
    """

    KIND: ClassVar[str] = "backup-doomed"

    id: str
    at: datetime
    by: str
    objects: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveHolders(Record):
    """
    Holders that were active when objects were doomed, or later.

    Listed after the doomed record exists: a holder missing here started later.

    :param doomed: The doomed record's id.
    :param beats: How often each hold had been written, by the hold's id; 0 if unreadable.
    """

    KIND: ClassVar[str] = "backup-doomed-bystanders"

    doomed: str
    beats: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GcDeleting(Record):
    """The mark that the objects of a doomed record are being deleted from now on."""

    KIND: ClassVar[str] = "backup-doomed-going"

    doomed: str
    at: datetime
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(Record):
    """
    A process needs the objects of a stream.

    :param id: Its name in the store.
    :param what: The activity, e.g. ``backup``, ``restore``.
    :param backup: The backup that is needed; empty for the whole stream.
    :param by: Host and process.
    :param beats: How often it was written.
    """

    KIND: ClassVar[str] = "backup-hold"

    id: str
    stream: str
    what: str
    backup: str
    by: str
    begun_at: datetime
    beats: int = 1


class Held(NamedTuple):
    """
    A hold as read from the store.

    :param hold: ``None`` if the record cannot be read; it still counts as a hold.
    :param beaten: The last write, by the store's clock.
    """

    id: str
    hold: Hold | None
    beaten: datetime | None


@contextlib.contextmanager
def holding(blobs: Blobs, stream: str, what: str, backup_id: str = "") -> Iterator[Hold]:
    """
    Hold a stream's objects until the end of a ``with``.

    :raises HomeUnavailable: the first record cannot be written; later ones may fail unnoticed. Where
        the store is only for reading, a restore or a verification is warned instead.
    """
    hold = Hold(
        id=uuid.uuid4().hex,
        stream=stream,
        what=what,
        backup=backup_id,
        by=f"{socket.gethostname()}, process {os.getpid()}",
        begun_at=datetime.now(UTC),
    )
    path = hold_path(stream, hold.id)
    if not _is_created(blobs, path, hold):
        yield hold
        return
    ended = threading.Event()
    beating = threading.Thread(target=_beat, args=(blobs, path, hold, ended), daemon=True)
    beating.start()
    try:
        yield hold
    finally:
        ended.set()
        beating.join()
        # A hold that cannot be deleted expires.
        with contextlib.suppress(HomeUnavailable):
            blobs.delete(path)


def read_holds(blobs: Blobs, stream: str) -> list[Held]:
    """Return the holds on a stream, including expired ones."""
    found = []
    for stored in blobs.entries(folder(stream, "holds")):
        hold_id = stored.name.removesuffix(".json")
        if stored.is_folder or not is_hold_id(hold_id) or hold_id == stored.name:
            continue
        hold, is_gone = _read(blobs, stream, hold_id)
        if not is_gone:
            found.append(Held(hold_id, hold, stored.modified))
    return found


def _is_created(blobs: Blobs, path: str, hold: Hold) -> bool:
    try:
        blobs.create(path, hold.to_bytes())
    except HomeUnavailable as err:
        if hold.what not in _READING or not is_for_want_of_rights(err):
            raise
        log.warning(
            "%s is read-only, so retention cannot see that this %s is running and may delete "
            "objects that it reads. Every byte is verified, so a deletion would fail this run "
            "visibly.",
            blobs.uri,
            "restore" if hold.what == "restore" else "verification",
        )
        return False
    return True


def _beat(blobs: Blobs, path: str, hold: Hold, ended: threading.Event) -> None:
    beats = hold.beats
    while not ended.wait(BEAT_SECONDS):
        beats += 1
        # The next beat may come through.
        with contextlib.suppress(HomeUnavailable):
            blobs.put(path, replace(hold, beats=beats).to_bytes())


def _read(blobs: Blobs, stream: str, hold_id: str) -> tuple[Hold | None, bool]:
    try:
        data = blobs.read(hold_path(stream, hold_id), MAX_RECORD_BYTES)
        if data is None:
            return None, True
        hold = Hold.from_bytes(data)
        check_named(hold, "id", hold_id)
        check_named(hold, "stream", stream)
    except RecordError:
        return None, False
    return hold, False


class GcEntry(NamedTuple):
    """
    The state of one doomed record in the store.

    :param has_objects: The record itself exists.
    :param watched: When its bystanders were listed, by the store's clock; ``None`` if unknown.
    """

    id: str
    has_objects: bool = False
    has_bystanders: bool = False
    watched: datetime | None = None
    is_going: bool = False


class DoomedObjects:
    """Read and write the doomed records of one stream."""

    def __init__(self, blobs: Blobs, stream: str) -> None:
        self._blobs = blobs
        self._folder = f"{check_folder_name(stream)}/doomed"

    def doomed(self) -> frozenset[str]:
        """Return the paths of all objects that a doomed record lists."""
        return self._objects(lying.id for lying in self.lying())

    def going(self) -> frozenset[str]:
        """Return the paths of the objects that may be deleted at this moment."""
        return self._objects(lying.id for lying in self.lying() if lying.is_going)

    def lying(self) -> list[GcEntry]:
        """Return all entries by id, including marks without a record."""
        found: dict[str, GcEntry] = {}
        for stored in self._blobs.entries(self._folder):
            match = _NAME.fullmatch(stored.name)
            if match is None or stored.is_folder:
                continue
            one = found.get(match[1], GcEntry(match[1]))
            if match[2] is None:
                one = one._replace(has_objects=True)
            elif match[2] == "bystanders":
                one = one._replace(has_bystanders=True, watched=stored.modified)
            else:
                one = one._replace(is_going=True)
            found[match[1]] = one
        return [found[name] for name in sorted(found)]

    def read(self, doomed_id: str) -> GcCandidate | None:
        """Return one record, ``None`` if it is gone."""
        return self._read(GcCandidate, doomed_id, "id")

    def bystanders(self, doomed_id: str) -> ActiveHolders | None:
        """Return the holders at the time of a record, ``None`` if they were not listed yet."""
        return self._read(ActiveHolders, doomed_id, "doomed", ".bystanders")

    def add(self, objects: Iterable[str], *, by: str, at: datetime) -> GcCandidate:
        """Create a record."""
        record = GcCandidate(id=uuid.uuid4().hex, at=at, by=by, objects=tuple(sorted(objects)))
        self._blobs.create(self._path(record.id), record.to_bytes())
        return record

    def watch(self, record: ActiveHolders) -> None:
        self._blobs.put(self._path(record.doomed, ".bystanders"), record.to_bytes())

    def mark(self, doomed_id: str, *, by: str, at: datetime) -> None:
        """Mark a record as going; a mark that is there already stays."""
        record = GcDeleting(doomed=doomed_id, at=at, by=by)
        try:
            self._blobs.create(self._path(doomed_id, ".going"), record.to_bytes())
        except AlreadyExists:
            return

    def forget(self, doomed_id: str) -> None:
        """Delete a record. A later run deletes the rest if this one is killed."""
        # The record last: marks without one would say nothing of anything.
        for suffix in (".bystanders", ".going", ""):
            self._blobs.delete(self._path(doomed_id, suffix))

    def _objects(self, ids: Iterable[str]) -> frozenset[str]:
        found: set[str] = set()
        for doomed_id in ids:
            record = self.read(doomed_id)
            found.update(record.objects if record is not None else ())
        return frozenset(found)

    def _read(self, cls: type[R], doomed_id: str, field: str, suffix: str = "") -> R | None:
        path = self._path(doomed_id, suffix)
        data = self._blobs.read(path, MAX_RECORD_BYTES)
        if data is None:
            return None
        try:
            record = cls.from_bytes(data)
            check_named(record, field, doomed_id)
        except RecordError as err:
            raise RecordError(
                f"{self._blobs.uri}/{path} cannot be read: {err} The next retention removes it."
            ) from err
        return record

    def _path(self, doomed_id: str, suffix: str = "") -> str:
        if not _NAME.fullmatch(f"{doomed_id}.json"):
            raise RecordError(f"{doomed_id!r} cannot be the id of a doomed record.")
        return f"{self._folder}/{doomed_id}{suffix}.json"
