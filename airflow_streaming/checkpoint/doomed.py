"""
The doomed records of a stream: which objects are about to be deleted, and which are being deleted.

For whoever writes backups there are two questions. ``doomed``: what must not be taken for known
when a backup is begun. And ``going``, asked *after* a manifest was created: when the manifest names
one of these, it has to be withdrawn. A run that collects marks a record as going *before* it reads
the manifests, and a backup creates its manifest *before* it looks for marks: so at least one of the
two sees the other, and no published backup loses an object. A backup that is killed between the two
does not look; so the run that collects reads the manifests again after it has deleted, and
withdraws such a one before the record is forgotten.

::

    STORE/<stream>/doomed/<id>.json              the objects; created once
    STORE/<stream>/doomed/<id>.bystanders.json   who was at work then
    STORE/<stream>/doomed/<id>.going.json        they are being deleted
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from airflow_streaming.checkpoint.blobs import Blobs
from airflow_streaming.core.checkpoint.doomed import Bystanders, Doomed, Going
from airflow_streaming.core.names import check_stream_name
from airflow_streaming.core.wire import MAX_RECORD_BYTES, Record
from airflow_streaming.exceptions import AlreadyExists, RecordError

R = TypeVar("R", bound=Record)

_NAME: Final = re.compile(r"([0-9a-f]{32})(?:\.(bystanders|going))?\.json")


class Lying(NamedTuple):
    """
    What lies of one doomed record in the store.

    :param has_objects: The record itself is there.
    :param watched: When its bystanders were listed, by the store's clock; ``None`` where it does
        not tell.
    """

    id: str
    has_objects: bool = False
    has_bystanders: bool = False
    watched: datetime | None = None
    is_going: bool = False


class DoomedObjects:
    """
    Read and write the doomed records of one stream.

    :raises SpecError: the stream's name cannot be a folder.
    """

    def __init__(self, blobs: Blobs, stream: str) -> None:
        self._blobs = blobs
        self._folder = f"{check_stream_name(stream)}/doomed"

    def doomed(self) -> frozenset[str]:
        """Return the paths of all objects that a doomed record lists."""
        return self._objects(lying.id for lying in self.lying())

    def going(self) -> frozenset[str]:
        """Return the paths of the objects that may be deleted at this moment."""
        return self._objects(lying.id for lying in self.lying() if lying.is_going)

    def lying(self) -> list[Lying]:
        """Return what there is, by id; marks without a record too."""
        found: dict[str, Lying] = {}
        for stored in self._blobs.entries(self._folder):
            match = _NAME.fullmatch(stored.name)
            if match is None or stored.is_folder:
                continue
            one = found.get(match[1], Lying(match[1]))
            if match[2] is None:
                one = one._replace(has_objects=True)
            elif match[2] == "bystanders":
                one = one._replace(has_bystanders=True, watched=stored.modified)
            else:
                one = one._replace(is_going=True)
            found[match[1]] = one
        return [found[name] for name in sorted(found)]

    def read(self, doomed_id: str) -> Doomed | None:
        """
        Return one record, ``None`` when it is gone.

        :raises RecordError: it is not what was written.
        """
        return self._read(Doomed, self._path(doomed_id))

    def bystanders(self, doomed_id: str) -> Bystanders | None:
        """
        Return who was at work when a record was made, ``None`` when nobody has listed that yet.

        :raises RecordError: it is not what was written.
        """
        return self._read(Bystanders, self._path(doomed_id, ".bystanders"))

    def add(self, objects: Iterable[str], *, by: str, at: datetime) -> Doomed:
        """Create a record."""
        record = Doomed(id=uuid.uuid4().hex, at=at, by=by, objects=tuple(sorted(objects)))
        self._blobs.create(self._path(record.id), record.to_bytes())
        return record

    def watch(self, record: Bystanders) -> None:
        """Write down who is at work; over what was written down before."""
        self._blobs.put(self._path(record.doomed, ".bystanders"), record.to_bytes())

    def mark(self, doomed_id: str, *, by: str, at: datetime) -> None:
        """Mark a record as going; a mark that is there already stays."""
        record = Going(doomed=doomed_id, at=at, by=by)
        try:
            self._blobs.create(self._path(doomed_id, ".going"), record.to_bytes())
        except AlreadyExists:
            return

    def forget(self, doomed_id: str) -> None:
        """Delete a record. What is left of it when this is killed is another run's to delete."""
        # The record last: marks without one would say nothing of anything.
        for suffix in (".bystanders", ".going", ""):
            self._blobs.delete(self._path(doomed_id, suffix))

    def _objects(self, ids: Iterable[str]) -> frozenset[str]:
        found: set[str] = set()
        for doomed_id in ids:
            record = self.read(doomed_id)
            found.update(record.objects if record is not None else ())
        return frozenset(found)

    def _read(self, cls: type[R], path: str) -> R | None:
        data = self._blobs.read(path, MAX_RECORD_BYTES)
        if data is None:
            return None
        try:
            return cls.from_bytes(data)
        except RecordError as err:
            raise RecordError(
                f"{self._blobs.uri}/{path} cannot be read: {err} The next retention removes it."
            ) from err

    def _path(self, doomed_id: str, suffix: str = "") -> str:
        if not _NAME.fullmatch(f"{doomed_id}.json"):
            raise RecordError(f"{doomed_id!r} cannot be the id of a doomed record.")
        return f"{self._folder}/{doomed_id}{suffix}.json"
