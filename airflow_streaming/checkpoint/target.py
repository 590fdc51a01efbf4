"""
Target: the new place that checkpoints are written to, which becomes a checkpoint in one last step.

On this machine everything is written into a folder beside the target and renamed when it is whole
and on disk. On an object store nothing can be renamed, so a marker is created first and deleted
last: a checkpoint that has one is not to be used. Whoever restores the same thing to the same place
puts a token of its own into the marker and writes everything again, because a file of the right size
need not have the right bytes; the one whose token is gone has lost the place and leaves it alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from airflow_streaming.checkpoint.apart import check_outside
from airflow_streaming.checkpoint.folders import Folders, open_folders
from airflow_streaming.checkpoint.local_target import LocalTarget
from airflow_streaming.checkpoint.remote_target import RemoteTarget
from airflow_streaming.core.checkpoint.listing import RESTORE_MARKER
from airflow_streaming.core.checkpoint.refusal import Occupied
from airflow_streaming.core.uris import check_uri, is_local
from airflow_streaming.exceptions import SpecError


class Target(Protocol):
    """
    A place for new checkpoints, used once: look, begin, write, and finish or abandon.

    Every method raises ``HomeUnavailable`` when the store cannot be reached.
    """

    uri: str
    """The place, as the user wrote it."""
    can_resume: bool
    """A place that is half written can be claimed again, by whoever writes the same there."""

    def look(self, folders: Sequence[str]) -> Occupied:
        """
        Return what lies there.

        :param folders: Folders of the checkpoints that are going to be written; ``""`` for one that
            is the place itself.
        """

    def begin(self, source: str, folders: Sequence[str], expected: Collection[str] = ()) -> bool:
        """
        Claim the place, also from somebody who began to write the same there.

        :param source: What is going to be written: a backup's id, or a name of its own.
        :param expected: Paths of all files that will be written, as far as they are known.
        :return: Whether somebody began to write the same there and died.
        :raises RestoreTaken: somebody else has it, or it is not empty.
        """

    def write(self, path: str, size: int, chunks: Iterable[bytes]) -> None:
        """
        Write one file, at once or soon, over that of an earlier attempt.

        :param size: Its bytes; -1 for a large file of unknown size.
        """

    def remove(self, path: str) -> None:
        """Remove a file that was written."""

    def flush(self) -> None:
        """
        Wait until all that was written is there; nothing that comes later is there before.

        :raises RestoreTaken: somebody else has taken over the place.
        """

    def written(self) -> Folders:
        """Return what was written so far, for reading it back."""

    def finish(self) -> None:
        """
        Make it a checkpoint.

        :raises RestoreTaken: somebody else has put something there or taken it over meanwhile.
        """

    def abandon(self) -> None:
        """
        Remove what was written and give up the claim.

        :raises RestoreTaken: somebody else has the place, or works there; nothing was removed.
        """


def open_target(
    uri: str, storage_options: Mapping[str, Any] | None = None, filesystem: Any = None
) -> Target:
    """
    Return the target at a URI; nothing is written yet.

    :param storage_options: Passed to fsspec for a URI that is not a local folder.
    :param filesystem: An fsspec file system to use instead of a new one.
    :raises SpecError: not a full URI, its file system is not installed, or it lies inside a
        checkpoint or a backup store.
    :raises HomeUnavailable: the file system cannot be set up, e.g. for want of credentials.
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
