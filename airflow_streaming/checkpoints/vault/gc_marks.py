"""Records of objects in a backup store that nothing refers to, and that a later run deletes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from airflow_streaming.model.wire import Record

MOST_OBJECTS: Final = 5000
"""Objects in one record; the largest path has about 180 characters, and a record 1 MiB at most."""


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
    Who worked with the stream's backups when objects were doomed, or since.

    Listed after the doomed record exists: a holder that is not in it has begun later.

    :param doomed: The doomed record's id.
    :param beats: How often each hold had been written, by the hold's id; 0 for one that cannot be
        read.
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
