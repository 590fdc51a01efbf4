"""Threads that race: works that begin together, and readers who look while something is written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def at_once(*works: Callable[[], object]) -> None:
    """Do works in threads that begin together; raise what one of them raises."""
    start = threading.Barrier(len(works))

    def begin(work: Callable[[], object]) -> None:
        start.wait()
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for begun in [pool.submit(begin, work) for work in works]:
            begun.result()


def read_during(
    write: Callable[[], object], read: Callable[[], object], *, readers: int = 2
) -> None:
    """Read again and again, in as many threads, until all is written."""
    done = threading.Event()

    def reading() -> None:
        while not done.is_set():
            read()

    def writing() -> None:
        try:
            write()
        finally:
            done.set()

    at_once(*[reading] * readers, writing)
