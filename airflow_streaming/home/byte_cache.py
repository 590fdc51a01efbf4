"""A cache that is bounded by the bytes of what was read, over all streams of a process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

V = TypeVar("V")
ENTRY_BYTES: Final = 256
"""Of an entry beside its value: the key, and the places in two tables."""


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
        """Return the value of a key, ``None`` when it is not there."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: V, size: int) -> None:
        """
        Keep a value, and forget the least recently used ones if there are too many bytes.

        :param size: Bytes that were read for it.
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
        """Forget the value of a key, if it is there."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: Hashable) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            self.size -= found[1]
