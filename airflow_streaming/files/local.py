"""Records as files of this machine."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from airflow_streaming.core.wire import MAX_RECORD_BYTES
from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable, RecordError
from airflow_streaming.files.store import check_relative


class LocalStore:
    """
    A folder of this machine as a store.

    A finished temporary file is hard-linked to its name: linking fails when the name is taken, and
    nobody ever sees half a file. (``open("xb")`` is exclusive too, but its content appears later.)

    :param uri: Absolute path of the root, or a ``file://`` URI.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._root = Path(uri.split("://", 1)[1] if "://" in uri else uri)

    def read(self, path: str) -> bytes | None:
        with self._reporting(path) as file_path:
            try:
                with file_path.open("rb") as file:
                    data = file.read(MAX_RECORD_BYTES + 1)
            except (FileNotFoundError, NotADirectoryError):
                return None
        if len(data) > MAX_RECORD_BYTES:
            raise RecordError(f"{file_path} is larger than {MAX_RECORD_BYTES} bytes.")
        return data

    def create(self, path: str, data: bytes) -> None:
        with self._temporary(path, data) as temporary, self._reporting(path) as target:
            try:
                os.link(temporary, target)
            except FileExistsError as err:
                # NFS repeats a request whose reply got lost, and then finds its own link.
                if temporary.stat().st_nlink < 2:
                    raise AlreadyExists(str(target)) from err

    def replace(self, path: str, data: bytes) -> None:
        with self._temporary(path, data) as temporary, self._reporting(path) as target:
            temporary.replace(target)

    def names(self, folder: str) -> list[str]:
        with self._reporting(folder) as path:
            try:
                names = [entry.name for entry in path.iterdir()]
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(name for name in names if not name.startswith("."))

    def delete(self, path: str) -> None:
        with self._reporting(path) as target, contextlib.suppress(NotADirectoryError):
            target.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[Path]:
        with self._reporting(path) as target:
            temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_through(temporary, data)
        try:
            yield temporary
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _reporting(self, path: str) -> Iterator[Path]:
        target = self._root / check_relative(path)
        try:
            yield target
        except OSError as err:
            raise HomeUnavailable(
                f"{target} cannot be used: {err.strerror or err}. Check that the folder exists on "
                "this host, that this user may write there and that its file system has hard links."
            ) from err


def _write_through(path: Path, data: bytes) -> None:
    # Without the sync, a power cut can leave the name with an empty file behind it: a record that
    # exists, can never be created again and cannot be read.
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
