"""
The datasets that the queries of a stream read and write, by their recorded plans.

The names are OpenLineage's, so that Spark's own listener and other tools mean the same dataset. Inputs and outputs
without such a name are left out: a socket, a function of ``foreachBatch``, a pattern of topics.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan, SourcePlan

_SCHEMES: Final[Mapping[str, str]] = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of what OpenLineage names otherwise."""
_BUCKETS: Final = frozenset({"s3", "gs"})
"""Where a dataset is named without the slash in front of it."""
_SERVERS: Final = "kafka.bootstrap.servers"


class DatasetName(NamedTuple):
    """
    OpenLineage's name of a dataset.

    :param namespace: Where it is, e.g. ``s3://lake`` or ``kafka://broker:9092``.
    :param name: Which one there, e.g. ``orders/2026``.
    """

    namespace: str
    name: str

    @property
    def uri(self) -> str:
        """Return the name as one text, e.g. ``kafka://broker:9092/orders``."""
        if self.namespace == "file":
            return f"file://{self.name}"
        return f"{self.namespace}/{self.name.lstrip('/')}"


class StreamDatasets(NamedTuple):
    """The inputs and outputs of a stream, each once and in order."""

    inputs: tuple[DatasetName, ...] = ()
    outputs: tuple[DatasetName, ...] = ()


def stream_datasets(plans: Sequence[QueryPlan]) -> StreamDatasets:
    """
    Return the datasets of all queries of a stream.

    :param plans: As the drivers recorded them; passwords in their places are masked.
    """
    read = {name for plan in plans for source in plan.sources for name in _read(source)}
    sinks = [sink for plan in plans for sink in (plan.sink, *plan.writes)]
    written = {name for sink in sinks for name in _written(sink)}
    return StreamDatasets(inputs=tuple(sorted(read)), outputs=tuple(sorted(written)))


def place_name(place: str) -> DatasetName:
    """
    Return the name of a folder by OpenLineage's naming of stores.

    :param place: A path or URI.
    """
    parts = urlsplit(place)
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    path = parts.path.rstrip("/") or "/"
    if scheme in ("", "file"):
        return DatasetName("file", path)
    namespace = f"{scheme}://{parts.netloc}"
    if scheme in _BUCKETS or scheme.startswith(("abfs", "wasb")):
        return DatasetName(namespace, path.lstrip("/") or "/")
    return DatasetName(namespace, path)


def _read(source: SourcePlan) -> Iterator[DatasetName]:
    if source.source == "file":
        yield from map(place_name, source.paths)
    elif source.source == "kafka":
        yield from _topics(source.options, [*_subscribed(source.paths)])


def _subscribed(paths: Sequence[str]) -> Iterator[str]:
    # As the plan has them: the option, and its value.
    for path in paths:
        how, _, what = path.partition(" ")
        if how == "subscribe":
            yield from filter(None, map(str.strip, what.split(",")))
        elif how == "assign":
            with contextlib.suppress(ValueError, TypeError):
                yield from map(str, json.loads(what))


def _written(sink: SinkPlan) -> Iterator[DatasetName]:
    if sink.sink == "file" and sink.target:
        yield place_name(sink.target)
    elif sink.sink == "kafka":
        yield from _topics(sink.options, sink.possible_topics)


def _topics(options: Mapping[str, str], topics: Sequence[str]) -> Iterator[DatasetName]:
    # Of several brokers the first names the cluster, as it does for OpenLineage's own integrations.
    server = options.get(_SERVERS, "").partition(",")[0].strip()
    if server:
        yield from (DatasetName(f"kafka://{server}", topic) for topic in topics)
