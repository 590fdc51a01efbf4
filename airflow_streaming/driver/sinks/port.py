"""
A sink: a place outside the home that receives every batch's progress.

A sink may be slow, away, or misconfigured. It raises a :class:`SinkFault`; the outlet in front of
it counts lost events, and the stream is not affected.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow_streaming.exceptions import StreamingError, closed
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.status import SinkStatus

Standing = Callable[[], Sequence[SinkStatus]]
"""Returns the status of all sinks of the driver, for sinks that publish it."""


class SinkFault(StreamingError):
    """
    A sink rejected some of its events.

    :param taken: How many reports of that call it did take.
    """

    def __init__(self, message: str, *, taken: int = 0) -> None:
        super().__init__(message)
        self.taken = taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """
    Whose progress it is.

    :param labels: Labels of the stream that its figures carry.
    """

    stream: str
    epoch: int
    deployment: int
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def tags(self) -> dict[str, str]:
        """Return the labels of every figure."""
        return {"stream": self.stream, **self.labels}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressEvent:
    """
    The progress of one batch, on its way out.

    :param sequence: Rises by one with every batch of the epoch, over all its queries; a gap seen by
        a reader is a report that was dropped.
    :param report: The whole progress, as Spark's JSON gives it.
    """

    origin: Origin
    query: str
    query_id: str
    run_id: str
    sequence: int
    progress: BatchProgress
    report: Mapping[str, Any]

    @property
    def batch_id(self) -> int:
        return self.progress.batch_id

    @property
    def key(self) -> str:
        """Return what keeps the reports of one query together."""
        return f"{self.origin.stream}/{self.query}"

    @property
    def json(self) -> str:
        """Return the whole progress as one line of JSON; made when a sink needs it."""
        return json.dumps(self.report, ensure_ascii=False, separators=(",", ":"))


class ProgressSink(Protocol):
    """Where progress goes. All three are called by one thread, the outlet's."""

    name: str
    url: str | None
    """Where its figures can be read, if it serves them itself."""

    def send(self, events: Sequence[ProgressEvent]) -> None:
        """
        Hand events on, in their order, and return when the other side has them.

        :raises SinkFault: not all were taken.
        """

    def close(self) -> None:
        """Let go of connections and ports."""


def library(module: str, package: str) -> Any:
    """
    Import a sink's client library, which belongs to the runtime and not to this package.

    :param package: The package to install.
    :raises SinkFault: it is not installed where the driver runs.
    """
    try:
        return importlib.import_module(module)
    except ImportError as err:
        raise SinkFault(
            f"The Python module {module!r} cannot be imported by {sys.executable}: {closed(err)} Install "
            f"{package!r} into the runtime of the stream."
        ) from err
