"""
Figures for StatsD.

StatsD has no labels, so the name holds the stream, the query and all other labels:
``<prefix>.<stream>.<query>.<figure>``. UDP loses packets silently; TCP reports a loss.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from airflow_streaming.driver.sinks.config import StatsdConfig
from airflow_streaming.driver.sinks.figures import BATCH_FIGURES, SINK_FIGURES, Figure, Kind
from airflow_streaming.driver.sinks.port import Origin, ProgressEvent, SinkFault, Standing, library
from airflow_streaming.exceptions import closed


class StatsdSink:
    """Sends every batch's figures as it comes, and how the sinks stand."""

    name = "statsd"

    def __init__(self, config: StatsdConfig, origin: Origin, standing: Standing) -> None:
        self.url: str | None = None
        self._config, self._standing = config, standing
        self._library = library("statsd", "statsd")
        self._stream = _part(origin.stream)
        self._client = self._connect()

    def send(self, events: Sequence[ProgressEvent]) -> None:
        taken = 0
        try:
            for event in events:
                with self._client.pipeline() as lines:
                    _write(lines, event, self._stream)
                taken += 1
            with self._client.pipeline() as lines:
                self._write_standing(lines)
        except OSError as err:
            self._client.close()  # it reconnects automatically
            raise SinkFault(
                f"{self._where} did not take the figures: {closed(err)}", taken=taken
            ) from err

    def close(self) -> None:
        self._client.close()

    @property
    def _where(self) -> str:
        return f"The StatsD server at {self._config.host}:{self._config.port}"

    def _connect(self) -> Any:
        config = self._config
        try:
            if config.protocol == "tcp":
                return self._library.TCPStatsClient(
                    config.host, config.port, prefix=config.prefix, timeout=config.timeout
                )
            return self._library.StatsClient(config.host, config.port, prefix=config.prefix)
        except OSError as err:
            raise SinkFault(f"{self._where} cannot be found: {closed(err)}") from err

    def _write_standing(self, lines: Any) -> None:
        for status in self._standing():
            for figure in SINK_FIGURES:
                for labels, value in figure.take(status):
                    # The status holds sums, and StatsD would add them up once more.
                    lines.gauge(_name(figure, self._stream, *labels), value)


def _write(lines: Any, event: ProgressEvent, stream: str) -> None:
    for figure in BATCH_FIGURES:
        for labels, value in figure.take(event.progress):
            # A source is identified by its position; a description makes no name.
            own = labels[:1]
            name = _name(figure, stream, _part(event.query), *own)
            if figure.kind is Kind.COUNTER:
                lines.incr(name, value)
            else:
                lines.gauge(name, value)


def _name(figure: Figure, *place: str) -> str:
    return ".".join((*(_part(part) for part in place), figure.full_name))


def _part(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)
