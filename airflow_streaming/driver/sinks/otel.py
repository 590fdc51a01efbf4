"""
Figures for OpenTelemetry, exported over OTLP/HTTP.

The SDK's own periodic reader would export from a thread of its own and tell failures to a log only.
Here the outlet asks for the values and hands them to the exporter, so that every export is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from airflow_streaming.driver.sinks.config import OtelConfig
from airflow_streaming.driver.sinks.figures import BATCH_FIGURES, SINK_FIGURES, Figure, Kind, Ledger
from airflow_streaming.driver.sinks.port import Origin, ProgressEvent, SinkFault, Standing, library

_SDK: Final = "opentelemetry-sdk"
_EXPORTER: Final = "opentelemetry-exporter-otlp-proto-http"
_UNITS: Final = {"seconds": "s", "bytes": "By", "ratio": "1", "": ""}
"""OpenTelemetry writes units as UCUM does."""


class OtelSink:
    """
    Exports the newest figures of all queries after every batch.

    The resource is the stream (``service.name``), unless the environment says otherwise.
    """

    name = "otel"

    def __init__(self, config: OtelConfig, origin: Origin, standing: Standing) -> None:
        self.url: str | None = None
        self._export = library("opentelemetry.sdk.metrics.export", _SDK)
        self._metrics = library("opentelemetry.metrics", _SDK)
        self._exporter = _exporter(config)
        self._timeout = config.timeout
        self._ledger = Ledger(origin.tags, standing)
        self._reader = self._export.InMemoryMetricReader()
        self._provider = _provider(self._reader, origin)
        meter = self._provider.get_meter("airflow_streaming")
        for figure in (*BATCH_FIGURES, *SINK_FIGURES):
            self._register(meter, figure)

    def send(self, events: Sequence[ProgressEvent]) -> None:
        self._ledger.take(events)
        data = self._reader.get_metrics_data()
        result = self._exporter.export(data, timeout_millis=self._timeout * 1000)
        if result is not self._export.MetricExportResult.SUCCESS:
            raise SinkFault(
                "The OTLP endpoint rejected the figures. Check its address and the headers "
                "it requires; the driver's log has the exporter's error."
            )

    def close(self) -> None:
        self._provider.shutdown()
        self._exporter.shutdown()

    def _register(self, meter: Any, figure: Figure) -> None:
        create = {
            Kind.GAUGE: meter.create_observable_gauge,
            Kind.COUNTER: meter.create_observable_counter,
        }[figure.kind]
        create(
            f"spark_streaming.{figure.name}",
            callbacks=[self._observer(figure)],
            unit=_UNITS[figure.unit],
            description=figure.help,
        )

    def _observer(self, figure: Figure) -> Callable[[Any], Iterable[Any]]:
        def observe(_: Any) -> Iterable[Any]:
            samples = self._ledger.samples(figure)
            return [self._metrics.Observation(s.value, dict(s.labels)) for s in samples]

        return observe


def _exporter(config: OtelConfig) -> Any:
    otlp = library("opentelemetry.exporter.otlp.proto.http.metric_exporter", _EXPORTER)
    return otlp.OTLPMetricExporter(
        endpoint=config.endpoint, headers=config.headers, timeout=config.timeout
    )


def _provider(reader: Any, origin: Origin) -> Any:
    sdk = library("opentelemetry.sdk.metrics", _SDK)
    resources = library("opentelemetry.sdk.resources", _SDK)
    told = resources.OTELResourceDetector().detect()
    resource = resources.Resource.create(
        {
            "service.name": origin.stream,
            "spark.streaming.epoch": origin.epoch,
            "spark.streaming.deployment": origin.deployment,
            **told.attributes,
        }
    )
    return sdk.MeterProvider([reader], resource=resource, shutdown_on_exit=False)
