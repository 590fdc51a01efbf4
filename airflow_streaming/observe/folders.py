"""
Somebody else's folders, for reading only.

A checkpoint that is not ours is never written to, so this port cannot write at all. It lists a
folder once, with the store's own times of the few files that are asked about: one question for
every file would be thousands of them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from airflow_streaming.core.uris import (
    check_uri,
    is_local,
    local_path,
    to_fsspec,
)
from airflow_streaming.exceptions import (
    HomeUnavailable,
    RecordError,
    SpecError,
    StreamingError,
)
from airflow_streaming.files.store import check_relative

MAX_NAMES: Final = 1_000_000
"""Spark keeps 100 batches; a folder of more than a million files is not a checkpoint."""

_TIMES: Final = ("mtime", "LastModified", "last_modified", "updated", "modificationTime", "created")
"""What the file systems of fsspec call the time of a file, the usual one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    One file or folder.

    :param modified: Its time by the store's clock; ``None`` where the store does not tell.
    """

    name: str
    is_folder: bool
    modified: datetime | None = None


Choice = Callable[[Iterable[str]], Collection[str]]


class Folders(Protocol):
    """
    Folders under one root, for reading.

    Both methods raise ``HomeUnavailable`` when the store cannot be reached, which says nothing of
    the stream, and ``RecordError`` for what is too large.
    """

    uri: str
    """The root, as the user wrote it."""

    def entries(self, folder: str, choose: Choice) -> list[Entry] | None:
        """
        Return what is in a folder, in any order; ``None`` when it is missing.

        :param choose: Given all names, returns those that are wanted.
        """

    def read(self, path: str, limit: int) -> bytes | None:
        """Return a file's content, ``None`` when there is no such file."""


def open_folders(
    uri: str, storage_options: Mapping[str, Any] | None = None, filesystem: Any = None
) -> Folders:
    """
    Return the folders under a URI; nothing is probed, and nothing can be written.

    :param storage_options: Passed to fsspec for a URI that is not a local folder.
    :param filesystem: An fsspec file system to use instead of a new one.
    :raises SpecError: not a full URI, or its file system is not installed.
    :raises HomeUnavailable: the file system cannot be set up, e.g. for want of credentials.
    """
    checked = check_uri(uri, "checkpoint")
    if filesystem is not None:
        return RemoteFolders(filesystem, filesystem._strip_protocol(to_fsspec(checked)), checked)
    if is_local(checked):
        return LocalFolders(checked)
    from fsspec.core import url_to_fs

    settings = {**(storage_options or {}), "use_listings_cache": False, "skip_instance_cache": True}
    try:
        opened, root = url_to_fs(to_fsspec(checked), **settings)
    except (ImportError, ValueError) as err:
        raise SpecError(
            f"The checkpoint {checked!r} cannot be opened: {err}. Install the fsspec file system "
            "for it, or give another URI."
        ) from err
    except Exception as err:
        # Storage clients share no base class for "no credentials" or "no such host".
        raise _unavailable(checked, err) from err
    return RemoteFolders(opened, root, checked)


class LocalFolders:
    """Folders of this machine."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._root = Path(local_path(uri))

    def entries(self, folder: str, choose: Choice) -> list[Entry] | None:
        path = self._root / check_relative(folder)
        with _reporting(str(path)):
            try:
                with os.scandir(path) as found:
                    listed = {entry.name: entry for entry in _counted(found, str(path))}
            except (FileNotFoundError, NotADirectoryError):
                return None
            return [_local_entry(listed[name]) for name in choose(listed)]

    def read(self, path: str, limit: int) -> bytes | None:
        full = self._root / check_relative(path)
        with _reporting(str(full)):
            try:
                # Opening a pipe that somebody put there would wait for a writer.
                handle = os.open(full, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                return None
            with open(handle, "rb") as file:  # noqa: PTH123 - it has no path, only a handle
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise RecordError(f"{full} is not a file.")
                return _within(file.read(limit + 1), limit, str(full))


class RemoteFolders:
    """
    Folders of an fsspec file system.

    :param fs: The file system, made without a listing cache.
    :param root: The folder as the file system spells it, e.g. ``bucket/checkpoints``.
    """

    def __init__(self, fs: Any, root: str, uri: str) -> None:
        self.uri = uri
        self._fs, self._root = fs, root.rstrip("/")

    def entries(self, folder: str, choose: Choice) -> list[Entry] | None:
        full = self._full(folder)
        with _reporting(f"{self.uri}/{folder}"):
            self._fs.invalidate_cache(full)
            try:
                found = list(_counted(self._fs.ls(full, detail=True), full))
            except (FileNotFoundError, NotADirectoryError):
                return None
            infos = {_last(info): info for info in found if not _is(info, full)}
            return [
                Entry(
                    name=name,
                    is_folder=infos[name].get("type") == "directory",
                    modified=_time_in(infos[name]),
                )
                for name in choose(infos)
            ]

    def read(self, path: str, limit: int) -> bytes | None:
        with _reporting(f"{self.uri}/{path}"):
            try:
                data = self._fs.cat_file(self._full(path), end=limit + 1)
            except (FileNotFoundError, IsADirectoryError):
                return None
            return _within(bytes(data), limit, f"{self.uri}/{path}")

    def _full(self, path: str) -> str:
        return f"{self._root}/{check_relative(path)}" if path else self._root


def _local_entry(entry: os.DirEntry[str]) -> Entry:
    modified = None
    # Purged between the listing and now, like any other batch of which no time is known.
    with contextlib.suppress(FileNotFoundError):
        modified = datetime.fromtimestamp(entry.stat().st_mtime, UTC)
    return Entry(name=entry.name, is_folder=entry.is_dir(), modified=modified)


def _counted(found: Any, where: str) -> Iterator[Any]:
    for number, one in enumerate(found):
        if number >= MAX_NAMES:
            raise RecordError(f"{where} has more than {MAX_NAMES} names; it is not a checkpoint.")
        yield one


def _within(data: bytes, limit: int, where: str) -> bytes:
    if len(data) > limit:
        raise RecordError(f"{where} is larger than {limit} bytes.")
    return data


def _last(info: Mapping[str, Any]) -> str:
    return str(info.get("name", "")).rstrip("/").rsplit("/", 1)[-1]


def _is(info: Mapping[str, Any], folder: str) -> bool:
    # A folder marker, or on some stores the file that was asked for as if it were a folder.
    return str(info.get("name", "")).strip("/") == folder.strip("/")


def _time_in(info: Mapping[str, Any]) -> datetime | None:
    told = next((info[key] for key in _TIMES if info.get(key) is not None), None)
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


@contextlib.contextmanager
def _reporting(where: str) -> Iterator[None]:
    try:
        yield
    except StreamingError:
        raise
    except Exception as err:
        # Whatever a storage client raises, it means that the store could not be read just now.
        raise _unavailable(where, err) from err


def _unavailable(where: str, err: Exception) -> HomeUnavailable:
    return HomeUnavailable(
        f"{where} cannot be read: {err or 'no reason given'} ({type(err).__name__}). Check that "
        "the store can be reached from this host and that the credentials may read there."
    )
