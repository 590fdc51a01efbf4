"""All sinks of a driver: opened once Spark's configuration can be read, fed at every beat."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from airflow_streaming.core.progress import BatchProgress
from airflow_streaming.core.status import SinkStatus
from airflow_streaming.driver.faults import Faults, logger
from airflow_streaming.driver.jvm import active_context
from airflow_streaming.driver.sinks.config import (
    JsonLinesConfig,
    KafkaConfig,
    OtelConfig,
    PrometheusConfig,
    PushgatewayConfig,
    SinkConfig,
    StatsdConfig,
)
from airflow_streaming.driver.sinks.jsonlines import JsonLinesSink
from airflow_streaming.driver.sinks.kafka import KafkaSink
from airflow_streaming.driver.sinks.otel import OtelSink
from airflow_streaming.driver.sinks.outlet import Outlet
from airflow_streaming.driver.sinks.port import Origin, ProgressEvent, ProgressSink, Standing
from airflow_streaming.driver.sinks.prometheus import PrometheusSink, PushgatewaySink
from airflow_streaming.driver.sinks.statsd import StatsdSink
from airflow_streaming.driver.sinks.wanted import CONF_PREFIX, wanted_sinks

FLUSH_SECONDS: Final = 2.0
"""What all sinks together have at the driver's end."""


class Told(Protocol):
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
        self._faults = Faults()

    def offer(self, batches: Iterable[Told]) -> None:
        """Hand on what is new, which takes microseconds; call it at every beat, also without."""
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
        wanted = wanted_sinks(conf)
        for problem in wanted.problems:
            logger.error("%s The stream goes on without it.", problem.trouble)
        self._problems = wanted.problems
        self._outlets = [
            Outlet(name, partial(_connect, config, self._origin, self.statuses))
            for name, config in wanted.sinks.items()
        ]
        for outlet in self._outlets:
            outlet.begin()

    def _event(self, batch: Told) -> ProgressEvent:
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
