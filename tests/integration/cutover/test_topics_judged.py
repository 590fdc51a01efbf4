"""
A cutover between two topics, from the first step to the last, with the comparison that operators make.

Records, plans, broker and comparison are real; drivers and time are played.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from airflow_streaming.changes.cutover.engine import Cutover
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs import comparison
from airflow_streaming.model.jobs.comparison import CompareReport, CompareResult
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.cutover import Pair
from airflow_streaming.model.records.cutover_table import CutoverEvent, CutoverState
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan, SinkPlan
from airflow_streaming.operators.common.cutover_checks import Comparing
from airflow_streaming.reports.cutover import promotion_report
from airflow_streaming.reports.markdown import markdown
from tests.integration.servers.broker import create_topic, kafka_broker
from tests.unit.changes.cutover.cutting import Cutting
from tests.unit.changes.cutover.played import QUERY
from tests.unit.home.make import NOON

TERMS: Final = CompareTerms(stream="orders", format="kafka", keys=("value.id",))
WINDOW: Final = OperatorPlan(sort=OperatorKind.AGGREGATE, window_us=(60_000_000, 60_000_000, 0))
REPLAYED: Final = NOON - timedelta(minutes=30)
EARLY: Final = 15
"""Rows whose windows began before the replay."""
ROWS_A_WINDOW: Final = 5


class TopicCutting(Cutting):
    """
    Lanes that write a topic each; its records are rows of windows of a minute.

    :param wrong: Rows that green writes with other values.
    :param replays: Green reads from ``REPLAYED`` on, so its earlier windows lack rows.
    """

    def __init__(
        self,
        folder: Path,
        broker: str,
        name: str,
        *,
        wrong: range = range(0),
        replays: bool = False,
    ) -> None:
        self.broker, self.name, self.wrong, self.replays = broker, name, wrong, replays
        self.sent: dict[str, int] = {}
        self.reports: list[CompareReport] = []
        self._producer = Producer({"bootstrap.servers": broker, "log_level": 0})
        for lane in ("orders", "orders.green"):
            create_topic(broker, self.topic(lane), 2)
        super().__init__(folder)

    def topic(self, lane: str) -> str:
        return f"{self.name}-{lane}"

    def _work(self, lane: str, epoch: Epoch) -> None:
        super()._work(lane, epoch)
        home = self.home(lane)
        place = Layout(lane).place(QueryPlan, epoch=epoch.number, query=QUERY)
        if home.store.read(place) is None:
            home.store.create(place, self._plan(lane).to_bytes(lane))
        end = self.checkpoints.get(home.deployment(epoch.deployment), QUERY).end
        for number in range(self.sent.get(lane, 0), end):
            self._send(lane, number)
        self.sent[lane] = end
        self._producer.flush()

    def _plan(self, lane: str) -> QueryPlan:
        options = {"kafka.bootstrap.servers": self.broker, "kafka.acks": "all"}
        return QueryPlan(
            query=QUERY,
            spark="4.3.0",
            output_mode="append",
            operators=(WINDOW,),
            sink=SinkPlan(sink="kafka", target=self.topic(lane), options=options),
        )

    def _send(self, lane: str, number: int) -> None:
        begins = REPLAYED + timedelta(minutes=(number - EARLY) // ROWS_A_WINDOW)
        is_wrong = lane.endswith(".green") and number in self.wrong
        value = {"id": number, "n": 1 + is_wrong, "window": {"start": begins.isoformat()}}
        # Records have the time of the broker: it deletes records that are as old as the played time.
        self._producer.produce(self.topic(lane), json.dumps(value), key=f"k{number}")

    def pair(self, stream: str) -> Pair:
        found = super().pair(stream)
        if not self.replays:
            return found
        shadow = replace(found.shadow, replay_from=REPLAYED.isoformat())
        return replace(found, shadow=shadow, live=shadow)

    def engine(self, lanes: Any = None, by: str = "kim", **more: Any) -> Cutover:
        comparing = Comparing(
            self.operators_lanes(),
            complete_from={},
            progress=lambda _: None,
            heard=self.reports.append,
        )
        return super().engine(lanes, by, **{"compare": comparing, **more})

    def operators_lanes(self) -> Any:
        """Return the lanes as an operator has them: homes, and the configuration of drivers."""
        hook = SimpleNamespace(
            lane=lambda lane: SimpleNamespace(home=self.home(lane)),
            program=lambda deployment, _: SimpleNamespace(conf=deployment.conf, env={}),
        )
        return SimpleNamespace(hook=lambda _: hook, home=self.home("orders"))

    def page(self) -> str:
        home = self.home("orders")
        change = home.changes()[-1]
        steps = home.steps(change.number)
        return markdown(promotion_report(home.cutover_terms(change), steps, {}, self.reports))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "PAUSE", 0.01)


def test_green_goes_live_after_its_topic_was_compared_with_blues(
    broker: str, tmp_path: Path
) -> None:
    world = TopicCutting(tmp_path, broker, "same")
    world.begin(compare=(TERMS,))

    assert world.drive().state is CutoverState.FINALIZED
    (report,) = world.reports
    assert report.result is CompareResult.SAME, report.reason
    assert (report.blue.uri, report.green.uri) == ("same-orders", "same-orders.green")
    assert report.blue.compared == report.green.compared > EARLY
    assert "are the same in topics same-orders and same-orders.green" in world.page()
    assert world.live_lane() == "orders.green"


def test_a_green_with_another_value_is_given_up_and_the_report_names_its_key(
    broker: str, tmp_path: Path
) -> None:
    world = TopicCutting(tmp_path, broker, "wrong", wrong=range(20, 21))
    world.begin(compare=(TERMS,))

    assert world.drive().state is CutoverState.ABORTED
    events = [step.event for step in world.home("orders").steps(world.change)]
    assert CutoverEvent.OUTPUT_DIFFERS in events
    (report,) = world.reports
    assert report.result is CompareResult.DIFFERS
    assert [one.key["key"] for one in report.differences] == ["value.id=20"]
    assert "1 records are only in blue's topic and 1 only in green's" in world.page()
    assert world.live_lane() == "orders"


def test_windows_from_before_a_replay_are_not_compared_and_the_report_counts_them(
    broker: str, tmp_path: Path
) -> None:
    world = TopicCutting(tmp_path, broker, "replayed", wrong=range(EARLY), replays=True)
    world.begin(compare=(TERMS,))

    assert world.drive().state is CutoverState.FINALIZED
    (report,) = world.reports
    assert report.result is CompareResult.SAME, report.reason
    assert report.green.before == EARLY
    assert "Not comparable: 3 windows that began before green's replay" in world.page()


def test_a_wrong_window_after_a_replay_is_found(broker: str, tmp_path: Path) -> None:
    world = TopicCutting(tmp_path, broker, "late", wrong=range(EARLY + 1), replays=True)
    world.begin(compare=(TERMS,))

    assert world.drive().state is CutoverState.ABORTED
    assert [one.key["key"] for one in world.reports[0].differences] == [f"value.id={EARLY}"]
