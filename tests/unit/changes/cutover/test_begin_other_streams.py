"""Before a cutover the plans of every other stream of the home are read."""

from __future__ import annotations

from pathlib import Path

from airflow_streaming.changes.cutover.begin import plans_of_others
from airflow_streaming.home.home import Home
from airflow_streaming.model.names import Layout
from airflow_streaming.model.spark.plan import QueryPlan
from tests.unit.changes.cutover.cutting import Cutting
from tests.unit.gates.change import builders as b


def test_the_lanes_of_the_stream_itself_are_left_out(tmp_path: Path) -> None:
    world = Cutting(tmp_path, streams=("orders", "refunds"))
    for stream in ("orders", "refunds"):
        place = Layout(stream).place(QueryPlan, epoch=1, query="q")
        world.home(stream).store.create(place, b.a_stateless().to_bytes(stream))

    found = plans_of_others(Home(world.home("orders").store), "orders")

    assert {name: [plan.query for plan in plans or ()] for name, plans in found.items()} == {
        "refunds": ["q"]
    }


def test_a_stream_with_damaged_plans_is_named(tmp_path: Path) -> None:
    world = Cutting(tmp_path, streams=("orders", "refunds"))
    place = Layout("refunds").place(QueryPlan, epoch=1, query="q")
    world.home("refunds").store.create(place, b"{")

    assert plans_of_others(Home(world.home("orders").store), "orders") == {"refunds": None}
