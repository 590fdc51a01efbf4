"""
The new folder of a restored checkpoint, and its permitted content.

``metadata``, with the query's id, is the last file written. So the right id shows that the
checkpoint is whole, and that other files there, e.g. later batches, are its own.

On this machine all files are written into a folder beside the target, which is renamed when it is
whole and on disk. On an object store a rename is not possible, so a marker is created first and
deleted last: a checkpoint with a marker must not be used. A process that restores the same backup
to the same place puts its own token into the marker and writes all files again, because a file of
the right size need not have the right bytes; the process whose token is gone has lost the place and
leaves it alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from airflow_streaming.checkpoints.backup.pinned_logs import METADATA
from airflow_streaming.checkpoints.backup.records import COPY, RestoreMarker
from airflow_streaming.checkpoints.restore.local_target import LocalTarget
from airflow_streaming.checkpoints.restore.refusal import Occupied
from airflow_streaming.checkpoints.restore.remote_target import RemoteTarget
from airflow_streaming.checkpoints.vault.layout import check_outside
from airflow_streaming.exceptions import CheckpointRefused, SpecError
from airflow_streaming.model.spark.listing import RESTORE_MARKER, is_hidden
from airflow_streaming.model.spark.logs import MAX_LOG_BYTES, json_object
from airflow_streaming.model.uris import check_uri, is_local
from airflow_streaming.storage.folders import Folders, open_folders


def id_in(folders: Folders) -> str:
    """
    Return the id of the query whose whole checkpoint is there; else empty.

    :raises RecordError: ``metadata`` is invalid.
    """
    if folders.read(RESTORE_MARKER, MAX_LOG_BYTES) is not None:
        return ""
    return metadata_id(folders)


def metadata_id(folders: Folders) -> str:
    """
    Return the id in ``metadata``, even during a copy; empty without one.

    :raises RecordError: ``metadata`` is invalid.
    """
    data = folders.read(METADATA, MAX_LOG_BYTES)
    if data is None:
        return ""
    return str(
        json_object(data.decode(errors="replace").strip(), METADATA, limit=MAX_LOG_BYTES)["id"]
    )


def paths_in(folders: Folders) -> list[str]:
    """Return the files that are there, but for hidden ones."""
    found = folders.tree()
    paths = found.paths() if found else ()
    return [path for path, _ in paths if not is_hidden(path.rpartition("/")[2])]


def check_empty_but_for(folders: Folders, known: Collection[str]) -> None:
    """
    Check that the folder holds only leftovers of a dead attempt.

    :raises CheckpointRefused: It holds other files.
    """
    strange = next((path for path in paths_in(folders) if path not in known), None)
    if strange is not None:
        raise CheckpointRefused(
            f"{folders.uri} is the target of a new checkpoint, but contains the unknown file "
            f"{strange}. Find its owner and move it away before you try again."
        )


def is_dead_copy(folders: Folders) -> bool:
    """Tell whether a clone or carry-over to there was cut off, or is under way."""
    data = folders.read(RESTORE_MARKER, MAX_LOG_BYTES)
    return data is not None and RestoreMarker.from_bytes(data).source.startswith(COPY)


class Target(Protocol):
    """
    A place for new checkpoints, used once: look, begin, write, and finish or abandon.

    Every method raises ``HomeUnavailable`` when the store cannot be reached.
    """

    uri: str
    """The place, as the user wrote it."""
    can_resume: bool
    """A place that is half written can be claimed again, by a process that writes the same there."""

    def look(self, folders: Sequence[str]) -> Occupied:
        """
        Return the present content.

        :param folders: Folders of the checkpoints to write; ``""`` for the place itself.
        """

    def begin(self, source: str, folders: Sequence[str], expected: Collection[str] = ()) -> bool:
        """
        Claim the place, also from a process that began to write the same there.

        :param source: The content to write: a backup's id, or a name of its own.
        :param expected: Known paths of the files to write.
        :return: Whether a process began to write the same there and died.
        :raises RestoreTaken: Another process has it, or it is not empty.
        """

    def write(self, path: str, size: int, chunks: Iterable[bytes]) -> None:
        """
        Write one file, now or later, over an earlier attempt's file.

        :param size: Its bytes; -1 for a large file of unknown size.
        """

    def remove(self, path: str) -> None:
        """Remove a file that was written."""

    def flush(self) -> None:
        """
        Wait until all written files are stored; a barrier for later writes.

        :raises RestoreTaken: Another process has taken over the place.
        """

    def written(self) -> Folders:
        """Return the written files, for reading them back."""

    def finish(self) -> None:
        """
        Make it a checkpoint.

        :raises RestoreTaken: another process has put something there or taken it over meanwhile.
        """

    def abandon(self) -> None:
        """
        Remove the written files and the claim.

        :raises RestoreTaken: Another process has the place, or works there; no file was removed.
        """


def open_target(
    uri: str, storage_options: Mapping[str, Any] | None = None, filesystem: Any = None
) -> Target:
    """
    Return the target at a URI; nothing is written yet.

    :raises SpecError: not a full URI, its file system is not installed, or it lies inside a
        checkpoint or a backup store.
    :raises HomeUnavailable: the file system cannot be set up, e.g. for lack of credentials.
    """
    checked = check_uri(uri, "target")
    folders = open_folders(checked, storage_options, filesystem)
    check_outside(folders)
    if filesystem is None and is_local(checked):
        return LocalTarget(checked)
    there = folders.elsewhere(RESTORE_MARKER)
    if there is None:
        raise SpecError(f"The target {checked!r} cannot be written. Give another URI.")
    root = there.path.removesuffix(f"/{RESTORE_MARKER}")
    return RemoteTarget(folders, there.filesystem, root)
