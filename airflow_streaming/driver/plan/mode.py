"""
The driver of plan mode: runs the user's script and records every query that it would start.

The file of plans is replaced after each query, so that a script which hangs or dies leaves the
plans of the queries before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.code.code_objects import set_own_places
from airflow_streaming.driver.errors import log_to_stderr
from airflow_streaming.driver.exit_status import ScriptState
from airflow_streaming.driver.jobs.caller import exit_process, leave_with_caller
from airflow_streaming.driver.jobs.drill import later, leave_after
from airflow_streaming.driver.jobs.refused_sources import listen_to_reader
from airflow_streaming.driver.jobs.scratch_patch import (
    Absent,
    patch_builder,
    patch_manager,
    sentence_of,
)
from airflow_streaming.driver.patching import patch_method
from airflow_streaming.driver.plan.reading import read_plan, take
from airflow_streaming.driver.plan.session_world import note_registrations
from airflow_streaming.driver.plan.state_variables import Variables
from airflow_streaming.driver.plan.writer_settings import listen, location_of, name_of
from airflow_streaming.driver.script import check_classic, error_of, is_connect, run_program
from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.model.spark.own_places import OwnPlaces
from airflow_streaming.model.spark.plan import PlanOrder, QueryPlan, RefusedSource, ScriptPlan

SCRIPT_GRACE: Final = 20.0
"""Seconds a script may continue after the last query that it would have started."""
_MARGIN: Final = 10.0


def run(arguments: Sequence[str]) -> int:
    """Plan the script of the order."""
    log_to_stderr()
    order = PlanOrder.from_bytes(Path(arguments[0]).read_bytes())
    leave_with_caller(order.held, order.scratch)
    leave_after(order.seconds + _MARGIN, "Plan mode")
    Planning(order).run()
    return 0


class Planning:
    """Does one order."""

    def __init__(self, order: PlanOrder) -> None:
        self._order = order
        set_own_places(OwnPlaces(output=order.output, checkpoint=order.checkpoint))
        self._queries: list[QueryPlan] = []
        self._refused: list[RefusedSource] = []
        self._variables = Variables()
        self._leaving: Any = None

    def run(self) -> None:
        """Run the script and write down its plans."""
        problem = ""
        try:
            self._install()
        except DriverRefusal as err:
            problem = str(err)
        else:
            order = self._order
            source = Path(order.source).read_bytes()
            end = run_program(order.application, source, order.arguments)
            if end.state is ScriptState.FAILED and end.error is not None:
                problem = sentence_of(end.error)
        if self._leaving is not None:
            self._leaving.cancel()
        self._write(problem)

    def _install(self) -> None:
        check_classic(is_connect(os.environ, {}))
        from pyspark.sql import GroupedData, SparkSession
        from pyspark.sql.streaming.query import StreamingQueryManager
        from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

        self.patch_writer(DataStreamWriter)
        listen_to_reader(
            DataStreamReader, self._refused.append, lambda err: sentence_of(error_of(err))
        )
        self._variables.patch(GroupedData)
        patch_manager(StreamingQueryManager)
        patch_builder(SparkSession.Builder)

    def patch_writer(self, writer: type) -> None:
        """Patch the class that starts queries."""
        for name in ("foreachBatch", "foreach"):
            # The function is not called, so the JVM need not be able to.
            patch_method(writer, name, lambda _, writer, __: writer)
        for name in ("start", "toTable"):
            patch_method(writer, name, self._start)
        listen(writer)
        note_registrations()

    def _start(self, _: Any, writer: Any, given: Mapping[str, Any]) -> Any:
        name = name_of(writer, given)
        location = location_of(writer, given, name) or ""
        called = name or location.rstrip("/").rpartition("/")[2] or f"query_{len(self._queries)}"
        if any(plan.query == called for plan in self._queries):
            # The script starts its queries over and over, so no new query will come.
            raise SystemExit(0)
        taken = take(writer, given, query=called, checkpoint=location)
        self._queries.append(read_plan(taken, self._variables.found))
        self._write("")
        self._leave_later()
        return Absent(name)

    def _leave_later(self) -> None:
        def leave() -> None:
            self._write(
                f"The script continued for {SCRIPT_GRACE:.0f} s after the last query it "
                "started, and the wait ended; queries that it starts later are not known."
            )
            exit_process(0)

        if self._leaving is not None:
            self._leaving.cancel()
        self._leaving = later(SCRIPT_GRACE, leave)

    def _write(self, problem: str) -> None:
        plan = ScriptPlan(
            application=self._order.application,
            spark=self._queries[0].spark if self._queries else _version(),
            queries=tuple(self._queries),
            problem=" ".join(filter(None, [problem, *self._variables.notes])),
            refused=tuple(self._refused),
        )
        result = Path(self._order.result)
        beside = result.with_name(f".{result.name}")
        beside.write_bytes(plan.to_bytes())
        beside.replace(result)


def _version() -> str:
    import pyspark

    return str(pyspark.__version__)
