"""Each sink and the real server it is made for, without Spark."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from airflow_streaming.driver.sinks.config import (
    KafkaConfig,
    OtelConfig,
    PrometheusConfig,
    PushgatewayConfig,
)
from airflow_streaming.driver.sinks.kafka import KafkaSink
from airflow_streaming.driver.sinks.otel import OtelSink
from airflow_streaming.driver.sinks.port import SinkFault
from airflow_streaming.driver.sinks.prometheus import PrometheusSink, PushgatewaySink
from airflow_streaming.model.status import SinkStatus
from tests.integration.home.servers import free_ports
from tests.integration.servers.broker import consume, create_topic, kafka_broker
from tests.integration.servers.metrics import Samples, pushgateway, scrape
from tests.patience import PATIENCE
from tests.unit.driver.sinks.events import FULL, ORIGIN, an_event

STANDING = [SinkStatus(sink="kafka", sent=8, dropped=2)]
QUERY = {"stream": "orders", "query": "q"}
EXPECTED = {
    "spark_streaming_batches_total": (2, QUERY),
    "spark_streaming_input_rows_total": (12, QUERY),
    "spark_streaming_dropped_rows_total": (3, QUERY),
    "spark_streaming_batch_id": (5, QUERY),
    "spark_streaming_batch_start_timestamp_seconds": (1767614400.5, QUERY),
    "spark_streaming_batch_duration_seconds": (0.125, QUERY),
    "spark_streaming_batch_input_rows": (5, QUERY),
    "spark_streaming_input_rows_per_second": (2.5, QUERY),
    "spark_streaming_processed_rows_per_second": (40, QUERY),
    "spark_streaming_watermark_delay_seconds": (12.5, QUERY),
    "spark_streaming_state_rows": (1000, QUERY),
    "spark_streaming_state_memory_bytes": (65536, QUERY),
    "spark_streaming_source_backlog_records": (
        70,
        {**QUERY, "source": "0", "description": "KafkaV2[Subscribe[a]]"},
    ),
    "spark_streaming_sink_dropped_reports_total": (2, {"stream": "orders", "sink": "kafka"}),
    "spark_streaming_query_info": (
        1,
        {**QUERY, "query_id": "id-q", "run_id": "run-q", "epoch": "7", "deployment": "3"},
    ),
}
"""Of two batches, 4 and 5."""


def assert_expected(samples: Samples) -> None:
    told = {
        name: samples.get((name, frozenset(labels.items())))
        for name, (_, labels) in EXPECTED.items()
    }
    assert told == {name: value for name, (value, _) in EXPECTED.items()}


@pytest.fixture
def two_batches() -> list[object]:
    return [an_event(4, input_rows=7), an_event(5, **FULL)]


def test_what_is_scraped_is_what_was_sent(two_batches: list[object]) -> None:
    sink = PrometheusSink(PrometheusConfig(), ORIGIN, lambda: STANDING)
    assert sink.url is not None
    sink.send(two_batches)
    assert_expected(scrape(sink.url))
    sink.close()
    with pytest.raises(urllib.error.URLError):
        scrape(sink.url)


def test_a_port_that_is_taken_is_told() -> None:
    first = PrometheusSink(PrometheusConfig(), ORIGIN, list)
    assert first.url is not None
    port = int(first.url.split(":")[2].removesuffix("/metrics"))
    with pytest.raises(SinkFault, match=rf"Port {port} of 127\.0\.0\.1 cannot be served: Address"):
        PrometheusSink(PrometheusConfig(port=port), ORIGIN, list)
    first.close()


def test_a_pushgateway_has_the_figures_until_the_end(
    tmp_path: Path, two_batches: list[object]
) -> None:
    with pushgateway(tmp_path) as url:
        sink = PushgatewaySink(PushgatewayConfig(url=url), ORIGIN, lambda: STANDING)
        sink.send(two_batches)
        pushed = scrape(f"{url}/metrics")
        # The gateway adds what it groups by, and an empty label where there was none.
        group = {("job", "spark_streaming"), ("instance", "")}
        assert_expected(
            {(name, frozenset(labels - group)): value for (name, labels), value in pushed.items()}
        )
        sink.close()
        assert not [name for name, _ in scrape(f"{url}/metrics") if "spark_streaming_" in name]
    with pytest.raises(SinkFault, match=rf"The Pushgateway at {url} did not take the figures"):
        sink.send([an_event(6)])


def test_a_message_is_the_whole_progress_keyed_by_stream_and_query(tmp_path: Path) -> None:
    with kafka_broker(tmp_path) as address:
        create_topic(address, "progress")
        sink = KafkaSink(KafkaConfig(topic="progress", bootstrap_servers=address), ORIGIN)
        sink.send([an_event(0), an_event(1), an_event(0, query="other")])
        sink.close()
        found = consume(address, "progress", 3)
    of_q = [message for message in found if message.key == "orders/q"]
    assert [message.value for message in of_q] == [an_event(0).report, an_event(1).report]
    assert [message.key for message in found if message not in of_q] == ["orders/other"]
    assert of_q[1].headers == {
        "stream": "orders",
        "epoch": "7",
        "deployment": "3",
        "query": "q",
        "sequence": "2",
    }


def test_a_broker_that_is_away_is_told_and_used_again_when_it_is_back(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    config = KafkaConfig(
        topic="progress",
        bootstrap_servers=f"127.0.0.1:{port}",
        client={"message.timeout.ms": "1500", "reconnect.backoff.max.ms": "500"},
    )
    sink = KafkaSink(config, ORIGIN)
    with pytest.raises(SinkFault, match=r"confirmed 0 of 2 reports for topic 'progress'") as fault:
        sink.send([an_event(0), an_event(1)])
    assert fault.value.taken == 0
    assert "refused" in str(fault.value)

    with kafka_broker(tmp_path, port) as address:
        create_topic(address, "progress")
        deadline = time.monotonic() + PATIENCE
        sent = 2
        while True:
            try:
                sink.send([an_event(sent)])
                break
            except SinkFault:
                assert time.monotonic() < deadline
                sent += 1
        found = consume(address, "progress", 1)
    # One that was given up too soon may have come through all the same.
    assert sent in [message.value["batchId"] for message in found]


@pytest.mark.parametrize(
    ("client", "sentence"),
    [
        ({"linger.mss": "5"}, 'No such configuration property: "linger.mss"'),
        ({"acks": "1", "sasl.password": "canary"}, "acks"),
    ],
)
def test_a_key_that_the_client_does_not_know_is_told(client: dict[str, str], sentence: str) -> None:
    config = KafkaConfig(topic="t", bootstrap_servers="127.0.0.1:1", client=client)
    with pytest.raises(SinkFault, match="The configuration of sink 'kafka' is not acc") as fault:
        KafkaSink(config, ORIGIN)
    assert sentence in str(fault.value)
    assert "canary" not in str(fault.value)


class Collector(http.server.ThreadingHTTPServer):
    """An OTLP/HTTP endpoint that keeps what it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.got: list[ExportMetricsServiceRequest] = []
        self.headers: list[str | None] = []
        self.answer = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/metrics"


class _Receiver(http.server.BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(ExportMetricsServiceRequest.FromString(body))
        self.server.headers.append(self.headers.get("X-Team"))
        self.send_response(self.server.answer)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_an_otlp_endpoint_gets_the_figures(collector: Collector, two_batches: list[object]) -> None:
    config = OtelConfig(endpoint=collector.url, headers={"X-Team": "data"})
    sink = OtelSink(config, ORIGIN, lambda: STANDING)
    sink.send(two_batches)
    sink.close()

    assert collector.headers == ["data"]
    [resource] = collector.got[0].resource_metrics
    about = {a.key: a.value.string_value or a.value.int_value for a in resource.resource.attributes}
    assert about["service.name"] == "orders"
    assert (about["spark.streaming.epoch"], about["spark.streaming.deployment"]) == (7, 3)
    assert_expected({**_as_prometheus(resource), _INFO: 1})
    units = {metric.name: metric.unit for metric in resource.scope_metrics[0].metrics}
    assert units["spark_streaming.batch_duration"] == "s"
    assert units["spark_streaming.state_memory"] == "By"


_INFO = (
    "spark_streaming_query_info",
    frozenset(EXPECTED["spark_streaming_query_info"][1].items()),
)
_SUFFIX = {"s": "_seconds", "By": "_bytes", "1": "_ratio", "": ""}


def _as_prometheus(resource: object) -> Samples:
    """Name what came as a collector names it when it passes it on to Prometheus."""
    found: Samples = {}
    for metric in resource.scope_metrics[0].metrics:
        is_sum = metric.HasField("sum")
        name = metric.name.replace(".", "_") + _SUFFIX[metric.unit] + ("_total" if is_sum else "")
        for point in (metric.sum if is_sum else metric.gauge).data_points:
            labels = frozenset((a.key, a.value.string_value) for a in point.attributes)
            value = point.as_double if point.HasField("as_double") else point.as_int
            found[name, labels] = value
    return found


def test_an_otlp_endpoint_that_refuses_is_told(collector: Collector) -> None:
    collector.answer = 400
    sink = OtelSink(OtelConfig(endpoint=collector.url, timeout=2), ORIGIN, list)
    with pytest.raises(SinkFault, match="The OTLP endpoint rejected the figures"):
        sink.send([an_event(0)])
    sink.close()


def test_no_client_library_is_needed_to_load_the_driver() -> None:
    program = (
        "import sys, airflow_streaming.driver.runtime, airflow_streaming.driver.sinks.outlet\n"
        "clients = {'confluent_kafka', 'prometheus_client', 'statsd', 'opentelemetry'}\n"
        "sys.exit(', '.join(clients & set(sys.modules)) or 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
