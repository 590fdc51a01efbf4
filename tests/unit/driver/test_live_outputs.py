"""The driver of a lane that is not live never writes a place of the live lane."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_streaming.driver.output_places.live_outputs import LiveOutputs
from airflow_streaming.exceptions import DriverRefusal, HomeUnavailable, RecordError
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.cutover import LiveRecord
from airflow_streaming.model.records.cutover_table import CutoverEvent
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan
from airflow_streaming.model.spark.sink_place import place_of
from airflow_streaming.model.storage import LocalStore
from tests.unit.driver.fakes import AbsentStore
from tests.unit.home.make import make_epoch

BLUE, GREEN = "orders", "orders.green"
TOPIC = SinkPlan(sink="kafka", target="t", options={"kafka.bootstrap.servers": "a:9092"})
ELSEWHERE = SinkPlan(sink="kafka", target="t2", options={"kafka.bootstrap.servers": "a:9092"})
HIDDEN = SinkPlan(sink="foreachbatch", target="write")
FROM = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def record_epoch(store: LocalStore, lane: str, epoch: int, deployment: int = 1) -> None:
    record = make_epoch(epoch, stream=lane, deployment=deployment)
    store.create(Layout(lane).place(Epoch, number=epoch), Layout(lane).bytes_of(record))


def planned(store: LocalStore, lane: str, epoch: int, query: str, sink: SinkPlan) -> None:
    layout = Layout(lane)
    plan = QueryPlan(query=query, spark="4.3.0", output_mode="append", sink=sink)
    record_epoch(store, lane, epoch)
    store.create(layout.place(QueryPlan, epoch=epoch, query=query), layout.bytes_of(plan))


def wrote(store: LocalStore, lane: str, epoch: int, query: str, *sinks: SinkPlan) -> None:
    """Record a query whose function was seen to write."""
    plan = QueryPlan(query=query, spark="4.3.0", output_mode="append", sink=HIDDEN, writes=sinks)
    record_epoch(store, lane, epoch)
    store.create(
        Layout(lane).place(QueryPlan, epoch=epoch, query=query), Layout(lane).bytes_of(plan)
    )


def live(store: LocalStore, number: int, lane: str) -> None:
    record = LiveRecord(
        number=number,
        stream=BLUE,
        lane=lane,
        deployment=1,
        output="/out",
        leader=BLUE,
        change=1,
        step=5,
        event=CutoverEvent.SWITCHED,
        at=FROM,
        by="dag",
    )
    store.create(Layout(BLUE).place(LiveRecord, number=number), Layout(BLUE).bytes_of(record))


def check(store: LocalStore, lane: str, sink: SinkPlan = TOPIC) -> None:
    LiveOutputs(store, lane).check("renamed", place_of(sink))


def test_a_record_of_another_number_names_no_live_lane(store: LocalStore) -> None:
    live(store, 1, GREEN)
    copied = store.read(Layout(BLUE).place(LiveRecord, number=1))
    store.create(Layout(BLUE).place(LiveRecord, number=2), copied or b"")

    with pytest.raises(RecordError, match="its number is 1, not 2"):
        check(store, BLUE)


def test_green_is_refused_the_place_of_a_query_of_any_name(store: LocalStore) -> None:
    planned(store, BLUE, 1, "revenue", TOPIC)

    with pytest.raises(DriverRefusal, match=r"'renamed' .* 'revenue' of the live lane 'orders'"):
        check(store, GREEN)


@pytest.mark.parametrize("sink", [ELSEWHERE, HIDDEN, SinkPlan(sink="memory")])
def test_green_writes_another_place(store: LocalStore, sink: SinkPlan) -> None:
    planned(store, BLUE, 1, "revenue", TOPIC)

    check(store, GREEN, sink)


def test_a_sink_of_the_live_lane_that_names_no_place_hides_no_other(store: LocalStore) -> None:
    planned(store, BLUE, 1, "by_code", HIDDEN)
    planned(store, BLUE, 2, "by_code", HIDDEN)
    layout = Layout(BLUE)
    plan = QueryPlan(query="revenue", spark="4.3.0", output_mode="append", sink=TOPIC)
    store.create(layout.place(QueryPlan, epoch=2, query="revenue"), layout.bytes_of(plan))

    with pytest.raises(DriverRefusal):
        check(store, GREEN)


def test_a_place_that_a_live_function_writes_is_refused(store: LocalStore) -> None:
    wrote(store, BLUE, 1, "by_code", TOPIC)
    wrote(store, BLUE, 2, "by_code", ELSEWHERE)

    for sink in (TOPIC, ELSEWHERE):
        with pytest.raises(DriverRefusal, match="by_code"):
            check(store, GREEN, sink)


def test_an_epoch_that_recorded_no_plan_yet_does_not_hide_the_one_before(store: LocalStore) -> None:
    planned(store, BLUE, 1, "revenue", TOPIC)
    record_epoch(store, BLUE, 2)

    with pytest.raises(DriverRefusal):
        check(store, GREEN)


def test_the_newest_plan_of_a_query_counts(store: LocalStore) -> None:
    planned(store, BLUE, 1, "revenue", TOPIC)
    planned(store, BLUE, 2, "revenue", ELSEWHERE)

    check(store, GREEN)


def test_a_driver_that_has_recorded_some_plans_does_not_hide_the_others(store: LocalStore) -> None:
    planned(store, BLUE, 1, "revenue", TOPIC)
    planned(store, BLUE, 2, "refunds", ELSEWHERE)

    with pytest.raises(DriverRefusal):
        check(store, GREEN)


def test_plans_of_an_earlier_deployment_do_not_count(store: LocalStore) -> None:
    planned(store, BLUE, 1, "revenue", TOPIC)
    record_epoch(store, BLUE, 2, deployment=2)

    check(store, GREEN)


def test_the_live_lane_may_write_what_the_other_lane_writes(store: LocalStore) -> None:
    planned(store, BLUE, 1, "revenue", TOPIC)
    planned(store, GREEN, 1, "revenue", TOPIC)
    check(store, BLUE)

    live(store, 1, GREEN)

    check(store, GREEN)
    with pytest.raises(DriverRefusal):
        check(store, BLUE)


def test_the_newest_record_says_which_lane_is_live(store: LocalStore) -> None:
    planned(store, BLUE, 1, "revenue", TOPIC)
    live(store, 1, GREEN)
    live(store, 2, BLUE)

    check(store, BLUE)
    with pytest.raises(DriverRefusal):
        check(store, GREEN)


def test_a_stream_without_a_second_lane_costs_one_listing(tmp_path: Path) -> None:
    home = AbsentStore(str(tmp_path))
    home.present = True
    outputs = LiveOutputs(home, BLUE)

    for query in ("a", "b"):
        outputs.check(query, place_of(TOPIC))

    assert home.calls == 1


def test_a_home_that_cannot_be_read_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(HomeUnavailable):
        LiveOutputs(AbsentStore(str(tmp_path)), GREEN).check("q", place_of(TOPIC))
