"""
A store for one look at a stream: it lists every folder once and reads every file once.

A status reads some records in several ways, and asks for many records that most streams never had. In a
home of thousands of streams this takes most of the time. Make a new store for each look. Decisions read
the home's own store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from airflow_streaming.model.storage import Store
from airflow_streaming.model.uris import is_local

LOOKS_AT_ONCE: Final = 16
"""Streams that are read at the same time from an object store, which answers slowly."""
One = TypeVar("One")
Other = TypeVar("Other")


class OneLook:
    """
    A store that caches reads and listings; a write passes through and clears the cache.

    :param store: The home's store.
    :param root: The names in the home's root, where they are known.
    """

    def __init__(self, store: Store, root: Iterable[str] | None = None) -> None:
        self._store, self.uri = store, store.uri
        self._names: dict[str, list[str]] = {} if root is None else {"": sorted(root)}
        self._read: dict[str, bytes | None] = {}

    def read(self, path: str) -> bytes | None:
        folder, _, name = path.rpartition("/")
        if path not in self._read:
            listed = self._names.get(folder)
            is_missing = listed is not None and name not in listed
            self._read[path] = None if is_missing else self._store.read(path)
        return self._read[path]

    def names(self, folder: str) -> list[str]:
        if folder not in self._names:
            above, _, name = folder.rpartition("/")
            # Listings leave out names that begin with a dot.
            is_root = not folder
            is_missing = not is_root and not name.startswith(".") and name not in self._above(above)
            self._names[folder] = [] if is_missing else self._store.names(folder)
        return self._names[folder]

    def _above(self, folder: str) -> list[str]:
        # Listing the parent of a deep folder costs as much as listing the folder.
        is_deep = folder.count("/") > 0
        return self._names.get(folder, _ANYTHING) if is_deep else self.names(folder)

    def create(self, path: str, data: bytes) -> None:
        self._store.create(path, data)
        self._forget()

    def replace(self, path: str, data: bytes) -> None:
        self._store.replace(path, data)
        self._forget()

    def delete(self, path: str) -> None:
        self._store.delete(path)
        self._forget()

    def _forget(self) -> None:
        self._names.clear()
        self._read.clear()


class _Anything(list[str]):
    def __contains__(self, _: object) -> bool:
        return True


_ANYTHING: Final = _Anything()


def look_at_each(store: Store, act: Callable[[One], Other], items: Iterable[One]) -> list[Other]:
    """Return the result of an act for each item, in order; in threads where the store is remote."""
    if is_local(store.uri):
        return [act(one) for one in items]
    with ThreadPoolExecutor(LOOKS_AT_ONCE, "look") as pool:
        return list(pool.map(act, items))
