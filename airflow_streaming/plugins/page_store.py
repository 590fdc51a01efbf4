"""
A store that pages read through: it asks an object store only for what may have changed.

Records are created once, so one that was read stays as it is. Of what is not there, and of listings,
the answer is good for some seconds, and a listing also answers for names that it does not have.
Heartbeats and files of a history are good for less than the time between two looks of one page, so
that its parts, and other pages, read them once together.
"""

from __future__ import annotations

import posixpath
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from airflow_streaming.model.storage import Store

FRESH: Final = 15.0
"""Seconds for which a listing, or that a record is missing, is good enough for a page."""
SHORTLY: Final = 2.0
"""Seconds for which a file that is written again is good enough."""
_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_ANSWERS: Final = 50_000
_CREATED_ONCE: Final = re.compile(
    r"/(\d{6}|launch|exit|stop|restart|death|[\dTZ.]+-[0-9a-f]+)\.json$"
)
"""Records that are never written again; ``status.json`` and histories are."""


@dataclass(slots=True)
class PageStore:
    """
    Reads of another store; nothing is written through it but at once.

    :param store: The store itself.
    :param clock: Monotonic seconds.
    """

    store: Store
    clock: Callable[[], float] = time.monotonic
    uri: str = ""
    _records: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _recent: OrderedDict[str, tuple[float, bytes]] = field(default_factory=OrderedDict)
    _missing: dict[str, float] = field(default_factory=dict)
    _listed: dict[str, tuple[float, list[str]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.uri = self.store.uri

    def read(self, path: str) -> bytes | None:
        """Return a file, ``None`` when there is none."""
        with self._lock:
            if (known := self._records.get(path)) is not None:
                self._records.move_to_end(path)
                return known
            if self._is_missing(path):
                return None
            self._drop_old()
            if (recent := self._recent.get(path)) is not None:
                return recent[1]
        data = self.store.read(path)
        with self._lock:
            if data is None:
                self._trim()
                self._missing[path] = self.clock()
            elif _CREATED_ONCE.search(path):
                self._keep(path, data)
            else:
                self._recent[path] = (self.clock(), data)
                self._recent.move_to_end(path)
        return data

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        with self._lock:
            at, known = self._listed.get(folder, (float("-inf"), []))
            if self.clock() - at < FRESH:
                return list(known)
        parent, name = posixpath.split(folder)
        # One listing of the home tells which lanes there are, and one of a lane which of its folders.
        is_absent = bool(folder) and "/" not in parent and name not in self.names(parent)
        found = [] if is_absent else self.store.names(folder)
        with self._lock:
            self._trim()
            # What the parent's listing says is as old as that is.
            at, _ = (
                self._listed.get(parent, (self.clock(), [])) if is_absent else (self.clock(), [])
            )
            self._listed[folder] = (at, list(found))
        return found

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
        """Forget all but what can never change, because something was just done."""
        with self._lock:
            self._missing.clear()
            self._listed.clear()
            self._recent.clear()

    def _is_missing(self, path: str) -> bool:
        now = self.clock()
        if now - self._missing.get(path, float("-inf")) < FRESH:
            return True
        folder, name = posixpath.split(path)
        at, known = self._listed.get(folder, (float("-inf"), []))
        return now - at < FRESH and name not in known

    def _keep(self, path: str, data: bytes) -> None:
        old = self._records.pop(path, b"")
        self._records[path] = data
        self._bytes += len(data) - len(old)
        while self._bytes > _MOST_BYTES and self._records:
            self._bytes -= len(self._records.popitem(last=False)[1])

    def _drop_old(self) -> None:
        """Forget what is no longer good enough; so the bound is what is read in that time."""
        oldest = self.clock() - SHORTLY
        while self._recent and next(iter(self._recent.values()))[0] <= oldest:
            self._recent.popitem(last=False)

    def _trim(self) -> None:
        if len(self._missing) + len(self._listed) > _MOST_ANSWERS:
            self._missing.clear()
            self._listed.clear()
