"""
The oldest records that brokers keep, beside the position of a query.

The requests use the administration client of Spark's own Kafka source, so its login too. They tell
the oldest and newest offset of each partition, the retention of each topic, and the first offset at a time. A few
of the latter find when the oldest unread record was written, without reading a record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from airflow_streaming.driver.jvm import ensure_gateway
from airflow_streaming.model.products.retention import (
    SEARCH_ROUNDS,
    Look,
    LossGap,
    Outlook,
    Partition,
    of_log,
    remembered,
    soonest,
    unknown,
)

Part = tuple[str, str]
"""A topic and the number of its partition."""

_SECONDS: Final = 20
"""Seconds that brokers have for an answer."""
_MOST_SEARCHED: Final = 20
"""Partitions whose oldest unread record is dated: those with the least room before removal."""
_LONGEST: Final = 60 * 86_400.0
"""Age of records that is searched where the topic has no limit of time."""


class TopicRetention(NamedTuple):
    """
    How long a topic keeps its records.

    :param kept_for: Seconds; ``None`` without a limit of time, and where the topic does not tell.
    :param by_size: It has a limit of bytes, or may have one.
    """

    kept_for: float | None
    by_size: bool


class Broker(Protocol):
    """The questions to the brokers of a source."""

    def earliest(self, parts: Sequence[Part]) -> dict[Part, int]:
        """Return the oldest offsets that can be read."""

    def latest(self, parts: Sequence[Part]) -> dict[Part, int]:
        """Return the offsets that the next records get."""

    def at(self, times: Mapping[Part, float]) -> dict[Part, int | None]:
        """Return the first offsets written at a time or later; ``None`` without such a record."""

    def retention(self, topic: str) -> TopicRetention:
        """Return how long a topic keeps its records."""


class LogOutlook:
    """The outlook of one Kafka source, which remembers its oldest offsets."""

    def __init__(self) -> None:
        self._looks: tuple[Look, ...] = ()

    def look(self, broker: Broker, committed: Mapping[Part, int], *, now: float) -> Outlook:
        """
        Ask the brokers, and return when they remove unread records.

        :param committed: The first offset that was not read, of each partition.
        """
        parts = sorted(committed)
        earliest, latest = broker.earliest(parts), broker.latest(parts)
        found = {
            part: Partition(earliest[part], committed[part], latest[part])
            for part in parts
            if part in earliest and part in latest
        }
        if not found:
            return unknown(LossGap.FAILED)
        topics = {topic: broker.retention(topic) for topic in sorted({part[0] for part in found})}
        dated = _dated(broker, found, topics, now)
        outlook = soonest(
            of_log(
                {_name(part): one for part, one in dated.items() if part[0] == topic},
                self._looks,
                kept_for=kept.kept_for,
                by_size=kept.by_size,
                now=now,
            )
            for topic, kept in topics.items()
        )
        newest = Look(now, {_name(part): one.earliest for part, one in found.items()})
        self._looks = remembered(self._looks, newest)
        return outlook


def _name(part: Part) -> str:
    return f"{part[0]}-{part[1]}"


def _dated(
    broker: Broker,
    parts: Mapping[Part, Partition],
    topics: Mapping[str, TopicRetention],
    now: float,
) -> dict[Part, Partition]:
    """Return the partitions with the time at which their oldest unread record was written."""
    unread = [part for part, one in parts.items() if not one.is_read]
    searched = sorted(unread, key=lambda part: parts[part].room)[:_MOST_SEARCHED]
    since = {part: now - (topics[part[0]].kept_for or _LONGEST) for part in searched}
    until = dict.fromkeys(searched, now)
    # A record that is older than the retention and still there may go at any moment.
    for _ in range(SEARCH_ROUNDS if searched else 0):
        middle = {part: (since[part] + until[part]) / 2 for part in searched}
        for part, offset in broker.at(middle).items():
            is_later = offset is not None and offset <= parts[part].committed
            (since if is_later else until)[part] = middle[part]
    return {
        part: one._replace(written_at=since[part]) if part in since else one
        for part, one in parts.items()
    }


def broker_of(source: Any) -> Broker | None:
    """
    Return the brokers of a Java source; ``None`` for sources that are not Kafka's.

    Also ``None`` with ``spark.sql.streaming.kafka.useDeprecatedOffsetFetching``, which has no such client.
    """
    if not str(source.getClass().getName()).startswith("org.apache.spark.sql.kafka010."):
        return None
    with contextlib.suppress(Exception):
        return AdminBroker(source.kafkaOffsetReader().admin())
    return None


class AdminBroker:
    """
    The brokers through Kafka's administration client.

    :param admin: The Java ``Admin``, which several threads may use.
    """

    def __init__(self, admin: Any) -> None:
        self._admin = admin
        self._jvm = ensure_gateway().jvm
        self._kafka = self._jvm.org.apache.kafka
        self._spec = self._kafka.clients.admin.OffsetSpec

    def earliest(self, parts: Sequence[Part]) -> dict[Part, int]:
        return self._known(dict.fromkeys(parts, self._spec.earliest()))

    def latest(self, parts: Sequence[Part]) -> dict[Part, int]:
        return self._known(dict.fromkeys(parts, self._spec.latest()))

    def at(self, times: Mapping[Part, float]) -> dict[Part, int | None]:
        specs = {part: self._spec.forTimestamp(int(at * 1000)) for part, at in times.items()}
        return {part: offset if offset >= 0 else None for part, offset in self._ask(specs).items()}

    def retention(self, topic: str) -> TopicRetention:
        with contextlib.suppress(Exception):
            return self._configured(topic)
        # A login that may not read the configuration of topics.
        return TopicRetention(kept_for=None, by_size=True)

    def _known(self, specs: Mapping[Part, Any]) -> dict[Part, int]:
        return {part: offset for part, offset in self._ask(specs).items() if offset >= 0}

    def _ask(self, specs: Mapping[Part, Any]) -> dict[Part, int]:
        request, names = self._jvm.java.util.HashMap(), {}
        for part, spec in specs.items():
            names[part] = self._kafka.common.TopicPartition(part[0], int(part[1]))
            request.put(names[part], spec)
        answer = self._in_time(self._admin.listOffsets(request).all())
        return {part: int(answer.get(name).offset()) for part, name in names.items()}

    def _configured(self, topic: str) -> TopicRetention:
        config = self._kafka.common.config
        kind = getattr(config, "ConfigResource$Type").TOPIC
        resource = config.ConfigResource(kind, topic)
        resources = self._jvm.java.util.Collections.singletonList(resource)
        found = self._in_time(self._admin.describeConfigs(resources).all()).get(resource)

        def value(name: str) -> str:
            entry = found.get(name)
            return "" if entry is None else str(entry.value() or "")

        if value("cleanup.policy") == "compact":
            return TopicRetention(kept_for=None, by_size=False)
        kept, size = int(value("retention.ms") or -1), int(value("retention.bytes") or -1)
        return TopicRetention(kept_for=kept / 1000 if kept >= 0 else None, by_size=size >= 0)

    def _in_time(self, future: Any) -> Any:
        return future.get(_SECONDS, self._jvm.java.util.concurrent.TimeUnit.SECONDS)
