"""A cache with a bound on the bytes read, shared by all streams of a process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

V = TypeVar("V")
ENTRY_BYTES: Final = 256
"""Overhead of an entry: the key and its slots in two tables."""


class ByteCache(Generic[V]):
    """
    Keeps the most recently used values.

    :param most: Bytes of all values. Parsed values take up to about three times as much memory.
    """

    def __init__(self, most: int) -> None:
        self._most, self.size = most, 0
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        """Return the value of a key, or ``None``."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: V, size: int) -> None:
        """
        Store a value, and evict the least recently used values beyond the bound.

        :param size: Bytes read for the value.
        """
        size += ENTRY_BYTES
        with self._lock:
            self._drop(key)
            if size > self._most:
                return
            self._entries[key] = (value, size)
            self.size += size
            while self.size > self._most:
                self._drop(next(iter(self._entries)))

    def drop(self, key: Hashable) -> None:
        """Remove the value of a key, if present."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: Hashable) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            self.size -= found[1]
