"""
Setting aside: a query waits at the barrier while the script goes on to its next one.

A script starts its queries one after the other, so the first one that waits would keep all others
from coming: nobody could bring those near the other lane, or have them take over a batch that was
left half done. So as long as more are to come, ``start()`` returns at once with a query that stands
for the real one. Whatever the script asks of it waits until the real one has been started.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from airflow_streaming.driver.notes import NOTES, notes_of


class Aside:
    """
    Starts queries beside the script.

    :param thread: Class of the threads; pyspark's own takes the local properties along.
    :param query: Class of the queries that the script expects.
    """

    def __init__(self, thread: Callable[..., threading.Thread], query: type) -> None:
        self._thread, self._standing_for = thread, _stand_in(query)

    def start(self, begin: Callable[[], Any]) -> Any:
        """Have a query started by a thread of its own, and return what stands for it."""
        started: Future[Any] = Future()

        def run() -> None:
            try:
                started.set_result(begin())
            except BaseException as err:  # noqa: BLE001 - the script gets it when it asks
                started.set_exception(err)

        # Not a daemon: a script that comes to its end has not ended while this goes on.
        self._thread(target=run, name="airflow-streaming-aside").start()
        return self._standing_for(started)


def apart(writer: Any) -> Any:
    """Return a writer that keeps its name and place, whatever the script does to its own."""
    own = copy.copy(writer)
    own.__dict__[NOTES] = replace(notes_of(writer))
    return own


def _stand_in(query: type) -> Callable[[Future[Any]], Any]:
    class StandIn(query):
        def __init__(self, started: Future[Any]) -> None:
            self._started = started

        @property
        def _jsq(self) -> Any:
            # All that pyspark's class does goes through this field.
            return self._started.result()._jsq

    return StandIn
