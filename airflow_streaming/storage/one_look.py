"""
A store for one look at a stream: it lists every folder once and reads every file once.

A status reads some records in several ways, and asks for many records that most streams never had. In a
home of thousands of streams this takes most of the time. Make a new store for each look. Decisions read
the home's own store.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from airflow_streaming.model.storage import Store
from airflow_streaming.model.uris import is_local

LOOKS_AT_ONCE: Final = 16
"""Streams that are read at the same time from an object store, which answers slowly."""
MOST_PROCESSES: Final = 8
LEAST_EACH: Final = 250
"""Streams for which a further process is worth its start."""
_CHUNK: Final = 50
"""Streams that a process takes at a time."""
_acts: Final[list[Callable[[Any], Any]]] = []
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


def look_at_each(
    store: Store,
    act: Callable[[One], Other],
    items: Sequence[One],
    *,
    may_fork: bool = False,
) -> list[Other]:
    """
    Return the result of an act for each item, in order.

    A remote store is read by threads, which wait for it. Many streams on a local disk may be read by
    processes, because parsing takes most of the time.

    :param may_fork: The act changes nothing, and its results can be pickled.
    """
    if not is_local(store.uri):
        with ThreadPoolExecutor(LOOKS_AT_ONCE, "look") as threads:
            return list(threads.map(act, items))
    # A fork beside other threads may inherit a lock that no thread gives up.
    is_alone = may_fork and threading.active_count() == 1
    workers = workers_for(len(items), _processors()) if is_alone else 1
    return in_processes(act, items, workers) if workers > 1 else [act(one) for one in items]


def workers_for(items: int, processors: int) -> int:
    """Return how many processes are worth their start."""
    return max(1, min(processors, MOST_PROCESSES, items // LEAST_EACH))


def in_processes(act: Callable[[One], Other], items: Sequence[One], workers: int) -> list[Other]:
    """Return the result of an act for each item, in order; forked processes call it."""
    with _forked(act):
        pool = multiprocessing.get_context("fork").Pool(workers, _obey_pool)
        try:
            return pool.map(_act, items, chunksize=_CHUNK)
        except KeyboardInterrupt:
            pool.terminate()
            raise
        finally:
            # They end by themselves: SIGTERM may reach a process that still has the command's handler.
            pool.close()
            pool.join()


@contextmanager
def _forked(act: Callable[[Any], Any]) -> Iterator[None]:
    """Leave an act where the processes that are forked now find it: a closure cannot be pickled."""
    _acts.append(act)
    try:
        yield
    finally:
        _acts.pop()


def _obey_pool() -> None:
    # The pool ends its processes by SIGTERM, which the command answers with an error. Ctrl-C reaches all.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _act(one: Any) -> Any:
    return _acts[-1](one)


def _processors() -> int:
    # Where this is missing (macOS), a fork is not safe either.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
