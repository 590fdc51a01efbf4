"""
The threads in which triggers look.

They are not asyncio's own: a store that hangs would fill those up, and with them all that Airflow
itself does in threads. Each home has a lane of its own, so that one that hangs holds up no other.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from airflow_streaming.core.uris import is_local

Result = TypeVar("Result")

LOCAL_THREADS: Final = 4
"""A look at local files computes for most of its time, and one thread computes at a time. More
would only keep the event loop waiting for its turn."""

REMOTE_THREADS: Final = 16
"""A look at an object store waits for most of its time."""

MOST_LANES: Final = 8
"""Further homes share the last one; no known installation has as many."""

_lanes: Final[dict[str, ThreadPoolExecutor]] = {}


def submit(home: str, work: Callable[[], Result]) -> Future[Result]:
    """
    Do the work in the lane of a home; called in the event loop only.

    :param home: The home's URI.
    """
    return _lane(home).submit(work)


def _lane(home: str) -> ThreadPoolExecutor:
    name = home if home in _lanes or len(_lanes) < MOST_LANES - 1 else "other homes"
    lane = _lanes.get(name)
    if lane is None:
        # The last lane is anybody's, so it has as many threads as the one who waits longest needs.
        threads = LOCAL_THREADS if name == home and is_local(home) else REMOTE_THREADS
        lane = ThreadPoolExecutor(threads, thread_name_prefix=f"looks-{len(_lanes)}")
        _lanes[name] = lane
    return lane
