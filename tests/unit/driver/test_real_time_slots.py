"""The task slots of a query in real-time mode, counted from its plan and its topics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver import real_time_slots
from airflow_streaming.driver.real_time_slots import RealTimeSlots, readers_of
from airflow_streaming.model.plan.real_time import SlotDemand

REAL_TIME = "real time 30 seconds"
SERVERS = {"kafka.bootstrap.servers": "one:9092"}


class Leaf:
    """A source of a plan in the JVM."""

    def __init__(self, source: str, options: Mapping[str, str]) -> None:
        self._source, self._options = source, options

    def getClass(self) -> Leaf:
        return self

    def getSimpleName(self) -> str:
        return "StreamingRelationV2"

    def sourceName(self) -> str:
        return self._source

    def extraOptions(self) -> Leaf:
        return self

    def asCaseSensitiveMap(self) -> Mapping[str, str]:
        return self._options


class Plan:
    """An analyzed plan in the JVM with nodes one below the other."""

    def __init__(self, *leaves: Leaf, nodes: Sequence[str] = ()) -> None:
        self._leaves, self._nodes = leaves, [*nodes, "StreamingRelationV2"]

    def collectLeaves(self) -> Plan:
        return self

    def size(self) -> int:
        return len(self._leaves)

    def apply(self, place: int) -> Leaf:
        return self._leaves[place]

    def toJSON(self) -> str:
        last = len(self._nodes) - 1
        return json.dumps(
            [
                {"class": f"org.apache.spark.{name}", "num-children": int(place < last)}
                for place, name in enumerate(self._nodes)
            ]
        )


class Value:
    """An answer of Kafka's client, whose methods return more of it."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self) -> Any:
        return self._value

    allTopicNames = names = partitions = lambda self: self

    def size(self) -> Any:
        return self._value


class Kafka:
    """The JVM of a driver with Kafka's client, and brokers with topics."""

    def __init__(self, **topics: int) -> None:
        self._topics = topics
        self.asked: dict[str, str] = {}
        self.closed = 0
        self.java = SimpleNamespace(util=SimpleNamespace(HashMap=Properties, ArrayList=Names))
        client = SimpleNamespace(create=self._create)
        admin = SimpleNamespace(AdminClient=client)
        clients = SimpleNamespace(clients=SimpleNamespace(admin=admin))
        self.org = SimpleNamespace(apache=SimpleNamespace(kafka=clients))

    def _create(self, properties: dict[str, str]) -> Kafka:
        self.asked = dict(properties)
        return self

    def listTopics(self) -> Value:
        return Value([*self._topics])

    def describeTopics(self, names: list[str]) -> Value:
        return Value({name: Value(self._topics[name]) for name in names})

    def close(self) -> None:
        self.closed += 1


class Properties(dict[str, str]):
    def put(self, key: str, value: str) -> None:
        self[key] = value


class Names(list[str]):
    def add(self, name: str) -> None:
        self.append(name)


TOPICS = {"clicks": 3, "payments": 2, "audit": 7}


@pytest.mark.parametrize(
    ("options", "readers"),
    [
        pytest.param({"subscribe": "clicks"}, 3, id="a topic"),
        pytest.param({"subscribe": " clicks , payments"}, 5, id="two topics"),
        pytest.param({"subscribePattern": "(clicks|payments)"}, 5, id="a pattern"),
        pytest.param({"subscribePattern": "click"}, 0, id="a pattern of a whole name"),
        pytest.param({"assign": '{"clicks": [0, 2], "audit": [5]}'}, 3, id="partitions"),
    ],
)
def test_each_partition_of_the_topics_has_a_reader(
    options: Mapping[str, str], readers: int
) -> None:
    kafka = Kafka(**TOPICS)

    assert readers_of(Plan(Leaf("kafka", {**SERVERS, **options})), kafka) == readers
    assert kafka.closed == ("assign" not in options)


def test_the_brokers_are_asked_as_the_source_asks_them() -> None:
    kafka = Kafka(**TOPICS)
    login = {"kafka.sasl.mechanism": "PLAIN", "startingOffsets": "earliest", "subscribe": "clicks"}
    readers_of(Plan(Leaf("kafka", {**SERVERS, **login})), kafka)

    assert kafka.asked == {"bootstrap.servers": "one:9092", "sasl.mechanism": "PLAIN"}


@pytest.mark.parametrize(
    "leaves",
    [
        pytest.param([], id="no source"),
        pytest.param([Leaf("theirs", {})], id="a source of others"),
        pytest.param(
            [Leaf("kafka", {**SERVERS, "subscribe": "gone"})], id="a topic that is not there"
        ),
    ],
)
def test_readers_are_unknown_where_nobody_tells(leaves: list[Leaf]) -> None:
    assert readers_of(Plan(*leaves), Kafka(**TOPICS)) is None


def writer(plan: Plan, conf: Mapping[str, str], parallelism: int = 4) -> Any:
    told = SimpleNamespace(getAll=lambda: [*conf.items()])
    context = SimpleNamespace(
        _jvm=Kafka(**TOPICS), getConf=lambda: told, defaultParallelism=parallelism
    )
    session = SimpleNamespace(sparkContext=context, conf={"spark.sql.shuffle.partitions": "2"})
    execution = SimpleNamespace(analyzed=lambda: plan)
    frame = SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: execution))
    return SimpleNamespace(_spark=session, _df=frame)


LOCAL = {"spark.master": "local[4]"}
CLICKS = Leaf("kafka", {**SERVERS, "subscribe": "clicks"})
PAYMENTS = Leaf("kafka", {**SERVERS, "subscribe": "payments"})


def test_a_query_holds_slots_for_its_readers_and_shuffles_beside_those_of_others() -> None:
    slots = RealTimeSlots()
    counted = writer(Plan(CLICKS, nodes=["Project", "Aggregate", "Filter"]), LOCAL)
    plain = writer(Plan(PAYMENTS, nodes=["Project"]), LOCAL)

    assert slots.demand_of(counted, "a", REAL_TIME) == SlotDemand(readers=3, stateful=2, slots=4)
    other = SlotDemand(readers=2, others=5, slots=4)
    assert slots.demand_of(plain, "b", REAL_TIME) == other
    assert slots.demand_of(plain, "b", REAL_TIME) == other, "started again"
    assert slots.demand_of(counted, "a", "10 seconds") is None
    assert slots.demand_of(plain, "b", REAL_TIME) == SlotDemand(readers=2, slots=4)


def test_a_query_whose_slots_cannot_be_counted_is_let_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise ConnectionError("no broker")

    monkeypatch.setattr(real_time_slots, "readers_of", refuse)

    assert RealTimeSlots().demand_of(writer(Plan(CLICKS), LOCAL), "a", REAL_TIME) is None
