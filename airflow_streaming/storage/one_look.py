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


class Listing:
    """
    The sorted names in a folder. A name is found without a scan.

    Looks at all streams of a home share the listing of its root.
    """

    __slots__ = ("_known", "names")

    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted(names)
        self._known = frozenset(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._known


class OneLook:
    """
    A store that caches reads and listings; a write passes through and clears the cache.

    :param store: The home's store.
    :param root: The names in the home's root, where they are known.
    """

    def __init__(self, store: Store, root: Listing | None = None) -> None:
        self._store, self.uri = store, store.uri
        self._names: dict[str, Listing] = {} if root is None else {"": root}
        self._read: dict[str, bytes | None] = {}

    def read(self, path: str) -> bytes | None:
        folder, _, name = path.rpartition("/")
        if path not in self._read:
            listed = self._names.get(folder)
            is_missing = listed is not None and name not in listed
            self._read[path] = None if is_missing else self._store.read(path)
        return self._read[path]

    def names(self, folder: str) -> list[str]:
        return self._listing(folder).names

    def _listing(self, folder: str) -> Listing:
        if folder not in self._names:
            self._names[folder] = Listing(
                () if self._is_missing(folder) else self._store.names(folder)
            )
        return self._names[folder]

    def _is_missing(self, folder: str) -> bool:
        above, _, name = folder.rpartition("/")
        # Listings leave out names that begin with a dot.
        if not folder or name.startswith("."):
            return False
        # Listing the parent of a deep folder costs as much as listing the folder.
        is_deep = above.count("/") > 0
        known = self._names.get(above) if is_deep else self._listing(above)
        return known is not None and name not in known

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


def look_at_each(store: Store, act: Callable[[One], Other], items: Iterable[One]) -> list[Other]:
    """Return the result of an act for each item, in order; in threads where the store is remote."""
    if is_local(store.uri):
        return [act(one) for one in items]
    with ThreadPoolExecutor(LOOKS_AT_ONCE, "look") as pool:
        return list(pool.map(act, items))
