"""A target that is a folder of this machine: written beside, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from airflow_streaming.checkpoints.restore.refusal import Occupied
from airflow_streaming.exceptions import HomeUnavailable, RestoreTaken, StreamingError
from airflow_streaming.model.storage import check_relative, mode_within
from airflow_streaming.model.uris import local_path
from airflow_streaming.storage.folders import Folders, LocalFolders

SUFFIX: Final = "-restoring"
"""Ends the name of a folder that is going to be a checkpoint; its name begins with a dot."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TAKEN: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})


class LocalTarget:
    """
    A folder of this machine that is going to be a checkpoint.

    A process that is killed leaves a hidden folder beside the target, which the next restore to the same
    place sweeps once its own is in place. Two restores that race write two folders, and the rename
    of the second is refused, by the file system or because its folder was swept.

    :param uri: An absolute path or a ``file://`` URI.
    """

    can_resume = False

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._target = Path(local_path(uri))
        self._beside = self._target.with_name(f".{self._target.name}.{uuid.uuid4().hex}{SUFFIX}")
        self._made: set[str] = set()
        self._mode = 0o600

    def look(self, folders: Sequence[str]) -> Occupied:
        with self._reporting():
            try:
                names = sorted(entry.name for entry in self._target.iterdir())
                return Occupied(names=tuple(names))
            except FileNotFoundError:
                return Occupied()
            except NotADirectoryError:
                # A file in its place; one further up will be met when the folder is made.
                is_file = self._target.parent.is_dir()
                return Occupied(names=(self._target.name,) if is_file else ())

    def begin(self, source: str, folders: Sequence[str], expected: Collection[str] = ()) -> bool:
        found = self.look(folders)
        if found.names:
            raise _taken(self.uri)
        left = self._leftovers()
        with self._reporting():
            self._target.parent.mkdir(parents=True, exist_ok=True)
            self._mode = mode_within(self._target.parent.stat().st_mode)
            # Who may read a file may enter its folder.
            self._beside.mkdir(mode=self._mode | (self._mode & 0o444) >> 2)
        return bool(left)

    def write(self, path: str, size: int, chunks: Iterable[bytes]) -> None:
        # Without pathlib and context managers, which would be a third of ten thousand small files.
        file = f"{self._beside}/{check_relative(path)}"
        try:
            handle = self._new(file)
            try:
                for chunk in chunks:
                    _write_all(handle, chunk)
            finally:
                os.close(handle)
        except StreamingError:
            # The chunks ended before their time; the next attempt may write the file again.
            self.remove(path)
            raise
        except OSError as err:
            raise self._told(err) from err

    def remove(self, path: str) -> None:
        with self._reporting():
            (self._beside / check_relative(path)).unlink(missing_ok=True)

    def flush(self) -> None:
        """Do nothing: no one looks into the folder before it is renamed."""

    def written(self) -> Folders:
        return LocalFolders(str(self._beside))

    def finish(self) -> None:
        with self._reporting():
            # A single call syncs ten thousand files; single syncs would take a thousand times as long.
            os.sync()
            self._beside.rename(self._target)
            _sync_folder(self._target.parent)
        for left in self._leftovers():
            shutil.rmtree(left, ignore_errors=True)

    def abandon(self) -> None:
        shutil.rmtree(self._beside, ignore_errors=True)

    def _new(self, file: str) -> int:
        folder = file.rpartition("/")[0]
        if folder not in self._made:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._made.add(folder)
        return os.open(file, _NEW, self._mode)

    def _was_swept(self) -> bool:
        # By another restore to the same place, which was finished first.
        return self._target.exists() and not self._beside.exists()

    def _leftovers(self) -> list[Path]:
        with contextlib.suppress(OSError):
            # To the letter: a neighbor called "counts.old" may be being restored as well.
            ours = re.compile(rf"\.{re.escape(self._target.name)}\.[0-9a-f]{{32}}{SUFFIX}")
            entries = self._target.parent.iterdir()
            return [entry for entry in entries if ours.fullmatch(entry.name)]
        return []

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except StreamingError:
            raise
        except OSError as err:
            raise self._told(err) from err

    def _told(self, err: OSError) -> StreamingError:
        above = self._target.parent
        is_below_file = above.exists() and not above.is_dir()
        if is_below_file:
            return HomeUnavailable(
                f"{self.uri} cannot be written: {above} is a file, not a folder. Choose another place."
            )
        if err.errno in _TAKEN or (err.errno == errno.ENOENT and self._was_swept()):
            return _taken(self.uri)
        return HomeUnavailable(
            f"{self.uri} cannot be written: {err.strerror or err}. Check that the folder above "
            "it exists on this host, that this user may write there, and that there is space."
        )


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _taken(uri: str) -> RestoreTaken:
    return RestoreTaken(
        f"{uri} is no longer empty: another process has written there. Choose a place that is "
        "missing or empty."
    )
