"""Threads that race: works that begin together, and readers who look while something is written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from tests.patience import until


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
    write: Callable[[int], object],
    read: Callable[[], object],
    *,
    times: int,
    enough: Callable[[], bool],
    readers: int = 2,
) -> None:
    """
    Read again and again, in as many threads, while ``write`` is given 1, 2, 3 and so on.

    :param times: It is called at least so often.
    :param enough: Tells whether the readers have seen what they have to; on a crowded machine one may
        sleep through all of the writing.
    """
    done = threading.Event()
    numbers = count(1)

    def reading() -> None:
        while not done.is_set():
            read()

    def has_written() -> bool:
        number = next(numbers)
        write(number)
        return number >= times and enough()

    def writing() -> None:
        try:
            until(has_written, "Readers who have seen all", every=0)
        finally:
            done.set()

    at_once(*[reading] * readers, writing)
