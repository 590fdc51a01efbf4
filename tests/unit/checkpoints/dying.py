"""A store that dies at its k-th durable step, as a killed process does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from airflow_streaming.storage.blobs import Blobs, Elsewhere, ServerCopy, Stored


class Killed(BaseException):
    """The process is gone; nothing may catch this."""


class DyingBlobs:
    """
    Passes everything on and counts what changes the store.

    :param step: The step, from 1, at which it dies; 0 for never.
    :param before: Die before the step is done, else right after it.
    """

    def __init__(self, blobs: Blobs, *, step: int = 0, before: bool = True) -> None:
        self.uri, self.workers = blobs.uri, blobs.workers
        self.steps: list[str] = []
        self._blobs, self._step, self._before = blobs, step, before
        self._lock = threading.Lock()
        self._dead = False

    def create(self, path: str, data: bytes) -> None:
        self._do(f"create {path}", lambda: self._blobs.create(path, data))

    def put(self, path: str, data: bytes) -> None:
        self._do(f"put {path}", lambda: self._blobs.put(path, data))

    def keep(self, folder: str, chunks: Iterable[bytes]) -> tuple[str, int]:
        kept: list[tuple[str, int]] = []
        self._do(f"keep {folder}", lambda: kept.append(self._blobs.keep(folder, chunks)))
        return kept[0]

    def delete(self, path: str) -> None:
        self._do(f"delete {path}", lambda: self._blobs.delete(path))

    def read(self, path: str, limit: int) -> bytes | None:
        self._check()
        return self._blobs.read(path, limit)

    def stream(self, path: str) -> Iterator[bytes] | None:
        self._check()
        return self._blobs.stream(path)

    def size(self, path: str) -> int | None:
        self._check()
        return self._blobs.size(path)

    def entries(self, folder: str) -> list[Stored]:
        self._check()
        return self._blobs.entries(folder)

    def server_copy(self, source: Elsewhere) -> ServerCopy | None:
        return None

    def _check(self) -> None:
        if self._dead:
            raise Killed

    def _do(self, name: str, act: Callable[[], object]) -> None:
        with self._lock:
            self._check()
            self.steps.append(name)
            self._dead = len(self.steps) == self._step
            if self._dead and self._before:
                raise Killed
            act()
            self._check()
