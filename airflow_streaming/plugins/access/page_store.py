"""
A store that pages read through: it reads from an object store only files that may have changed.

Records are created once, so they are cached for good. Missing files and listings are cached for
some seconds, and a listing also answers for names that it lacks. Heartbeats and history files are
cached for less than the interval between two looks of one page, so that its parts, and other pages,
read them once together.
"""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.home.byte_cache import ByteCache
from airflow_streaming.model.storage import Store

FRESH: Final = 15.0
"""Seconds for which a listing, or that a record is missing, is good enough for a page."""
SHORTLY: Final = 2.0
"""Seconds for which a file that is written again is good enough."""
_NAME_BYTES: Final = 60
"""Of a name in a list, beside its characters."""
_RECORDS: Final[ByteCache[bytes]] = ByteCache(32 * 1024 * 1024)
"""Records of all homes that this process shows."""
_ANSWERS: Final[ByteCache[Any]] = ByteCache(16 * 1024 * 1024)
"""Answers of all homes that are good for some seconds: listings, absences, files that are written again."""
_CREATED_ONCE: Final = re.compile(
    r"/(\d{6}|launch|exit|stop|restart|death|[\dTZ.]+-[0-9a-f]+)\.json$"
)
"""Records that are never written again; ``status.json`` and histories are."""


@dataclass(slots=True)
class PageStore:
    """
    Reads of another store; nothing is written through it but at once.

    :param clock: Monotonic seconds.
    """

    store: Store
    clock: Callable[[], float] = time.monotonic
    uri: str = ""
    _key: object = field(default_factory=object)
    _fresh: object = field(default_factory=object)
    """Key of the answers that may change; a new one forgets all of them."""

    def __post_init__(self) -> None:
        self.uri = self.store.uri

    def read(self, path: str) -> bytes | None:
        """Return a file, ``None`` if it does not exist."""
        known = _RECORDS.get((self._key, path))
        if known is not None:
            return known
        if self._is_missing(path):
            return None
        recent: bytes | None = self._answer("file", path, SHORTLY)
        if recent is not None:
            return recent
        data = self.store.read(path)
        if data is None:
            self._keep("missing", path, True, size=len(path))
        elif _CREATED_ONCE.search(path):
            _RECORDS.put((self._key, path), data, len(data))
        else:
            self._keep("file", path, data, size=len(data))
        return data

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        known: list[str] | None = self._answer("names", folder, FRESH)
        if known is not None:
            return list(known)
        parent, name = posixpath.split(folder)
        # A listing of the home has all lanes, and one listing of a lane its folders.
        if folder and "/" not in parent and name not in self.names(parent):
            # This is as old as the listing of the parent.
            parents = _ANSWERS.get((self._fresh, "names", parent))
            at = self.clock() if parents is None else parents[0]
            _ANSWERS.put((self._fresh, "names", folder), (at, []), len(folder))
            return []
        found = self.store.names(folder)
        size = sum(_NAME_BYTES + len(name) for name in found)
        self._keep("names", folder, found, size=size)
        return list(found)

    def create(self, path: str, data: bytes) -> None:
        """Create a file, as the store does."""
        self.forget()
        self.store.create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file, as the store does."""
        self.forget()
        self.store.replace(path, data)

    def delete(self, path: str) -> None:
        """Delete a file, as the store does."""
        self.forget()
        self.store.delete(path)

    def forget(self) -> None:
        """Forget all entries that can change, because an action was just done."""
        self._fresh = object()

    def _is_missing(self, path: str) -> bool:
        if self._answer("missing", path, FRESH):
            return True
        folder, name = posixpath.split(path)
        known: list[str] | None = self._answer("names", folder, FRESH)
        return known is not None and name not in known

    def _answer(self, what: str, path: str, good_for: float) -> Any:
        found = _ANSWERS.get((self._fresh, what, path))
        if found is None or self.clock() - found[0] >= good_for:
            return None
        return found[1]

    def _keep(self, what: str, path: str, answer: object, *, size: int) -> None:
        _ANSWERS.put((self._fresh, what, path), (self.clock(), answer), size)
