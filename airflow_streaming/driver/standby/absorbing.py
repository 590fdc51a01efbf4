"""
Absorbing: running the one planned batch of a query with its output thrown away.

The batch leads from where this lane's state stands to where the other lane has come to. Its rows
are in the sink already, so only the state may keep them. Spark runs exactly the planned batch of a
checkpoint when it is told to trigger once; a second writer on the same rows, with the ``noop``
format, leaves that of the script as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from airflow_streaming.driver.checkpoint import Reached, batches_reached
from airflow_streaming.driver.ending import Ending
from airflow_streaming.driver.faults import logger
from airflow_streaming.driver.plan.said import said_on
from airflow_streaming.exceptions import DriverRefusal, StopRequested
from airflow_streaming.files.store import Store

_LOOK_SECONDS: Final = 0.2

Run = Callable[[str, str], None]
"""Runs the planned batch of a query, by its name, in a checkpoint location."""


def absorb(name: str, location: str, *, files: Store, batch: int, run: Run) -> int:
    """
    Run the planned batch of a query, and no other; return the batch that is committed then.

    It may be asked for twice: a batch that is committed already is not run again.

    :param files: The checkpoint.
    :raises DriverRefusal: the checkpoint has not planned exactly this batch, or did not commit
        exactly this one.
    """
    before = batches_reached(files)
    if before.committed is not None and before.committed >= batch:
        return before.committed
    if before != Reached(planned=batch, committed=batch - 1 if batch else None):
        raise DriverRefusal(
            f"Batch {batch} of query {name!r} cannot be absorbed: its checkpoint {files.uri} has "
            f"planned batch {before.planned} and committed {before.committed}. Nothing was run. "
            "Plan the batch anew from what is there."
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

    :param writer: The ``DataStreamWriter`` of the script, which is only looked at.
    :param given: What its ``start`` or ``toTable`` was given, by name.
    :param start: The method that starts a query, as it was before it was patched.
    """

    def __init__(
        self, writer: Any, given: Mapping[str, Any], *, start: Any, ending: Ending
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
            # Whoever waits for any query to end must not be told of this one.
            self._writer._spark.streams.resetTerminated()

    def _begin(self, name: str, location: str) -> Any:
        said = said_on(self._writer).begun(self._given)
        writer = self._writer._df.writeStream.format("noop").queryName(name)
        writer.option("checkpointLocation", location)
        # Plans and commits off the batch's path, after which nobody could look.
        writer.option("asyncProgressTrackingEnabled", "false")
        if said.output_mode:
            writer.outputMode(said.output_mode)
        writer.trigger(once=True)
        return self._start(writer)
