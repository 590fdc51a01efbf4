"""
Trials of Kafka edits on a real Spark and broker, in two phases that all edits share.

In the first phase the bases and, from scratch, all edits read the first records. Then new records come, every edit
continues from a copy of its base's checkpoint, and from its own.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.servers.broker import create_topic
from tests.patience import PATIENCE
from tests.system.edits.edit import Base, Edit, Truth
from tests.system.edits.trial import Spark, SparkFailed, Tried
from tests.system.kafka_edits.catalogue import BASES

OUTPUTS: Final = ("out", "other", "counts")
_TOPICS: Final = {"clicks": 2, "views": 1, "more": 1, "expired": 1, **dict.fromkeys(OUTPUTS, 1)}


class Topics:
    """The topics of the trials."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._sent = 0
        for name, partitions in _TOPICS.items():
            create_topic(servers, name, partitions)

    def arrive(self) -> None:
        """Send six records to each topic that is read."""
        producer = Producer({"bootstrap.servers": self._servers})
        for topic in ("clicks", "views", "more", "expired"):
            for number in range(6):
                self._sent += 1
                value = json.dumps({"of": topic, "number": self._sent})
                producer.produce(
                    topic,
                    key="abc"[number % 3],
                    value=value,
                    partition=number % _TOPICS[topic],
                )
        producer.flush(PATIENCE)

    def expire(self) -> None:
        """Delete the first records of one topic."""
        admin = AdminClient({"bootstrap.servers": self._servers})
        [deleted] = admin.delete_records([TopicPartition("expired", 0, 3)]).values()
        deleted.result(PATIENCE)

    def ends(self) -> dict[str, int]:
        """Return the end of each topic that is written."""
        consumer = self._consumer()
        try:
            places = [(name, TopicPartition(name, 0)) for name in OUTPUTS]
            return {name: consumer.get_watermark_offsets(at, PATIENCE)[1] for name, at in places}
        finally:
            consumer.close()

    def since(self, before: dict[str, int]) -> Counter[str]:
        """Return the records that were written since, with topic and headers."""
        found: Counter[str] = Counter()
        consumer = self._consumer()
        try:
            for topic, end in self.ends().items():
                if end <= before[topic]:
                    continue
                consumer.assign([TopicPartition(topic, 0, before[topic])])
                for message in _messages(consumer, end):
                    headers = {k: v.decode() for k, v in message.headers() or ()}
                    key = (message.key() or b"").decode()
                    found[json.dumps([topic, key, message.value().decode(), headers])] += 1
        finally:
            consumer.close()
        return found

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self._servers, "group.id": "trials"})


def _messages(consumer: Consumer, end: int) -> Any:
    while True:
        message = consumer.poll(PATIENCE)
        assert message is not None
        if message.error():
            raise RuntimeError(message.error())
        yield message
        if message.offset() >= end - 1:
            return


class Trials:
    """
    Trials of edits over two phases.

    :param folder: Folder of all checkpoints.
    """

    def __init__(self, spark: Spark, topics: Topics, servers: str, folder: Path) -> None:
        self._spark, self._topics, self._folder = spark, topics, folder
        self._servers = servers
        self._first: dict[str, Counter[str] | SparkFailed] = {}

    def begin(self, edits: list[Edit]) -> None:
        """Run the bases, and all edits from scratch, over the first records."""
        self._topics.arrive()
        self._topics.expire()
        for base in BASES:
            self._first[base.name] = self._rows(base, base.source, self.old(base))
        for edit in edits:
            self._first[edit.name] = self._rows(edit.base, edit.source, self._fresh(edit))
        self._topics.arrive()

    def old(self, base: Base) -> Path:
        """Return the folder of a base."""
        return self._folder / "old" / base.name

    def tried(self, edit: Edit) -> Tried:
        """Continue from the base's checkpoint and from the edit's own."""
        folder = self._folder / "on" / edit.name
        shutil.copytree(self.old(edit.base), folder)
        went_on = self._rows(edit.base, edit.source, folder)
        first, before = self._first[edit.name], self._first[edit.base.name]
        fresh = first
        if isinstance(first, Counter):
            fresh = self._rows(edit.base, edit.source, self._fresh(edit))
        assert isinstance(before, Counter)
        if isinstance(went_on, SparkFailed):
            is_broken = isinstance(fresh, SparkFailed)
            truth = Truth.BROKEN if is_broken else Truth.FAILED
            return Tried(truth=truth, condition=went_on.condition)
        if isinstance(first, SparkFailed) or isinstance(fresh, SparkFailed):
            return Tried(truth=Truth.SAME, condition="from scratch it fails")
        truth = Truth.OTHER
        if before + went_on == first + fresh:
            truth = Truth.SAME
        elif went_on == fresh:
            truth = Truth.NOT_REVISED
        rows = tuple(
            (a.total(), b.total(), ((a - b) + (b - a)).total())
            for a, b in ((before, first), (went_on, fresh))
        )
        return Tried(truth=truth, rows=rows)

    def _fresh(self, edit: Edit) -> Path:
        return self._folder / "fresh" / edit.name

    def _rows(self, base: Base, source: str, folder: Path) -> Counter[str] | SparkFailed:
        before = self._topics.ends()
        arguments = tuple(text.replace("{servers}", self._servers) for text in base.arguments)
        answer = self._spark.run(replace(base, arguments=arguments), source, folder)
        if "error" in answer:
            return SparkFailed(answer)
        return self._topics.since(before)
