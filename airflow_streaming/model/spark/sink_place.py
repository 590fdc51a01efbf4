"""
The place that a query writes, as an identity by which the sinks of two plans are compared.

A plan names a place by a path, a topic, a table or by options of the sink's own. Two spellings can mean
one place: ``s3://b/x`` and ``s3a://b/x/``, ``orders`` and ``spark_catalog.default.orders``, another broker
of the same cluster. Where the spelling cannot decide, the answer is ``UNKNOWN``, never ``APART``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product, starmap
from typing import Final
from urllib.parse import urlsplit

from airflow_streaming.model.spark.plan import KAFKA, SinkPlan
from airflow_streaming.model.uris import in_full, is_local, overlap, scheme_of, to_fsspec, to_hadoop

KEEPS_NOTHING: Final = ("console", "memory", "noop")
"""Sinks whose rows no reader can find afterwards."""
_CODE: Final = frozenset({"foreach", "foreachbatch"})
_CATALOGS: Final = frozenset({"delta", "hudi", "iceberg", "paimon"})
"""Formats whose path may be the name of a table, e.g. ``.format("iceberg").start("shop.orders")``."""
_SERVERS: Final = "kafka.bootstrap.servers"
_SHOWN: Final = 5
"""Topics of a column that a message names."""
_PLACE_OPTIONS: Final = frozenset(
    {
        *(
            "path",
            "table",
            "dbtable",
            "topic",
            "url",
            "uri",
            "endpoint",
            "host",
            "bucket",
            "database",
        ),
        *("collection", "keyspace", "index", "queue", "stream", "es.resource", "hoodie.table.name"),
    }
)
"""Options by which connectors name a place: Spark's JDBC source, Delta, Iceberg, MongoDB, Cassandra, Elasticsearch,
Kinesis, Pub/Sub."""
_TABLE_OPTIONS: Final = frozenset({"table", "dbtable", "hoodie.table.name"})
_MANY_NAMES: Final = frozenset({"hdfs", "viewfs", "webhdfs"})
"""File systems that the authority of a URI names in several ways: a name node, a name service, nothing."""


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
    :param name: URI, topic, table in small letters, or the options that name the place; empty for a sink whose
        column ``topic`` names several topics, or any.
    :param servers: Addresses of a Kafka cluster.
    :param topics: Topics that a Kafka sink can write; empty where each row can have any topic.
    :param options: Of any other sink, the options that name the place.
    """

    system: str
    name: str
    servers: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return it as messages name it."""
        if self.system == KAFKA and not self.name:
            return f"kafka, the topics of the column topic{self._topics_text()}"
        return self.name if self.system == "path" else f"{self.system} {self.name}"

    @property
    def is_named(self) -> bool:
        """Tell whether the plan names the place; a row of Kafka's can have any topic."""
        return self.system != "kafka" or bool(self.topics)

    def _topics_text(self) -> str:
        topics = sorted(self.topics)
        more = f" and {len(topics) - _SHOWN} others" if len(topics) > _SHOWN else ""
        return f": {', '.join(topics[:_SHOWN])}{more}" if topics else ""


def keeps_nothing(sink: SinkPlan) -> bool:
    return sink.sink in KEEPS_NOTHING


def place_of(sink: SinkPlan) -> SinkPlace | None:
    """Return where a sink writes; ``None`` where its plan does not name the place."""
    if sink.sink in _CODE or keeps_nothing(sink):
        return None
    if sink.sink == KAFKA:
        servers = (one.strip().lower() for one in sink.options.get(_SERVERS, "").split(","))
        return SinkPlace(
            system=KAFKA,
            name=sink.target,
            servers=frozenset(filter(None, servers)),
            topics=frozenset(sink.possible_topics),
        )
    if sink.sink == "table":
        return _table(sink.target)
    if "/" in sink.target or sink.sink == "file":
        target = sink.real_path or sink.target
        return SinkPlace(system="path", name=in_full(target)) if target else None
    if sink.sink.lower() in _CATALOGS:
        return _table(sink.target)
    named = dict(_named(sink))
    text = ", ".join(f"{key}={value}" for key, value in named.items())
    return SinkPlace(system=sink.sink, name=text, options=named) if named else None


def shared(one: SinkPlace, other: SinkPlace) -> Shared:
    """Tell whether two sinks write one place; a folder inside the other's folder counts."""
    if one.system != other.system:
        return _across(one, other)
    match one.system:
        case "path":
            return _paths(one.name, other.name)
        case "table":
            return Shared.SAME if _is_one_table(one.name, other.name) else Shared.APART
        case "kafka":
            return _topics(one, other)
        case _:
            return _options(one.options, other.options)


def _table(name: str) -> SinkPlace | None:
    return SinkPlace(system="table", name=name.replace("`", "").lower()) if name else None


def _named(sink: SinkPlan) -> Iterator[tuple[str, str]]:
    """Yield the options that name the place, a path of any option's name among them."""
    if sink.target:
        yield "path", _plain(sink.target)
    for key, value in sorted(sink.options.items()):
        if value and "servers" not in key and (key in _PLACE_OPTIONS or "/" in value):
            yield key, value.lower() if key in _TABLE_OPTIONS else _plain(value)


def _plain(value: str) -> str:
    """Return a value without what two spellings of one place differ by."""
    text = value.strip().rstrip("/")
    try:
        found = urlsplit(text)
    except ValueError:
        return text
    return text.replace(found.netloc, found.netloc.lower(), 1) if found.netloc else text


def _across(one: SinkPlace, other: SinkPlace) -> Shared:
    """Compare places of two systems."""
    systems = {one.system, other.system}
    if systems == {"table", "path"}:
        # A table keeps its files in a folder that no plan names.
        return Shared.UNKNOWN
    if KAFKA in systems:
        may_be_one = _may_share(*map(_topics_of, (one, other)))
    else:
        # A format can have several names, e.g. the short one and its class.
        pairs = product(_tables_of(one), _tables_of(other))
        may_be_one = any(starmap(_is_one_table, pairs))
    return Shared.UNKNOWN if may_be_one else Shared.APART


def _topics_of(place: SinkPlace) -> frozenset[str] | None:
    """Return the topics that a place names, empty for any topic; ``None`` for a place without topics."""
    if place.system == KAFKA:
        return place.topics
    topic = place.options.get("topic")
    return None if topic is None else frozenset({topic})


def _may_share(one: frozenset[str] | None, other: frozenset[str] | None) -> bool:
    """Tell whether two sets of topics can have one in common; an empty set is any topic."""
    if one is None or other is None:
        return False
    return not one or not other or not one.isdisjoint(other)


def _tables_of(place: SinkPlace) -> list[str]:
    if place.system == "table":
        return [place.name]
    keys = _TABLE_OPTIONS | {"path"}
    return [value.replace("`", "").lower() for key, value in place.options.items() if key in keys]


def _paths(one: str, other: str) -> Shared:
    mine, theirs = map(_spelled_once, (one, other))
    schemes = scheme_of(mine), scheme_of(theirs)
    if _is_relative(mine) != _is_relative(theirs):
        relative, absolute = sorted((mine, theirs), key=_is_relative, reverse=True)
        may_be_one = f"{_below(absolute)}/".endswith(f"/{relative.strip('./')}/")
    elif overlap(mine, theirs):
        return Shared.SAME
    elif schemes[0] == schemes[1]:
        may_be_one = schemes[0] in _MANY_NAMES and overlap(_below(mine), _below(theirs))
    else:
        # A path without a scheme is one of the default file system.
        may_be_one = "" in schemes and overlap(_below(mine), _below(theirs))
    return Shared.UNKNOWN if may_be_one else Shared.APART


def _spelled_once(uri: str) -> str:
    """Return a URI with the same scheme for all aliases of a store."""
    return uri if is_local(uri) else to_fsspec(to_hadoop(uri)).replace("abfs://", "abfss://", 1)


def _is_relative(uri: str) -> bool:
    return not scheme_of(uri) and not uri.startswith("/")


def _below(uri: str) -> str:
    """Return the path of a URI without its authority."""
    return urlsplit(uri).path if scheme_of(uri) else uri


def _topics(one: SinkPlace, other: SinkPlace) -> Shared:
    if not _may_share(one.topics, other.topics):
        return Shared.APART
    if not one.topics or not other.topics:
        return Shared.UNKNOWN
    # Any broker of a cluster leads to all of them, under any of its addresses.
    is_one = one.servers == other.servers or not one.servers.isdisjoint(other.servers)
    return Shared.SAME if is_one else Shared.UNKNOWN


def _options(one: Mapping[str, str], other: Mapping[str, str]) -> Shared:
    for key in one.keys() & other.keys():
        mine, theirs = one[key], other[key]
        is_one = mine == theirs or (key in _TABLE_OPTIONS and _is_one_table(mine, theirs))
        if not is_one:
            return Shared.APART
    return Shared.SAME if one.keys() == other.keys() else Shared.UNKNOWN


def _is_one_table(one: str, other: str) -> bool:
    """Compare names of which one may leave out the current catalog and schema."""
    shorter, longer = sorted((one.split("."), other.split(".")), key=len)
    return longer[-len(shorter) :] == shorter
