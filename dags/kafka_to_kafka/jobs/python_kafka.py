"""
A Kafka source for Spark in Python, for places where the official connector's jar is not to be had.

It is a stand-in, not a replacement: it needs Spark 4.2 or newer and confluent-kafka on every worker,
and every row passes through Python. Its offsets have the form of the official source,
``{topic: {partition: offset}}``, so that progress, lag and checkpoints read the same.

Options: ``kafka.bootstrap.servers``, ``subscribe`` (topics with commas), ``maxOffsetsPerTrigger``,
``failOnDataLoss`` (default true: a checkpoint whose next offset has expired is an error).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

Offsets = dict[str, dict[str, int]]

SCHEMA = (
    "topic string, partition int, offset long, timestamp long, key string, value string, "
    "headers map<string, string>"
)
SECONDS = 30.0


class Range(InputPartition):
    """Offsets of one partition of a topic; the end is not part of it."""

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        self.topic, self.partition, self.start, self.end = topic, partition, start, end


class PythonKafka(DataSource):
    """``format("python_kafka")``; the name ``kafka`` belongs to the official connector."""

    @classmethod
    def name(cls) -> str:
        return "python_kafka"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> TopicReader:
        return TopicReader({name.lower(): value for name, value in self.options.items()})


class TopicReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans ranges of offsets in the driver, and reads them in Python workers."""

    def __init__(self, options: dict[str, str]) -> None:
        self._servers = options["kafka.bootstrap.servers"]
        self._topics = [name.strip() for name in options["subscribe"].split(",")]
        self._limit = int(options.get("maxoffsetspertrigger", 0))
        self._may_lose = options.get("failondataloss", "true").lower() == "false"
        self._target: Offsets | None = None

    def initialOffset(self) -> Offsets:
        return self._bounds(0)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._limit) if self._limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._bounds(1)

    def reportLatestOffset(self) -> Offsets:
        return self._bounds(1)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        newest = self._target or self._bounds(1)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        return limited(start, newest, most)

    def partitions(self, start: Offsets, end: Offsets) -> list[Range]:
        oldest, found = self._bounds(0), []
        left = [f"{t}-{p}" for t, ps in start.items() for p in ps if p not in end.get(t, {})]
        if left:
            self._lost(f"Partitions Set({', '.join(left)}) have been deleted.")
        for topic, ends in end.items():
            for partition, until in ends.items():
                first = oldest.get(topic, {}).get(partition, 0)
                begin = start.get(topic, {}).get(partition, first)
                place = f"{topic}-{partition}"
                if until < begin:
                    self._lost(f"Partition {place} offset was changed from {begin} to {until}.")
                elif begin < first:
                    self._lost(
                        f"Could not read records in offset [{begin}, {until}) for topic partition {place}."
                    )
                if max(begin, first) < until:
                    found.append(Range(topic, int(partition), max(begin, first), until))
        return found

    def _lost(self, reason: str) -> None:
        """Fail as the official connector does, in its words, unless the script accepts the loss."""
        if not self._may_lose:
            raise RuntimeError(
                "Some data may have been lost because they are not available in Kafka any more. "
                f"Subscription: KafkaV2[Subscribe[{','.join(self._topics)}]]. Reason: {reason}"
            )

    def read(self, partition: Range) -> Iterator[tuple[Any, ...]]:
        from confluent_kafka import TopicPartition

        place = TopicPartition(partition.topic, partition.partition, partition.start)
        consumer = self._consumer()
        consumer.assign([place])
        try:
            following = partition.start
            while following < partition.end:
                message = consumer.poll(SECONDS)
                if message is None or message.error():
                    problem = message.error() if message else f"nothing came in {SECONDS:.0f} s"
                    raise RuntimeError(f"{partition.topic}-{partition.partition}: {problem}")
                following = message.offset() + 1
                if message.offset() < partition.end:
                    yield row_of(message)
        finally:
            consumer.close()

    def _bounds(self, which: int) -> Offsets:
        """Return the oldest (0) or the next (1) offset of every partition."""
        from confluent_kafka import TopicPartition

        consumer, found = self._consumer(), Offsets()
        try:
            for topic in self._topics:
                metadata = consumer.list_topics(topic, timeout=SECONDS).topics[topic]
                if metadata.error is not None:
                    raise RuntimeError(f"Topic {topic}: {metadata.error}")
                for partition in metadata.partitions:
                    place = TopicPartition(topic, partition)
                    offset = consumer.get_watermark_offsets(place, timeout=SECONDS)[which]
                    found.setdefault(topic, {})[str(partition)] = offset
        finally:
            consumer.close()
        return found

    def _consumer(self) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "python_kafka",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )


def limited(start: Offsets, newest: Offsets, most: int) -> Offsets:
    """Return the end of the next batch: the newest offsets, or as far as the limit lets each go."""
    waiting = {
        (topic, partition): max(0, end - start.get(topic, {}).get(partition, 0))
        for topic, ends in newest.items()
        for partition, end in ends.items()
    }
    total = sum(waiting.values())
    if not most or total <= most:
        return newest
    found: Offsets = {}
    for (topic, partition), count in waiting.items():
        # Each partition gets its share, and at least one, so that none is left behind.
        share = min(count, max(1, count * most // total))
        begin = start.get(topic, {}).get(partition, 0)
        found.setdefault(topic, {})[partition] = begin + share
    return found


def row_of(message: Any) -> tuple[Any, ...]:
    """Return a message as a row; texts are UTF-8."""

    def text(value: bytes | None) -> str | None:
        return None if value is None else value.decode("utf-8", "replace")

    headers = {name: text(value) for name, value in message.headers() or ()}
    kind, milliseconds = message.timestamp()
    place = (message.topic(), message.partition(), message.offset())
    return (
        *place,
        milliseconds if kind else None,
        text(message.key()),
        text(message.value()),
        headers,
    )
