"""Records in memory, and records decoded once: a simulation reads the same ones very often."""

from __future__ import annotations

import functools
from typing import Any

from airflow_streaming.exceptions import AlreadyExists
from airflow_streaming.model.storage import check_relative
from airflow_streaming.model.wire import Record


class MemoryStore:
    """A store whose files are entries of a mapping."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._files: dict[str, bytes] = {}
        self._folders: dict[str, dict[str, None]] = {}

    def read(self, path: str) -> bytes | None:
        return self._files.get(check_relative(path))

    def create(self, path: str, data: bytes) -> None:
        if path in self._files:
            raise AlreadyExists(path)
        self.replace(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self._files[check_relative(path)] = data
        while "/" in path:
            path, _, name = path.rpartition("/")
            self._folders.setdefault(path, {})[name] = None
        self._folders.setdefault("", {})[path] = None

    def names(self, folder: str) -> list[str]:
        return sorted(self._folders.get(folder, ()))

    def delete(self, path: str) -> None:
        if self._files.pop(path, None) is not None:
            folder, _, name = path.rpartition("/")
            self._folders[folder].pop(name, None)


def decode_once() -> None:
    """Have equal bytes decoded once only; records cannot be changed."""
    if isinstance(Record.__dict__["from_bytes"], _Once):
        return
    original = Record.__dict__["from_bytes"].__func__
    Record.from_bytes = _Once(original)  # type: ignore[method-assign,assignment]


class _Once:
    """The place of a class method whose answers are kept."""

    def __init__(self, original: Any) -> None:
        self._kept = functools.lru_cache(maxsize=4096)(original)

    def __get__(self, instance: Any, owner: Any) -> Any:
        return functools.partial(self._kept, owner)
