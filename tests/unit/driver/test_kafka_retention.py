"""The oldest unread record of a topic, by the answers of its brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from airflow_streaming.driver.sources.kafka_retention import (
    LogOutlook,
    Part,
    TopicRetention,
    broker_of,
)
from airflow_streaming.model.products.retention import LossGap

NOW = 2_000_000.0
DAY = 86_400.0
FIRST, SECOND, OTHER = ("orders", "0"), ("orders", "1"), ("clicks", "0")


class FakeBroker:
    """A record a second in every partition, since a day ago."""

    def __init__(self, kept_for: float | None = 7 * DAY, *, by_size: bool = False) -> None:
        self.kept = {"orders": TopicRetention(kept_for, by_size)}
        self.first: dict[Part, int] = {}
        self.gone: set[Part] = set()

    def earliest(self, parts: Sequence[Part]) -> dict[Part, int]:
        return {part: self.first.get(part, 0) for part in parts if part not in self.gone}

    def latest(self, parts: Sequence[Part]) -> dict[Part, int]:
        return {part: int(DAY) for part in parts if part not in self.gone}

    def at(self, times: Mapping[Part, float]) -> dict[Part, int | None]:
        found = {part: max(0, int(at - NOW + DAY)) for part, at in times.items()}
        return {part: at if at < DAY else None for part, at in found.items()}

    def retention(self, topic: str) -> TopicRetention:
        return self.kept.get(topic, TopicRetention(None, True))


@pytest.mark.parametrize(
    ("behind", "left"), [(HOUR := 3_600, 7 * DAY - HOUR), (80_000, 7 * DAY - 80_000)]
)
def test_the_age_of_the_oldest_unread_record_is_found_without_reading_it(
    behind: int, left: float
) -> None:
    found = LogOutlook().look(FakeBroker(), {FIRST: int(DAY) - behind}, now=NOW)
    assert found.seconds_left(NOW) == pytest.approx(left, abs=7 * DAY / 1_024 + 1)
    assert found.seconds_left(NOW) <= left + 1, "an estimate that is too late"


def test_the_partition_that_loses_first_counts_and_a_gone_one_does_not() -> None:
    broker = FakeBroker()
    broker.gone = {OTHER}
    committed = {FIRST: int(DAY), SECOND: 100, OTHER: 5}
    found = LogOutlook().look(broker, committed, now=NOW)
    assert found.seconds_left(NOW) == pytest.approx(6 * DAY, abs=900)


def test_a_topic_that_keeps_bytes_loses_where_its_oldest_offset_meets_the_query() -> None:
    broker, log = FakeBroker(None, by_size=True), LogOutlook()
    assert log.look(broker, {FIRST: 5_000}, now=NOW - 1_000).gap is LossGap.NO_REMOVAL
    broker.first = {FIRST: 1_000}
    assert log.look(broker, {FIRST: 5_000}, now=NOW).seconds_left(NOW) == 4_000


def test_no_partition_that_answers_is_no_outlook() -> None:
    broker = FakeBroker()
    broker.gone = {FIRST}
    assert LogOutlook().look(broker, {FIRST: 1}, now=NOW).gap is LossGap.FAILED


def test_several_topics_have_a_retention_each() -> None:
    broker = FakeBroker(7 * DAY)
    broker.kept["clicks"] = TopicRetention(2 * DAY, False)
    found = LogOutlook().look(broker, {FIRST: 0, OTHER: 43_200}, now=NOW)
    assert found.seconds_left(NOW) == pytest.approx(1.5 * DAY, abs=300)
    assert found.read_until == pytest.approx(NOW - DAY, abs=900)


class JavaThing:
    def __init__(self, name: str) -> None:
        self._name = name

    def getClass(self) -> Any:
        return self

    def getName(self) -> str:
        return self._name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("org.apache.spark.sql.kafka010.KafkaMicroBatchStream", id="without a client"),
        pytest.param("org.apache.spark.sql.execution.streaming.FileStreamSource", id="files"),
    ],
)
def test_a_source_without_brokers_has_none(name: str) -> None:
    assert broker_of(JavaThing(name)) is None
