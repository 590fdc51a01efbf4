"""
Time to data loss on a real broker whose retention runs; its answers come through librdkafka here.

The driver asks through Kafka's Java client instead: ``test_kafka.py`` has that with Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from airflow_streaming.driver.sources.kafka_retention import LogOutlook, Part, TopicRetention
from airflow_streaming.model.products.retention import LossGap
from tests.integration.servers.broker import create_topic, kafka_broker
from tests.patience import PATIENCE

HOUR = 3_600
KEPT = 6 * HOUR
RECORDS = 3_600
"""One a second, over the last hour."""


class LibrdkafkaBroker:
    """The questions of the driver to a broker."""

    def __init__(self, address: str, kept: Mapping[str, TopicRetention]) -> None:
        from confluent_kafka.admin import AdminClient

        self.client = AdminClient({"bootstrap.servers": address})
        self.kept = kept

    def _ask(self, specs: Mapping[Part, Any]) -> dict[Part, int]:
        from confluent_kafka import TopicPartition

        asked = {
            TopicPartition(topic, int(number)): spec for (topic, number), spec in specs.items()
        }
        answers = self.client.list_offsets(asked, request_timeout=PATIENCE)
        return {
            (one.topic, str(one.partition)): answer.result(PATIENCE).offset
            for one, answer in answers.items()
        }

    def earliest(self, parts: Sequence[Part]) -> dict[Part, int]:
        from confluent_kafka.admin import OffsetSpec

        return self._ask(dict.fromkeys(parts, OffsetSpec.earliest()))

    def latest(self, parts: Sequence[Part]) -> dict[Part, int]:
        from confluent_kafka.admin import OffsetSpec

        return self._ask(dict.fromkeys(parts, OffsetSpec.latest()))

    def at(self, times: Mapping[Part, float]) -> dict[Part, int | None]:
        from confluent_kafka.admin import OffsetSpec

        specs = {part: OffsetSpec.for_timestamp(int(at * 1000)) for part, at in times.items()}
        return {part: offset if offset >= 0 else None for part, offset in self._ask(specs).items()}

    def retention(self, topic: str) -> TopicRetention:
        return self.kept[topic]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as address:
        yield address


def fill(address: str, topic: str, now: float) -> None:
    """Write a record for each second of the last hour."""
    from confluent_kafka import Producer

    create_topic(address, topic, 1)
    producer = Producer({"bootstrap.servers": address})
    for second in range(RECORDS):
        producer.produce(
            topic, value=b"x", partition=0, timestamp=int((now - RECORDS + second) * 1000)
        )
    assert producer.flush(PATIENCE) == 0


def expire(broker: LibrdkafkaBroker, topic: str, until: int) -> None:
    from confluent_kafka import TopicPartition

    [done] = broker.client.delete_records([TopicPartition(topic, 0, until)]).values()
    done.result(PATIENCE)


@pytest.mark.parametrize("read", [0, 900, 3_599])
def test_the_moment_of_loss_is_that_of_the_oldest_unread_record(address: str, read: int) -> None:
    now, topic = time.time(), f"by_time_{read}"
    fill(address, topic, now)
    broker = LibrdkafkaBroker(address, {topic: TopicRetention(KEPT, by_size=False)})

    found = LogOutlook().look(broker, {(topic, "0"): read}, now=now)

    left = KEPT - (RECORDS - read)
    assert found.seconds_left(now) == pytest.approx(left, abs=KEPT / 1_024 + 2)
    assert found.read_until == pytest.approx(now - (RECORDS - read), abs=KEPT / 1_024 + 2)


def test_a_topic_that_keeps_bytes_is_extrapolated_by_what_it_removes(address: str) -> None:
    now, topic = time.time(), "by_size"
    fill(address, topic, now)
    broker, log = (
        LibrdkafkaBroker(address, {topic: TopicRetention(None, by_size=True)}),
        LogOutlook(),
    )
    part: Part = (topic, "0")

    assert log.look(broker, {part: 2_000}, now=now - 1_000).gap is LossGap.NO_REMOVAL
    expire(broker, topic, 500)
    assert log.look(broker, {part: 2_000}, now=now).seconds_left(now) == 3_000
    expire(broker, topic, 2_001)
    assert log.look(broker, {part: 2_000}, now=now + 60).seconds_left(now + 60) == 0
    assert log.look(broker, {part: 3_600}, now=now + 90).gap is LossGap.NO_REMOVAL
