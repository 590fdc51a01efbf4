"""Figures for Prometheus: an endpoint in the driver, or pushed to a Pushgateway."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any, Final

from airflow_streaming.driver.sinks.config import PrometheusConfig, PushgatewayConfig
from airflow_streaming.driver.sinks.figures import PREFIX, SINK_FIGURES, Figure, Kind, Ledger
from airflow_streaming.driver.sinks.port import Origin, ProgressEvent, SinkFault, Standing, library

_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104  # compared with, not bound to
_PACKAGE: Final = "prometheus-client"


class PrometheusSink:
    """
    Serves the newest figures over HTTP.

    :raises SinkFault: the port cannot be had, or the library is missing.
    """

    name = "prometheus"

    def __init__(self, config: PrometheusConfig, origin: Origin, standing: Standing) -> None:
        client = library("prometheus_client", _PACKAGE)
        self._ledger = Ledger(origin.tags, standing)
        try:
            self._server, self._thread = client.start_http_server(
                config.port, config.address, registry=_registry(client, self._ledger)
            )
        except OSError as err:
            raise SinkFault(
                f"Port {config.port} of {config.address} cannot be served: {err.strerror or err}. "
                "Choose another one, or 0 for any that is free."
            ) from err
        address = socket.gethostname() if config.address in _ANY_ADDRESS else config.address
        host = f"[{address}]" if ":" in address else address
        self.url: str | None = f"http://{host}:{self._server.server_port}/metrics"

    def send(self, events: Sequence[ProgressEvent]) -> None:
        self._ledger.take(events)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class PushgatewaySink:
    """Replaces the stream's group in a Pushgateway, and takes it away at the end."""

    name = "pushgateway"

    def __init__(self, config: PushgatewayConfig, origin: Origin, standing: Standing) -> None:
        self.url: str | None = None
        self._client = library("prometheus_client", _PACKAGE)
        self._config = config
        self._ledger = Ledger(origin.tags, standing)
        self._registry = _registry(self._client, self._ledger)
        self._group = {"stream": origin.stream}

    def send(self, events: Sequence[ProgressEvent]) -> None:
        self._ledger.take(events)
        self._ask(self._client.push_to_gateway, registry=self._registry)

    def close(self) -> None:
        # A Pushgateway never forgets: an ended stream would seem to stand still for ever.
        self._ask(self._client.delete_from_gateway)

    def _ask(self, call: Any, **arguments: Any) -> None:
        try:
            call(
                self._config.url,
                job=self._config.job,
                grouping_key=self._group,
                timeout=self._config.timeout,
                handler=self._handler,
                **arguments,
            )
        except OSError as err:
            raise SinkFault(
                f"The Pushgateway at {self._config.url} did not take the figures: "
                f"{getattr(err, 'reason', None) or err}. Check its address."
            ) from err

    def _handler(self, *request: Any, **named: Any) -> Any:
        exposition = library("prometheus_client.exposition", _PACKAGE)
        if not self._config.username:
            return exposition.default_handler(*request, **named)
        return exposition.basic_auth_handler(
            *request, username=self._config.username, password=self._config.password, **named
        )


class _Collector:
    """Gives the ledger's values in the library's form, at every scrape."""

    def __init__(self, ledger: Ledger) -> None:
        self._core = library("prometheus_client.core", _PACKAGE)
        self._ledger = ledger

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        for figure, samples in self._ledger.readings():
            family = self._family(figure)
            for sample in samples:
                family.add_metric(list(sample.labels.values()), sample.value)
            yield family
        yield self._about()

    def _family(self, figure: Figure) -> Any:
        families = {
            Kind.GAUGE: self._core.GaugeMetricFamily,
            Kind.COUNTER: self._core.CounterMetricFamily,
        }
        tags = tuple(self._ledger.tags)
        own = tags if figure in SINK_FIGURES else (*tags, "query")
        return families[figure.kind](
            f"{PREFIX}_{figure.full_name}",
            figure.help,
            labels=(*own, *figure.labels),
            unit=figure.unit,
        )

    def _about(self) -> Any:
        names = ("query", "query_id", "run_id", "epoch", "deployment")
        family = self._core.GaugeMetricFamily(
            f"{PREFIX}_query_info",
            "Which query, run and epoch the figures are of.",
            labels=(*self._ledger.tags, *names),
        )
        for event in self._ledger.latest():
            origin = event.origin
            numbers = (str(origin.epoch), str(origin.deployment))
            labels = (event.query, event.query_id, event.run_id, *numbers)
            family.add_metric((*self._ledger.tags.values(), *labels), 1)
        return family


def _registry(client: Any, ledger: Ledger) -> Any:
    registry = client.CollectorRegistry()
    registry.register(_Collector(ledger))
    return registry
