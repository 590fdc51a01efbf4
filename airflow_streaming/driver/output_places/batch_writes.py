"""
The places that functions of ``foreachBatch`` write with Spark's own writers.

A plan names the function and no place that it writes. The driver therefore reads each place when the function calls
``DataFrame.write`` or ``writeTo``: the live lane records it beside the query's plan, and a driver of the other lane
refuses a place of the live lane before the first row is written. Clients of the author's own, SQL statements and
writes of executors stay unseen.

Only public methods are patched, and each calls the original with its arguments.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from airflow_streaming.driver.errors import ErrorBoundary
from airflow_streaming.driver.exit_status import ShutdownState
from airflow_streaming.driver.output_places.live_outputs import LiveOutputs
from airflow_streaming.driver.patching import call_original, patch_method
from airflow_streaming.driver.plan.reading import sink_of_writer
from airflow_streaming.driver.plan.writer_settings import WriterSettings, listen, said_on
from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.model.spark.plan import SinkPlan
from airflow_streaming.model.spark.sink_place import place_of

_OF_FORMAT: Final = ("json", "parquet", "text", "csv", "xml", "orc")
_OF_TABLE: Final = {"insertInto": "tableName", "saveAsTable": "name"}
_OF_FRAME: Final = ("writeTo", "mergeInto")


class BatchWrites:
    """
    Learns and checks the places that functions write.

    :param outputs: Refuses a place of the live lane.
    :param keep: Records a place beside the plan of a query.
    :param ending: Notified of a refusal, which ends the driver even if the function swallows it.
    """

    def __init__(
        self,
        outputs: LiveOutputs,
        keep: Callable[[str, SinkPlan], None],
        ending: ShutdownState,
    ) -> None:
        self._outputs, self._keep, self._ending = outputs, keep, ending
        self._faults = ErrorBoundary()
        self._queries: dict[int, str] = {}

    @contextlib.contextmanager
    def inside(self, query: str) -> Iterator[None]:
        """Take each write of this thread for one of a query's function."""
        thread = threading.get_ident()
        self._queries[thread] = query
        try:
            yield
        finally:
            del self._queries[thread]

    def patch(self, writer: type, frame: type) -> None:
        """Patch the classes that write batches."""
        for name in ("save", "jdbc", *_OF_FORMAT, *_OF_TABLE):
            if name in writer.__dict__:
                patch_method(writer, name, self._checking(name))
        for name in _OF_FRAME:
            if name in frame.__dict__:
                patch_method(frame, name, self._to_table)
        listen(writer)

    def _checking(self, method: str) -> Callable[[Any, Any, Mapping[str, Any]], Any]:
        def write(original: Any, writer: Any, given: Mapping[str, Any]) -> Any:
            self._check(lambda: _sink_of(writer, method, given))
            return call_original(original, writer, given)

        return write

    def _to_table(self, original: Any, frame: Any, given: Mapping[str, Any]) -> Any:
        table = str(given["table"])
        self._check(lambda: SinkPlan(sink="table", target=table))
        return call_original(original, frame, given)

    def _check(self, sink_of_write: Callable[[], SinkPlan]) -> None:
        query = self._query()
        if query is None:
            return
        sink: SinkPlan | None = None
        with self._faults.contained(f"Reading where query {query!r} writes"):
            sink = sink_of_write()
        place = None if sink is None else place_of(sink)
        if sink is None or place is None:
            return
        try:
            self._outputs.check_known(query, place)
        except DriverRefusal as err:
            self._ending.refuse(err)
            raise
        self._keep(query, sink)

    def _query(self) -> str | None:
        """Return the query whose function runs; a thread of the function's own counts for the only one."""
        known = self._queries.get(threading.get_ident())
        running = {*self._queries.values()}
        return known or (running.pop() if len(running) == 1 else None)


def _sink_of(writer: Any, method: str, given: Mapping[str, Any]) -> SinkPlan:
    return sink_of_writer(writer, _said(said_on(writer), method, given))


def _said(settings: WriterSettings, method: str, given: Mapping[str, Any]) -> WriterSettings:
    """Return the settings of a writer with the arguments of the writing method."""
    if method == "jdbc":
        values = {"url": given["url"], "dbtable": given["table"]}
        return replace(settings.with_options(values), format="jdbc")
    if method in _OF_TABLE:
        return replace(settings, table=str(given[_OF_TABLE[method]]))
    if method in _OF_FORMAT:
        return replace(settings, format=method, path=str(given["path"]))
    return settings.begun(given)
