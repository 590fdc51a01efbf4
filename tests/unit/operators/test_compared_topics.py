"""The ranges of two topics that a cutover compares: records that green cannot have are not required of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.changes.topic_comparison import TopicRange
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.jobs.comparison import ComparisonRequest, not_made
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.cutover import CompareTerms, StartWay
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.operators.common import cutover_checks
from airflow_streaming.operators.common.cutover_checks import Comparing, topic_of
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch

LAUNCHED = NOON + timedelta(minutes=5)
TERMS = CompareTerms(stream="orders", format="kafka")
BROKER = "a:9092"


class Topics:
    """Two lanes with a Kafka sink each; green was launched five minutes after its proposal."""

    def __init__(self, folder: Path, start: StartWay, servers: str = BROKER, **green: Any) -> None:
        store = LocalStore(str(folder))
        self.homes = {name: StreamHome(store, name) for name in ("orders", "orders.green")}
        self.blue = make_deployment()
        self.green = make_deployment(stream="orders.green", **green)
        for deployment, topic, broker in (
            (self.blue, "orders-1", BROKER),
            (self.green, "orders-2", servers),
        ):
            home = self.homes[deployment.stream]
            home.create_deployment(deployment, SCRIPT)
            for number, at in ((1, LAUNCHED), (2, LAUNCHED + timedelta(hours=1))):
                home.create_epoch(make_epoch(number, stream=home.name, created_at=at))
            self.record(home, SinkPlan(sink="kafka", target=topic, options=options(broker)))
        pair = SimpleNamespace(green="orders.green", start=start)
        self.home = SimpleNamespace(
            unfinished_change=lambda: 1, cutover_terms=lambda _: SimpleNamespace(pairs=(pair,))
        )

    def record(self, home: StreamHome, sink: SinkPlan, query: str = "paid") -> None:
        plan = QueryPlan(query=query, spark="4.3.0", output_mode="append", sink=sink)
        home.store.create(
            Layout(home.name).place(QueryPlan, epoch=1, query=query),
            Layout(home.name).bytes_of(plan),
        )

    def hook(self, _: str) -> Any:
        return SimpleNamespace(lane=lambda lane: SimpleNamespace(home=self.homes[lane]))


def options(servers: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers}


def compared(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, terms: CompareTerms = TERMS
) -> tuple[CompareTerms, TopicRange, TopicRange]:
    asked: list[Any] = []

    def compare(terms: CompareTerms, blue: TopicRange, green: TopicRange) -> Any:
        asked.extend((terms, blue, green))
        request = ComparisonRequest(terms=terms, blue=blue.topic, green=green.topic)
        return not_made(request, "A test.", at=NOON)

    monkeypatch.setattr(cutover_checks, "compare_topics", compare)
    lanes: Any = topics
    comparing = Comparing(
        lanes, complete_from={}, progress=lambda *_: None, heard=lambda report: asked.append(report)
    )
    comparing(terms, topics.blue, topics.green)
    *given, report = asked
    assert report.reason == "A test."
    terms, blue, green = given
    return terms, blue, green


@pytest.mark.parametrize("start", [StartWay.CLONED, StartWay.CARRIED])
def test_blue_records_before_the_copy_of_its_checkpoint_are_not_required_of_green(
    tmp_path: Path, start: StartWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, blue, green = compared(Topics(tmp_path, start), monkeypatch)

    # The copy is made between the proposal (``created_at``) and the first launch, and blue runs on.
    assert blue == TopicRange(topic="orders-1", since=LAUNCHED)
    assert green == TopicRange(topic="orders-2", since=LAUNCHED)


def test_a_green_from_the_beginning_has_every_record_of_blue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, blue, green = compared(Topics(tmp_path, StartWay.FRESH), monkeypatch)

    assert (blue.since, green.since) == (None, LAUNCHED)


def test_the_records_of_a_replay_are_searched_in_blue_from_the_replay_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = NOON - timedelta(days=2)
    topics = Topics(tmp_path, StartWay.FRESH, replay_from=replayed.isoformat())

    _, blue, green = compared(topics, monkeypatch)

    assert (blue.since, blue.read_since) == (LAUNCHED, replayed)
    assert (green.since, green.read_since) == (LAUNCHED, None)


def test_the_broker_comes_from_the_plan_and_the_terms_take_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(tmp_path, StartWay.CLONED)
    named = replace(TERMS, options=options("c:9092"), topic="orders-{stream}-{deployment}")

    by_plan, _, _ = compared(topics, monkeypatch)
    by_terms, blue, green = compared(topics, monkeypatch, named)

    assert by_plan.options["kafka.bootstrap.servers"] == BROKER
    assert by_terms.options["kafka.bootstrap.servers"] == "c:9092"
    assert (blue.topic, green.topic) == ("orders-orders-1", "orders-orders.green-1")


def test_topics_of_two_brokers_are_not_compared_on_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(tmp_path, StartWay.CLONED, servers="b:9092")

    with pytest.raises(SpecError, match=r"orders-1 on a:9092.*orders-2 on b:9092"):
        compared(topics, monkeypatch)

    named = replace(TERMS, options=options("c:9092"))
    assert compared(topics, monkeypatch, named)[0].options == options("c:9092")


def test_a_lane_with_several_topics_needs_a_name(tmp_path: Path) -> None:
    topics = Topics(tmp_path, StartWay.CLONED)
    home = topics.homes["orders"]
    topics.record(home, SinkPlan(sink="kafka", target="late", options=options(BROKER)), "late")

    with pytest.raises(SpecError, match="2 sinks with a topic"):
        topic_of(TERMS, topics.blue, home)
