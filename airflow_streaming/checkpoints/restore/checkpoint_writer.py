"""
Writing a checkpoint to a new place, reading it back, and giving it up.

State and the sources' logs come first, then plans, then commits, and ``metadata`` last: whatever is
there at any moment, no Spark that reads it takes it for more than it is. Then everything is read
back, and only what was found sound is let through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.integrity.state import Depth
from airflow_streaming.checkpoints.read.reading import read_checkpoint
from airflow_streaming.checkpoints.read.report import Checkpoint, FindingCode
from airflow_streaming.checkpoints.restore.target import Target
from airflow_streaming.exceptions import (
    CheckpointError,
    HomeUnavailable,
    RestoreRefused,
    RestoreTaken,
    StreamingError,
)
from airflow_streaming.model.spark.listing import RESTORE_MARKER
from airflow_streaming.storage.folders import Folders

LATE: Final = ("offsets/", "commits/", "metadata")
"""What is written after all else, in this order; it is kept in memory until then."""
SHOWN: Final = 3


class NewFile(NamedTuple):
    """
    A file to be written.

    :param path: Relative to the checkpoint.
    :param chunks: To be read before the next file is asked for.
    """

    path: str
    size: int
    chunks: Iterable[bytes]


class Written(NamedTuple):
    """What was written."""

    files: int
    size: int


def write_checkpoint(
    target: Target,
    folder: str,
    files: Iterable[NewFile],
    tell: Callable[[int, int], None] = lambda files, size: None,
) -> Written:
    """
    Write the files of one checkpoint into a folder of the target.

    :param tell: Told the number of files so far, and their bytes.
    """
    number = size = 0
    late: dict[str, bytes] = {}
    for path, length, chunks in files:
        if path.startswith(LATE):
            late[path] = b"".join(chunks)
        else:
            target.write(_in(folder, path), length, chunks)
        number, size = number + 1, size + length
        tell(number, size)
    for stage in LATE:
        target.flush()
        for path in _ordered(late, stage):
            target.write(_in(folder, path), len(late[path]), (late[path],))
    target.flush()
    return Written(number, size)


def read_back(
    written: Folders, uri: str, *, batch: int, query_id: str | None, depth: Depth = Depth.NAMES
) -> Checkpoint:
    """
    Read a checkpoint that was just written.

    :param written: Where it lies now; ``uri`` is where it will lie.
    :param batch: The committed batch it must be at.
    :param depth: How closely to look at what arrived.
    :raises RestoreRefused: it is not what it was to be.
    """
    listing = written.tree()
    if listing is None:
        raise RestoreRefused(f"{uri} was written and is not there. Check the store and try again.")
    # Every byte was hashed on its way; what must be seen is mostly that all files arrived.
    report = read_checkpoint(listing, written.read, uri=uri, depth=depth)
    problems = [p for p in report.problems if p.code is not FindingCode.UNFINISHED_RESTORE]
    if problems:
        told = " ".join(problem.message for problem in problems[:SHOWN])
        raise RestoreRefused(f"{uri} was written and is not sound, so it was given up: {told}")
    if (report.last_committed_batch, report.query_id) != (batch, query_id):
        raise RestoreRefused(
            f"{uri} was written and says batch {report.last_committed_batch} of query "
            f"{report.query_id} instead of batch {batch} of {query_id}, so it was given up."
        )
    return report


def give_up(target: Target, error: BaseException) -> None:
    """
    Remove what was written, unless the next attempt can claim it and finish.

    :raises RestoreTaken: another process has the place; nothing was removed.
    """
    if not target.can_resume or isinstance(error, CheckpointError):
        _abandon(target, error)


def discard(target: Target, error: BaseException) -> None:
    """
    Remove what was written, which nothing can ever continue from.

    :raises RestoreTaken: another process has the place; nothing was removed.
    :raises HomeUnavailable: it could not be removed; the message says which folder to delete.
    """
    try:
        _abandon(target, error)
    except RestoreTaken:
        raise
    except StreamingError as err:
        told = (
            f"{error} What was written to {target.uri} could not be removed either ({err}). It is "
            f"not to be used: delete the folder {target.uri} before you ask for it again."
        )
        if isinstance(error, Exception):
            raise HomeUnavailable(told) from error
        # An interrupt must be obeyed.
        error.add_note(told)


def _abandon(target: Target, error: BaseException) -> None:
    try:
        target.abandon()
    except RestoreTaken as taken:
        if not isinstance(error, RestoreTaken):
            raise taken from error


def is_marker(path: str) -> bool:
    """Tell whether a path is that of the marker of a restore."""
    return path.rpartition("/")[2] == RESTORE_MARKER


def _ordered(late: dict[str, bytes], stage: str) -> Iterator[str]:
    return (path for path in sorted(late) if path.startswith(stage))


def _in(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path
