"""Progress in full to files on the driver's host, for whatever collects logs there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from airflow_streaming.driver.sinks.config import JsonLinesConfig
from airflow_streaming.driver.sinks.port import Origin, ProgressEvent, SinkFault


class JsonLinesSink:
    """Appends one line a batch to ``<folder>/<stream>.jsonl``; full files become ``.1``, ``.2``."""

    name = "jsonlines"

    def __init__(self, config: JsonLinesConfig, origin: Origin) -> None:
        self.url: str | None = None
        self._config = config
        self._path = Path(config.folder) / f"{origin.stream}.jsonl"
        with _faults_told(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)

    def send(self, events: Sequence[ProgressEvent]) -> None:
        data = "".join(f"{_line(event)}\n" for event in events).encode()
        with _faults_told(self._path):
            if self._is_full(len(data)):
                self._put_aside()
            with self._path.open("ab") as file:
                file.write(data)

    def close(self) -> None:
        """Nothing is open between two calls."""

    def _is_full(self, more: int) -> bool:
        size = self._path.stat().st_size if self._path.exists() else 0
        return size > 0 and size + more > self._config.max_bytes

    def _put_aside(self) -> None:
        for number in range(self._config.files - 1, 0, -1):
            older = self._aside(number)
            if older.exists():
                older.replace(self._aside(number + 1))
        self._path.replace(self._aside(1))

    def _aside(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


@contextlib.contextmanager
def _faults_told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise SinkFault(
            f"{path} cannot be written: {err.strerror or err}. Check the folder and its rights."
        ) from err


def _line(event: ProgressEvent) -> str:
    origin = event.origin
    return json.dumps(
        {
            "stream": origin.stream,
            "epoch": origin.epoch,
            "deployment": origin.deployment,
            "query": event.query,
            "sequence": event.sequence,
            "progress": event.report,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )
