"""
Backup records: the copied files of a stream's checkpoints and their locations.

A backup is a small record, its *manifest*. Sizes and digests of the members are in *indexes*, which
are written once and shared. An index lists the members of one *bundle*, i.e. one pack of small
files and the large files copied with it; a manifest names the members it uses of each. So a backup
of fifty thousand files of which five hundred are new writes one pack, one index and one manifest.

Every object is named by the SHA-256 of its bytes and every name is checked, so the checksum of the
manifest covers the whole backup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

from airflow_streaming.model.arguments.choices import Level, Origin
from airflow_streaming.model.wire import Record

COPY: Final = "clone "
"""Prefix of the source of a clone or carry-over; a later run cannot resume one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """
    A file of a backup.

    :param path: The query's folder in the backup and the path in the checkpoint, e.g.
        ``counts/offsets/17``; without a folder for a single checkpoint.
    :param size: Bytes.
    :param sha256: Digest of its content, 64 hexadecimal digits.
    :param stamp: A digest of the file's stamp (``FileStat``) when it was read; a later backup skips
        a file with the same stamp and size.
    :param is_alone: It is an object of its own instead of a member of the pack.
    """

    path: str
    size: int
    sha256: str
    stamp: str = ""
    is_alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """
    Members that were written together: the content of an index.

    :param pack: SHA-256 of the pack, a ``.tar.gz`` with the members that are not single files, in
        this order; empty without such members.
    :param pack_size: Its bytes.
    """

    pack: str
    pack_size: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleUse:
    """
    The members of one bundle that a backup uses.

    :param index: SHA-256 of the index.
    :param index_size: Its bytes.
    :param chosen: Numbers of the members used, from 0, as ranges: ``0-4999,5003``.
    """

    index: str
    index_size: int
    chosen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBackup:
    """
    A query in a backup.

    :param folder: Its folder in the backup, which is the query's name; empty for a single
        checkpoint.
    :param checkpoint: URI it was copied from.
    :param batch: The pinned batch: the newest committed one in the backup.
    :param planned: ``batch + 1`` if its plan is in the backup as well, so that it runs again with
        the same limits; else the pinned batch.
    :param offsets: End offset of each source at the pinned batch, as Spark wrote it.
    :param watermark_ms: Watermark the next batch continues from, in milliseconds since 1970.
    :param state_format: 1 or 2; ``None`` for a query without state.
    :param spark_at_least: The oldest Spark that can have written the checkpoint.
    :param has_absolute_paths: It names its own files by absolute paths, which a restore rewrites.
    :param sink_log: URI of the file sink's log that was copied too, or empty.
    """

    folder: str
    checkpoint: str
    query_id: str | None
    batch: int
    planned: int
    offsets: tuple[str, ...] = ()
    watermark_ms: int | None = None
    state_format: int | None = None
    is_stateful: bool | None = None
    spark_at_least: str | None = None
    has_absolute_paths: bool = False
    sink_log: str = ""
    files: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup(Record):
    """
    A backup of all queries of a stream: the content of the manifest.

    :param id: Its name in the store; ids sort by start time.
    :param stream: The stream, or a name made of the checkpoint's URI for an external stream.
    :param begun_at: Start of the copy, by the host's clock.
    :param deployment: Deployment whose checkpoints these are; ``None`` when unknown, as ``epoch``.
    :param spark_version: Spark the driver ran on, where that is known.
    :param bundles: The locations of the members.
    :param files: Number of members; ``size`` is their bytes.
    :param added_files: Members that no earlier backup held; ``added_size`` is their packed size in
        the store.
    """

    KIND: ClassVar[str] = "backup"

    id: str
    stream: str
    begun_at: datetime
    finished_at: datetime
    origin: Origin
    by: str
    queries: tuple[QueryBackup, ...]
    bundles: tuple[BundleUse, ...]
    files: int
    size: int
    added_files: int = 0
    added_size: int = 0
    note: str = ""
    deployment: int | None = None
    epoch: int | None = None
    spark_version: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification(Record):
    """
    The result of verifying one backup.

    :param backup: The backup's id.
    :param problems: A sentence each; empty if the backup is whole.
    :param facts: The scope, e.g. ``files``, ``spark``, ``batch``.
    :param manifest: SHA-256 of the verified manifest; the result counts for that manifest only.
    """

    KIND: ClassVar[str] = "backup-verification"

    backup: str
    level: Level
    verified_at: datetime
    by: str
    problems: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    manifest: str = ""

    @property
    def holds(self) -> bool:
        """Tell whether the backup was found whole."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableVerification:
    """
    A verification whose record cannot be read; its result is unknown.

    :param backup: Id of the verified backup.
    :param problem: The problem of the record; names the file.
    """

    backup: str
    problem: str


Said = Verification | UnreadableVerification
"""A verification as stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMarker(Record):
    """
    A restore that is running or died.

    An object store cannot rename, so this is created first and deleted last. It is in every
    checkpoint of the restore; the one in the first checkpoint claims the target.

    :param source: A backup's id, or ``COPY`` and a name of its own.
    :param folders: The checkpoints of the restore under the target, sorted.
    :param token: Random. A process that takes over a restore of the same source writes its own; a
        process that finds another token has lost the target.
    """

    KIND: ClassVar[str] = "restore_marker"

    source: str
    folders: tuple[str, ...]
    begun_at: datetime
    token: str = ""
