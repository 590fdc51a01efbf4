"""A target on an object store, or any other file system of fsspec: marked, written, unmarked."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Final

from airflow_streaming.checkpoint.claim import Claim, join_path, read_marker, taken
from airflow_streaming.checkpoint.folders import Folders
from airflow_streaming.core.checkpoint.listing import RESTORE_MARKER, is_hidden
from airflow_streaming.core.checkpoint.refusal import Occupied
from airflow_streaming.core.uris import join
from airflow_streaming.exceptions import (
    HomeUnavailable,
    RestoreTaken,
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
        self._claim: Claim | None = None
        self._expected: frozenset[str] = frozenset()
        self._written: set[str] = set()
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: set[Future[None]] = set()

    def look(self, folders: Sequence[str]) -> Occupied:
        marker = read_marker(self._records, join_path(min(folders), RESTORE_MARKER))
        names = tuple(sorted(entry.name for entry in self._folders.entries("", list) or ()))
        return Occupied(names=names, restore=marker.source if marker else "")

    def begin(self, source: str, folders: Sequence[str], expected: Collection[str] = ()) -> bool:
        found = self.look(folders)
        if found.names and found.restore != source:
            raise taken(self.uri, found.restore)
        self._expected = frozenset(expected)
        self._claim = Claim(self._records, source, folders)
        try:
            return not self._claim.make(self._paths)
        except RestoreTaken:
            self._claim = None
            raise

    def write(self, path: str, size: int, chunks: Iterable[bytes]) -> None:
        self._written.add(path)
        if size > SMALL or size < 0:
            self._write_large(path, chunks)
            return
        data = b"".join(chunks)
        if len(self._waiting) >= WAITING:
            self._collect(wait(self._waiting, return_when=FIRST_COMPLETED).done)
        self._waiting.add(self._workers().submit(self._put, path, data))

    def remove(self, path: str) -> None:
        self._drain()
        self._records.delete(path)

    def flush(self) -> None:
        self._drain()
        if self._claim is not None:
            self._claim.check()

    def written(self) -> Folders:
        return self._folders

    def finish(self) -> None:
        self.flush()
        if self._claim is not None:
            self._claim.release()
        self._close()

    def abandon(self) -> None:
        try:
            with contextlib.suppress(StreamingError):
                self._drain()
            if self._claim is not None:
                self._claim.check()
                for path in self._ours(self._claim.markers):
                    self._records.delete(path)
                self._claim.release()
        finally:
            self._close()

    def _ours(self, markers: Sequence[str]) -> list[str]:
        """Return what of the files there may be removed; a stranger among them means none."""
        there, ours = self._paths(), self._expected | self._written
        known = ours | set(markers)
        for path in there:
            if path not in known and not is_hidden(path.rpartition("/")[2]):
                raise RestoreTaken(
                    f"{join(self.uri, path)} is not of this restore: somebody else, e.g. Spark, "
                    f"works in {self.uri}. Nothing was removed. Stop what runs there; then delete "
                    f"{' and '.join(markers)} if the checkpoint is whole, or else the folder."
                )
        return [path for path in there if path in ours]

    def _paths(self) -> list[str]:
        found = self._folders.tree()
        return [] if found is None else [path for path, _ in found.paths()]

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

    def _drain(self) -> None:
        self._collect(wait(self._waiting).done)

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
