"""
The port through which records are read and written, and its adapter for local files.

It has three implementations: local files (here), fsspec (``home``, on Airflow's side) and Hadoop's
FileSystem (``driver``, on Spark's side). This room uses the standard library only, because it is
shipped to clusters together with the driver.

Other programs may write into the folder too. Every folder on the way to a file is opened by the one
above it and never through a link, only plain files are read, and opening never waits, as it would
on a pipe.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from airflow_streaming.exceptions import (
    AccessDenied,
    AlreadyExists,
    HomeUnavailable,
    RecordError,
    StreamingError,
)
from airflow_streaming.model.wire import MAX_RECORD_BYTES

_NO_PARTS: Final = frozenset({"", ".", ".."})
_CONTROL: Final = re.compile(r"[\x00-\x1f]")

_ROOT: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER: Final = _ROOT | os.O_NOFOLLOW
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FILE: Final = {errno.ELOOP, errno.ENXIO}
"""Errors from opening a symbolic link or a socket."""
_CHUNK: Final = 64 * 1024
FORGOTTEN: Final = 86_400.0
"""Seconds after which no writer is still writing a temporary file."""
_UNFINISHED: Final = re.compile(r"\..{1,200}\.[0-9a-f]{32}\.tmp")
_SORTS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


class Store(Protocol):
    """
    Files under one root, addressed by relative paths that were built by ``model.names``.

    Every method raises ``HomeUnavailable`` when the store cannot be reached or answers nonsense,
    ``AccessDenied`` of these where a local store lacks the right to a file or folder,
    and ``RecordError`` for a path that would leave the root.
    """

    uri: str
    """The root, as the user wrote it."""

    def read(self, path: str) -> bytes | None:
        """
        Return the file's content, ``None`` for a missing file.

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


def mode_within(folder: int) -> int:
    """
    Return the mode of new files for the mode of their root folder.

    They hold data from private files, so they are private, unless the folder is shared on purpose:
    its group may write there, or belongs to it by the set-group-id bit, or is the only one allowed
    in beside the owner; or every user may write there. A folder that every user can read is mostly
    the result of an unintended umask.
    """
    if folder & stat.S_ISVTX:
        return 0o600  # as /tmp: a place for private files of all
    is_for_group = folder & (stat.S_ISGID | stat.S_IWGRP) or not folder & stat.S_IRWXO
    is_for_all = folder & stat.S_IWOTH
    return 0o600 | (folder & 0o060 if is_for_group else 0) | (folder & 0o006 if is_for_all else 0)


class BehindLink(NotADirectoryError):
    """A folder on the way is a symbolic link, a pipe, a socket or a device."""


class LocalFolder:
    """
    A folder of this machine whose files are opened as the module says.

    :param path: The folder. It is the user's own word, so that it may be a link itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = str(path)

    def open(self, path: str) -> int | None:
        """
        Return the handle of a plain file for reading; ``None`` for a missing file.

        :param path: Relative to this folder.
        :raises RecordError: it is not a plain file.
        :raises BehindLink: a folder on the way is not a folder.
        :raises OSError: it cannot be opened.
        """
        folder, _, name = check_relative(path).rpartition("/")
        try:
            handle = self._entered(folder)
            try:
                return self._opened(handle, name, path)
            finally:
                os.close(handle)
        except BehindLink:
            raise
        except (FileNotFoundError, NotADirectoryError):
            return None

    @contextlib.contextmanager
    def folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """
        Open a folder below this one, or this one itself.

        :param make: Create it, and its parents, when they are missing.
        :raises BehindLink: a folder on the way is not a folder.
        :raises OSError: it cannot be opened.
        """
        if make:
            self.path.mkdir(parents=True, exist_ok=True)
        handle = self._entered(check_relative(path), make=make)
        try:
            yield handle
        finally:
            os.close(handle)

    def _entered(self, path: str, *, make: bool = False) -> int:
        # Every look at a stream comes through here some twenty times.
        handle = os.open(self._text, _ROOT)
        parts = path.split("/") if path else ()
        for index, part in enumerate(parts):
            try:
                if make:
                    _make(handle, part)
                below = os.open(part, _FOLDER, dir_fd=handle)
            except OSError as err:
                # With O_NOFOLLOW a link to a folder is "not a directory", like a file in its place.
                is_other = err.errno in {errno.ENOTDIR, errno.ELOOP}
                if is_other and (sort := _sort_of(handle, part)):
                    place = "/".join((self._text, *parts[: index + 1]))
                    raise BehindLink(errno.ENOTDIR, sort, place) from err
                raise
            finally:
                os.close(handle)
            handle = below
        return handle

    def names(self, path: str) -> list[str]:
        """
        Return the names in a folder below this one, in no order; empty for a missing folder.

        :raises BehindLink: it, or a folder on the way, is not a folder.
        :raises OSError: it cannot be opened.
        """
        try:
            handle = self._entered(check_relative(path))
        except BehindLink:
            raise
        except (FileNotFoundError, NotADirectoryError):
            return []
        try:
            return os.listdir(handle)  # noqa: PTH208 - it has no path, only a handle
        finally:
            os.close(handle)

    def file_mode(self) -> int:
        """Return the mode for new files, before the umask."""
        return mode_within(self.path.stat().st_mode)

    def _opened(self, handle: int, name: str, path: str) -> int:
        try:
            opened = os.open(name, _READ, dir_fd=handle)
        except OSError as err:
            if err.errno in _NO_FILE:
                raise self._no_file(path, _sort_of(handle, name)) from err
            raise
        mode = os.fstat(opened).st_mode
        if not stat.S_ISREG(mode):
            os.close(opened)
            raise self._no_file(path, _sort(mode))
        return opened

    def _no_file(self, path: str, sort: str) -> RecordError:
        return RecordError(
            f"{self.path / path} is not a file but {sort or 'something else'}; it was not opened. "
            "Find out who put it there, and move it away."
        )


@contextlib.contextmanager
def temporary_file(folder: int, name: str, chunks: Iterable[bytes], mode: int) -> Iterator[str]:
    """
    Write a file beside the one of a name, synced to the disk; remove it in the end.

    :param folder: The folder's handle.
    :param mode: Who may read and write it, before the umask.
    :returns: The temporary file's own name.
    """
    temporary = f".{name}.{uuid.uuid4().hex}.tmp"
    try:
        handle = os.open(temporary, _WRITE, mode, dir_fd=folder)
        with open(handle, "wb") as file:  # noqa: PTH123 - it has no path, only a handle
            file.writelines(chunks)
            file.flush()
            # Without the sync, a power cut can leave the name with an empty file behind it: a
            # record that exists, can never be created again and cannot be read.
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


def link_to_its_name(folder: int, temporary: str, name: str) -> bool:
    """Give a finished temporary file its name; ``False`` when the name is taken."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError:
        # NFS repeats a request whose reply got lost, and then finds its own link.
        return os.stat(temporary, dir_fd=folder).st_nlink >= 2
    return True


class LocalStore:
    """
    A folder of this machine as a store.

    A finished temporary file is hard-linked to its name: linking fails when the name is taken, and
    no reader ever sees half a file. (``open("xb")`` is exclusive too, but its content appears
    later.)

    :param uri: Absolute path of the root, or a ``file://`` URI.
    :param mode: Of new files; by default as private as ``mode_within`` says.
    """

    def __init__(self, uri: str, *, mode: int | None = None) -> None:
        self.uri, self._mode = uri, mode
        self._root = Path(uri.split("://", 1)[1] if "://" in uri else uri)
        self._files = LocalFolder(self._root)
        self._swept: set[str] = set()

    def read(self, path: str) -> bytes | None:
        try:
            handle = self._files.open(path)
            if handle is None:
                return None
            try:
                data = _content(handle)
            finally:
                os.close(handle)
        except OSError as err:
            raise self._unusable(path, err) from err
        if len(data) > MAX_RECORD_BYTES:
            raise RecordError(f"{self._root / path} is larger than {MAX_RECORD_BYTES} bytes.")
        return data

    def create(self, path: str, data: bytes) -> None:
        with self._temporary(path, data) as (folder, temporary, name):
            if not link_to_its_name(folder, temporary, name):
                raise AlreadyExists(str(self._root / path))

    def replace(self, path: str, data: bytes) -> None:
        with self._temporary(path, data) as (folder, temporary, name):
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    def names(self, folder: str) -> list[str]:
        try:
            names = self._files.names(folder)
        except OSError as err:
            raise self._unusable(folder, err) from err
        return sorted(name for name in names if not name.startswith("."))

    def delete(self, path: str) -> None:
        folder, _, name = check_relative(path).rpartition("/")
        with self._reporting(path):
            try:
                with self._files.folder(folder) as handle:
                    os.unlink(name, dir_fd=handle)
            except BehindLink:
                raise
            except (FileNotFoundError, NotADirectoryError):
                return

    @contextlib.contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[tuple[int, str, str]]:
        folder, _, name = check_relative(path).rpartition("/")
        with self._reporting(path), self._files.folder(folder, make=True) as handle:
            if folder not in self._swept:
                self._swept.add(folder)
                _sweep(handle)
            mode = self._files.file_mode() if self._mode is None else self._mode
            with temporary_file(handle, name, [data], mode) as temporary:
                yield handle, temporary, name

    @contextlib.contextmanager
    def _reporting(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as err:
            raise self._unusable(path, err) from err

    def _unusable(self, path: str, err: OSError) -> StreamingError:
        if isinstance(err, BehindLink):
            return RecordError(
                f"{err.filename} is {err.strerror}, not a folder; nothing was read or written "
                "through it. Find out who put it there, and move it away."
            )
        message = f"{self._root / check_relative(path)} cannot be used: {err.strerror or err}."
        if err.errno == errno.EACCES:
            return AccessDenied(
                f"{message} Give the user of this process the rights of the home's owner to it."
            )
        return HomeUnavailable(
            f"{message} Check that the folder exists on this host, that this user may write there, "
            "that its disk has room and that its file system has hard links."
        )


def _content(handle: int) -> bytes:
    """Return a file's content, up to one byte more than a record may have."""
    chunks, size = [], 0
    while size <= MAX_RECORD_BYTES:
        # Nearly every record comes at once, and the second call says that it was all.
        chunk = os.read(handle, min(_CHUNK, MAX_RECORD_BYTES + 1 - size))
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def _sweep(handle: int) -> None:
    """Delete the temporary files that killed writers left in a folder, once they are a day old."""
    with contextlib.suppress(OSError):
        for name in filter(_UNFINISHED.fullmatch, os.listdir(handle)):
            found = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if time.time() - found.st_mtime > FORGOTTEN and stat.S_ISREG(found.st_mode):
                os.unlink(name, dir_fd=handle)


def _make(handle: int, part: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, dir_fd=handle)
        os.fsync(handle)


def _sort_of(handle: int, name: str) -> str:
    try:
        return _sort(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)
    except OSError:
        return ""


def _sort(mode: int) -> str:
    """Return the kind of an entry; empty for a plain file."""
    return _SORTS.get(stat.S_IFMT(mode), "")
