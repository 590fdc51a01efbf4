"""
Recording the plans of queries, beside the script.

Values that may change after the start are copied before it, in a few milliseconds. A separate
thread reads and writes the rest, because the first call to a cold JVM can take a second. It never
disturbs the script: a fault is logged, and the plan is missing.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from airflow_streaming.driver.errors import ErrorBoundary
from airflow_streaming.driver.plan.reading import Taken, read_plan, take
from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.model.names import Layout
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan
from airflow_streaming.model.storage import Store

RETRY_SECONDS: Final = 10.0
"""Rest between two tries to reach a home that is away."""
MOST_WRITES: Final = 20
"""Sinks of one query's function that are recorded; a function may write another folder in each batch."""


class PlanKeeper:
    """
    Records the plans of one epoch's queries.

    :param read: Builds a plan from the copied values; calls the JVM.
    :param retry: Seconds between attempts while the home is unavailable.
    :param on_read: Called with each plan, before it is recorded.
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        epoch: int,
        *,
        read: Callable[[Taken], QueryPlan] = read_plan,
        retry: float = RETRY_SECONDS,
        on_read: Callable[[QueryPlan], None] | None = None,
    ) -> None:
        self._store, self._layout, self._epoch = store, layout, epoch
        self._read, self._retry, self._on_read = read, retry, on_read
        self._faults = ErrorBoundary()
        self._lock = threading.Lock()
        self._waiting: deque[Taken | QueryPlan] = deque()
        self._written: dict[str, QueryPlan] = {}
        self._writes: dict[str, tuple[SinkPlan, ...]] = {}
        self._thread: threading.Thread | None = None
        self._finishing = threading.Event()

    def move(self, epoch: int) -> None:
        self._epoch = epoch

    @contextlib.contextmanager
    def around(
        self, writer: Any, given: Mapping[str, Any], *, query: str, checkpoint: str
    ) -> Iterator[None]:
        """
        Record the plan of the query that is started inside, once it has started.

        :param writer: The ``DataStreamWriter``.
        :param given: The arguments of ``start`` or ``toTable``, by name.
        :param checkpoint: The script's checkpoint location; empty without one.
        """
        taken: Taken | None = None
        with self._faults.contained(f"Looking at the plan of query {query!r}"):
            taken = take(writer, given, query=query, checkpoint=checkpoint)
        yield
        if taken is not None:
            self.keep(taken)

    def keep(self, taken: Taken) -> None:
        """Have a plan read and recorded, soon."""
        with self._lock:
            self._enqueue(taken)

    def wrote(self, query: str, sink: SinkPlan) -> None:
        """Have a sink that the function of a query writes recorded beside its plan, soon and once."""
        with self._lock:
            known = self._writes.get(query, ())
            if sink in known or len(known) >= MOST_WRITES:
                return
            self._writes[query] = (*known, sink)
            # A plan that is still to be read gets the sink when it is written.
            if query in self._written:
                self._enqueue(self._written[query])

    def _enqueue(self, one: Taken | QueryPlan) -> None:
        self._waiting.append(one)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="airflow-streaming-plans", daemon=True
            )
            self._thread.start()

    def finish(self) -> None:
        """Wait until all plans are recorded; a home that is away is tried once more only."""
        self._finishing.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while (one := self._next()) is not None:
            with self._faults.contained(f"Recording the plan of query {one.query!r}"):
                self._write(one if isinstance(one, QueryPlan) else self._planned(one))

    def _planned(self, taken: Taken) -> QueryPlan:
        plan = self._read(taken)
        if self._on_read is not None:
            self._on_read(plan)
        return plan

    def _next(self) -> Taken | QueryPlan | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._thread = None
            return None

    def _write(self, plan: QueryPlan) -> None:
        with self._lock:
            self._written[plan.query] = plan
            plan = replace(plan, writes=self._writes.get(plan.query, ()))
        path, data = (
            self._layout.place(QueryPlan, epoch=self._epoch, query=plan.query),
            _as_bytes(plan, self._layout, self._epoch),
        )
        while True:
            try:
                self._store.replace(path, data)
            except HomeUnavailable:
                if self._finishing.is_set():
                    raise
                self._finishing.wait(self._retry)
            else:
                return


def _as_bytes(plan: QueryPlan, layout: Layout, epoch: int) -> bytes:
    try:
        return layout.bytes_of(plan, epoch=epoch)
    except RecordError:
        note = f"Its {len(plan.steps)} steps are too much for a record."
        cut = replace(plan, steps=(), nodes=(), notes=(*plan.notes, note))
        return layout.bytes_of(cut, epoch=epoch)
