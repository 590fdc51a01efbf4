"""What each sink can be told, with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConfig:
    """
    A topic of a Kafka-protocol broker.

    :param client: Everything else, for librdkafka; may hold secrets.
    """

    topic: str
    bootstrap_servers: str
    client: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusConfig:
    """
    An HTTP endpoint in the driver.

    :param port: 0 takes a free one.
    """

    address: str = "127.0.0.1"
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PushgatewayConfig:
    """
    A Prometheus Pushgateway.

    :param timeout: Seconds for one push.
    """

    url: str
    job: str = "spark_streaming"
    username: str = ""
    password: str = field(default="", repr=False)
    timeout: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsdConfig:
    """
    A StatsD server.

    :param protocol: ``udp``, or ``tcp``, by which losses are noticed.
    :param timeout: Seconds for one send over TCP.
    """

    host: str = "127.0.0.1"
    port: int = 8125
    protocol: str = "udp"
    prefix: str = "spark_streaming"
    timeout: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelConfig:
    """
    An OTLP endpoint over HTTP.

    :param endpoint: The whole URL, ``/v1/metrics`` included; ``None`` leaves it to the
        ``OTEL_EXPORTER_OTLP_*`` environment variables.
    :param headers: Sent with every export; may hold secrets.
    :param timeout: Seconds for one export.
    """

    endpoint: str | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    timeout: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLinesConfig:
    """
    Files on the driver's host.

    :param folder: Holds ``<stream>.jsonl`` and the older files beside it.
    :param max_bytes: Size at which a file is put aside.
    :param files: How many older files are kept.
    """

    folder: str
    max_bytes: int = 64 * 1024 * 1024
    files: int = 5


SinkConfig = (
    KafkaConfig | PrometheusConfig | PushgatewayConfig | StatsdConfig | OtelConfig | JsonLinesConfig
)
