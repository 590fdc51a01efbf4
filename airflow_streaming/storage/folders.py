"""
Reading external folders: the port, on this machine and on every store that fsspec knows.

A checkpoint that is not ours is never written to, so this port cannot write at all. It lists a
folder once, with the store's own times of the few requested files (one question for
every file would be thousands of them), or the whole tree in one walk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from airflow_streaming.exceptions import (
    CheckpointError,
    HomeUnavailable,
    RecordError,
    SpecError,
    StreamingError,
)
from airflow_streaming.model.spark.listing import Listing
from airflow_streaming.model.storage import check_relative
from airflow_streaming.model.uris import check_uri, is_local, local_path
from airflow_streaming.storage.blobs import CHUNK, Elsewhere, is_itself, last_name, time_in
from airflow_streaming.storage.fsspec_store import open_filesystem, read_start
from airflow_streaming.storage.trees import (
    DirHandleCache,
    kind_of,
    local_tree,
    read_local,
    remote_tree,
    stream_local,
)

_NO_RIGHT: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FORBIDDEN: Final = 403

LARGEST_VARIABLE: Final = "AIRFLOW_STREAMING_LARGEST_FILE"
"""Environment variable with the size in GiB of the largest file that is copied into or out of a backup."""
_USUAL_LARGEST: Final = 64
"""A snapshot of one partition's state has some GiB at most; a file of a terabyte is a hole, or a trap."""
_GIB: Final = 2**30

_MOST_GIB: Final = 1_000_000
MAX_NAMES: Final = 1_000_000
"""Spark keeps 100 batches; a folder of more than a million files is not a checkpoint."""

Choice = Callable[[Iterable[str]], Collection[str]]


@contextlib.contextmanager
def reporting(where: str) -> Iterator[None]:
    """Turn every error of a storage client into one."""
    try:
        yield
    except StreamingError:
        raise
    except Exception as err:
        # Storage clients share no base class for "no route" or "no credentials".
        raise unavailable(where, err) from err


def unavailable(where: str, err: Exception) -> HomeUnavailable:
    """Return the error of a store that cannot be read."""
    return HomeUnavailable(
        f"{where} cannot be read: {err or 'no reason given'} ({type(err).__name__}). Check that "
        "the store can be reached from this host and that the credentials may read there."
    )


def is_for_want_of_rights(err: BaseException) -> bool:
    """Tell whether a store refused a request: a missing right, or a read-only store."""
    seen: BaseException | None = err
    while seen is not None:
        if isinstance(seen, PermissionError) or getattr(seen, "errno", None) in _NO_RIGHT:
            return True
        # Clients of Google and of Azure keep the answer's status.
        if _FORBIDDEN in (getattr(seen, name, None) for name in ("status_code", "status", "code")):
            return True
        seen = seen.__cause__
    return False


def why_too_large(sizes: Iterable[tuple[str, int]]) -> str:
    """
    Return which file is too large to be copied, and what to do; empty when none is.

    :param sizes: The path and the bytes of each.
    :raises SpecError: the environment says something else than a number of GiB.
    """
    text = os.environ.get(LARGEST_VARIABLE, "").strip() or str(_USUAL_LARGEST)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:8]) <= _MOST_GIB:
        raise SpecError(
            f"{LARGEST_VARIABLE} is {text!r:.80}; give a whole number of GiB from 1 to {_MOST_GIB:,}."
        )
    most = int(text[:8])
    path, size = next((one for one in sizes if one[1] > most * _GIB), ("", 0))
    if not path:
        return ""
    return (
        f"{path} has {size / _GIB:,.1f} GiB, and the largest file that is copied has {most:,} GiB. If "
        f"that is its real size, set {LARGEST_VARIABLE} to more GiB where this runs."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    A file or folder.

    :param modified: Its time by the store's clock; ``None`` where the store does not tell.
    :param strange: Its kind, if neither file nor folder, e.g. ``symbolic link``; it was not
        followed.
    """

    name: str
    is_folder: bool
    modified: datetime | None = None
    strange: str = ""


class Folders(Protocol):
    """
    Folders under one root, for reading.

    Both methods raise ``HomeUnavailable`` when the store cannot be reached, which says nothing of
    the stream, and ``RecordError`` for a file that is too large.
    """

    uri: str
    """The root, as the user wrote it."""

    def entries(self, folder: str, choose: Choice) -> list[Entry] | None:
        """
        Return a folder's entries, in any order; ``None`` when it is missing.

        :param choose: Selects some of all names.
        """

    def read(self, path: str, limit: int) -> bytes | None:
        """Return a file's content, ``None`` when it is missing."""

    def stream(self, path: str) -> Iterator[bytes] | None:
        """Return a large file's content in chunks, ``None`` when it is missing."""

    def elsewhere(self, path: str) -> Elsewhere | None:
        """Tell where a file lies, so that a server can copy it; ``None`` for a local one."""

    def tree(self) -> Listing | None:
        """Return everything under the root, ``None`` when it is missing; see ``walk``."""

    def below(self, folder: str) -> Folders:
        """Return the folders under one folder of these; the empty one are these."""


def open_folders(
    uri: str, storage_options: Mapping[str, Any] | None = None, filesystem: Any = None
) -> Folders:
    """Return the folders under a URI; nothing is probed, and nothing can be written."""
    checked = check_uri(uri, "checkpoint")
    if filesystem is None and is_local(checked):
        return LocalFolders(checked)
    opened, root = open_filesystem(checked, "checkpoint", storage_options, filesystem)
    return RemoteFolders(opened, root, checked)


class LocalFolders:
    """Folders of this machine."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._root = Path(local_path(uri))
        self._root_path = str(self._root)
        self._near = DirHandleCache()

    def entries(self, folder: str, choose: Choice) -> list[Entry] | None:
        path = self._root / check_relative(folder)
        with reporting(str(path)):
            try:
                with os.scandir(path) as found:
                    listed = {entry.name: entry for entry in _counted(found, str(path))}
            except (FileNotFoundError, NotADirectoryError):
                return None
            return [_local_entry(listed[name]) for name in choose(listed)]

    def read(self, path: str, limit: int) -> bytes | None:
        try:
            data = read_local(self._root_path, check_relative(path), limit, self._near)
        except OSError as err:
            raise unavailable(f"{self._root}/{path}", err) from err
        return None if data is None else _within(data, limit, self._root_path, path)

    def stream(self, path: str) -> Iterator[bytes] | None:
        where = f"{self._root}/{path}"
        with reporting(where):
            chunks = stream_local(str(self._root), check_relative(path))
        return None if chunks is None else _reported(chunks, where)

    def elsewhere(self, path: str) -> Elsewhere | None:
        return None

    def tree(self) -> Listing | None:
        with reporting(str(self._root)):
            return local_tree(str(self._root))

    def below(self, folder: str) -> LocalFolders:
        return LocalFolders(_below(self.uri, folder))


class RemoteFolders:
    """
    Folders of an fsspec file system.

    :param root: The folder as the file system spells it, e.g. ``bucket/checkpoints``.
    """

    def __init__(self, fs: Any, root: str, uri: str) -> None:
        self.uri = uri
        self._fs, self._root = fs, root.rstrip("/")

    def entries(self, folder: str, choose: Choice) -> list[Entry] | None:
        full = self._full(folder)
        with reporting(f"{self.uri}/{folder}"):
            self._fs.invalidate_cache(full)
            try:
                found = list(_counted(self._fs.ls(full, detail=True), full))
            except (FileNotFoundError, NotADirectoryError):
                return None
            infos = {last_name(info): info for info in found if not is_itself(info, full)}
            return [_remote_entry(name, infos[name]) for name in choose(infos)]

    def read(self, path: str, limit: int) -> bytes | None:
        with reporting(f"{self.uri}/{path}"):
            try:
                data = read_start(self._fs, self._full(path), limit + 1)
            except (FileNotFoundError, IsADirectoryError):
                return None
            return _within(data, limit, self.uri, path)

    def stream(self, path: str) -> Iterator[bytes] | None:
        where = f"{self.uri}/{path}"
        with reporting(where):
            try:
                file = self._fs.open(self._full(path), "rb", cache_type="readahead")
            except (FileNotFoundError, IsADirectoryError):
                return None
        return _reported(_chunks_of(file), where)

    def elsewhere(self, path: str) -> Elsewhere | None:
        return Elsewhere(self._fs, self._full(path))

    def tree(self) -> Listing | None:
        with reporting(self.uri):
            return remote_tree(self._fs, self._root)

    def below(self, folder: str) -> RemoteFolders:
        return RemoteFolders(self._fs, self._full(folder), _below(self.uri, folder))

    def _full(self, path: str) -> str:
        return f"{self._root}/{check_relative(path)}" if path else self._root


def _below(uri: str, folder: str) -> str:
    return f"{uri.rstrip('/')}/{check_relative(folder)}" if folder else uri


def _local_entry(entry: os.DirEntry[str]) -> Entry:
    try:
        it = entry.stat(follow_symlinks=False)
    except OSError:
        # Purged between the listing and now, like any other batch of which no time is known.
        return Entry(name=entry.name, is_folder=False)
    is_folder = stat.S_ISDIR(it.st_mode)
    if not is_folder and not stat.S_ISREG(it.st_mode):
        return Entry(name=entry.name, is_folder=False, strange=kind_of(it.st_mode))
    modified = datetime.fromtimestamp(it.st_mtime, UTC)
    return Entry(name=entry.name, is_folder=is_folder, modified=modified)


def _remote_entry(name: str, info: Mapping[str, Any]) -> Entry:
    kind = info.get("type")
    strange = "symbolic link" if info.get("islink") else ""
    if not strange and kind not in {"file", "directory"}:
        strange = "no file"
    is_folder = kind == "directory" and not strange
    return Entry(name=name, is_folder=is_folder, modified=time_in(info), strange=strange)


def _counted(found: Any, where: str) -> Iterator[Any]:
    for number, one in enumerate(found):
        if number >= MAX_NAMES:
            raise RecordError(f"{where} has more than {MAX_NAMES} names; it is not a checkpoint.")
        yield one


def _within(data: bytes, limit: int, root: str, path: str) -> bytes:
    if len(data) > limit:
        raise RecordError(f"{root}/{path} is larger than {limit} bytes.")
    return data


def _reported(chunks: Iterator[bytes], where: str) -> Iterator[bytes]:
    with reporting(where):
        yield from chunks


def _chunks_of(file: Any) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK):
            yield bytes(chunk)


def walk(folders: Folders) -> Listing:
    """
    Return all entries below the root; ``folders.below(name)`` walks a folder of it.

    :raises CheckpointError: the folder is missing, or it has more files than a checkpoint can
        have, or deeper folders.
    :raises HomeUnavailable: the store cannot be reached, which says nothing of the checkpoint.
    """
    listing = folders.tree()
    if listing is None:
        raise no_folder(folders.uri)
    return listing


def no_folder(uri: str) -> CheckpointError:
    """Return the error of a place where a checkpoint was looked for and no folder is."""
    if is_local(uri) and os.path.lexists(local_path(uri)):
        return CheckpointError(f"{uri} is not a folder. Give the folder of a checkpoint.")
    return CheckpointError(
        f"There is no folder {uri}. Check its spelling; on an object store a folder without files "
        "does not exist."
    )
