"""
Query starts of a standby driver: deferred, warmed up, or fast-forwarded by one planned batch.

A script starts its queries one after another, so the first one waiting at the barrier would block
the others: they could not approach the other lane's position or finish its half-done batch. While
more starts are expected, ``start()`` therefore returns at once with a stand-in query; every call on
it blocks until the real query has started.

The first batch of a fresh JVM loads Spark's streaming classes, compiles its first plan and opens
the callback channel to Python. ``WarmUp`` runs such a batch at the barrier, on a generated row and
a temporary checkpoint, in a session of its own, so it touches nothing of the stream. It keeps state,
with one partition, because that is the most that a first batch may load.

A fast-forward runs the one planned batch of a query and discards its output. The batch spans from
this lane's position to the other lane's; its rows are in the sink already, so only the state may
keep them. Spark runs exactly the planned batch of a checkpoint when triggered once; a second writer
on the same rows, with the ``noop`` format, leaves the script's own writer as it is.
"""

from __future__ import annotations

import copy
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.checkpoint.checkpoint_claims import Reached, batches_reached
from airflow_streaming.driver.errors import ErrorBoundary, logger
from airflow_streaming.driver.exit_status import ShutdownState
from airflow_streaming.driver.plan.writer_settings import said_on
from airflow_streaming.exceptions import DriverRefusal, StopRequested
from airflow_streaming.model.storage import Store

_PATIENCE: Final = 60.0
"""Seconds after which a stream is better off cold."""
_STATE_STORE: Final = "spark.sql.streaming.stateStore.providerClass"

_LOOK_SECONDS: Final = 0.2
Run = Callable[[str, str], None]
"""Runs the planned batch of a query, by its name, in a checkpoint location."""


class DeferredStart:
    """
    Starts queries beside the script.

    :param thread: Class of the threads; pyspark's own takes the local properties along.
    :param query: Class of the queries that the script expects.
    """

    def __init__(self, thread: Callable[..., threading.Thread], query: type) -> None:
        self._thread, self._standing_for = thread, _stand_in(query)

    def start(self, begin: Callable[[], Any]) -> Any:
        """Start a query in a separate thread, and return its stand-in."""
        started: Future[Any] = Future()

        def run() -> None:
            try:
                started.set_result(begin())
            except BaseException as err:  # noqa: BLE001 - the script gets it when it asks
                started.set_exception(err)

        # Not a daemon: a script that reaches its end has not ended while this runs.
        self._thread(target=run, name="airflow-streaming-aside").start()
        return self._standing_for(started)


def apart(writer: Any) -> Any:
    """Return a writer that keeps its name and place, even if the script changes its own."""
    # The settings are a value, which the copy keeps when the script calls its writer again.
    return copy.copy(writer)


def _stand_in(query: type) -> Callable[[Future[Any]], Any]:
    class StandIn(query):
        def __init__(self, started: Future[Any]) -> None:
            self._started = started

        @property
        def _jsq(self) -> Any:
            # All that pyspark's class does goes through this field.
            return self._started.result()._jsq

    return StandIn


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
            with ErrorBoundary().contained("Warming up the session"):
                self._run(session)

    def _run(self, session: Any) -> None:
        own = session.newSession()
        own.conf.set("spark.sql.shuffle.partitions", "1")
        own.conf.set(_STATE_STORE, session.conf.get(_STATE_STORE))
        rows = own.readStream.format("rate-micro-batch").option("numPartitions", 1)
        rows = rows.option("rowsPerBatch", 1).load().withWatermark("timestamp", "1 second")
        writer = rows.groupBy("timestamp", "value").count().writeStream
        self._foreach_batch(writer, lambda batch, _: batch.collect())
        with tempfile.TemporaryDirectory() as folder:
            writer.option("checkpointLocation", Path(folder).as_uri()).trigger(once=True)
            query = self._start(writer)
            if not query.awaitTermination(_PATIENCE):
                query.stop()


def absorb(name: str, location: str, *, files: Store, batch: int, run: Run) -> int:
    """
    Run only the planned batch of a query; return the batch that is committed then.

    It may be called twice: a committed batch is not run again.

    :raises DriverRefusal: the checkpoint has not planned exactly this batch, or did not commit
        exactly this batch.
    """
    before = batches_reached(files)
    if before.committed is not None and before.committed >= batch:
        return before.committed
    if before != Reached(planned=batch, committed=batch - 1 if batch else None):
        raise DriverRefusal(
            f"Batch {batch} of query {name!r} cannot be absorbed: its checkpoint {files.uri} "
            f"has planned batch {before.planned} and committed {before.committed}. No batch "
            "was run. Plan the batch again from this state."
        )
    run(name, location)
    after = batches_reached(files)
    if after != Reached(planned=batch, committed=batch):
        raise DriverRefusal(
            f"Absorbing batch {batch} of query {name!r} has left its checkpoint {files.uri} with "
            f"planned batch {after.planned} and committed {after.committed}. Do not release this "
            "driver; start the cutover again."
        )
    logger.info("Query %r has absorbed batch %d.", name, batch)
    return batch


class PlannedBatch:
    """
    Runs the planned batch of one query.

    :param writer: The ``DataStreamWriter`` of the script, used read-only.
    :param given: The arguments of its ``start`` or ``toTable``, by name.
    :param start: The original, unpatched start method.
    """

    def __init__(
        self, writer: Any, given: Mapping[str, Any], *, start: Any, ending: ShutdownState
    ) -> None:
        self._writer, self._given = writer, given
        self._start, self._ending = start, ending

    def run(self, name: str, location: str) -> None:
        """
        Run the batch and wait for its end.

        :raises StopRequested: the driver is coming to its end; the batch is cut off and stays
            planned.
        :raises Exception: what Spark says of a batch that failed.
        """
        query = self._begin(name, location)
        try:
            while not query.awaitTermination(_LOOK_SECONDS):
                if self._ending.begun.is_set():
                    query.stop()
                    raise StopRequested(f"Query {name!r} is not absorbed: the stream is ending.")
        finally:
            # A script waiting for any query to end must not wake up for this one.
            self._writer._spark.streams.resetTerminated()

    def _begin(self, name: str, location: str) -> Any:
        said = said_on(self._writer).begun(self._given)
        writer = self._writer._df.writeStream.format("noop").queryName(name)
        writer.option("checkpointLocation", location)
        # It plans and commits off the batch's path, so the commit could not be awaited.
        writer.option("asyncProgressTrackingEnabled", "false")
        if said.output_mode:
            writer.outputMode(said.output_mode)
        writer.trigger(once=True)
        return self._start(writer)
