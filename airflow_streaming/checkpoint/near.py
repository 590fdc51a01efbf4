"""Opening one file after the other of a local tree, each from the folder it lies in."""

from __future__ import annotations

import errno
import os
import threading
from typing import Final, NamedTuple

from airflow_streaming.exceptions import RecordError

ROOT: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FOLDER: Final = ROOT | os.O_NOFOLLOW
# Opening a pipe that somebody put there would wait for a writer.
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class _Kept(NamedTuple):
    """A folder that is open, and what tells it from another one at its path."""

    path: str
    handle: int
    identity: tuple[int, int]

    def is_there(self) -> bool:
        try:
            return _identity(os.stat(self.path)) == self.identity  # noqa: PTH116 - no Path needed
        except OSError:
            return False


class Near:
    """
    The folder that was read from last, kept open with those above it: the next file is near.

    One is used only while its path still leads to it, so that a folder that was exchanged is opened
    anew. One ``Near`` may be shared by threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[int, _Kept] = {}

    def __del__(self) -> None:
        for depth in list(self._kept):
            self._forget(depth)

    def open(self, root: str, folder: str, name: str) -> int:
        """
        Open a file of a folder.

        :raises OSError: as ``os.open`` does.
        :raises RecordError: a link is in the way.
        """
        with self._lock:
            return _open(name, _FILE, self._folder(root, folder, 0))

    def _folder(self, root: str, folder: str, depth: int) -> int:
        """Return the handle of a folder; each is opened by the one above it."""
        path = f"{root}/{folder}"
        kept = self._kept.get(depth)
        if kept is not None and kept.path == path and kept.is_there():
            return kept.handle
        if not folder:
            handle = os.open(root, ROOT)
        else:
            above, _, name = folder.rpartition("/")
            handle = _open(name, FOLDER, self._folder(root, above, depth + 1))
        self._forget(depth)
        self._kept[depth] = _Kept(path, handle, _identity(os.fstat(handle)))
        return handle

    def _forget(self, depth: int) -> None:
        if depth in self._kept:
            os.close(self._kept.pop(depth).handle)


def _open(name: str, flags: int, parent: int) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as err:
        if err.errno in {errno.ELOOP, errno.ENXIO}:
            raise RecordError("A link, or a socket.") from err
        raise


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
