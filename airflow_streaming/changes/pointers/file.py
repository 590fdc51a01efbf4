"""A pointer that is a small file: one JSON object whose ``output`` consumers read."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_streaming.changes.pointers.port import back_to, mark_of
from airflow_streaming.exceptions import HomeUnavailable, PointerFailed, RecordError, SpecError
from airflow_streaming.model.arguments.fields import check_values, named_fields
from airflow_streaming.model.jobs.pointing import Mark, refuse_foreign, should_write
from airflow_streaming.model.products.live_output import LiveOutput
from airflow_streaming.model.storage import Store
from airflow_streaming.model.uris import check_uri, is_local
from airflow_streaming.storage.fsspec_store import open_store


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class PointerFile:
    """
    Leads consumers by a file that they read before they read the output.

    The move is atomic for everybody: a reader gets the whole old file or the whole new one. On a
    local file system it is renamed into its place, on an object store it is one upload; only HDFS
    is not atomic, where the old file is removed before the new one gets its name, and a reader in
    between finds none. A consumer that has read the file already continues with the old content.

    Of two tasks that write at the same moment, one to move and one to undo, the undo wins: on a
    local file system by a lock, and else because a task that finds another state after its own
    write looks again. It overwrites only a pointer of this stream.

    :param uri: The file, e.g. ``s3://lake/orders/live.json``; an absolute path or a URI.
    :param storage_options: Passed to fsspec for a file that is not on a local file system.
    :param name: By default the file's.
    """

    uri: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    name: str = ""

    def __post_init__(self) -> None:
        check_values(self)
        folder, _, file = self.uri.rpartition("/")
        if not folder or not file or file.startswith("."):
            raise SpecError(
                f"A pointer file cannot be {self.uri!r}. Give an absolute path or a URI that ends "
                "with a file name which does not begin with a dot."
            )
        check_uri(self.uri, "pointer file")
        if not self.name:
            object.__setattr__(self, "name", file)

    @property
    def is_atomic(self) -> bool:
        """Tell that a reader never sees half; only on HDFS he may see nothing for a moment."""
        return not self.uri.startswith(("hdfs:", "webhdfs:"))

    def move(self, to: LiveOutput, before: LiveOutput) -> None:
        self._show(mark_of(to))

    def undo(self, to: LiveOutput, before: LiveOutput) -> None:
        self._show(back_to(before, to))

    def read(self) -> Mark | None:
        """
        Return the file's content, if it exists.

        :raises PointerRefused: The file is not our pointer.
        :raises PointerFailed: The file cannot be read.
        """
        folder, _, file = self.uri.rpartition("/")
        with self._reporting():
            return self._read(open_store(folder, self.storage_options), file)

    def _show(self, wanted: Mark) -> None:
        folder, _, file = self.uri.rpartition("/")
        with self._reporting(), _alone(folder, file):
            store = open_store(folder, self.storage_options)
            if not should_write(self._read(store, file), wanted, self._what):
                return
            store.replace(file, wanted.to_bytes())
            found = self._read(store, file)
        if found != wanted:
            raise PointerFailed(
                f"{self._what} was written by another task at the same time. Retry: the later move stands."
            )

    def _read(self, store: Store, file: str) -> Mark | None:
        data = store.read(file)
        if data is None:
            return None
        try:
            return Mark.from_bytes(data)
        except RecordError as err:
            raise refuse_foreign(self._what, str(err)) from err

    @property
    def _what(self) -> str:
        return f"the file {self.uri}"

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except (HomeUnavailable, OSError) as err:
            raise PointerFailed(f"Pointer {self.name!r} could not be moved: {err}") from err


@contextlib.contextmanager
def _alone(folder: str, file: str) -> Iterator[None]:
    """Keep other tasks of this file system out; the lock ends with the process."""
    if not is_local(folder):
        yield
        return
    place = Path(folder.split("://", 1)[1] if "://" in folder else folder)
    place.mkdir(parents=True, exist_ok=True)
    with (place / f".{file}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
