"""The driver asks the brokers of a query that waits, and names those that refuse."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from airflow_streaming.driver.monitoring.broker_reach import ASK_SECONDS, BrokerReach, refusal_of
from airflow_streaming.driver.monitoring.kafka_places import KafkaPlace, kafka_places
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan, SourcePlan
from tests.patience import until

SERVERS = {"kafka.bootstrap.servers": "one:9092, two:9093"}


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (("subscribe clicks,refunds",), "topics clicks,refunds at one:9092, two:9093"),
        (("subscribepattern re.*",), "topics like re.* at one:9092, two:9093"),
        (('assign {"a":[0]}',), 'topics with partitions {"a":[0]} at one:9092, two:9093'),
        ((), "topics at one:9092, two:9093"),
    ],
)
def test_a_source_is_called_by_its_topics_and_brokers(paths: tuple[str, ...], words: str) -> None:
    source = SourcePlan(source="kafka", paths=paths, options=SERVERS)
    plan = a_plan(source, SourcePlan(source="file", paths=("/in",)), source)

    assert [str(place) for place in kafka_places(plan)] == [words]


@pytest.mark.parametrize(("target", "words"), [("events", "topic events"), ("", "topic by row")])
def test_a_sink_is_one_too(target: str, words: str) -> None:
    plan = a_plan(sink=SinkPlan(sink="kafka", target=target, options=SERVERS))

    assert [place.topics for place in kafka_places(plan)] == [words]


def a_plan(*sources: SourcePlan, sink: SinkPlan | None = None) -> QueryPlan:
    return QueryPlan(
        query="q",
        spark="4.3.0",
        output_mode="append",
        sources=sources,
        sink=sink or SinkPlan(sink="console"),
    )


def test_one_broker_that_answers_is_enough(port: int) -> None:
    assert refusal_of(KafkaPlace("topics a", ("127.0.0.1:1", f"127.0.0.1:{port}"))) == ""


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("no-such-host.invalid:9092", "Name or service not known"),
        ("nonsense", "invalid literal for int() with base 10: 'nonsense'"),
    ],
)
def test_brokers_that_refuse_are_named_with_the_reason(server: str, why: str) -> None:
    refusal = refusal_of(KafkaPlace("topics a", (server,)))

    assert refusal.startswith(f"No broker of topics a at {server} accepts a connection (")
    if "Name" not in why:  # a resolver has words of its own
        assert why in refusal


class Brokers:
    """Brokers of a test, and the time."""

    def __init__(self) -> None:
        self.now, self.asked, self.away = 100.0, list[str](), True

    def connect(self, server: str) -> None:
        self.asked.append(server)
        if self.away:
            raise ConnectionRefusedError(111, "Connection refused")


PLACES = (KafkaPlace("topics a", ("one:9092",)), KafkaPlace("topic b", ("two:9092",)))


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def reach(brokers: Brokers) -> BrokerReach:
    return BrokerReach(brokers.connect, lambda: brokers.now)


def passes(brokers: Brokers, reach: BrokerReach, seconds: float, *, waits: bool = True) -> None:
    brokers.now += seconds
    reach.look(PLACES, waits=waits)
    until(
        lambda: reach._thread is None or not reach._thread.is_alive(), "the answer", seen=lambda: 0
    )


def test_a_query_at_work_asks_nobody(brokers: Brokers, reach: BrokerReach) -> None:
    for _ in range(30):
        passes(brokers, reach, 2, waits=False)
        passes(brokers, reach, 2)

    assert brokers.asked == []


def test_one_that_waits_learns_since_when(brokers: Brokers, reach: BrokerReach) -> None:
    passes(brokers, reach, 0)
    assert (reach.refusal, reach.refused_for) == ("", None)
    passes(brokers, reach, ASK_SECONDS)
    assert reach.refusal.startswith("No broker of topics a at one:9092 accepts")
    assert reach.refused_for == ASK_SECONDS
    passes(brokers, reach, 1)
    assert (reach.refused_for, len(brokers.asked)) == (ASK_SECONDS + 1, 1)
    brokers.away = False
    passes(brokers, reach, ASK_SECONDS)
    assert (reach.refusal, reach.refused_for) == ("", None)
    brokers.away = True
    passes(brokers, reach, ASK_SECONDS)
    passes(brokers, reach, 0, waits=False)
    assert (reach.refusal, reach.refused_for) == ("", None)


def test_a_sink_that_is_away_is_found_behind_a_source_that_answers(
    brokers: Brokers, reach: BrokerReach
) -> None:
    def connect(server: str) -> None:
        if server == "two:9092":
            brokers.connect(server)

    assert BrokerReach(connect).ask(PLACES, 60.0).startswith("No broker of topic b at two:9092")
    brokers.away = False
    assert BrokerReach(connect).ask(PLACES, 60.0) == ""
