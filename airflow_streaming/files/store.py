"""
The port through which records are read and written.

It has three implementations: local files (here), fsspec (``home``, on Airflow's side) and Hadoop's
FileSystem (``driver``, on Spark's side). This room uses the standard library only, because it is
shipped to clusters together with the driver.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from airflow_streaming.exceptions import RecordError

_NO_PARTS: Final = frozenset({"", ".", ".."})
_CONTROL: Final = re.compile(r"[\x00-\x1f]")


class Store(Protocol):
    """
    Files under one root, addressed by relative paths that were built by ``core.names``.

    Every method raises ``HomeUnavailable`` when the store cannot be reached or answers nonsense,
    and ``RecordError`` for a path that would leave the root.
    """

    uri: str
    """The root, as the user wrote it."""

    def read(self, path: str) -> bytes | None:
        """
        Return the file's content, ``None`` when there is no such file.

        :raises RecordError: larger than a record may be.
        """

    def create(self, path: str, data: bytes) -> None:
        """
        Create the file whole, or not at all; of any number of racing callers one succeeds.

        :raises AlreadyExists: the file is there already.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Write the file whole, over an older one; a reader sees the old or the new content."""

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of files and folders in a folder; empty when it is missing."""

    def delete(self, path: str) -> None:
        """Delete the file; no error when it is missing."""


def check_relative(path: str) -> str:
    """
    Return a path that stays under the root; the empty path is the root itself.

    Paths are built from checked parts, so this never fails in a sound program. It is the last
    fence before the file system.

    :raises RecordError: absolute, with ``.`` or ``..``, or with a control character.
    """
    parts = path.split("/") if path else []
    if not _NO_PARTS.isdisjoint(parts) or _CONTROL.search(path):
        raise RecordError(f"{path!r} is not a path inside a home. Nothing was read or written.")
    return path
