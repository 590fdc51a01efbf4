"""
OpenLineage: the inputs and outputs of a stream, and the parent of its driver.

The datasets come from the plans that the stream's drivers have recorded, under OpenLineage's names,
so that Spark's own listener and other tools mean the same dataset. Inputs and outputs without such
a name are left out: a socket, a function of ``foreachBatch``, a pattern of topics.

The driver's parent comes from Airflow's own injection, and is switched on where Airflow's
``SparkSubmitOperator`` has it: ``[openlineage] spark_inject_parent_job_info`` and
``spark_inject_transport_info``. It goes to the driver only, never into a deployment: another run of
the dag is not a new version of the stream.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import conf as airflow_conf

from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan, SourcePlan

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

SECTION: Final = "openlineage"
PARENT: Final = "spark_inject_parent_job_info"
TRANSPORT: Final = "spark_inject_transport_info"
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
    written = {name for plan in plans for name in _written(plan.sink)}
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


def operator_lineage(
    plans: Callable[[], Sequence[QueryPlan]],
    *,
    inlets: Sequence[object] = (),
    outlets: Sequence[object] = (),
) -> OperatorLineage | None:
    """
    Return an operator's answer to the OpenLineage provider; ``None`` without the provider.

    The provider uses a task's declared datasets only if no others are known. A plan does not know
    all: a model that the script loads, a table that a ``foreachBatch`` function writes.

    :param plans: Returns the recorded plans; not called without the provider.
    :param inlets: The task's other declared inputs; datasets without a name in OpenLineage are left
        out.
    :param outlets: Its declared outputs, likewise.
    """
    try:
        from airflow.providers.openlineage.extractors import OperatorLineage
        from airflow.providers.openlineage.extractors.manager import ExtractorManager
        from openlineage.client.event_v2 import Dataset
    except ImportError:
        return None

    def datasets(names: Sequence[DatasetName], declared: Sequence[object]) -> list[Dataset]:
        known = [Dataset(namespace=one.namespace, name=one.name) for one in names]
        more = filter(None, map(ExtractorManager.convert_to_ol_dataset, declared))
        return [*{(one.namespace, one.name): one for one in (*more, *known)}.values()]

    found = stream_datasets(plans())
    return OperatorLineage(
        inputs=datasets(found.inputs, inlets), outputs=datasets(found.outputs, outlets)
    )


def driver_lineage(context: Context, properties: Mapping[str, str]) -> dict[str, str]:
    """
    Return additional configuration of a driver, so that OpenLineage knows its parent.

    The parent is the task's try that launches the driver, and stays so when a later task adopts it.
    The driver's own settings take precedence.

    :param properties: The driver's configuration.
    """
    from airflow.providers.common.compat.openlineage.utils import spark  # not at dag parse

    given: dict[str, Any] = dict(properties)
    if airflow_conf.getboolean(SECTION, PARENT, fallback=False):
        given = spark.inject_parent_job_information_into_spark_properties(given, context)
    if airflow_conf.getboolean(SECTION, TRANSPORT, fallback=False):
        given = spark.inject_transport_information_into_spark_properties(given, context)
    return {key: str(value) for key, value in given.items() if key not in properties}
