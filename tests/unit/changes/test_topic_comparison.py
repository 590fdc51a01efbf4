"""Two topics are read between known offsets; the broker is played by the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.changes import topic_comparison
from airflow_streaming.changes.topic_comparison import LOOKS, TopicRange, compare_topics
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import CompareReport, CompareResult

SAME, DIFFERS, INCONCLUSIVE = CompareResult.SAME, CompareResult.DIFFERS, CompareResult.INCONCLUSIVE
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
Row = tuple[str, datetime]


@dataclass
class TopicPartition:
    topic: str
    partition: int
    offset: int = 0


class Broker:
    """Topics of one partition; a row is a key with the time of its production."""

    KafkaException = RuntimeError
    KafkaError = SimpleNamespace(
        _PARTITION_EOF=-191, _AUTO_OFFSET_RESET=-140, _ALL_BROKERS_DOWN=-187
    )
    TopicPartition = TopicPartition

    def __init__(self, **topics: Sequence[Row]) -> None:
        self.topics = {name: list(rows) for name, rows in topics.items()}
        self.closed = 0
        self.error: int | None = None
        self.outage: list[tuple[int, str]] = []
        self.arriving: dict[str, list[Row]] = {}
        """Rows that a topic gets after its end was read, before its records are."""

    def Consumer(self, settings: dict[str, Any]) -> Consumer:
        return Consumer(self, settings["error_cb"])


class Consumer:
    def __init__(self, broker: Broker, notify: Callable[[Any], None]) -> None:
        self._broker, self._notify = broker, notify
        self._place = TopicPartition("", 0)

    def close(self) -> None:
        self._broker.closed += 1

    def poll(self, timeout: float) -> None:
        for code, text in self._broker.outage:
            self._notify(SimpleNamespace(code=partial(int, code), str=partial(str, text)))

    def list_topics(self, topic: str, timeout: float) -> Any:
        if self._broker.outage:
            raise Broker.KafkaException("No connection")
        known = {topic: SimpleNamespace(error=None, partitions=[0])}
        return SimpleNamespace(topics=known if topic in self._broker.topics else {})

    def get_watermark_offsets(self, where: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, len(self._broker.topics[where.topic])

    def offsets_for_times(
        self, asked: list[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        return [self._at(one) for one in asked]

    def _at(self, asked: TopicPartition) -> TopicPartition:
        times = [at.timestamp() * 1000 for _, at in self._broker.topics[asked.topic]]
        offset = next((n for n, at in enumerate(times) if at >= asked.offset), -1)
        return TopicPartition(asked.topic, asked.partition, offset)

    def assign(self, places: list[TopicPartition]) -> None:
        (self._place,) = places

    def consume(self, count: int, timeout: float) -> list[Any]:
        if self._broker.error is not None:
            return [failed(self._broker.error)]
        rows = self._broker.topics[self._place.topic]
        rows += self._broker.arriving.pop(self._place.topic, [])
        found = [message(offset, rows[offset]) for offset in range(self._place.offset, len(rows))]
        self._place.offset = len(rows)
        return [*found, failed(Broker.KafkaError._PARTITION_EOF, len(rows))]


def message(offset: int, row: Row) -> Any:
    return SimpleNamespace(
        partition=lambda: 0,
        error=lambda: None,
        offset=lambda: offset,
        key=row[0].encode,
        value=lambda: b"{}",
        headers=lambda: None,
    )


def failed(code: int, offset: int = 0) -> Any:
    error = SimpleNamespace(code=lambda: code)
    return SimpleNamespace(partition=lambda: 0, error=lambda: error, offset=lambda: offset)


def rows(*keys: str, at: datetime = NOON) -> list[Row]:
    return [(key, at) for key in keys]


def compared(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, *, sleep: Any = None, **blue: Any
) -> CompareReport:
    monkeypatch.setattr(topic_comparison, "_library", lambda: broker)
    since = blue.get("since")
    return compare_topics(
        CompareTerms(stream="orders", format="kafka"),
        TopicRange(topic="blue", **blue),
        TopicRange(topic="green", since=since),
        sleep=sleep or (lambda _: None),
    )


def test_a_record_in_flight_is_looked_for_in_newer_records(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(blue=rows("a", "b"), green=rows("a"))
    waits: list[float] = []

    def arrive(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            broker.topics["green"] += rows("b", "c")

    report = compared(broker, monkeypatch, sleep=arrive)

    # "c" came after the range, so blue need not have it.
    assert report.result is SAME
    assert len(waits) == 2
    assert broker.closed == 2


@pytest.mark.parametrize("lane", ["blue", "green"])
def test_a_record_that_arrives_between_the_end_and_the_read_is_found_in_the_next_look(
    lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "green" if lane == "blue" else "blue"
    broker = Broker(**{lane: rows("a"), other: rows("a", "b", "c")})
    broker.arriving = {lane: rows("b", "c")}

    report = compared(broker, monkeypatch)

    assert report.result is SAME, report.reason
    assert "looked for 1 times" in report.notes[-1]


def test_a_record_that_never_comes_differs_after_the_last_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    broker = Broker(blue=rows("a", "b"), green=rows("a"))

    report = compared(broker, monkeypatch, sleep=waits.append)

    assert report.result is DIFFERS
    assert [(one.key["key"], one.blue, one.green) for one in report.differences] == [
        ("b", "1", "0")
    ]
    assert len(waits) == LOOKS


def test_a_record_of_a_lane_with_a_long_interval_is_looked_for_as_long_as_it_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(blue=rows("a", "b"), green=rows("a"))
    monkeypatch.setattr(topic_comparison, "_library", lambda: broker)
    waited = 0.0

    def wait(seconds: float) -> None:
        nonlocal waited
        waited += seconds
        if waited == 300:
            broker.topics["green"] += rows("b")

    def report(in_flight: float) -> CompareReport:
        return compare_topics(
            CompareTerms(stream="orders", format="kafka"),
            TopicRange(topic="blue"),
            TopicRange(topic="green"),
            in_flight=timedelta(seconds=in_flight),
            sleep=wait,
        )

    assert report(294).result is DIFFERS
    waited = 0.0
    assert report(296).result is SAME


def test_records_before_the_range_are_not_required(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = NOON - timedelta(days=1), NOON + timedelta(minutes=1)
    broker = Broker(blue=[*rows("a", at=before), *rows("b", at=after)], green=rows("b", at=after))

    assert compared(broker, monkeypatch, since=NOON).result is SAME
    assert compared(broker, monkeypatch).result is DIFFERS


def test_records_from_before_the_topic_of_a_blue_that_continued_another_prove_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    green_has_more = Broker(blue=rows("b"), green=rows("a", "b"))
    blue_has_more = Broker(blue=rows("a", "b"), green=rows("b"))

    report = compared(green_has_more, monkeypatch, lacks_history=True)

    assert report.result is INCONCLUSIVE
    assert "Start green from a clone of blue's checkpoint" in report.reason
    assert compared(green_has_more, monkeypatch).result is DIFFERS
    assert compared(blue_has_more, monkeypatch, lacks_history=True).result is DIFFERS


def test_a_replayed_record_is_found_where_blue_wrote_it_long_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, after = NOON - timedelta(days=1), NOON + timedelta(minutes=1)
    broker = Broker(
        blue=[*rows("old", "b", at=before), *rows("c", at=after)], green=rows("b", "c", at=after)
    )

    without = compared(broker, monkeypatch, since=NOON)
    replayed = compared(broker, monkeypatch, since=NOON, read_since=before)

    assert without.result is DIFFERS
    assert replayed.result is SAME, replayed.reason


def test_a_topic_without_records_since_the_range_is_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = NOON - timedelta(days=1)
    broker = Broker(blue=rows("a", at=before), green=rows("a", at=before))

    report = compared(broker, monkeypatch, since=NOON)

    assert report.result is INCONCLUSIVE
    assert "0: 1 to 1" in report.notes[0]


def test_a_record_that_expires_during_the_comparison_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(blue=rows("a"), green=rows("a"))
    broker.error = -140

    report = compared(broker, monkeypatch)

    assert report.result is INCONCLUSIVE
    assert "Partition 0 of topic 'blue' no longer has the record at offset 0" in report.reason


def test_a_topic_that_grows_over_the_limit_while_it_is_searched_is_inconclusive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_comparison, "MOST_RECORDS", 4)
    broker = Broker(blue=rows("a", "b", "c"), green=rows("a", "b"))

    report = compared(
        broker, monkeypatch, sleep=lambda _: broker.topics["green"].extend(rows("d", "e", "f"))
    )

    assert report.result is INCONCLUSIVE
    assert "has 5 records in the range, and 4 are compared at most" in report.reason


@pytest.mark.parametrize(
    ("passes", "says"),
    [(10.0, None), (31.0, "gave no record for 31 s"), (3600.0, "gave no record for 3600 s")],
)
def test_a_broker_that_falls_silent_is_waited_for_half_a_minute(
    passes: float, says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(blue=rows("a"), green=rows("a"))
    clock = [0.0]
    monkeypatch.setattr(
        topic_comparison, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=None)
    )
    consume = Consumer.consume
    pauses = [1]

    def hesitate(self: Consumer, count: int, timeout: float) -> list[Any]:
        if pauses:
            pauses.pop()
            clock[0] += passes
            return []
        return consume(self, count, timeout)

    monkeypatch.setattr(Consumer, "consume", hesitate)

    report = compared(broker, monkeypatch)

    assert report.result is (SAME if says is None else INCONCLUSIVE)
    assert says is None or says in report.reason


def test_a_missing_topic_is_inconclusive_and_closes_both_consumers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(blue=rows("a"))

    report = compared(broker, monkeypatch)

    assert report.result is INCONCLUSIVE
    assert "Topic 'green' is not on" in report.reason
    assert broker.closed == 2


def test_a_report_names_the_cause_of_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    broker.outage = [(-169, "Authentication failed"), (-187, "1/1 brokers are down")]

    report = compared(broker, monkeypatch)

    assert report.result is INCONCLUSIVE
    assert report.reason.endswith("cannot be read: No connection; Authentication failed")
    assert broker.closed == 1


def test_a_topic_compared_with_itself_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(orders=rows("a"))
    monkeypatch.setattr(topic_comparison, "_library", lambda: broker)
    topic = TopicRange(topic="orders")

    report = compare_topics(CompareTerms(stream="orders", format="kafka"), topic, topic)

    assert (report.result, report.refused) == (INCONCLUSIVE, True)
    assert "output is orders, and a comparison of it with itself proves nothing" in report.reason
