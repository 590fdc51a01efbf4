"""
Reading a backup for a restore: no file is handed out before the whole backup was verified.

A small backup is handed out from memory. The files of a larger backup are read a second time and
hashed again, because bytes can rot after the verification.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.backup.packs import PackedBytes, read_pack
from airflow_streaming.checkpoints.backup.records import Backup, Bundle, Member
from airflow_streaming.checkpoints.vault.layout import file_path, pack_path
from airflow_streaming.checkpoints.vault.manifests import ADVICE
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.checkpoints.vault.verify import Examination, Progress
from airflow_streaming.exceptions import BackupDamaged, RecordError, closed
from airflow_streaming.model.spark.listing import FileStat, Listing

KEPT: Final = 64 * 1024 * 1024
"""Bytes of small files that stay in memory from the verification on."""
_OPEN_PACKS: Final = 4
"""Packs held in memory for single files, of some 8 MiB each."""


class Content(NamedTuple):
    """
    A file of a restored folder.

    :param path: Relative to the query's folder, e.g. ``offsets/17``.
    :param chunks: Its bytes. Read them before the next file. Raises ``BackupDamaged`` at the end if
        the hash differs.
    """

    path: str
    member: Member
    chunks: Iterator[bytes]


class Contents:
    """
    The verified members of one query's folder in a backup.

    :param members: By path relative to the folder.
    """

    def __init__(self, reading: _Reading, folder: str) -> None:
        prefix = f"{folder}/" if folder else ""
        self.members: dict[str, Member] = {
            path.removeprefix(prefix): member
            for path, member in reading.members.items()
            if path.startswith(prefix)
        }
        self._reading, self._prefix = reading, prefix

    @property
    def listing(self) -> Listing:
        """Return the folder as a walk of the restored checkpoint would find it."""
        folders: dict[str, dict[str, FileStat]] = {"": {}}
        for path, member in self.members.items():
            parent, _, name = path.rpartition("/")
            at = parent
            while at and at not in folders:
                folders[at] = {}
                at = at.rpartition("/")[0]
            folders[parent][name] = FileStat(member.size, member.stamp)
        return Listing(folders)

    def read(self, path: str, limit: int) -> bytes | None:
        """
        Return one file; this is the ``Read`` of ``model.spark.listing``.

        :raises RecordError: The file is larger than the limit.
        :raises BackupDamaged: The file changed after the verification.
        """
        member = self.members.get(path)
        if member is None:
            return None
        if member.size > limit:
            raise RecordError(f"{member.path} in the backup is larger than {limit} bytes.")
        return self._reading.whole(member)

    def __iter__(self) -> Iterator[Content]:
        """Return all files, pack by pack."""
        for member, chunks in self._reading.all(self._prefix):
            yield Content(member.path.removeprefix(self._prefix), member, chunks)


class Verified:
    """A backup of which every byte was found right a moment ago; get one with ``verified``."""

    def __init__(
        self, store: BackupStore, backup: Backup, found: Examination | None = None
    ) -> None:
        self.backup = backup
        self._reading = _Reading(store, backup, found)

    def contents(self, folder: str) -> Contents:
        """Return the members of one query (``QueryBackup.folder``)."""
        return Contents(self._reading, folder)


def verified(store: BackupStore, backup: Backup, progress: Progress | None = None) -> Verified:
    """
    Verify every byte of a backup and return it for reading; the result is not recorded.

    :raises BackupDamaged: The backup differs from its manifest; the message has the first problem.
    """
    examined = Examination(store, backup, thorough=True, progress=progress, keep=KEPT)
    found = examined.run()
    if found.problems:
        more = f" There are {len(found.problems) - 1} more problems." if found.problems[1:] else ""
        raise BackupDamaged(f"{found.problems[0]}{more}")
    return Verified(store, backup, examined)


def contents(
    store: BackupStore, backup: Backup, folder: str, progress: Progress | None = None
) -> Contents:
    """Verify a whole backup and return the members of one query; use ``verified`` for several."""
    return verified(store, backup, progress).contents(folder)


@dataclass(frozen=True, slots=True)
class _Chosen:
    bundle: Bundle
    numbers: frozenset[int]


class _Reading:
    """The members of a backup by their path in it, and how to get at their bytes."""

    def __init__(self, store: BackupStore, backup: Backup, found: Examination | None) -> None:
        self._store, self._stream = store, backup.stream
        self._kept = found.kept if found else {}
        chosen = found.chosen if found else store.bundles(backup)
        self._bundles = [_Chosen(one, frozenset(numbers)) for one, numbers in chosen]
        self.members = {
            one.bundle.members[number].path: one.bundle.members[number]
            for one in self._bundles
            for number in sorted(one.numbers)
        }
        self._packs: OrderedDict[str, Mapping[str, bytes]] = OrderedDict()
        self._bundle_of = {
            one.bundle.members[number].path: one for one in self._bundles for number in one.numbers
        }

    def all(self, prefix: str) -> Iterator[tuple[Member, Iterator[bytes]]]:
        for one in self._bundles:
            wanted = {n for n in one.numbers if one.bundle.members[n].path.startswith(prefix)}
            alone = [n for n in sorted(wanted) if one.bundle.members[n].is_alone]
            for number in alone:
                member = one.bundle.members[number]
                yield member, self._large(member)
            if len(alone) < len(wanted):
                for number, member, data in self._unpacked(one.bundle):
                    if number in wanted:
                        yield member, iter((data,))

    def whole(self, member: Member) -> bytes:
        if member.is_alone:
            return b"".join(self._large(member))
        one = self._bundle_of[member.path]
        held = self._packs.get(one.bundle.pack)
        if held is None:
            held = {
                member.path: data
                for number, member, data in self._unpacked(one.bundle)
                if number in one.numbers
            }
            self._packs[one.bundle.pack] = held
            while len(self._packs) > _OPEN_PACKS:
                self._packs.popitem(last=False)
        self._packs.move_to_end(one.bundle.pack)
        return held[member.path]

    def _unpacked(self, bundle: Bundle) -> Iterator[PackedBytes]:
        if bundle.pack in self._kept:
            yield from self._kept[bundle.pack]
            return
        path = pack_path(self._stream, bundle.pack)
        try:
            yield from read_pack(bundle, self._chunks(path))
        except (BackupDamaged, RecordError) as err:
            raise BackupDamaged(f"{self._store.uri}/{path}: {closed(err)} {ADVICE}") from err

    def _large(self, member: Member) -> Iterator[bytes]:
        path = file_path(self._stream, member.sha256)
        digest = hashlib.sha256()
        for chunk in self._chunks(path):
            digest.update(chunk)
            yield chunk
        if digest.hexdigest() != member.sha256:
            raise BackupDamaged(f"{self._store.uri}/{path} changed after it was verified. {ADVICE}")

    def _chunks(self, path: str) -> Iterator[bytes]:
        chunks = self._store.blobs.stream(path)
        if chunks is None:
            raise BackupDamaged(f"{self._store.uri}/{path} is missing. {ADVICE}")
        return chunks
