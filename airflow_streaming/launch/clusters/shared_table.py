"""
A cluster's list of all our drivers, read once for all streams that look within some seconds.

A triggerer watches a thousand streams with a launcher each. They look every few seconds, so one
list answers for all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

AGE: Final = 4.0
"""Seconds for which a list answers for each of its entries."""
Entry = TypeVar("Entry")


class SharedTable(Generic[Entry]):
    """
    The drivers in a cluster's list, by their marks.

    It proves only presence: a missing driver may be younger than the list.

    :param read: Lists them. Its exceptions are passed on.
    :param clock: Monotonic seconds.
    :param age: Seconds for which a list answers.
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, Entry]],
        clock: Callable[[], float],
        age: float = AGE,
    ) -> None:
        self._read, self._clock, self._age = read, clock, age
        self._lock = threading.Lock()
        self._entries: Mapping[str, Entry] = {}
        self._read_at = float("-inf")
        self._gone: set[str] = set()

    def forget(self, key: str) -> None:
        """Treat a driver that is proved gone as absent, even if a lagging list has it."""
        with self._lock:
            self._gone.add(key)

    def get(self, key: str) -> Entry | None:
        """Return a driver's entry, if the list has one."""
        with self._lock:
            if key in self._gone:
                return None
            if self._clock() - self._read_at > self._age:
                self._entries, self._read_at = self._read(), self._clock()
            return self._entries.get(key)


class SharedTables(Generic[Entry]):
    """The tables of a process, one for each cluster and way to ask it."""

    def __init__(self) -> None:
        self._tables: dict[object, SharedTable[Entry]] = {}
        self._lock = threading.Lock()

    def of(self, key: object, make: Callable[[], SharedTable[Entry]]) -> SharedTable[Entry]:
        """Return the table of a cluster, made when it is first asked for."""
        with self._lock:
            if key not in self._tables:
                self._tables[key] = make()
            return self._tables[key]
