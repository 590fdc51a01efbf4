"""
Read many small files of a checkpoint whole, several at once where it helps.

On an object store every file costs a round trip, and ten thousand in sequence take longer than
Spark keeps them. A bounded number is read ahead, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.backup.pinned_logs import Incomplete
from airflow_streaming.exceptions import CheckpointBusy, RecordError
from airflow_streaming.model.spark.listing import FileStat
from airflow_streaming.storage.folders import Folders

READERS: Final = 16
AHEAD: Final = 32
"""Small files are below 1 MiB, so that at most 32 MiB are held."""


class ReadRequest(NamedTuple):
    """
    A file to read.

    :param path: Its path in the folder.
    :param stat: Its stat from the walk.
    :param member: Its path in the backup.
    """

    folders: Folders
    path: str
    stat: FileStat
    member: str


class Torn(CheckpointBusy):
    """Raised while a large file is read: it vanished or changed since the walk."""

    def __init__(self, unready: Incomplete) -> None:
        super().__init__(unready.why)
        self.unready = unready


def read_ahead(
    wanted: Iterable[ReadRequest], large: int
) -> Iterator[tuple[ReadRequest, bytes | Incomplete | None]]:
    """
    Return every file with its content, in the order given.

    :param large: Files of at least so many bytes are not read; their content is ``None``.
    """
    # Threads would only get in each other's way on a disk of this machine.
    pool: ThreadPoolExecutor | None = None
    pending: deque[tuple[ReadRequest, Future[bytes | Incomplete]]] = deque()
    try:
        for file in wanted:
            if file.stat.size >= large:
                yield from _drained(pending, 0)
                yield file, None
            elif file.folders.elsewhere(file.path) is None:
                yield file, read_whole(file)
            else:
                pool = pool or ThreadPoolExecutor(READERS, "checkpoint-reader")
                pending.append((file, pool.submit(read_whole, file)))
                yield from _drained(pending, AHEAD)
        yield from _drained(pending, 0)
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _drained(
    pending: deque[tuple[ReadRequest, Future[bytes | Incomplete]]], down_to: int
) -> Iterator[tuple[ReadRequest, bytes | Incomplete]]:
    while len(pending) > down_to:
        file, content = pending.popleft()
        yield file, content.result()


def read_whole(file: ReadRequest) -> bytes | Incomplete:
    """Return a file's content if it is there in the size that the walk saw."""
    try:
        data = file.folders.read(file.path, file.stat.size)
    except RecordError as err:
        return _changed(file, str(err))
    if data is None:
        return _purged(file)
    return data if len(data) == file.stat.size else _changed(file, "Its size is another.")


def stream_whole(file: ReadRequest) -> Iterator[bytes]:
    """
    Return a large file's content in chunks.

    :raises Torn: it is gone, or not of the size that the walk saw.
    """
    try:
        chunks = file.folders.stream(file.path)
    except RecordError as err:
        raise Torn(_changed(file, str(err))) from err
    if chunks is None:
        raise Torn(_purged(file))
    size = 0
    for chunk in chunks:
        size += len(chunk)
        yield chunk
    if size != file.stat.size:
        raise Torn(_changed(file, "Its size is another."))


def _purged(file: ReadRequest) -> Incomplete:
    why = f"{file.path} was purged before it could be copied."
    return Incomplete(file.path, why, is_moving=True)


def _changed(file: ReadRequest, why: str) -> Incomplete:
    why = f"{file.path} changed while it was read. {why}"
    return Incomplete(file.path, why, is_moving=True)
