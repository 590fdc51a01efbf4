"""
A target on an object store, claimed before the first write.

A process cannot hold a lock on an object store, so another process that writes the same may take
over a claim. The previous owner finds another token and must leave the place alone.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from typing import Any, Final

from airflow_streaming.checkpoints.backup.records import COPY, RestoreMarker
from airflow_streaming.checkpoints.restore.refusal import Occupied
from airflow_streaming.exceptions import (
    AlreadyExists,
    HomeUnavailable,
    RecordError,
    RestoreTaken,
    StreamingError,
)
from airflow_streaming.model.spark.listing import RESTORE_MARKER, is_hidden
from airflow_streaming.model.storage import Store, check_relative
from airflow_streaming.model.uris import join
from airflow_streaming.storage.folders import Folders
from airflow_streaming.storage.fsspec_store import FsspecStore

_GONE: Final = (
    "is no longer held by this attempt: another attempt has taken it over or finished it. No "
    "file was removed. Check the folder before you try again."
)

WORKERS: Final = 16
"""Small objects written at once: each of them is a round trip."""
SMALL: Final = 4 * 1024 * 1024
"""Bytes up to which an object is written in one request, from memory."""
WAITING: Final = 4 * WORKERS
"""Small objects that may wait in memory."""


class Claim:
    """
    An attempt's claim on the folders that it will write.

    :param records: The place, as a store of records.
    :param folders: The checkpoints' folders; the marker in the first of them is the claim proper.
    """

    def __init__(self, records: Store, source: str, folders: Sequence[str]) -> None:
        self._records = records
        self._record = RestoreMarker(
            source=source,
            folders=tuple(sorted(folders)),
            begun_at=datetime.now(UTC),
            token=uuid.uuid4().hex,
        )
        self.markers = [join_path(folder, RESTORE_MARKER) for folder in self._record.folders]

    def make(self, paths: Callable[[], list[str]]) -> bool:
        """
        Put the markers there; return whether nothing had begun before.

        :param paths: Lists the place; a new claim is only good on an empty one.
        :raises RestoreTaken: another process has it, or it is not empty.
        """
        is_new = self._mark(self.markers[0])
        try:
            for path in self.markers[1:]:
                self._mark(path)
            # A restore that was seen here may have been finished before the marker was recreated.
            if is_new and not set(paths()) <= set(self.markers):
                raise taken(self._records.uri)
        except RestoreTaken:
            # Keep the claim on another attempt's leftovers: without it they are unmarked.
            if is_new:
                self.release()
            raise
        return is_new

    def check(self) -> None:
        """
        Make sure that the claim is still this one's.

        :raises RestoreTaken: it was taken over, or is gone.
        """
        if not self._is_held(self.markers[0]):
            raise RestoreTaken(f"{self._records.uri} {_GONE}")

    def release(self) -> None:
        """Remove the markers that are still this one's."""
        # The claim last: while it exists, the content is an unfinished restore of ours.
        for path in reversed(self.markers):
            if self._is_held(path):
                self._records.delete(path)

    def _mark(self, path: str) -> bool:
        try:
            self._records.create(path, self._record.to_bytes())
        except AlreadyExists as err:
            found = read_marker(self._records, path)
            if found is None or found.source != self._record.source:
                raise taken(self._records.uri, found.source if found else "") from err
            if found.token == self._record.token:
                # It was created, and only the answer to that was lost.
                return True
            self._records.replace(path, self._record.to_bytes())
            return False
        return True

    def _is_held(self, path: str) -> bool:
        try:
            found = read_marker(self._records, path)
        except RecordError:
            return False
        return found is not None and found.token == self._record.token


def read_marker(records: Store, path: str) -> RestoreMarker | None:
    """
    Return the marker, if any.

    :raises RecordError: The file is not our marker.
    """
    data = records.read(path)
    return None if data is None else RestoreMarker.from_bytes(data)


def join_path(folder: str, name: str) -> str:
    """Return the path of a name in a folder; the folder may be the empty one."""
    return f"{folder}/{name}" if folder else name


def taken(uri: str, source: str = "") -> RestoreTaken:
    """
    Return the error for a place claimed by another process.

    :param source: The content it writes, if known.
    """
    if source.startswith(COPY):
        return RestoreTaken(
            f"{uri} is not empty: a clone or carry-over to there was not finished. If it was cut "
            f"off it cannot continue: delete the folder {uri}, or choose another place."
        )
    return RestoreTaken(
        f"{uri} is not empty: it holds something else, or another restore that was not finished. "
        "Choose a place that is missing or empty."
    )


class RemoteTarget:
    """
    A folder of an object store that is going to hold checkpoints.

    :param folders: The same place for reading.
    :param filesystem: The fsspec file system, without a listing cache.
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
                    f"{join(self.uri, path)} does not belong to this restore: another process, "
                    f"e.g. Spark, works in {self.uri}. No file was removed. Stop that process; "
                    f"then delete {' and '.join(markers)} if the checkpoint is whole, or else the "
                    "folder."
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
                "that the credentials may write there, and ask again for the same to continue."
            ) from err
