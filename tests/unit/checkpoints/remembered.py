"""A backup store in memory, with a clock that is set and a hook before and after every call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from airflow_streaming.exceptions import AlreadyExists
from airflow_streaming.storage.blobs import Elsewhere, ServerCopy, Stored

NOON: Final = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Call(NamedTuple):
    """One call of the port; ``is_done`` after it took effect."""

    name: str
    path: str
    is_done: bool

    @property
    def is_durable(self) -> bool:
        return self.name in ("create", "put", "keep", "delete")


class RememberedBlobs:
    """
    Objects in memory.

    :param now: The store's clock.
    :param hook: Called before and after every call; what it raises comes out of the call.
    """

    uri = "memory://backups"
    workers = 1

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.now = NOON
        self.hook: Callable[[Call], None] = lambda call: None

    def copy(self) -> RememberedBlobs:
        """Return a store of its own with the same objects."""
        other = RememberedBlobs()
        other.objects, other.now = dict(self.objects), self.now
        return other

    def wait(self, time: timedelta) -> None:
        self.now += time

    def create(self, path: str, data: bytes) -> None:
        with_hook = self._around("create", path)
        next(with_hook)
        if path in self.objects:
            raise AlreadyExists(path)
        self.objects[path] = data, self.now
        next(with_hook, None)

    def put(self, path: str, data: bytes) -> None:
        with_hook = self._around("put", path)
        next(with_hook)
        self.objects[path] = data, self.now
        next(with_hook, None)

    def keep(self, folder: str, chunks: Iterable[bytes]) -> tuple[str, int]:
        data = b"".join(chunks)
        digest = hashlib.sha256(data).hexdigest()
        with_hook = self._around("keep", f"{folder}/{digest}")
        next(with_hook)
        self.objects[f"{folder}/{digest}"] = data, self.now
        next(with_hook, None)
        return digest, len(data)

    def delete(self, path: str) -> None:
        with_hook = self._around("delete", path)
        next(with_hook)
        self.objects.pop(path, None)
        next(with_hook, None)

    def read(self, path: str, limit: int) -> bytes | None:
        self.hook(Call("read", path, False))
        found = self.objects.get(path)
        return None if found is None else found[0]

    def stream(self, path: str) -> Iterator[bytes] | None:
        data = self.read(path, 1 << 40)
        return None if data is None else iter([data])

    def size(self, path: str) -> int | None:
        found = self.objects.get(path)
        return None if found is None else len(found[0])

    def entries(self, folder: str) -> list[Stored]:
        self.hook(Call("entries", folder, False))
        prefix = f"{folder}/" if folder else ""
        found: dict[str, Stored] = {}
        for path, (data, modified) in self.objects.items():
            if not path.startswith(prefix):
                continue
            name, _, below = path[len(prefix) :].partition("/")
            found[name] = Stored(name, 0 if below else len(data), modified, is_folder=bool(below))
        return [found[name] for name in sorted(found)]

    def server_copy(self, source: Elsewhere) -> ServerCopy | None:
        return None

    def _around(self, name: str, path: str) -> Iterator[None]:
        self.hook(Call(name, path, False))
        yield
        self.hook(Call(name, path, True))
