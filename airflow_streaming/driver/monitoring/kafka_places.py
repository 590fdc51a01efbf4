"""Topics that a query reads and writes, and the brokers that it asks for them first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_streaming.driver.monitoring.spark_query import QueryError
from airflow_streaming.model.spark.failure_signs import Diagnosis, FailureKind
from airflow_streaming.model.spark.plan import QueryPlan

_SERVERS: Final = "kafka.bootstrap.servers"
_TOPICS: Final = {"subscribe": "", "subscribepattern": "like ", "assign": "with partitions "}

_OF_BROKERS: Final = frozenset({FailureKind.TRANSIENT, FailureKind.UNKNOWN})
"""Failures that brokers which do not answer may be the cause of."""
_OF_TOPICS: Final = _OF_BROKERS | {FailureKind.INCOMPATIBLE, FailureKind.CONFIGURATION}
"""Failures in whose message the topics and their brokers are named."""


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
        yield KafkaPlace(f"topic {' or '.join(plan.sink.possible_topics) or 'by row'}", servers)


def _servers(options: Mapping[str, str]) -> tuple[str, ...]:
    named = (name.strip() for name in options.get(_SERVERS, "").split(","))
    return tuple(name for name in named if name)


def _topics(paths: tuple[str, ...]) -> str:
    for path in paths:
        way, _, named = path.partition(" ")
        if way in _TOPICS:
            return f"topics {_TOPICS[way]}{named}"
    return "topics"


def may_be_outage(error: QueryError, places: Sequence[KafkaPlace]) -> bool:
    """Tell whether a failure may come from unreachable brokers, so that they are worth a probe."""
    return bool(places) and _kind(error) in _OF_BROKERS


def explained(error: QueryError, places: Sequence[KafkaPlace], refusal: str) -> QueryError:
    """
    Return an error that names the topics and brokers; an outage where the brokers refuse.

    :param refusal: Why no broker answers; empty where one answers, or without a probe.
    """
    if not places or _kind(error) not in _OF_TOPICS:
        return error
    if not refusal:
        return replace(error, message=f"{error.message} ({'; '.join(map(str, places))})")
    outage = FailureKind.UNREACHABLE
    diagnosis = Diagnosis(kind=outage, evidence=refusal, remedy=outage.remedy)
    return replace(error, message=f"{refusal} {error.message}", diagnosis=diagnosis)


def _kind(error: QueryError) -> FailureKind:
    return FailureKind.UNKNOWN if error.diagnosis is None else error.diagnosis.kind
