"""
Verify a backup: present, whole and unchanged.

Only the objects that the backup needs decide whether it can be restored. Other files in the
stream's folders are checked by the verification alone: see ``strangers``.

A quick verification checks the manifest, the indexes and the sizes of all objects. A full one reads
every byte. A drill is a full verification followed by the caller's function, which tries the backup
out.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from airflow_streaming.checkpoints.backup.earlier import DAMAGED, MAX_NAMED, NAMED
from airflow_streaming.checkpoints.backup.index import MAX_INDEX_BYTES, MAX_PACKED, is_backup_id
from airflow_streaming.checkpoints.backup.packs import PackedBytes, read_pack
from airflow_streaming.checkpoints.backup.records import (
    Backup,
    Bundle,
    BundleUse,
    Member,
    Verification,
)
from airflow_streaming.checkpoints.vault.layout import (
    FOLDERS,
    ObjectKind,
    backup_id_of,
    file_path,
    folder,
    index_path,
    manifest_path,
    object_name,
    pack_path,
)
from airflow_streaming.checkpoints.vault.manifests import ADVICE, chosen_of, stored_sizes
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import BackupDamaged, BackupNotFound, HomeUnavailable, RecordError
from airflow_streaming.model.arguments.choices import Level
from airflow_streaming.model.jobs.drill import Drilled
from airflow_streaming.storage.blobs import is_unfinished
from airflow_streaming.storage.folders import is_for_want_of_rights

Progress = Callable[[int, int], None]
"""Told the bytes of the store that were read so far, and how many there are to read."""

_MOST_BYTES: Final = {ObjectKind.INDEX: MAX_INDEX_BYTES, ObjectKind.PACK: 2 * MAX_PACKED}
"""The read limit of an object without an index entry; a large file may have any size."""

log: Final = logging.getLogger(__name__)
__all__ = ["Drill", "Progress", "verify"]
MAX_PROBLEMS: Final = 100
"""Sentences that are recorded; a store that lost a disk would have a million."""
Drill = Callable[[BackupStore, Backup], Drilled]


@dataclass(slots=True)
class Found:
    """
    The result of examining one backup.

    :param damaged: Paths of objects that differ from their digest or size.
    """

    files: int = 0
    size: int = 0
    objects: int = 0
    read: int = 0
    problems: list[str] = field(default_factory=list)
    damaged: set[str] = field(default_factory=set)

    def note(self, path: str, problem: str) -> None:
        self.damaged.add(path)
        self.problems.append(problem)


class Examination:
    """
    Looks at everything one backup needs, once.

    :param thorough: Read every byte; else sizes are enough for packs and large files.
    :param keep: So many bytes of small files are kept as they were read and found right.
    :param there: The stream's objects with their sizes, where they were listed already.
    """

    def __init__(
        self,
        store: BackupStore,
        backup: Backup,
        *,
        thorough: bool,
        progress: Progress | None,
        keep: int = 0,
        there: Mapping[str, int] | None = None,
    ) -> None:
        self._store, self._backup, self._thorough = store, backup, thorough
        self._keep, self._lock = keep, threading.Lock()
        self._there = there
        self.chosen: list[tuple[Bundle, tuple[int, ...]]] = []
        """Every bundle with the numbers of the members that the backup uses, rising."""
        self.kept: dict[str, list[PackedBytes]] = {}
        """The members of packs that were kept whole, by the digest of the pack."""
        self._progress = progress or _tell_nobody
        self._stream = backup.stream
        self._packs: dict[str, Bundle] = {}
        self._files: dict[str, int] = {}
        self._paths: set[str] = set()
        self.found = Found()

    def run(self) -> Found:
        """Examine the backup; the result is not recorded."""
        uses = self._backup.bundles
        for use, bundle in zip(uses, self._store.at_once(self._bundle, uses), strict=True):
            if bundle is not None:
                self._take(use, bundle)
        if not self.found.problems:
            self._compare()
        needed = {**{path: one.pack_size for path, one in self._packs.items()}, **self._files}
        there = self._sizes(needed)
        self.found.objects = len(needed) + len(uses)
        for path, size in sorted(needed.items()):
            if there.get(path) != size:
                self._wrong_size(path, size, there.get(path))
        if self._thorough:
            self._read({path for path, size in needed.items() if there.get(path) == size})
        return self.found

    def _sizes(self, needed: Mapping[str, int]) -> dict[str, int | None]:
        there = self._there
        if there is None:
            there = stored_sizes(self._store.blobs, self._stream)
        sizes = {path: there.get(path) for path in needed}
        wrong = [path for path, size in needed.items() if sizes[path] != size]
        asked = self._store.at_once(self._store.blobs.size, wrong) if wrong else []
        return sizes | dict(zip(wrong, asked, strict=True))

    def _bundle(self, use: BundleUse) -> Bundle | None:
        try:
            return self._store.bundle(self._stream, use.index)
        except (BackupDamaged, RecordError) as err:
            self.found.note(index_path(self._stream, use.index), str(err))
            return None

    def _take(self, use: BundleUse, bundle: Bundle) -> None:
        try:
            chosen = chosen_of(self._backup, use, len(bundle.members))
        except BackupDamaged as err:
            self.found.note(index_path(self._stream, use.index), str(err))
            return
        self.chosen.append((bundle, chosen))
        members = [bundle.members[number] for number in chosen]
        self._count(members)
        self._files |= {file_path(self._stream, m.sha256): m.size for m in members if m.is_alone}
        if any(not member.is_alone for member in members):
            self._packs[pack_path(self._stream, bundle.pack)] = bundle

    def _count(self, members: Iterable[Member]) -> None:
        for member in members:
            self.found.files += 1
            self.found.size += member.size
            self._paths.add(member.path)

    def _compare(self) -> None:
        backup, found = self._backup, self.found
        if (backup.files, backup.size) != (found.files, found.size):
            found.problems.append(
                f"Backup {backup.id} says that it has {backup.files} files of {backup.size} bytes, "
                f"and has {found.files} of {found.size}. {ADVICE}"
            )
        folders = {path[:at] for path in self._paths for at in _slashes(path)}
        if len(self._paths) < found.files or folders & self._paths:
            found.problems.append(
                f"Backup {backup.id} has one file twice, or a file inside a file. {ADVICE}"
            )

    def _wrong_size(self, path: str, size: int, there: int | None) -> None:
        has = "is missing" if there is None else f"has {there} bytes instead of {size}"
        self.found.note(path, f"{self._store.uri}/{path} {has}. {ADVICE}")

    def _read(self, paths: set[str]) -> None:
        jobs = {
            path: (self._check_pack if path in self._packs else self._check_file)
            for path in sorted(paths)
        }
        sizes = {path: self._size_of(path) for path in jobs}
        total = sum(sizes.values())
        with ThreadPoolExecutor(self._store.blobs.workers, "verify") as pool:
            running = {path: pool.submit(job, path) for path, job in jobs.items()}
            for path, job in running.items():
                if problem := job.result():
                    self.found.note(path, f"{self._store.uri}/{path} {problem}. {ADVICE}")
                self.found.read += sizes[path]
                self._progress(self.found.read, total)

    def _size_of(self, path: str) -> int:
        return self._packs[path].pack_size if path in self._packs else self._files[path]

    def _check_pack(self, path: str) -> str:
        bundle = self._packs[path]
        try:
            chunks = self._store.blobs.stream(path)
            if chunks is None:
                return "is missing"
            if self._has_room(bundle):
                self.kept[bundle.pack] = list(read_pack(bundle, chunks))
            else:
                deque(read_pack(bundle, chunks), maxlen=0)
        except BackupDamaged as err:
            return f"is damaged: {err}"
        except RecordError as err:
            return f"cannot be read: {err}"
        return ""

    def _has_room(self, bundle: Bundle) -> bool:
        size = sum(member.size for member in bundle.members if not member.is_alone)
        with self._lock:
            if size <= self._keep:
                self._keep -= size
                return True
        return False

    def _check_file(self, path: str) -> str:
        return wrong_content(self._store, path)


def wrong_content(store: BackupStore, path: str, *, gone: str = "is missing") -> str:
    """Return the problem of an object's bytes; empty if they match its name."""
    name = object_name(path)
    most = _MOST_BYTES.get(name.sort) if name is not None else None
    digest, size = hashlib.sha256(), 0
    try:
        chunks = store.blobs.stream(path)
        if chunks is None:
            return gone
        for chunk in chunks:
            size += len(chunk)
            if most is not None and size > most:
                return f"has more than {most} bytes, which nothing of its kind has"
            digest.update(chunk)
    except RecordError as err:
        return f"cannot be read: {err}"
    if name is None or digest.hexdigest() != name.sha256:
        return "is damaged: its digest differs from its name"
    return ""


def _slashes(path: str) -> Iterator[int]:
    return (at for at, character in enumerate(path) if character == "/")


def _tell_nobody(done: int, of: int) -> None:
    pass


def note_strangers(store: BackupStore, backup: Backup, found: Found) -> None:
    """
    Note every file in the stream's folders that does not match its name.

    Objects of other backups are not read. Leftovers of a killed run are read, because a later
    backup may refer to them.
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
    """Yield every path in the folders of objects and manifests, and whether it is an object."""
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


def verify(
    store: BackupStore,
    backup_id: str,
    level: Level,
    *,
    by: str,
    now: datetime,
    stream: str | None = None,
    drill: Drill | None = None,
    progress: Progress | None = None,
) -> Verification:
    """
    Verify a backup and record the result where the store is writable.

    :param drill: Tries out a backup that was found whole; required for that level.
    :raises BackupNotFound: The store has no such backup; no result is recorded.
    :raises ValueError: The level is a drill and ``drill`` is missing.
    """
    if level is Level.DRILL and drill is None:
        raise ValueError("The level 'drill' needs a drill function.")
    where = store.stream_of(backup_id, stream)
    with store.hold(where, "verify", backup_id):
        digest = store.manifest_digest(backup_id, where)
        try:
            backup = store.backup(backup_id, where)
        except (BackupDamaged, RecordError) as err:
            found, drilled = Found(), Drilled()
            found.note(manifest_path(where, backup_id), str(err))
        else:
            found = _examine(store, backup, level, progress)
            drilled = Drilled()
            if level is Level.DRILL and drill is not None and not found.problems:
                drilled = drill(store, backup)
        verification = Verification(
            backup=backup_id,
            level=level,
            verified_at=now,
            by=by,
            problems=_shortened([*found.problems, *drilled.problems]),
            facts={**drilled.facts, **_facts(found)},
            manifest=digest,
        )
        _record(store, verification, where)
    return verification


def _record(store: BackupStore, verification: Verification, stream: str) -> None:
    try:
        store.record(verification, stream)
    except HomeUnavailable as err:
        if not is_for_want_of_rights(err):
            raise
        log.warning(
            "%s may not be written, so what this verification found is not noted there: lists and "
            "retention do not know of it.",
            store.uri,
        )


def _examine(store: BackupStore, backup: Backup, level: Level, progress: Progress | None) -> Found:
    thorough = level is not Level.QUICK
    found = Examination(store, backup, thorough=thorough, progress=progress).run()
    if thorough:
        note_strangers(store, backup, found)
    try:
        # It was there when the examination began; bytes rot and people delete at any time.
        store.backup(backup.id, backup.stream)
    except (BackupDamaged, BackupNotFound, RecordError) as err:
        found.problems.append(f"While it was verified, this happened: {err} {ADVICE}")
    return found


def _facts(found: Found) -> dict[str, str]:
    facts = {
        "files": str(found.files),
        "size": str(found.size),
        "objects": str(found.objects),
        "bytes_read": str(found.read),
        DAMAGED: str(len(found.damaged)),
    }
    if found.damaged:
        facts[NAMED] = " ".join(sorted(found.damaged)[:MAX_NAMED])
    return facts


def _shortened(problems: Sequence[str]) -> tuple[str, ...]:
    if len(problems) <= MAX_PROBLEMS:
        return tuple(problems)
    more = len(problems) - MAX_PROBLEMS
    return (*problems[:MAX_PROBLEMS], f"There are {more} more problems of this kind.")
