"""
The hook in ``DataStreamWriter.start``: start checks, and the gate of ``foreachBatch``.

It is the only place where a batch can be refused before any of its code has run.

``query.stop()`` during the function waits for it and then races with the commit: half of the trials
measured ran the batch a second time after the restart. Here the running batch can commit, and the
next one is refused before its function runs, with its offsets planned and no output written.

It also shifts batch ids: a function that remembers the ids it has seen must see the ids of a
stream's other lane continued, although Spark counts from another number here.

Patched are public methods only, on the class, and each calls the original with the same arguments:
``start`` and ``toTable`` (the moment a query begins), ``foreachBatch`` (to put the gate before the
function), and ``queryName``, ``option`` and ``options`` (to record the script's choice; see
``notes``). Their names and signatures are the same from 3.5 to 4.3. Methods that the script does
not use are not touched.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from airflow_streaming.driver.checkpoint.first_batch import drops_plans
from airflow_streaming.driver.exit_status import ShutdownState
from airflow_streaming.driver.hadoop_store import HadoopStore
from airflow_streaming.driver.monitoring.queries import Queries
from airflow_streaming.driver.monitoring.spark_query import SparkQuery
from airflow_streaming.driver.output_places.batch_writes import BatchWrites
from airflow_streaming.driver.patching import call_original, patch_method
from airflow_streaming.driver.plan.keeping import PlanKeeper
from airflow_streaming.driver.plan.reading import sink_of_writer
from airflow_streaming.driver.plan.session_world import note_registrations
from airflow_streaming.driver.plan.sources import queues_of
from airflow_streaming.driver.plan.writer_settings import (
    listen,
    location_of,
    name_of,
    name_query,
    said_on,
)
from airflow_streaming.driver.real_time_slots import RealTimeSlots
from airflow_streaming.driver.script import CONNECT_REFUSAL, is_connect
from airflow_streaming.driver.standby.starts import DeferredStart, PlannedBatch, WarmUp, apart
from airflow_streaming.driver.start_guard import Started, StartGuard, StartRequest
from airflow_streaming.exceptions import DriverRefusal, StopRequested
from airflow_streaming.model.spark.sink_place import place_of

_POOL: Final = "spark.scheduler.pool"
_GATED: Final = "_airflow_streaming_gated"
"""Attribute of a writer whose function is behind the gate."""


class Gate:
    """
    Decides at the entry of each batch whether it may run.

    :param check_fence: Returns only if this epoch is the newest.
    :param writes: Checks where the functions write; not checked by default.
    """

    def __init__(
        self,
        check_fence: Callable[[], None],
        ending: ShutdownState,
        queries: Queries,
        writes: BatchWrites | None = None,
    ) -> None:
        self._check_fence, self._ending, self._queries = check_fence, ending, queries
        self.writes = writes
        self._passed: dict[str, int] = {}

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
            with contextlib.ExitStack() as stack:
                if self.writes is not None:
                    stack.enter_context(self.writes.inside(query or ""))
                function(batch, batch_id + self._queries.batch_shift(query or ""))
            # A driver that was suspended in the function must not commit the batch when it wakes.
            self._check_fence()

        return gated

    def enter(self, query: str | None, batch_id: int) -> None:
        """Let a batch pass."""
        self._check_fence()
        before = self._passed.get(query or "")
        if not self._ending.begun.is_set():
            self._passed[query or ""] = batch_id
            return
        tracked = self._queries.named(query or "")
        if tracked is not None:
            tracked.held = True
            # Spark planned it after it had committed the one before, which passed here: no earlier
            # driver can have begun it.
            tracked.unbegun = batch_id if before == batch_id - 1 else None
        shift = self._queries.batch_shift(query or "")
        message = f"Batch {batch_id}{f' ({batch_id + shift} to its function)' if shift else ''}"
        raise StopRequested(
            f"{message} of query {query!r} was not begun because the stream is ending. It runs when "
            "the stream is started again."
        )


def _classic_frame() -> type:
    """Return the class of the frames that functions receive; not the public one from 4.0 on."""
    try:
        from pyspark.sql.classic.dataframe import DataFrame as Classic
    except ImportError:
        from pyspark.sql import DataFrame as Classic
    found: type = Classic
    return found


def _queues_of(writer: Any) -> tuple[str, ...]:
    with contextlib.suppress(Exception):  # a Spark whose plans are made of other classes
        return tuple(queues_of(writer._df._jdf.queryExecution().analyzed()))
    return ()


class StartHook:
    """
    The patches on pyspark.

    :param fair_pools: Start every query in a scheduler pool of its own.
    :param ending: Notified when the script asks for a session that cannot be watched.
    :param plans: Keeps what each started query is; default: not kept.
    """

    def __init__(
        self,
        *,
        guard: StartGuard,
        gate: Gate,
        fair_pools: bool,
        ending: ShutdownState,
        plans: PlanKeeper | None = None,
    ) -> None:
        self._guard, self._gate, self._plans = guard, gate, plans
        self._fair_pools, self._ending = fair_pools, ending
        self._slots = RealTimeSlots()
        self._plain_start: Any = None
        self._warm_up: WarmUp | None = None
        self._aside: DeferredStart | None = None

    def install(self) -> None:
        """
        Patch pyspark.

        :raises DriverRefusal: this Python has no classic pyspark.
        """
        # Before pyspark is imported: with these variables it looks for client libraries first.
        self._check_classic(is_connect(os.environ, {}))
        import pyspark.util

        # From 4.0 there is a client-only installation, which has no classic sessions at all.
        if getattr(pyspark.util, "is_remote_only", bool)():
            raise DriverRefusal(CONNECT_REFUSAL)
        from pyspark import InheritableThread
        from pyspark.sql import DataFrameWriter, SparkSession
        from pyspark.sql.streaming.query import StreamingQuery
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        self.patch(
            SparkSession.Builder, DataStreamWriter, DeferredStart(InheritableThread, StreamingQuery)
        )
        if self._gate.writes is not None:
            self._gate.writes.patch(DataFrameWriter, _classic_frame())

    def patch(self, builder: type, writer: type, aside: DeferredStart | None = None) -> None:
        """
        Patch the classes that build sessions and that start queries.

        :param aside: Starts queries beside the script while others are to come.
        """
        self._aside = aside
        # Under spark-submit pyspark refuses remote() itself, but not with a word on what to do.
        for name in ("remote", "getOrCreate", "create"):
            self._patch_builder(builder, name)
        self._plain_start = writer.__dict__["start"]
        self._warm_up = WarmUp(self._plain_start, writer.__dict__["foreachBatch"])
        patch_method(writer, "foreachBatch", self._put_gate)
        patch_method(writer, "start", self._start)
        patch_method(writer, "toTable", self._start)
        listen(writer)
        note_registrations()

    def _patch_builder(self, builder: type, name: str) -> None:
        original = builder.__dict__.get(name)
        if original is None:
            return

        @functools.wraps(original)
        def create(self_: Any, *args: Any, **kwargs: Any) -> Any:
            options = getattr(self_, "_options", {})
            self._check_classic(name == "remote" or is_connect(os.environ, options))
            session = original(self_, *args, **kwargs)
            self._check_classic(type(session).__module__.startswith("pyspark.sql.connect"))
            return session

        setattr(builder, name, create)

    def _check_classic(self, connect: bool) -> None:
        if connect:
            refusal = DriverRefusal(CONNECT_REFUSAL)
            self._ending.refuse(refusal)
            raise refusal

    def _put_gate(self, original: Any, writer: Any, given: Mapping[str, Any]) -> Any:
        writer.__dict__[_GATED] = True
        return original(writer, self._gate.wrap(given["func"], lambda: name_of(writer, {})))

    def _start(self, original: Any, writer: Any, given: Mapping[str, Any]) -> Any:
        name = name_query(writer, given)
        if self._guard.holds_back and self._warm_up is not None:
            self._warm_up.run(writer._spark)
        if self._aside is None or not self._guard.sets_aside(name):
            return self._begin(original, writer, given)
        own = apart(writer)
        return self._aside.start(lambda: self._begin(original, own, given, said_again=True))

    def _begin(
        self, original: Any, writer: Any, given: Mapping[str, Any], *, said_again: bool = False
    ) -> Any:
        """Start a query; where the writer's JVM half may be another one's by then, say it again."""
        name, context = name_of(writer, given), writer._spark.sparkContext
        settings = said_on(writer).begun(given)
        request = StartRequest(
            name=name,
            location=location_of(writer, given, name),
            gated=_GATED in writer.__dict__,
            place=place_of(sink_of_writer(writer, settings)),
            queues=_queues_of(writer),
            demand=self._slots.demand_of(writer, name or "", settings.processing_trigger),
            drops_plans=drops_plans(settings.processing_trigger, settings.options),
        )
        results: list[Any] = []

        def launch(name: str, location: str) -> Started:
            # Past the patches: our own settings are not the script's choice.
            if said_again:
                writer._jwrite = writer._jwrite.queryName(name)
            if request.location is None or said_again:
                writer._jwrite = writer._jwrite.option("checkpointLocation", location)
            planning = self._planning(writer, given, name, request.location)
            with planning, self._pool(context, name):
                query = call_original(original, writer, given)
            results.append(query)
            return Started(query=SparkQuery(query._jsq), id=str(query.id), run_id=str(query.runId))

        self._guard.start(
            request,
            open_checkpoint=lambda location: HadoopStore(
                location, context._gateway, context._jsc.hadoopConfiguration()
            ),
            launch=launch,
            run_planned=PlannedBatch(
                writer, given, start=self._plain_start, ending=self._ending
            ).run,
        )
        return results[0]

    def _planning(
        self, writer: Any, given: Mapping[str, Any], name: str, location: str | None
    ) -> contextlib.AbstractContextManager[None]:
        if self._plans is None:
            return contextlib.nullcontext()
        return self._plans.around(writer, given, query=name, checkpoint=location or "")

    @contextlib.contextmanager
    def _pool(self, context: Any, name: str) -> Iterator[None]:
        if not self._fair_pools:
            yield
            return
        # A query keeps the pool of the thread that started it, for all its batches.
        before = context.getLocalProperty(_POOL)
        context.setLocalProperty(_POOL, name)
        try:
            yield
        finally:
            context.setLocalProperty(_POOL, before)
