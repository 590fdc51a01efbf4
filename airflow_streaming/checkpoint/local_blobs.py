"""
A backup store in a folder of this machine.

Every folder on the way to an object is opened by itself and never through a link, so that nothing
outside the store is read or written, whatever somebody puts into it. Bytes and names are synced to
the disk before the next step relies on them.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from airflow_streaming.checkpoint.blobs import (
    CHUNK,
    Elsewhere,
    ServerCopy,
    Stored,
)
from airflow_streaming.core.uris import local_path
from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable, RecordError
from airflow_streaming.files.store import check_relative

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Opening a pipe that somebody put there would wait for a writer."""
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_STRANGE: Final = {
    stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


class LocalBlobs:
    """
    Objects as files of this machine.

    :param uri: Absolute path of the root, or a ``file://`` URI.
    """

    workers = 2

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._root = Path(local_path(uri))

    def create(self, path: str, data: bytes) -> None:
        with self._to_write(path) as (folder, name):
            with _temporary(folder, name, [data]) as temporary:
                try:
                    os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                except FileExistsError as err:
                    # NFS repeats a request whose reply got lost, and then finds its own link.
                    if os.stat(temporary, dir_fd=folder).st_nlink < 2:
                        raise AlreadyExists(f"{self.uri}/{path}") from err
            os.fsync(folder)

    def put(self, path: str, data: bytes) -> None:
        with self._to_write(path) as (folder, name):
            with _temporary(folder, name, [data]) as temporary:
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
            with _temporary(handle, name, hashed()) as temporary:
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
                handle = stack.enter_context(self._folder(check_relative(folder)))
            except (FileNotFoundError, NotADirectoryError):
                return []
            # Names first: a file may go before it is looked at.
            names = sorted(os.listdir(handle))  # noqa: PTH208 - it has no path, only a handle
            found = [_stored(handle, name) for name in names]
        return [entry for entry in found if entry is not None]

    def delete(self, path: str) -> None:
        folder, _, name = check_relative(path).rpartition("/")
        with (
            self._reporting(path),
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._folder(folder) as handle,
        ):
            os.unlink(name, dir_fd=handle)
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
        folder, _, name = check_relative(path).rpartition("/")
        try:
            with self._folder(folder) as handle:
                opened = os.open(name, _READ, dir_fd=handle)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as err:
            if err.errno in {errno.ELOOP, errno.ENXIO}:
                raise RecordError(f"{self.uri}/{path} is a link or a socket, not a file.") from err
            raise
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise RecordError(f"{self.uri}/{path} is not a file.")
        return opened

    @contextlib.contextmanager
    def _to_write(self, path: str) -> Iterator[tuple[int, str]]:
        folder, _, name = check_relative(path).rpartition("/")
        with self._reporting(path), self._folder(folder, make=True) as handle:
            yield handle, name

    @contextlib.contextmanager
    def _folder(self, folder: str, *, make: bool = False) -> Iterator[int]:
        if make:
            self._root.mkdir(parents=True, exist_ok=True)
        # The root is the user's own word and may be a link.
        handle = os.open(self._root, _FOLDER & ~os.O_NOFOLLOW)
        try:
            for part in folder.split("/") if folder else []:
                below = _enter(handle, part, make=make)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)

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


def _enter(handle: int, part: str, *, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=handle)
            os.fsync(handle)
    return os.open(part, _FOLDER, dir_fd=handle)


def _stored(handle: int, name: str) -> Stored | None:
    try:
        found = os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return None
    modified = datetime.fromtimestamp(found.st_mtime, UTC)
    if stat.S_ISDIR(found.st_mode):
        return Stored(name, 0, modified, is_folder=True)
    strange = _STRANGE.get(stat.S_IFMT(found.st_mode), "")
    return Stored(name, found.st_size, modified, strange=strange)


@contextlib.contextmanager
def _temporary(folder: int, name: str, chunks: Iterable[bytes]) -> Iterator[str]:
    temporary = f".{name}.{uuid.uuid4().hex}.tmp"
    try:
        handle = os.open(temporary, _WRITE, 0o666, dir_fd=folder)
        with open(handle, "wb") as file:  # noqa: PTH123 - it has no path, only a handle
            file.writelines(chunks)
            file.flush()
            # Without the sync, a power cut can leave the name with an empty file behind it.
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
