"""
Write a checkpoint to a new place, read it back, and discard it on failure.

State and the sources' logs are written first, then plans, then commits, and ``metadata`` last, so
Spark never finds a partial checkpoint that looks complete. The result is read back and must be
sound.
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
"""Files written last, in this order; kept in memory until then."""
SHOWN: Final = 3


class NewFile(NamedTuple):
    """
    A file to write.

    :param path: Relative to the checkpoint.
    :param chunks: Read them before the next file.
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

    :param written: Its present folder; ``uri`` is its final location.
    :param batch: The expected committed batch.
    :param depth: How closely to check it.
    :raises RestoreRefused: It differs from the plan.
    """
    listing = written.tree()
    if listing is None:
        raise RestoreRefused(f"{uri} was written and is not there. Check the store and try again.")
    # Every byte was hashed during the copy; check mainly that all files arrived.
    report = read_checkpoint(listing, written.read, uri=uri, depth=depth)
    problems = [p for p in report.problems if p.code is not FindingCode.UNFINISHED_RESTORE]
    if problems:
        text = " ".join(problem.message for problem in problems[:SHOWN])
        raise RestoreRefused(
            f"The checkpoint written to {uri} is not sound and was discarded: {text}"
        )
    if (report.last_committed_batch, report.query_id) != (batch, query_id):
        raise RestoreRefused(
            f"The checkpoint written to {uri} has batch {report.last_committed_batch} of query "
            f"{report.query_id} instead of batch {batch} of {query_id} and was discarded."
        )
    return report


def give_up(target: Target, error: BaseException) -> None:
    """
    Remove the written files unless the next attempt can claim and finish them.

    :raises RestoreTaken: Another process has the place; no file was removed.
    """
    if not target.can_resume or isinstance(error, CheckpointError):
        _abandon(target, error)


def discard(target: Target, error: BaseException) -> None:
    """
    Remove written files that no attempt can continue.

    :raises RestoreTaken: Another process has the place; no file was removed.
    :raises HomeUnavailable: Removal failed; the message names the folder to delete.
    """
    try:
        _abandon(target, error)
    except RestoreTaken:
        raise
    except StreamingError as err:
        message = (
            f"{error} The partial result in {target.uri} could not be removed either ({err}). It "
            f"must not be used: delete the folder {target.uri} before the next attempt."
        )
        if isinstance(error, Exception):
            raise HomeUnavailable(message) from error
        # An interrupt must be obeyed.
        error.add_note(message)


def _abandon(target: Target, error: BaseException) -> None:
    try:
        target.abandon()
    except RestoreTaken as taken:
        if not isinstance(error, RestoreTaken):
            raise taken from error


def is_marker(path: str) -> bool:
    return path.rpartition("/")[2] == RESTORE_MARKER


def _ordered(late: dict[str, bytes], stage: str) -> Iterator[str]:
    return (path for path in sorted(late) if path.startswith(stage))


def _in(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path
