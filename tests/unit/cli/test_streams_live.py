"""The command tells scripts and people which output is live."""

from __future__ import annotations

import json

from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.cutover import LiveRecord
from airflow_streaming.model.records.cutover_table import (
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan
from tests.unit.cli.host import Run
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch


def cut_over(home: Home) -> None:
    green = make_deployment(stream="orders.green", output="/lake/green")
    home.stream("orders.green").create_deployment(green, SCRIPT)
    home.stream("orders").point(
        LiveRecord(
            number=1,
            stream="orders",
            lane="orders.green",
            deployment=1,
            output="/lake/green",
            leader="orders",
            change=1,
            step=2,
            event=CutoverEvent.SWITCHED,
            at=NOON,
            by="kim",
        )
    )
    switched = CutoverTransition(
        change=1,
        number=2,
        before=CutoverState.SWITCHING,
        event=CutoverEvent.SWITCHED,
        after=CutoverState.LIVE,
        reason="Green is live.",
        at=NOON,
        by="kim",
    )
    path = Layout("orders").place(CutoverTransition, change=1, number=2)
    home.store.create(path, switched.to_bytes("orders"))


def test_a_script_gets_the_output_and_no_more(run: Run, home: Home, stream: StreamHome) -> None:
    assert run("live", "orders", "--output") == (0, "/home/orders/output/000001\n", "")
    cut_over(home)
    assert run("live", "orders", "--output") == (0, "/lake/green\n", "")


def test_a_stream_of_topics_and_tables_names_them_and_no_folder_that_nothing_writes(
    run: Run, home: Home, stream: StreamHome
) -> None:
    home.store.create(
        Layout("orders").place(Epoch, number=1), Layout("orders").bytes_of(make_epoch(1))
    )
    servers = {"kafka.bootstrap.servers": "a:9092"}
    sinks = {
        "rows": SinkPlan(sink="kafka", target="orders-000001", options=servers),
        "sums": SinkPlan(sink="table", format="iceberg", target="lake.shop.sums"),
    }
    for query, sink in sinks.items():
        plan = QueryPlan(query=query, spark="4.3.0", output_mode="append", sink=sink)
        place = Layout("orders").place(QueryPlan, epoch=1, query=query)
        home.store.create(place, plan.to_bytes("orders"))

    told = run("live", "orders")[1]
    assert "writes       kafka orders-000001 on a:9092\n" in told
    assert "writes       table lake.shop.sums\n" in told
    assert "/home/orders/output" not in told
    places = "kafka orders-000001 on a:9092\ntable lake.shop.sums\n"
    assert run("live", "orders", "--output") == (0, places, "")


def test_a_person_sees_the_color_since_when_and_what_was_before(
    run: Run, home: Home, stream: StreamHome
) -> None:
    assert run("live", "orders")[1].startswith("orders: BLUE IS LIVE\n  It was never cut over.\n")
    cut_over(home)
    code, out, _ = run("live", "orders")
    assert code == 0
    assert out.startswith("orders: GREEN IS LIVE\n  Since 2026-03-01 12:00:00 UTC.\n")
    assert "writes       /lake/green\n" in out
    assert "2026-03-01 12:00:00 UTC  orders  1           /home/orders/output/000001" in out


def test_a_program_gets_json(run: Run, home: Home, stream: StreamHome) -> None:
    cut_over(home)
    code, out, _ = run("live", "orders", "--json")
    told = json.loads(out)
    assert code == 0
    assert (told["lane"], told["color"], told["number"]) == ("orders.green", "green", 1)
    assert told["since"] == "2026-03-01T12:00:00.000000+00:00"
    assert told["history"] == [
        {
            "lane": "orders",
            "color": "blue",
            "deployment": 1,
            "output": "/home/orders/output/000001",
            "since": None,
            "until": "2026-03-01T12:00:00.000000+00:00",
        }
    ]


def test_a_stream_that_is_not_there_is_a_problem_as_for_every_command(
    run: Run, stream: StreamHome
) -> None:
    for command in ("live", "status"):
        code, _, error = run(command, "order")
        assert code == 1
        assert "Stream 'order' does not exist" in error


def test_a_lane_of_a_lane_is_wrong_use(run: Run, home: Home, stream: StreamHome) -> None:
    cut_over(home)
    for command in ("live", "status"):
        code, _, error = run(command, "orders.green.green")
        assert code == 2
        assert "Lane 'orders.green.green' does not exist" in error
