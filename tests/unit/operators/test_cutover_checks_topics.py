"""The ranges of two topics that a cutover compares: records that green cannot have are not required of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.changes.topic_comparison import TopicRange
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import (
    Bound,
    CompareReport,
    ComparisonRequest,
    not_made,
)
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import Change, ChangeKind
from airflow_streaming.model.records.cutover import CutoverTerms, Pair
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan, SinkPlan
from airflow_streaming.model.spark.secrets import REDACTED
from airflow_streaming.model.status import Status
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.operators.common import compared_topics, cutover_checks
from airflow_streaming.operators.common.compared_topics import Lane, has_whole_history, topic_of
from airflow_streaming.operators.common.cutover_checks import Comparing
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch
from tests.unit.supervision.builders import a_query, a_status

LAUNCHED = NOON + timedelta(minutes=5)
TERMS = CompareTerms(stream="orders", format="kafka")
BROKER = "a:9092"


class Topics:
    """Two lanes with a Kafka sink each; green was launched five minutes after its proposal."""

    def __init__(self, folder: Path, start: StartWay, servers: str = BROKER, **green: Any) -> None:
        self.conf, self.env = dict[str, str](), dict[str, str]()
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

    def record(self, home: StreamHome, sink: SinkPlan, query: str = "paid", **more: Any) -> None:
        plan = QueryPlan(query=query, spark="4.3.0", output_mode="append", sink=sink, **more)
        layout = Layout(home.name)
        home.store.create(layout.place(QueryPlan, epoch=1, query=query), layout.bytes_of(plan))

    def hook(self, _: str) -> Any:
        program = SimpleNamespace(conf=self.conf, env=self.env)
        return SimpleNamespace(
            lane=lambda lane: SimpleNamespace(home=self.homes[lane]),
            program=lambda *_: program,
            runtime=lambda _: None,
        )


def options(servers: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers}


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The call of the comparison, and its report."""

    blue: TopicRange | None = None
    green: TopicRange | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    complete_from: datetime | None = None
    in_flight: timedelta = timedelta(0)
    report: CompareReport


def compared(
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
    terms: CompareTerms = TERMS,
    **complete_from: datetime,
) -> Compared:
    calls: list[Any] = []
    reports: list[CompareReport] = []

    def compare(terms: CompareTerms, blue: TopicRange, green: TopicRange, **kwargs: Any) -> Any:
        calls.append({"blue": blue, "green": green, **kwargs})
        request = ComparisonRequest(terms=terms, blue=blue.topic, green=green.topic)
        return not_made(request, "A test.", at=NOON)

    monkeypatch.setattr(compared_topics, "compare_topics", compare)
    lanes: Any = topics
    comparing = Comparing(
        lanes, complete_from=complete_from, progress=lambda *_: None, heard=reports.append
    )
    comparing(terms, topics.blue, topics.green)
    return Compared(report=reports[0], **(calls[0] if calls else {}))


@pytest.mark.parametrize(
    ("blue", "lacks"),
    [
        pytest.param({}, False, id="the first deployment"),
        pytest.param({"number": 2}, True, id="an upgrade in place"),
        pytest.param({"replay_from": NOON.isoformat()}, True, id="began with a replay"),
    ],
)
def test_a_green_from_the_beginning_has_more_than_a_blue_that_continued_another(
    blue: dict[str, Any], lacks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(tmp_path, StartWay.FRESH)
    topics.blue = replace(topics.blue, **blue)

    found = compared(topics, monkeypatch, replace(TERMS, topic="{stream}-1"))

    assert found.blue == TopicRange(topic="orders-1", lacks_history=lacks)


@pytest.mark.parametrize(
    ("start", "lacks"),
    [(StartWay.FRESH, False), (StartWay.CLONED, True), (StartWay.CARRIED, True)],
)
def test_the_history_of_a_blue_that_an_earlier_cutover_made_live_depends_on_its_start(
    start: StartWay, lacks: bool, tmp_path: Path
) -> None:
    topics = Topics(tmp_path, StartWay.FRESH)
    base, lane = topics.homes["orders"], replace(topics.green, number=3)
    led_elsewhere = base.beside("payments")
    for home, number, green in ((led_elsewhere, 4, lane), (base, 1, replace(lane, number=2))):
        pair = Pair(
            stream="orders", blue="orders", green="orders.green", blue_deployment=1,
            shadow=green, live=green, start=start if green is lane else StartWay.FRESH,
        )  # fmt: skip
        terms = CutoverTerms(change=number, way=SwitchMethod.PARALLEL, pairs=(pair,))
        begin(home, number, terms=home.keep_cutover_terms(terms))
    begin(base, 2, leader="payments/4")

    assert has_whole_history(lane, base) is not lacks


def begin(home: StreamHome, number: int, **more: str) -> None:
    home.begin_change(
        Change(
            number=number, stream=home.name, what=ChangeKind.CUTOVER, replaced=1, deployment=1,
            checkpoint="", by="test", reason="A test.", at=NOON, **more,
        )
    )  # fmt: skip


def test_a_replay_that_blue_has_seen_itself_is_whole_in_its_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for replayed, lacks in ((LAUNCHED, False), (LAUNCHED - timedelta(seconds=1), True)):
        topics = Topics(tmp_path / str(lacks), StartWay.FRESH, replay_from=replayed.isoformat())
        upgraded = replace(topics.blue, number=2)
        topics.homes["orders"].create_epoch(
            make_epoch(3, stream="orders", deployment=2, created_at=LAUNCHED)
        )
        topics.homes["orders"].create_deployment(upgraded, SCRIPT)
        topics.blue = upgraded
        named = replace(TERMS, topic="{stream}")

        blue = compared(topics, monkeypatch, named).blue

        assert blue is not None
        assert blue.lacks_history is lacks


@pytest.mark.parametrize("start", [StartWay.CLONED, StartWay.CARRIED])
def test_blue_records_before_the_copy_of_its_checkpoint_are_not_required_of_green(
    tmp_path: Path, start: StartWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compared(Topics(tmp_path, start), monkeypatch)

    # The copy is made between the proposal (``created_at``) and the first launch, and blue runs on.
    assert found.blue == TopicRange(topic="orders-1", since=LAUNCHED)
    assert found.green == TopicRange(topic="orders-2", since=LAUNCHED)


@pytest.mark.parametrize("slow", ["orders", "orders.green"])
def test_output_may_be_in_flight_for_an_interval_and_two_batches_of_the_slower_lane(
    slow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(tmp_path, StartWay.CLONED)
    # The first batch took ten minutes, because it read all old records.
    durations = (600_000, 2_000, 20_000, 1_000)
    query = a_query(processing_interval_s=300, recent_durations_ms=durations)
    home, layout = topics.homes[slow], Layout(slow)
    status = a_status(stream=slow, epoch=2, queries=(a_query(), query))
    home.store.create(layout.place(Status, epoch=2), layout.bytes_of(status))

    assert compared(topics, monkeypatch).in_flight == timedelta(seconds=340)
    assert bound_of_files(topics, monkeypatch).in_flight == timedelta(seconds=340)


def bound_of_files(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> Bound:
    bounds: list[Bound] = []

    def compare(terms: CompareTerms, *_: Any, bound: Bound, **__: Any) -> CompareReport:
        bounds.append(bound)
        return not_made(ComparisonRequest(terms=terms, blue="/b", green="/g"), "A test.", at=NOON)

    monkeypatch.setattr(cutover_checks, "compare", compare)
    topics.conf |= topics.green.conf
    lanes: Any = topics
    comparing = Comparing(lanes, complete_from={}, progress=lambda *_: None, heard=lambda _: None)
    comparing(replace(TERMS, format="parquet"), topics.blue, topics.green)
    return bounds[0]


def test_a_green_from_the_beginning_has_every_record_of_blue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compared(Topics(tmp_path, StartWay.FRESH), monkeypatch)

    assert found.blue == TopicRange(topic="orders-1")
    assert found.green == TopicRange(topic="orders-2", since=LAUNCHED)


def test_the_records_of_a_replay_are_searched_in_blue_from_the_replay_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = NOON - timedelta(days=2)
    topics = Topics(tmp_path, StartWay.FRESH, replay_from=replayed.isoformat())

    found = compared(topics, monkeypatch)

    assert found.blue == TopicRange(topic="orders-1", since=LAUNCHED, read_since=replayed)
    assert found.green == TopicRange(topic="orders-2", since=LAUNCHED)
    assert found.complete_from is None, "a query without state has no windows"


WINDOW = OperatorPlan(sort=OperatorKind.AGGREGATE, window_us=(3_600_000_000, 3_600_000_000, 0))
JOIN = OperatorPlan(sort=OperatorKind.JOIN)


@pytest.mark.parametrize(
    ("operators", "hours"),
    [((WINDOW,), 0), ((WINDOW, WINDOW), 0), ((JOIN,), 3), ((WINDOW, JOIN), 3)],
    ids=["window", "two windows", "join", "window and join"],
)
def test_results_from_before_a_replay_of_state_are_left_out(
    operators: tuple[OperatorPlan, ...], hours: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = NOON - timedelta(days=2)
    later = replayed + timedelta(hours=3)
    topics = Topics(tmp_path, StartWay.FRESH, replay_from=replayed.isoformat())
    sink = SinkPlan(sink="console")
    topics.record(topics.homes["orders.green"], sink, "counts", operators=operators)

    found = compared(topics, monkeypatch, orders=later)

    assert found.complete_from == replayed + timedelta(hours=hours)


def test_the_broker_comes_from_the_plan_and_the_terms_take_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(tmp_path, StartWay.CLONED)
    named = replace(TERMS, options=options("c:9092"), topic="orders-{stream}-{deployment}")

    by_plan = compared(topics, monkeypatch)
    by_terms = compared(topics, monkeypatch, named)

    assert by_plan.options["kafka.bootstrap.servers"] == BROKER
    assert by_terms.options["kafka.bootstrap.servers"] == "c:9092"
    named_topics = [one.topic for one in (by_terms.blue, by_terms.green) if one is not None]
    assert named_topics == ["orders-orders-1", "orders-orders.green-1"]


def test_a_secret_of_the_sink_comes_from_the_conf_of_the_stream_and_is_in_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(tmp_path, StartWay.CLONED)
    hidden = {**options(BROKER), "kafka.sasl.jaas.config": REDACTED, "kafka.acks": "all"}
    topics.record(
        topics.homes["orders"], SinkPlan(sink="kafka", target="paid-orders", options=hidden), "q"
    )
    named = replace(TERMS, topic="paid-{stream}")

    without = compared(topics, monkeypatch, named)
    topics.conf["spark.kafka.sasl.jaas.config"] = "x required password='secret-1';"
    given = compared(topics, monkeypatch, named)

    assert "kafka.sasl.jaas.config" in without.report.reason
    assert (without.blue, without.report.refused) == (None, True)
    assert given.options["kafka.sasl.jaas.config"].endswith("password='secret-1';")
    assert "kafka.acks" not in given.options
    assert "secret-1" not in str(given.report)


def test_topics_of_two_brokers_are_not_compared_on_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(tmp_path, StartWay.CLONED, servers="b:9092")

    with pytest.raises(SpecError, match=r"orders-1 on a:9092.*orders-2 on b:9092"):
        compared(topics, monkeypatch)

    named = replace(TERMS, options=options("c:9092"))
    assert compared(topics, monkeypatch, named).options == options("c:9092")


def test_the_topic_that_a_function_of_foreach_batch_writes_is_compared(tmp_path: Path) -> None:
    topics = Topics(tmp_path, StartWay.CLONED)
    home = topics.homes["orders.green"]
    written = SinkPlan(sink="kafka", target="orders-2", options=options(BROKER))
    topics.record(home, SinkPlan(sink="foreachbatch", target="write"), "by_code", writes=(written,))

    assert topic_of(TERMS, Lane(deployment=topics.green, home=home)).target == "orders-2"


def test_a_lane_with_several_topics_needs_a_name(tmp_path: Path) -> None:
    topics = Topics(tmp_path, StartWay.CLONED)
    home = topics.homes["orders"]
    topics.record(home, SinkPlan(sink="kafka", target="late", options=options(BROKER)), "late")

    with pytest.raises(SpecError, match=r"2 sinks with a topic.*orders-\{stream\}-\{deployment\}"):
        topic_of(TERMS, Lane(deployment=topics.blue, home=home))
