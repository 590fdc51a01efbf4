"""
Progress to a topic of a Kafka-protocol broker: one message a batch, the whole progress as JSON.

``confluent-kafka`` does the talking, because librdkafka sends from threads that do not hold
Python's lock, gives a delivery report for every message, and is configured by the keys that
everybody knows.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow_streaming.driver.sinks.config import KafkaConfig
from airflow_streaming.driver.sinks.port import Origin, ProgressEvent, SinkFault, library
from airflow_streaming.exceptions import closed

_PATIENCE_MS: Final = 30_000
"""How long the client tries to deliver a message; long enough for a broker to be restarted."""
_MARGIN_S: Final = 5.0
_PATIENCE_KEYS: Final = ("message.timeout.ms", "delivery.timeout.ms")


class KafkaSink:
    """
    Sends every event and waits until the brokers have it.

    Every replica in sync must have a message (``acks=all``), and a retry does not double it
    (``enable.idempotence``); the stream's configuration may say otherwise.
    """

    name = "kafka"

    def __init__(self, config: KafkaConfig, origin: Origin) -> None:
        self.url: str | None = None
        self._config = config
        self._library = library("confluent_kafka", "confluent-kafka")
        self._settings = _settings(config, origin)
        self._patience = _patience(self._settings)
        self._last_error = ""
        self._producer = self._connect()

    def send(self, events: Sequence[ProgressEvent]) -> None:
        if self._producer is None:
            self._producer = self._connect()
        tally = _Tally()
        for event in events:
            self._produce(event, tally)
        under_way = self._producer.flush(self._patience)
        if tally.delivered == len(events):
            self._last_error = ""
            return
        if under_way:
            # It will be counted as lost, so it must not arrive all the same.
            self._producer.purge()
        if under_way or tally.fatal:
            self._producer = None
        reason = tally.reason or f"no answer within {self._patience:.0f} s"
        raise SinkFault(self._sentence(tally, len(events), reason), taken=tally.delivered)

    def close(self) -> None:
        self._producer = None

    def _connect(self) -> Any:
        try:
            return self._library.Producer({**self._settings, "error_cb": self._remember})
        except self._library.KafkaException as err:
            raise SinkFault(
                f"The configuration of sink 'kafka' is not accepted: {_said(err.args[0])}"
            ) from None

    def _produce(self, event: ProgressEvent, tally: _Tally) -> None:
        try:
            self._producer.produce(
                self._config.topic,
                key=event.key.encode(),
                value=event.json.encode(),
                headers=_headers(event),
                on_delivery=tally.take,
            )
        except (self._library.KafkaException, BufferError) as err:
            tally.take(err.args[0], None)

    def _remember(self, error: Any) -> None:
        # Kept until a delivery: the client does not repeat an unchanged error, and "all brokers are
        # down" follows the error with the reason.
        if error.code() != self._library.KafkaError._ALL_BROKERS_DOWN:
            self._last_error = _said(error)

    def _sentence(self, tally: _Tally, asked: int, reason: str) -> str:
        why = f"{reason} ({self._last_error})" if self._last_error else reason
        return (
            f"{self._config.bootstrap_servers} confirmed {tally.delivered} of {asked} reports for "
            f"topic {self._config.topic!r}: {closed(why)} Check that the broker answers and the topic "
            "can be written."
        )


class _Tally:
    """Counts the delivery reports of one call."""

    def __init__(self) -> None:
        self.delivered = 0
        self.reason = ""
        self.fatal = False

    def take(self, error: Any, message: Any) -> None:
        if error is None:
            self.delivered += 1
            return
        self.reason = _said(error)
        self.fatal = self.fatal or (hasattr(error, "fatal") and bool(error.fatal()))


def _headers(event: ProgressEvent) -> list[tuple[str, bytes]]:
    origin = event.origin
    values = {
        "stream": origin.stream,
        "epoch": origin.epoch,
        "deployment": origin.deployment,
        "query": event.query,
        "sequence": event.sequence,
    }
    return [(name, str(value).encode()) for name, value in values.items()]


def _settings(config: KafkaConfig, origin: Origin) -> dict[str, Any]:
    defaults: Mapping[str, Any] = {
        "acks": "all",
        "client.id": f"airflow-streaming-{origin.stream}@{socket.gethostname()}",
        "enable.idempotence": True,
        # Errors are reported through the status; librdkafka would repeat them in the driver's log.
        "log_level": 0,
    }
    if not any(key in config.client for key in _PATIENCE_KEYS):
        defaults = {**defaults, "message.timeout.ms": _PATIENCE_MS}
    return {**defaults, **config.client, "bootstrap.servers": config.bootstrap_servers}


def _patience(settings: Mapping[str, Any]) -> float:
    for key in _PATIENCE_KEYS:
        text = str(settings.get(key, ""))
        if text.isdecimal():
            return int(text) / 1000 + _MARGIN_S
    return _PATIENCE_MS / 1000 + _MARGIN_S


def _said(error: Any) -> str:
    return str(error.str()) if hasattr(error, "str") else str(error)
