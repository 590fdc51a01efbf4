"""A target on an object store, or any other file system of fsspec: marked, written, unmarked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from typing import Any, Final

from airflow_streaming.checkpoint.folders import Folders
from airflow_streaming.core.checkpoint.listing import RESTORE_MARKER, Listing
from airflow_streaming.core.checkpoint.marker import RestoreMarker
from airflow_streaming.core.checkpoint.refusal import Occupied
from airflow_streaming.core.uris import join
from airflow_streaming.exceptions import (
    AlreadyExists,
    HomeUnavailable,
    RestoreRefused,
    StreamingError,
)
from airflow_streaming.files.store import check_relative
from airflow_streaming.home.fsspec_store import FsspecStore

WORKERS: Final = 16
"""Small objects written at once: each of them is a round trip."""

SMALL: Final = 4 * 1024 * 1024
"""Bytes up to which an object is written in one request, from memory."""

WAITING: Final = 4 * WORKERS
"""Small objects that may wait in memory."""


class RemoteTarget:
    """
    A folder of an object store that is going to hold checkpoints.

    :param folders: The same place for reading.
    :param filesystem: The fsspec file system, without a listing cache.
    :param root: The folder as the file system spells it.
    """

    can_resume = True

    def __init__(self, folders: Folders, filesystem: Any, root: str) -> None:
        self.uri = folders.uri
        self._folders, self._fs, self._root = folders, filesystem, root.rstrip("/")
        self._records = FsspecStore(filesystem, self._root, folders.uri)
        self._markers: list[str] = []
        self._there: Listing | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: set[Future[None]] = set()

    def look(self, folders: Sequence[str]) -> Occupied:
        marker = self._marker(sorted(folders))
        names = tuple(sorted(entry.name for entry in self._folders.entries("", list) or ()))
        return Occupied(names=names, restore=marker.source if marker else "")

    def begin(self, source: str, folders: Sequence[str]) -> bool:
        ordered = sorted(folders)
        found = self.look(ordered)
        if found.names and found.restore != source:
            raise _taken(self.uri)
        record = RestoreMarker(source=source, folders=tuple(ordered), begun_at=datetime.now(UTC))
        for folder in ordered:
            self._mark(join_path(folder, RESTORE_MARKER), record)
        self._there = self._folders.tree()
        return bool(found.names)

    def write(self, path: str, size: int, chunks: Iterable[bytes]) -> None:
        if self._is_there(path, size):
            return
        if size > SMALL or size < 0:
            self._write_large(path, chunks)
            return
        data = b"".join(chunks)
        if len(self._waiting) >= WAITING:
            self._collect(wait(self._waiting, return_when=FIRST_COMPLETED).done)
        self._waiting.add(self._workers().submit(self._put, path, data))

    def remove(self, path: str) -> None:
        self.flush()
        self._records.delete(path)

    def flush(self) -> None:
        self._collect(wait(self._waiting).done)

    def written(self) -> Folders:
        return self._folders

    def finish(self) -> None:
        self.flush()
        # The claim goes last: as long as it is there, what lies here is a restore of ours.
        for marker in reversed(self._markers):
            self._records.delete(marker)
        self._close()

    def abandon(self) -> None:
        with contextlib.suppress(StreamingError):
            self.flush()
        found = self._folders.tree()
        ours = [] if found is None else [path for path, _ in found.paths()]
        for path in ours:
            if path not in self._markers:
                self._records.delete(path)
        for marker in reversed(self._markers):
            self._records.delete(marker)
        self._close()

    def _marker(self, folders: Sequence[str]) -> RestoreMarker | None:
        data = self._records.read(join_path(folders[0], RESTORE_MARKER))
        return None if data is None else RestoreMarker.from_bytes(data)

    def _mark(self, path: str, record: RestoreMarker) -> None:
        try:
            self._records.create(path, record.to_bytes())
        except AlreadyExists as err:
            data = self._records.read(path)
            found = None if data is None else RestoreMarker.from_bytes(data)
            if found is None or found.source != record.source:
                for mine in reversed(self._markers):
                    self._records.delete(mine)
                raise _taken(self.uri) from err
        self._markers.append(path)

    def _is_there(self, path: str, size: int) -> bool:
        # An object appears whole, and what lies here was written for the same backup.
        stat = None if self._there is None else self._there.stat(path)
        return stat is not None and stat.size == size

    def _put(self, path: str, data: bytes) -> None:
        with self._reporting(path) as full:
            try:
                self._fs.pipe_file(full, data)
            except FileNotFoundError:
                self._make_folder(full)
                self._fs.pipe_file(full, data)

    def _write_large(self, path: str, chunks: Iterable[bytes]) -> None:
        with self._reporting(path) as full:
            try:
                file = self._fs.open(full, "wb")
            except FileNotFoundError:
                self._make_folder(full)
                file = self._fs.open(full, "wb")
            try:
                for chunk in chunks:
                    file.write(chunk)
            except BaseException:
                with contextlib.suppress(Exception):
                    file.discard()
                raise
            file.close()

    def _make_folder(self, full: str) -> None:
        # A file system that has folders; an object store has none, and is not asked for one.
        self._fs.makedirs(full.rpartition("/")[0], exist_ok=True)

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="restore")
        return self._pool

    def _collect(self, done: set[Future[None]]) -> None:
        self._waiting -= done
        for future in done:
            future.result()

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    @contextlib.contextmanager
    def _reporting(self, path: str) -> Iterator[str]:
        try:
            yield f"{self._root}/{check_relative(path)}"
        except StreamingError:
            raise
        except Exception as err:
            # Storage clients share no base class.
            raise HomeUnavailable(
                f"{join(self.uri, path)} cannot be written: {err or 'no reason given'} "
                f"({type(err).__name__}). Check that the store can be reached from this host and "
                "that the credentials may write there, and ask again for the same to go on."
            ) from err


def join_path(folder: str, name: str) -> str:
    """Return the path of a name in a folder; the folder may be the empty one."""
    return f"{folder}/{name}" if folder else name


def _taken(uri: str) -> RestoreRefused:
    return RestoreRefused(
        f"{uri} is not empty: it holds something else, or another restore that was not finished. "
        "Choose a place that is missing or empty."
    )
