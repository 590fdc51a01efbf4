"""
The output folder of a file sink during a restore: read, given small files, moved within.

Files are never deleted, only moved within the folder. On this machine and on HDFS a move is one
step. An object store copies and then deletes, so a file may be in both places for a moment, and the
next attempt moves it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol

from airflow_streaming.checkpoints.backup.live_copy import RELATIVE, SINK_LOG
from airflow_streaming.checkpoints.read.file_logs import MAX_SINK_LOG_BYTES, parse_sink_log
from airflow_streaming.checkpoints.restore.sink_log import batch_of_entry, newest_entry
from airflow_streaming.checkpoints.restore.sink_step import MovedAside, SinkSnapshot
from airflow_streaming.exceptions import (
    HomeUnavailable,
    RecordError,
    SpecError,
    StreamingError,
)
from airflow_streaming.model.storage import LocalStore, Store, check_relative
from airflow_streaming.model.uris import check_uri, is_local, local_path, scheme_of, to_fsspec
from airflow_streaming.storage.folders import Entry, Folders, open_folders
from airflow_streaming.storage.fsspec_store import FsspecStore

ASIDE: Final = "_rolled_back"
"""Folder of an output for rolled-back files; Spark skips names with this prefix."""
WORKERS: Final = 16
"""Files moved at once on an object store, where each is two round trips."""
_RENAMING: Final = frozenset({"hdfs", "viewfs", "webhdfs"})
Move = tuple[str, str]
"""From where to where, both relative to the output folder."""


class Output(Protocol):
    """An output folder."""

    uri: str
    folders: Folders
    """The same folder for reading."""
    records: Store
    """The same folder for small new files."""
    has_checksums: bool
    """Hadoop keeps a hidden checksum beside each file, as it does on a local disk alone."""

    def move(self, moves: Iterable[Move]) -> None:
        """Move files; skips files that were moved before."""


def open_output(uri: str, storage_options: Any = None, filesystem: Any = None) -> Output:
    """
    Return the output folder at a URI; nothing is read or written yet.

    :raises HomeUnavailable: the file system cannot be set up.
    """
    checked = check_uri(uri, "output")
    folders = open_folders(checked, storage_options, filesystem)
    if filesystem is None and is_local(checked):
        return LocalOutput(checked, folders)
    there = folders.elsewhere("x")
    if there is None:
        raise SpecError(f"The output {checked!r} cannot be written. Give another URI.")
    return RemoteOutput(checked, folders, there.filesystem, there.path.removesuffix("/x"))


def names_in(folders: Folders, folder: str) -> list[str]:
    """Return the names of the files in a folder, hidden ones too; none when it is missing."""
    found: list[Entry] | None = folders.entries(folder, list)
    return sorted(entry.name for entry in found or () if not entry.is_folder)


def look_at_sink(log: str, options: Mapping[str, Any] | None) -> SinkSnapshot:
    """
    Read a file sink's log, and the list of files moved out of it.

    Only the newest entry is read: a crash or a full disk tears this one. An entry of more than 64
    MiB, as a compacted one may be, is not read.

    :param log: URI of its ``_spark_metadata``; empty if only a relative path is recorded.
    :param options: Passed to fsspec for a remote output.
    """
    if not log:
        return SinkSnapshot(log="", unseen=RELATIVE)
    try:
        folders = open_folders(log, options)
        entries = folders.entries("", list)
        if entries is None:
            return SinkSnapshot(log=log, unseen=f"there is no log at {log}.")
        name = newest_entry(entry.name for entry in entries)
        unseen = _why_unreadable(folders, name) if name else ""
        aside = _aside(log, options)
    except StreamingError as err:
        return SinkSnapshot(log=log, unseen=str(err))
    newest = batch_of_entry(name)
    return SinkSnapshot(
        log=log, newest=-1 if newest is None else newest, unseen=unseen, aside=aside
    )


def _why_unreadable(folders: Folders, name: str) -> str:
    """Return why an entry of a log cannot be read; empty when it can."""
    why, data = "It is not a file.", bytearray()
    try:
        chunks = folders.stream(name)
        if chunks is not None:
            for chunk in chunks:
                data += chunk
                if len(data) > MAX_SINK_LOG_BYTES:
                    return ""
            parse_sink_log(bytes(data))
            return ""
    except RecordError as err:
        why = str(err)
    return f"its newest entry, {name}, cannot be read in {folders.uri}: {why}"


def _aside(log: str, options: Mapping[str, Any] | None) -> tuple[MovedAside, ...]:
    output, _, name = log.rstrip("/").rpartition("/")
    if name != SINK_LOG or not output:
        return ()
    folders = open_folders(output, options)
    found = []
    for entry in folders.entries(ASIDE, list) or ():
        if entry.is_folder:
            names = names_in(folders, f"{ASIDE}/{entry.name}/log")
            batches = frozenset(n for n in map(batch_of_entry, names) if n is not None)
            found.append(MovedAside(uri=f"{output}/{ASIDE}/{entry.name}", batches=batches))
    return tuple(sorted(found, key=lambda one: one.uri))


class LocalOutput:
    """A folder of this machine."""

    has_checksums = True

    def __init__(self, uri: str, folders: Folders) -> None:
        self.uri, self.folders = uri, folders
        # A reader of the output reads the sink's log, as with the files that Spark writes.
        self.records: Store = LocalStore(local_path(uri), mode=0o666)
        self._root = Path(local_path(uri))

    def move(self, moves: Iterable[Move]) -> None:
        for path, to in moves:
            target = self._root / check_relative(to)
            with _reporting(f"{self.uri}/{path}"), contextlib.suppress(FileNotFoundError):
                target.parent.mkdir(parents=True, exist_ok=True)
                (self._root / check_relative(path)).replace(target)


class RemoteOutput:
    """
    A folder of an fsspec file system.

    :param filesystem: The file system, without a listing cache.
    """

    has_checksums = False

    def __init__(self, uri: str, folders: Folders, filesystem: Any, root: str) -> None:
        self.uri, self.folders = uri, folders
        self._fs, self._root = filesystem, root.rstrip("/")
        self.records: Store = FsspecStore(filesystem, self._root, uri)
        self._renames = scheme_of(to_fsspec(uri)) in _RENAMING

    def move(self, moves: Iterable[Move]) -> None:
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="rewind") as pool:
            for _ in pool.map(self._move, moves):
                pass

    def _move(self, move: Move) -> None:
        path, to = (f"{self._root}/{check_relative(part)}" for part in move)
        with _reporting(f"{self.uri}/{move[0]}"), contextlib.suppress(FileNotFoundError):
            if self._renames:
                self._fs.makedirs(to.rpartition("/")[0], exist_ok=True)
                self._fs.mv(path, to)
                return
            self._copy(path, to)
            self._fs.rm_file(path)

    def _copy(self, path: str, to: str) -> None:
        try:
            self._fs.cp_file(path, to)
        except FileNotFoundError:
            if not self._fs.exists(path):
                raise
            # A file system that has folders; an object store has none.
            self._fs.makedirs(to.rpartition("/")[0], exist_ok=True)
            self._fs.cp_file(path, to)


@contextlib.contextmanager
def _reporting(where: str) -> Iterator[None]:
    try:
        yield
    except (StreamingError, FileNotFoundError):
        raise
    except Exception as err:
        # Storage clients share no base class.
        raise HomeUnavailable(
            f"{where} cannot be moved: {err or 'no reason given'} ({type(err).__name__}). Check "
            "that the store can be reached from this host and that the credentials may write "
            "there, and ask again for the same to continue."
        ) from err
