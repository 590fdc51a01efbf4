"""Topics that a query reads and writes, and the brokers that it asks for them first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_streaming.model.spark.plan import QueryPlan

_SERVERS: Final = "kafka.bootstrap.servers"
_TOPICS: Final = {"subscribe": "", "subscribepattern": "like ", "assign": "with partitions "}


@dataclass(frozen=True, slots=True)
class KafkaPlace:
    """
    Topics and their brokers.

    :param topics: In words, e.g. ``topics clicks,payments``.
    :param servers: Each ``host:port``.
    """

    topics: str
    servers: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.topics} at {', '.join(self.servers)}"


def kafka_places(plan: QueryPlan) -> tuple[KafkaPlace, ...]:
    """Return the topics of a query's sources and sink; of Python sources that take Kafka's options too."""
    return tuple(dict.fromkeys(_places(plan)))


def _places(plan: QueryPlan) -> Iterator[KafkaPlace]:
    for source in plan.sources:
        servers = _servers(source.options)
        if servers:
            yield KafkaPlace(_topics(source.paths), servers)
    servers = _servers(plan.sink.options)
    if servers:
        yield KafkaPlace(f"topic {plan.sink.target or 'by row'}", servers)


def _servers(options: Mapping[str, str]) -> tuple[str, ...]:
    named = (name.strip() for name in options.get(_SERVERS, "").split(","))
    return tuple(name for name in named if name)


def _topics(paths: tuple[str, ...]) -> str:
    for path in paths:
        way, _, named = path.partition(" ")
        if way in _TOPICS:
            return f"topics {_TOPICS[way]}{named}"
    return "topics"
