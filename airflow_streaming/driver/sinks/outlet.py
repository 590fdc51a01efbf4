"""
The bounded queue between the driver and its progress sinks.

The driver only puts events into the queue, which takes microseconds and cannot fail. A sink that is
slower than the stream loses the oldest events, because the newest events show the present state. A
sink that hangs delays only its own thread. Lost events are counted.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from airflow_streaming.driver.errors import ErrorBoundary, logger
from airflow_streaming.driver.jvm import active_context
from airflow_streaming.driver.sinks.config import (
    CONF_PREFIX,
    JsonLinesConfig,
    KafkaConfig,
    OtelConfig,
    PrometheusConfig,
    PushgatewayConfig,
    SinkConfig,
    StatsdConfig,
    wanted_sinks,
)
from airflow_streaming.driver.sinks.jsonlines import JsonLinesSink
from airflow_streaming.driver.sinks.kafka import KafkaSink
from airflow_streaming.driver.sinks.otel import OtelSink
from airflow_streaming.driver.sinks.port import (
    Origin,
    ProgressEvent,
    ProgressSink,
    SinkFault,
    Standing,
)
from airflow_streaming.driver.sinks.prometheus import PrometheusSink, PushgatewaySink
from airflow_streaming.driver.sinks.statsd import StatsdSink
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.fleet.metric_labels import labels_in
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.spark.failures import presentable
from airflow_streaming.model.status import SinkStatus

CAPACITY: Final = 500
"""Events that wait. A full progress takes some 10 to 60 kB in memory, so this is 30 MB at worst."""
_AT_ONCE: Final = 100
"""Events in one call of a sink."""
_RETRY: Final = 30.0
"""Seconds between attempts to connect a sink that could not be connected."""
_LONG: Final = 5.0
"""Seconds in one call after which a sink is reported as slow."""

FLUSH_SECONDS: Final = 2.0
"""Seconds for all sinks together at the driver's end."""


class Outlet:
    """
    Carries events to one sink.

    :param connect: Makes the sink; called by the outlet's thread, again after it failed.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], ProgressSink],
        *,
        capacity: int = CAPACITY,
        retry: float = _RETRY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._connect, self._capacity, self._retry, self._clock = connect, capacity, retry, clock
        self._changed = threading.Condition()
        self._waiting: deque[ProgressEvent] = deque()
        self._in_hand: Sequence[ProgressEvent] = ()
        self._busy_since = 0.0
        self._sent = self._dropped = 0
        self._trouble: str | None = None
        self._url: str | None = None
        self._ending = self._abandoned = False
        self._faults = ErrorBoundary()
        self._thread = threading.Thread(
            target=self._run, name=f"airflow-streaming-sink-{name}", daemon=True
        )

    def begin(self) -> None:
        """Start the thread, which connects the sink."""
        self._thread.start()

    def offer(self, events: Sequence[ProgressEvent]) -> None:
        """Take events without waiting; the oldest are dropped when the queue is full."""
        with self._changed:
            if self._ending:
                self._dropped += len(events)
                return
            self._waiting.extend(events)
            surplus = max(0, len(self._waiting) - self._capacity)
            for _ in range(surplus):
                self._waiting.popleft()
            self._dropped += surplus
            self._changed.notify_all()

    def status(self) -> SinkStatus:
        """Return the counts of sent and lost events."""
        with self._changed:
            return SinkStatus(
                sink=self.name,
                sent=self._sent,
                dropped=self._dropped,
                trouble=self._trouble_now(),
                url=self._url,
            )

    def ask_end(self) -> None:
        """Have the thread send what waits and end; nothing more is taken."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()

    def end(self, *, until: float) -> None:
        """Wait for the thread until that time of the clock; events left then count as dropped."""
        self.ask_end()
        if self._thread.ident is not None:
            self._thread.join(max(0.0, until - self._clock()))
        with self._changed:
            self._abandoned = True
            self._dropped += len(self._waiting) + len(self._in_hand)
            self._waiting.clear()

    def _run(self) -> None:
        sink: ProgressSink | None = None
        while sink is None and not self._abandoned:
            sink = self._connected()
            if sink is None and self._is_ending_within(self._retry):
                return
        if sink is None:
            return
        while events := self._next():
            self._send(sink, events)
        with self._faults.contained(f"Closing the sink {self.name!r}"):
            sink.close()

    def _connected(self) -> ProgressSink | None:
        sink: ProgressSink | None = None
        with self._faults.contained(f"Connecting the sink {self.name!r}"):
            try:
                sink = self._connect()
            except Exception as err:
                self._note(trouble=_told(err))
                raise
            self._note(trouble=None)
            self._url = sink.url
        return sink

    def _is_ending_within(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._ending, seconds)

    def _next(self) -> Sequence[ProgressEvent]:
        """Wait for events; return an empty sequence at the end, when all are sent."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            count = min(len(self._waiting), _AT_ONCE)
            self._in_hand = tuple(self._waiting.popleft() for _ in range(count))
            self._busy_since = self._clock()
            return self._in_hand

    def _send(self, sink: ProgressSink, events: Sequence[ProgressEvent]) -> None:
        with self._faults.contained(f"Sending progress to the sink {self.name!r}"):
            try:
                sink.send(events)
            except Exception as err:
                taken = err.taken if isinstance(err, SinkFault) else 0
                self._note(taken=taken, lost=len(events) - taken, trouble=_told(err))
                raise
            self._note(taken=len(events), trouble=None)

    def _note(self, *, trouble: str | None, taken: int = 0, lost: int = 0) -> None:
        with self._changed:
            self._in_hand = ()
            self._trouble = trouble
            if not self._abandoned:  # else they were counted when the driver gave up waiting
                self._sent += taken
                self._dropped += lost

    def _trouble_now(self) -> str | None:
        busy = self._clock() - self._busy_since if self._in_hand else 0.0
        if busy < _LONG:
            return self._trouble
        hanging = (
            f"Sink {self.name!r} has not taken {len(self._in_hand)} reports for {duration_text(busy)}; "
            f"{len(self._waiting)} more wait."
        )
        return f"{hanging} {self._trouble}" if self._trouble else hanging


def _told(err: Exception) -> str:
    said = str(err) if isinstance(err, SinkFault) else f"{type(err).__name__}: {err}"
    return presentable(said)


class ReportedBatch(Protocol):
    """A batch as Spark reported it: in our figures, and whole."""

    @property
    def progress(self) -> BatchProgress: ...

    @property
    def report(self) -> Mapping[str, Any]: ...


def conf_of_context() -> Mapping[str, str] | None:
    """Return the keys of the running Spark context that speak of sinks; ``None`` without one."""
    context = active_context()
    if context is None:
        return None
    # Only ours are fetched: each key is two questions to the JVM, and there may be hundreds.
    found = context._jsc.sc().conf().getAllWithPrefix(CONF_PREFIX)
    return {f"{CONF_PREFIX}{pair._1()}": str(pair._2()) for pair in found}


class Sinks:
    """
    The sinks that a stream's configuration asks for.

    :param read_conf: Returns the keys of sinks once they can be known, ``None`` before.
    """

    def __init__(
        self,
        origin: Origin,
        *,
        read_conf: Callable[[], Mapping[str, str] | None] = conf_of_context,
    ) -> None:
        self._origin, self._read_conf = origin, read_conf
        self._outlets: list[Outlet] | None = None
        self._problems: tuple[SinkStatus, ...] = ()
        self._sequence = 0
        self._faults = ErrorBoundary()

    def offer(self, batches: Iterable[ReportedBatch]) -> None:
        """Queue new batches in microseconds; call it at every beat, also without batches."""
        with self._faults.contained("Handing progress to the sinks"):
            if self._outlets is None:
                self._open()
            events = [self._event(batch) for batch in batches] if self._outlets else []
            if events:
                for outlet in self._outlets or ():
                    outlet.offer(events)

    def statuses(self) -> tuple[SinkStatus, ...]:
        """Return how each sink stands."""
        return (*(outlet.status() for outlet in self._outlets or ()), *self._problems)

    def close(self) -> bool:
        """Give the sinks a last moment; tell whether there were any whose counts may have moved."""
        until = time.monotonic() + FLUSH_SECONDS
        outlets = self._outlets or []
        for outlet in outlets:
            outlet.ask_end()
        for outlet in outlets:
            outlet.end(until=until)
        return bool(outlets)

    def _open(self) -> None:
        conf = self._read_conf()
        if conf is None:
            return
        self._origin = replace(self._origin, labels=labels_in(conf))
        wanted = wanted_sinks(conf)
        for problem in wanted.problems:
            logger.error("%s The stream continues without it.", problem.trouble)
        self._problems = wanted.problems
        self._outlets = [
            Outlet(name, partial(_connect, config, self._origin, self.statuses))
            for name, config in wanted.sinks.items()
        ]
        for outlet in self._outlets:
            outlet.begin()

    def _event(self, batch: ReportedBatch) -> ProgressEvent:
        self._sequence += 1
        return ProgressEvent(
            origin=self._origin,
            query=batch.progress.query,
            query_id=str(batch.report.get("id", "")),
            run_id=str(batch.report.get("runId", "")),
            sequence=self._sequence,
            progress=batch.progress,
            report=batch.report,
        )


def _connect(config: SinkConfig, origin: Origin, standing: Standing) -> ProgressSink:
    match config:
        case KafkaConfig():
            return KafkaSink(config, origin)
        case PrometheusConfig():
            return PrometheusSink(config, origin, standing)
        case PushgatewayConfig():
            return PushgatewaySink(config, origin, standing)
        case StatsdConfig():
            return StatsdSink(config, origin, standing)
        case OtelConfig():
            return OtelSink(config, origin, standing)
        case JsonLinesConfig():
            return JsonLinesSink(config, origin)
