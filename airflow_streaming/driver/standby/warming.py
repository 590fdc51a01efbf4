"""
Warming up: a batch of a made-up query, so that the first real one does not pay for the JVM's start.

The first batch of a fresh JVM loads Spark's streaming classes, compiles its first plan and opens
the way back to Python; all of that while nothing reads or writes. It is done at the barrier, where
there is time, and touches nothing of the stream: its row is made up, its checkpoint temporary.
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.faults import Faults

_PATIENCE: Final = 60.0
"""Seconds after which a stream is better off cold."""


class WarmUp:
    """
    Warms a session up, once.

    :param start: The method that starts a query, as it was before it was patched.
    :param foreach_batch: The method that sets a function, likewise.
    """

    def __init__(self, start: Any, foreach_batch: Any) -> None:
        self._start, self._foreach_batch = start, foreach_batch
        self._lock, self._is_done = threading.Lock(), False

    def run(self, session: Any) -> None:
        """Run one batch with one row in it; a session that cannot is left cold."""
        with self._lock:
            if self._is_done:
                return
            self._is_done = True
            with Faults().contained("Warming up the session"):
                self._run(session)

    def _run(self, session: Any) -> None:
        rows = session.readStream.format("rate-micro-batch").option("numPartitions", 1)
        writer = rows.option("rowsPerBatch", 1).load().writeStream
        self._foreach_batch(writer, lambda batch, _: batch.count())
        with tempfile.TemporaryDirectory() as folder:
            writer.option("checkpointLocation", Path(folder).as_uri()).trigger(once=True)
            query = self._start(writer)
            if not query.awaitTermination(_PATIENCE):
                query.stop()
        session.streams.resetTerminated()
