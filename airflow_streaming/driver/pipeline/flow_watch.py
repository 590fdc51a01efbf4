"""
The flows of a pipeline as queries of this driver.

Spark starts a flow's query in a session of its own, inside an update. All sessions share the table of active queries,
so a thread finds each new run there. A run without data may end between two looks: it has committed nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from airflow_streaming.driver.checkpoint.checkpoint_claims import Claims
from airflow_streaming.driver.errors import ErrorBoundary
from airflow_streaming.driver.exit_status import ShutdownState
from airflow_streaming.driver.monitoring.queries import Queries, TrackedQuery
from airflow_streaming.driver.monitoring.spark_query import SparkQuery
from airflow_streaming.driver.start_guard import CheckpointStore, checked_name
from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.model.status import CheckpointOrigin, QueryStatus

LOOK_SECONDS: Final = 0.1
WAITING: Final = "Waiting for the next update of the pipeline."


class FlowRun:
    """
    A flow's query as pyspark holds queries: a wrapper around Spark's own.

    :param java: The Java ``StreamExecution``.
    """

    def __init__(self, java: Any) -> None:
        self._java = java

    def streamingQuery(self) -> Any:  # the name in Java
        return self._java

    def __getattr__(self, name: str) -> Any:
        return getattr(self._java, name)


class TrackedFlow(TrackedQuery):
    """The newest run of a flow. Between two updates the flow waits; it has not ended."""

    def as_status(self) -> QueryStatus:
        status = super().as_status()
        if self.active or self.error is not None:
            return status
        return replace(status, active=True, processing=False, message=WAITING)


class FlowWatch:
    """
    Finds and claims the flows' queries.

    :param open_checkpoint: Opens a checkpoint location as a store.
    :param ending: Ends the driver where a flow may not run.
    """

    def __init__(
        self,
        storage: str,
        *,
        queries: Queries,
        claims: Claims,
        ending: ShutdownState,
        open_checkpoint: Callable[[str], CheckpointStore],
    ) -> None:
        self._storage, self._open = storage, open_checkpoint
        self._queries, self._claims, self._ending = queries, claims, ending
        self._seen: set[str] = set()
        self._faults = ErrorBoundary()

    def check(self) -> None:
        """
        Check before an update that no checkpoint of a flow was lost or exchanged.

        :raises DriverRefusal: one was; Spark would start it empty.
        """
        self._claims.check_below(f"{self._open(self._storage).location.rstrip('/')}/", self._open)

    def begin(self, active: Any) -> None:
        """
        Look for new runs from now on.

        :param active: Spark's table of active queries, a Java map.
        """

        def run() -> None:
            while True:
                with self._faults.contained("Looking for the flows of the pipeline"):
                    self.look(list(active.values()))
                pause.wait(LOOK_SECONDS)

        pause = threading.Event()
        threading.Thread(target=run, name="airflow-streaming-flows", daemon=True).start()

    def look(self, running: list[Any]) -> None:
        """Track the runs that are new; a run that cannot be tracked now is tried at the next look."""
        runs = {str(java.runId()): java for java in running}
        self._seen &= runs.keys()  # a run that has ended does not come back
        for run_id in runs.keys() - self._seen:
            with self._faults.contained("Tracking a flow of the pipeline"):
                self._track(FlowRun(runs[run_id]), run_id)
                self._seen.add(run_id)

    def _track(self, flow: FlowRun, run_id: str) -> None:
        try:
            name = checked_name(flow.name())
        except DriverRefusal as err:
            self._ending.refuse(err)
            return
        files, id = self._open(str(flow.resolvedCheckpointRoot())), str(flow.id())
        tracked = TrackedFlow(
            SparkQuery(flow),
            name=name,
            id=id,
            run_id=run_id,
            checkpoint=files.location,
            files=files,
            origin=CheckpointOrigin.DEPLOYMENT,
            gated=False,
        )
        self._queries.add(tracked)
        self._claims.keep(name, id, files.location)
