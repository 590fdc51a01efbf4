"""
The gate before the script's ``foreachBatch`` function.

It is the one place where a batch can be refused before any of its code has run.

``query.stop()`` during the function waits for it and then races with the commit: half of the trials
measured ran the batch a second time after the restart. Here the running batch is left to commit,
and the next one is turned away at the door, with its offsets planned and nothing written.

It is also where batch ids are shifted: a function that remembers the ids it has seen must find
those of a stream's other lane going on, although Spark counts from another number here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from airflow_streaming.driver.ending import Ending
from airflow_streaming.driver.queries import Queries
from airflow_streaming.exceptions import StopRequested


class Gate:
    """
    Decides at the entry of each batch whether it may run.

    :param check_fence: Returns only if this epoch is the newest.
    """

    def __init__(self, check_fence: Callable[[], None], ending: Ending, queries: Queries) -> None:
        self._check_fence, self._ending, self._queries = check_fence, ending, queries

    def wrap(
        self, function: Callable[[Any, int], None], name: Callable[[], str | None]
    ) -> Callable[[Any, int], None]:
        """
        Return the function behind the gate.

        :param name: Tells the query's name, which a script may set after the function.
        """

        @functools.wraps(function)
        def gated(batch: Any, batch_id: int) -> None:
            query = name()
            self.enter(query, batch_id)
            function(batch, batch_id + self._queries.batch_shift(query or ""))
            # A driver that was suspended in the function must not commit the batch when it wakes.
            self._check_fence()

        return gated

    def enter(self, query: str | None, batch_id: int) -> None:
        """
        Let a batch pass.

        :raises StopRequested: the driver is coming to its end.
        """
        self._check_fence()
        if not self._ending.begun.is_set():
            return
        tracked = self._queries.named(query or "")
        if tracked is not None:
            tracked.held = True
        shift = self._queries.batch_shift(query or "")
        told = f"Batch {batch_id}{f' ({batch_id + shift} to its function)' if shift else ''}"
        raise StopRequested(
            f"{told} of query {query!r} was not begun because the stream is ending. It runs when "
            "the stream is started again."
        )
