"""
The place that a query writes, as an identity by which the sinks of two plans are compared.

A plan names a place by a path, a topic, a table or by options of the sink's own. Two spellings can mean
one place: ``s3://b/x`` and ``s3a://b/x/``, ``orders`` and ``spark_catalog.default.orders``, another broker
of the same cluster. Where the spelling cannot decide, the answer is ``UNKNOWN``, never ``APART``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_streaming.model.spark.plan import SinkPlan
from airflow_streaming.model.uris import in_full, overlap

KEEPS_NOTHING: Final = frozenset({"console", "memory", "noop"})
"""Sinks whose rows no reader can find afterwards."""
_CODE: Final = frozenset({"foreach", "foreachbatch"})
_SERVERS: Final = "kafka.bootstrap.servers"
_PLACE_OPTIONS: Final = (
    *("path", "table", "dbtable", "topic", "url", "uri", "endpoint", "host", "bucket", "database"),
    *("collection", "keyspace", "index", "queue", "stream", "es.resource"),
)
"""Options by which connectors name a place: Spark's JDBC source, Delta, Iceberg, MongoDB, Cassandra, Elasticsearch,
Kinesis, Pub/Sub."""


class Shared(StrEnum):
    """Whether two sinks write one place."""

    SAME = "same"
    APART = "apart"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlace:
    """
    Where a sink writes.

    :param system: ``path``, ``kafka``, ``table``, or the format of any other sink.
    :param name: URI, topic, table in small letters, or the options that name the place.
    :param servers: Addresses of a Kafka cluster.
    """

    system: str
    name: str
    servers: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return it as messages name it."""
        return self.name if self.system == "path" else f"{self.system} {self.name}"


def keeps_nothing(sink: SinkPlan) -> bool:
    """Tell whether a sink keeps no row."""
    return sink.sink in KEEPS_NOTHING


def place_of(sink: SinkPlan) -> SinkPlace | None:
    """Return where a sink writes; ``None`` where its plan does not name the place."""
    if sink.sink in _CODE or keeps_nothing(sink):
        return None
    if sink.sink == "kafka":
        servers = (one.strip().lower() for one in sink.options.get(_SERVERS, "").split(","))
        topic = sink.target
        return (
            SinkPlace(system="kafka", name=topic, servers=frozenset(filter(None, servers)))
            if topic
            else None
        )
    if sink.sink == "table":
        return (
            SinkPlace(system="table", name=sink.target.replace("`", "").lower())
            if sink.target
            else None
        )
    if "/" in sink.target:
        return SinkPlace(system="path", name=in_full(sink.target))
    named = [f"{key}={sink.options[key]}" for key in _PLACE_OPTIONS if sink.options.get(key)]
    if sink.target:
        named.insert(0, f"path={sink.target}")
    return SinkPlace(system=sink.sink, name=", ".join(dict.fromkeys(named))) if named else None


def shared(one: SinkPlace, other: SinkPlace) -> Shared:
    """Tell whether two sinks write one place; a folder inside the other's folder counts."""
    if one.system != other.system:
        # A table keeps its files in a folder that no plan names.
        return Shared.UNKNOWN if {one.system, other.system} == {"table", "path"} else Shared.APART
    match one.system:
        case "path":
            is_same = overlap(one.name, other.name)
        case "table":
            is_same = _is_one_table(one.name, other.name)
        case "kafka" if one.name == other.name and one.servers.isdisjoint(other.servers):
            # Any broker of a cluster leads to all of them, under any of its addresses.
            return Shared.SAME if one.servers == other.servers else Shared.UNKNOWN
        case _:
            is_same = one.name == other.name
    return Shared.SAME if is_same else Shared.APART


def _is_one_table(one: str, other: str) -> bool:
    """Compare names of which one may leave out the current catalog and schema."""
    shorter, longer = sorted((one.split("."), other.split(".")), key=len)
    return longer[-len(shorter) :] == shorter
