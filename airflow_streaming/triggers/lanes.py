"""
The threads in which triggers look.

They are not asyncio's own: a store that hangs would fill those up, and with them all that Airflow
itself does in threads. Each home has a lane of its own, so that one that hangs holds up no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from airflow_streaming.core.uris import is_local

Result = TypeVar("Result")

LOCAL_THREADS: Final = 4
"""A look at local files computes for most of its time, and one thread computes at a time. More
would only keep the event loop waiting for its turn."""

REMOTE_THREADS: Final = 16
"""A look at an object store waits for most of its time."""

MOST_LANES: Final = 8
"""Further homes share the last one; no known installation has as many at a time."""


class Lane:
    """
    The threads for the looks at one home.

    :param threads: How many.
    """

    def __init__(self, threads: int) -> None:
        self.triggers = 0
        """How many triggers look in it."""
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="looks")
        self._looks: set[Future[Any]] = set()

    def submit(self, look: Callable[[], Result]) -> Future[Result]:
        """Make a look in one of the threads."""
        future = self._threads.submit(look)
        self._looks.add(future)
        future.add_done_callback(self._looks.discard)
        return future

    @property
    def is_idle(self) -> bool:
        """Tell whether nobody needs it; a look that hangs does, though its trigger has gone."""
        return not self.triggers and not self._looks

    def close(self) -> None:
        """Let its threads end."""
        self._threads.shutdown(wait=False)


_lanes: Final[dict[str, Lane]] = {}


@contextmanager
def lane_of(home: str) -> Iterator[Lane]:
    """
    Lend the lane of a home to a trigger; used in the event loop only.

    :param home: The home's URI.
    """
    _give_back()
    lane = _lane(home)
    lane.triggers += 1
    try:
        yield lane
    finally:
        lane.triggers -= 1
        _give_back()


def _lane(home: str) -> Lane:
    name = home if home in _lanes or len(_lanes) < MOST_LANES - 1 else "other homes"
    if name not in _lanes:
        # The last lane is anybody's, so it has as many threads as the one who waits longest needs.
        _lanes[name] = Lane(LOCAL_THREADS if name == home and is_local(home) else REMOTE_THREADS)
    return _lanes[name]


def _give_back() -> None:
    # A lane in which a look hangs is kept for the next trigger of that home: with a new one for
    # each, threads that hang would pile up.
    for name in [name for name, lane in _lanes.items() if lane.is_idle]:
        _lanes.pop(name).close()
