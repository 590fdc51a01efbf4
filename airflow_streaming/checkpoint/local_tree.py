"""
The local half of a walk: every folder is opened by the folder above it, never by its path.

So a folder that somebody swaps for a link while we walk is refused by the kernel, not followed.
Reading goes the same way. Only the root itself may be reached through links: it is the user's
choice.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Final

from airflow_streaming.checkpoint.limits import check_count, check_depth, is_usable, shown
from airflow_streaming.checkpoint.near import FOLDER, ROOT, Near
from airflow_streaming.core.checkpoint.listing import FileStat, Listing
from airflow_streaming.exceptions import RecordError

CHUNK: Final = 1 << 20
"""Bytes of a large file that are held at once."""

_SORTS: Final = (
    (stat.S_ISLNK, "symbolic link"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISBLK, "block device"),
    (stat.S_ISCHR, "character device"),
)


def local_tree(root: str) -> Listing | None:
    """
    Walk a folder of this machine; ``None`` when it is missing.

    :raises CheckpointError: too many files or too deep.
    :raises OSError: a folder cannot be opened or listed.
    """
    try:
        handle = os.open(root, ROOT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    walk = _Walk(root)
    with _closing(handle):
        walk.enter(handle, "")
    return Listing(walk.folders, walk.strange)


def read_local(root: str, path: str, limit: int, near: Near | None = None) -> bytes | None:
    """
    Return up to ``limit + 1`` bytes of a file, without following a link below the root.

    :param path: Relative to the root, and checked.
    :param near: Makes reading many files of one folder cheaper.
    :raises RecordError: it is no file, or a link is in the way.
    :raises OSError: it cannot be read.
    """
    found = _opened(root, path, near or Near())
    if found is None:
        return None
    file, size = found
    # Ten thousand times in a row a context manager would be a tenth of the whole.
    try:
        return _content(file, size, limit + 1)
    finally:
        os.close(file)


def stream_local(root: str, path: str) -> Iterator[bytes] | None:
    """
    Return a file's bytes in chunks, without following a link below the root.

    :param path: Relative to the root, and checked.
    :raises RecordError: it is no file, or a link is in the way.
    :raises OSError: it cannot be read.
    """
    found = _opened(root, path, Near())
    return None if found is None else _chunks(found[0])


def _opened(root: str, path: str, near: Near) -> tuple[int, int] | None:
    """Return the handle and the size of a file; ``None`` when there is none."""
    folder, _, name = path.rpartition("/")
    try:
        return _checked(near.open(root, folder, name))
    except FileNotFoundError:
        return None
    except (NotADirectoryError, RecordError) as err:
        # With O_NOFOLLOW a link to a folder is "not a directory", like a file in its place.
        if os.path.lexists(os.path.join(root, path)):  # noqa: PTH118 - no Path is needed
            raise RecordError(f"{root}/{path} is not a file, or lies behind a link.") from err
        return None


def _checked(file: int) -> tuple[int, int]:
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise RecordError("No file.")
    return file, found.st_size


def _chunks(file: int) -> Iterator[bytes]:
    with _closing(file):
        while chunk := os.read(file, CHUNK):
            yield chunk


class _Walk:
    def __init__(self, root: str) -> None:
        self.folders: dict[str, dict[str, FileStat]] = {}
        self.strange: dict[str, str] = {}
        self._root, self._files = root, 0

    def enter(self, handle: int, path: str) -> None:
        check_depth(path, self._root)
        files = self.folders.setdefault(path, {})
        below = []
        with os.scandir(handle) as found:
            for entry in found:
                self._files += 1
                check_count(self._files, self._root)
                if not is_usable(entry.name):
                    self.strange[shown(_join(path, entry.name))] = "a name no Spark gives"
                elif entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
                else:
                    self._note(entry, path, files)
        # Commits before offsets before state: what a batch wrote is not looked for before its plan.
        for name in sorted(below):
            self._descend(handle, name, _join(path, name))

    def _note(self, entry: os.DirEntry[str], path: str, files: dict[str, FileStat]) -> None:
        try:
            it = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            # Renamed or purged between the listing and now.
            return
        if stat.S_ISREG(it.st_mode):
            stamp = f"{it.st_mtime_ns:x}-{it.st_ctime_ns:x}-{it.st_ino:x}"
            files[entry.name] = FileStat(it.st_size, stamp)
        else:
            self.strange[_join(path, entry.name)] = _sort(it.st_mode)

    def _descend(self, parent: int, name: str, path: str) -> None:
        try:
            handle = os.open(name, FOLDER, dir_fd=parent)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            self.strange[path] = "something that was a folder a moment ago"
            return
        with _closing(handle):
            self.enter(handle, path)


def _content(handle: int, size: int, limit: int) -> bytes:
    chunks = []
    # One byte more than the file has shows its end at the first reading.
    most = min(size + 1, 1 << 24)
    while limit > 0:
        wanted = min(limit, most)
        chunk = os.read(handle, wanted)
        chunks.append(chunk)
        limit -= len(chunk)
        if len(chunk) < wanted:
            # Of a regular file, less than was asked for is all there is.
            break
    return b"".join(chunks)


def _sort(mode: int) -> str:
    return next((name for is_sort, name in _SORTS if is_sort(mode)), "something that is no file")


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


@contextlib.contextmanager
def _closing(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)
