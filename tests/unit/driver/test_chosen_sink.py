"""The topic of a Kafka sink, looked up in a rehearsal that writes nothing to it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver.jobs import chosen_sink as module
from airflow_streaming.driver.jobs.chosen_sink import chosen_sink
from airflow_streaming.driver.plan.writer_settings import WriterSettings

SERVERS = {"kafka.bootstrap.servers": "b:1"}
UNKNOWN_TOPIC = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"


class Brokers(SimpleNamespace):
    """The admin client of brokers that have one topic; ``asked`` holds the topics and properties they got."""

    def __init__(self, topic: str, cause: str = "") -> None:
        self.topic, self.asked, self.cause = topic, list[Any](), cause
        utilities = SimpleNamespace(Properties=Properties, ArrayList=Names)
        time = SimpleNamespace(Duration=SimpleNamespace(ofSeconds=int))
        client = SimpleNamespace(create=self.create)
        kafka = SimpleNamespace(clients=SimpleNamespace(admin=SimpleNamespace(AdminClient=client)))
        self.java = SimpleNamespace(util=utilities, time=time)
        self.org = SimpleNamespace(apache=SimpleNamespace(kafka=kafka))

    def create(self, properties: Properties) -> Brokers:
        self.asked.append(dict(properties))
        return self

    def describeTopics(self, names: Names) -> Brokers:
        self.asked += names
        return self

    def allTopicNames(self) -> Brokers:
        return self

    def get(self) -> None:
        if self.cause:
            raise Refusal(self.cause)
        if self.asked[-1] != self.topic:
            raise Refusal(UNKNOWN_TOPIC)

    def close(self, seconds: int) -> None:
        pass


class Properties(dict[str, str]):
    def put(self, key: str, value: str) -> None:
        self[key] = value


class Names(list[str]):
    add = list.append


class Refusal(Exception):
    """py4j's error, caused by a class of Java."""

    def __init__(self, cause: str) -> None:
        of_cause = SimpleNamespace(getClass=lambda: SimpleNamespace(getName=lambda: cause))
        self.java_exception = SimpleNamespace(getCause=lambda: of_cause)


def a_writer(brokers: Brokers, *topics: str) -> Any:
    """Return a writer whose frame gives each row one of some topics, or none."""
    nothing = {"class": "spark.LocalRelation", "num-children": 0}
    literals = [{"class": "spark.Literal", "num-children": 0, "value": topic} for topic in topics]
    first = {"class": "spark.Coalesce", "num-children": len(topics)}
    alias = {"class": "spark.Alias", "num-children": 1, "name": "topic"}
    columns = [[alias, first, *literals]]
    project = {"class": "spark.Project", "num-children": 1, "projectList": columns}
    tree = json.dumps([project, nothing] if topics else [nothing])
    analyzed = SimpleNamespace(toJSON=lambda: tree)
    java = SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=lambda: analyzed))
    hadoop = SimpleNamespace(hadoopConfiguration=lambda: {"fs.defaultFS": "file:///"})
    context = SimpleNamespace(_gateway=SimpleNamespace(jvm=brokers), _jsc=hadoop)
    frame = SimpleNamespace(_jdf=java, schema=SimpleNamespace(jsonValue=lambda: {"fields": []}))
    return SimpleNamespace(_spark=SimpleNamespace(conf={}, sparkContext=context), _df=frame)


@pytest.mark.parametrize(
    ("option", "column", "missing"),
    [
        ("out", (), ()),
        ("ouT", (), ("ouT",)),
        ("", ("out",), ()),
        ("", ("ouT",), ("ouT",)),
        ("", ("a", "out", "b"), ("a", "b")),
        ("", (), ()),
    ],
)
def test_topics_that_the_brokers_lack_are_found_by_option_or_literals_of_the_column(
    monkeypatch: pytest.MonkeyPatch, option: str, column: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    monkeypatch.setattr(module, "refusal_of", lambda *_, **__: "")
    brokers = Brokers("out")
    options = {**SERVERS, **({"topic": option} if option else {})}

    found = chosen_sink(a_writer(brokers, *column), WriterSettings(format="kafka", options=options))

    assert found is not None
    assert found.missing_topics == missing
    if option or column:
        assert brokers.asked[0]["bootstrap.servers"] == "b:1"
    else:
        assert brokers.asked == []


def test_brokers_that_do_not_answer_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "refusal_of", lambda *_, **__: "")
    brokers = Brokers("out", cause="org.apache.kafka.common.errors.TimeoutException")

    found = chosen_sink(
        a_writer(brokers, "a", "b"), WriterSettings(format="kafka", options=SERVERS)
    )

    assert found is not None
    assert found.missing_topics == ()
    assert brokers.asked[1:] == ["a"]
