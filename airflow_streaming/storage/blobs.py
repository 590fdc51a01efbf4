"""
Objects of a backup store: the port, and its adapter for a local folder.

A backup store keeps objects, most of them named by the SHA-256 of their bytes. Nothing is ever
changed in place: an object appears whole under its name, or not at all. Two implementations, a
folder of this machine and any file system of fsspec, have one contract test.

Every folder on the way to an object is opened separately and never through a link, so that nothing
outside the store is read or written, whatever is put into it. Bytes and names are synced to
the disk before the next step relies on them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable, RecordError
from airflow_streaming.model.storage import (
    BehindLink,
    LocalFolder,
    check_relative,
    link_to_its_name,
    temporary_file,
)
from airflow_streaming.model.uris import local_path

CHUNK: Final = 1024 * 1024
"""Bytes of a large object that are held at once."""
_TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")

SYMBOLIC_LINK: Final = "symbolic link"
_STRANGE: Final = {
    stat.S_IFLNK: SYMBOLIC_LINK,
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}

TAGS: Final = ("ETag", "etag", "md5Hash", "content_md5", "generation", "VersionId")
"""Names of the tag that changes with each write of an object."""
TIMES: Final = ("mtime", "LastModified", "last_modified", "updated", "modificationTime", "created")
"""Names of a file's time, the usual one first."""


class Stored(NamedTuple):
    """
    An entry of a folder of the store.

    :param size: Bytes; 0 for a folder.
    :param modified: When it was stored, by the store's clock; ``None`` where it does not tell.
    :param strange: Its kind, if neither file nor folder, e.g. ``symbolic link``.
    """

    name: str
    size: int
    modified: datetime | None = None
    is_folder: bool = False
    strange: str = ""


class Elsewhere(NamedTuple):
    """
    A file on an fsspec file system that may be the store's own.

    :param filesystem: The fsspec file system that the file is read through.
    :param path: The file as that file system spells it, e.g. ``bucket/checkpoint/offsets/17``.
    """

    filesystem: Any
    path: str


class ServerCopy(Protocol):
    """A copy that the store's own server makes of a file that lies on the same store."""

    def to(self, path: str) -> bool:
        """
        Copy the file to an object of the store.

        :return: Whether the object equals the file at the time of the call, and nothing has written
            the file since; ``False`` as well when the server cannot copy.
        """


class Blobs(Protocol):
    """
    Objects under one root, addressed by relative paths that were built from checked parts.

    Every method raises ``HomeUnavailable`` when the store cannot be reached, and ``RecordError``
    for a path that would leave the root, and for anything but a file.
    """

    uri: str
    """The root, as the user wrote it."""

    workers: int
    """How many objects are read or written at once with profit."""

    def create(self, path: str, data: bytes) -> None:
        """
        Create an object whole; of any number of racing callers one succeeds.

        :raises AlreadyExists: the object is there already.
        """

    def put(self, path: str, data: bytes) -> None:
        """
        Write an object whole, over an older one; a reader sees the old or the new bytes.

        On HDFS, where nothing is renamed over a file, there is a moment without one when the bytes
        differ.
        """

    def keep(self, folder: str, chunks: Iterable[bytes]) -> tuple[str, int]:
        """
        Store a large object under the SHA-256 of its bytes; memory is bounded.

        :return: The digest and the number of bytes.
        """

    def read(self, path: str, limit: int) -> bytes | None:
        """
        Return an object's bytes, ``None`` when it is missing.

        :raises RecordError: larger than the limit.
        """

    def stream(self, path: str) -> Iterator[bytes] | None:
        """Return an object's bytes in chunks, ``None`` when it is missing."""

    def size(self, path: str) -> int | None:
        """Return an object's bytes, ``None`` when it is missing."""

    def entries(self, folder: str) -> list[Stored]:
        """
        Return a folder's entries by name; empty when it is missing.

        Files that are still being written, or that a killed writer left, are there as well: see
        ``is_unfinished``.
        """

    def delete(self, path: str) -> None:
        """Delete an object; no error when it is missing."""

    def delete_tree(self, folder: str) -> None:
        """
        Delete a folder with its content; no error when it is missing.

        A link in it is deleted and not followed. Killed half-way, it leaves a part of the folder.

        :raises RecordError: the folder itself is a link.
        """

    def server_copy(self, source: Elsewhere) -> ServerCopy | None:
        """Prepare a copy on the server; ``None`` when the file is not on this store."""


def is_unfinished(name: str) -> bool:
    """Tell whether a name belongs to a file still being written, or left by a killed writer."""
    return _TEMPORARY.fullmatch(name) is not None


class LocalBlobs:
    """
    Objects as files of this machine.

    :param uri: Absolute path of the root, or a ``file://`` URI.
    """

    workers = 2

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._files = LocalFolder(Path(local_path(uri)))

    def create(self, path: str, data: bytes) -> None:
        with self._to_write(path) as (folder, name):
            with temporary_file(folder, name, [data], self._files.file_mode()) as temporary:
                if not link_to_its_name(folder, temporary, name):
                    raise AlreadyExists(f"{self.uri}/{path}")
            os.fsync(folder)

    def put(self, path: str, data: bytes) -> None:
        with self._to_write(path) as (folder, name):
            with temporary_file(folder, name, [data], self._files.file_mode()) as temporary:
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)

    def keep(self, folder: str, chunks: Iterable[bytes]) -> tuple[str, int]:
        digest, size = hashlib.sha256(), 0

        def hashed() -> Iterator[bytes]:
            nonlocal size
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                yield chunk

        with self._to_write(f"{folder}/large") as (handle, name):
            with temporary_file(handle, name, hashed(), self._files.file_mode()) as temporary:
                os.rename(temporary, digest.hexdigest(), src_dir_fd=handle, dst_dir_fd=handle)
            os.fsync(handle)
        return digest.hexdigest(), size

    def read(self, path: str, limit: int) -> bytes | None:
        with self._reporting(path):
            handle = self._open(path)
            if handle is None:
                return None
            with open(handle, "rb") as file:  # noqa: PTH123 - it has no path, only a handle
                data = file.read(limit + 1)
        if len(data) > limit:
            raise RecordError(f"{self.uri}/{path} is larger than {limit} bytes.")
        return data

    def stream(self, path: str) -> Iterator[bytes] | None:
        with self._reporting(path):
            handle = self._open(path)
        return None if handle is None else self._chunks(handle, path)

    def size(self, path: str) -> int | None:
        with self._reporting(path), contextlib.ExitStack() as stack:
            handle = self._open(path)
            if handle is None:
                return None
            stack.callback(os.close, handle)
            return os.fstat(handle).st_size

    def entries(self, folder: str) -> list[Stored]:
        with self._reporting(folder), contextlib.ExitStack() as stack:
            try:
                handle = stack.enter_context(self._files.folder(folder))
            except (FileNotFoundError, NotADirectoryError):
                return []
            # Names first: a file may vanish before its facts are read.
            names = sorted(os.listdir(handle))  # noqa: PTH208 - it has no path, only a handle
            found = [_stored_file(handle, name) for name in names]
        return [entry for entry in found if entry is not None]

    def delete(self, path: str) -> None:
        folder, _, name = check_relative(path).rpartition("/")
        with (
            self._reporting(path),
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._files.folder(folder) as handle,
        ):
            os.unlink(name, dir_fd=handle)
            os.fsync(handle)

    def delete_tree(self, folder: str) -> None:
        above, _, name = below_the_root(folder, self.uri).rpartition("/")
        with (
            self._reporting(folder),
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._files.folder(above) as handle,
        ):
            if stat.S_ISLNK(os.lstat(name, dir_fd=handle).st_mode):
                raise RecordError(
                    f"{self.uri}/{folder} is a symbolic link, and a deletion follows no link. Delete the link, or "
                    "move the folder to its place, and try again."
                )
            # By handles and without following links.
            shutil.rmtree(name, dir_fd=handle)
            os.fsync(handle)

    def server_copy(self, source: Elsewhere) -> ServerCopy | None:
        return None

    def _chunks(self, handle: int, path: str) -> Iterator[bytes]:
        with open(handle, "rb", buffering=0) as file:
            while True:
                with self._reporting(path):
                    chunk = file.read(CHUNK)
                if not chunk:
                    return
                yield chunk

    def _open(self, path: str) -> int | None:
        try:
            return self._files.open(path)
        except BehindLink:
            return None

    @contextlib.contextmanager
    def _to_write(self, path: str) -> Iterator[tuple[int, str]]:
        folder, _, name = check_relative(path).rpartition("/")
        with self._reporting(path), self._files.folder(folder, make=True) as handle:
            yield handle, name

    @contextlib.contextmanager
    def _reporting(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as err:
            raise HomeUnavailable(
                f"{self.uri}/{path} cannot be used: {err.strerror or err}. Check that the folder "
                "exists on this host, that this user may write there, that its disk has room and "
                "that its file system has hard links."
            ) from err


def below_the_root(folder: str, uri: str) -> str:
    """
    Return a folder that may be deleted with all in it.

    :raises RecordError: it is the whole store.
    """
    if not check_relative(folder):
        raise RecordError(f"{uri} is a whole store, which is never deleted at once.")
    return folder


def _stored_file(handle: int, name: str) -> Stored | None:
    try:
        found = os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return None
    modified = datetime.fromtimestamp(found.st_mtime, UTC)
    if stat.S_ISDIR(found.st_mode):
        return Stored(name, 0, modified, is_folder=True)
    strange = _STRANGE.get(stat.S_IFMT(found.st_mode), "")
    return Stored(name, found.st_size, modified, strange=strange)


def last_name(info: Mapping[str, Any]) -> str:
    """Return the last part of a file's name."""
    return str(info.get("name", "")).rstrip("/").rsplit("/", 1)[-1]


def is_itself(info: Mapping[str, Any], folder: str) -> bool:
    """Tell whether an entry of a folder is the folder: a marker, or a file listed like a folder."""
    return str(info.get("name", "")).strip("/") == folder.strip("/")


def size_in(info: Mapping[str, Any]) -> int:
    """Return the bytes of a file; 0 when the file system does not tell."""
    size = info.get("size")
    return size if type(size) is int and size >= 0 else 0


def stamp_in(info: Mapping[str, Any]) -> str:
    """Return what differs whenever the file was written anew; empty when nothing is reported."""
    return "|".join(str(info[key]) for key in (*TAGS, *TIMES) if info.get(key) is not None)


def time_in(info: Mapping[str, Any]) -> datetime | None:
    """Return the time of a file; ``None`` when the file system does not tell."""
    told = next((info[key] for key in TIMES if info.get(key) is not None), None)
    try:
        if isinstance(told, str):
            told = datetime.fromisoformat(told)
        if isinstance(told, datetime):
            return told.astimezone(UTC) if told.tzinfo else told.replace(tzinfo=UTC)
        if isinstance(told, int | float) and not isinstance(told, bool):
            # WebHDFS counts in milliseconds, everybody else in seconds.
            return datetime.fromtimestamp(told / 1000 if told > 1e11 else told, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
