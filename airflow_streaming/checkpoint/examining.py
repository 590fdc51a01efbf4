"""
Examining a backup's objects: present in their size, and, when asked, every byte of them.

Only what the backup itself needs decides whether it can be restored. Whatever else lies in the
stream's folders is looked at by the verification alone: see ``strangers``.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from airflow_streaming.checkpoint.layout import file_path, index_path, object_name, pack_path
from airflow_streaming.checkpoint.packs import PackedBytes, read_pack
from airflow_streaming.checkpoint.publishing import stored_sizes
from airflow_streaming.checkpoint.reading import ADVICE, chosen_of
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.core.checkpoint.backup import Backup, Bundle, BundleUse, Member
from airflow_streaming.exceptions import BackupDamaged, RecordError

Progress = Callable[[int, int], None]
"""Told the bytes of the store that were read so far, and how many there are to read."""


@dataclass(slots=True)
class Found:
    """
    What an examination found of one backup.

    :param problems: A sentence each.
    :param damaged: Paths of objects that are not what was written.
    """

    files: int = 0
    size: int = 0
    objects: int = 0
    read: int = 0
    problems: list[str] = field(default_factory=list)
    damaged: set[str] = field(default_factory=set)

    def note(self, path: str, problem: str) -> None:
        """Take down that an object is not what was written."""
        self.damaged.add(path)
        self.problems.append(problem)


class Examination:
    """
    Looks at everything one backup needs, once.

    :param thorough: Read every byte; else sizes are enough for packs and large files.
    :param keep: So many bytes of small files are kept as they were read and found right.
    """

    def __init__(
        self,
        store: BackupStore,
        backup: Backup,
        *,
        thorough: bool,
        progress: Progress | None,
        keep: int = 0,
    ) -> None:
        self._store, self._backup, self._thorough = store, backup, thorough
        self._keep, self._lock = keep, threading.Lock()
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
        """Return what was found; nothing is written."""
        uses = self._backup.bundles
        for use, bundle in zip(uses, self._store.at_once(self._bundle, uses), strict=True):
            if bundle is not None:
                self._take(use, bundle)
        if not self.found.problems:
            self._compare()
        there = stored_sizes(self._store.blobs, self._stream)
        needed = {**{path: one.pack_size for path, one in self._packs.items()}, **self._files}
        self.found.objects = len(needed) + len(uses)
        for path, size in sorted(needed.items()):
            if there.get(path) != size:
                self._wrong_size(path, size, there.get(path))
        if self._thorough:
            self._read({path for path, size in needed.items() if there.get(path) == size})
        return self.found

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
            return f"is not what was written: {err}"
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
    """Return what is wrong with an object's bytes; empty when they are what its name says."""
    name = object_name(path)
    digest = hashlib.sha256()
    try:
        chunks = store.blobs.stream(path)
        if chunks is None:
            return gone
        for chunk in chunks:
            digest.update(chunk)
    except RecordError as err:
        return f"cannot be read: {err}"
    if name is None or digest.hexdigest() != name.sha256:
        return "is not what was written: its digest is another"
    return ""


def _slashes(path: str) -> Iterator[int]:
    return (at for at, character in enumerate(path) if character == "/")


def _tell_nobody(done: int, of: int) -> None:
    pass
