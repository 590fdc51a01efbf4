"""The places of a lane in plans: what only they cause is no difference, and a real move is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.gates.change.sinks import judge_sink
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.spark.own_places import OwnPlaces, comparable
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan
from tests.trees import a_step
from tests.unit.home.make import make_deployment

CODE = "0123456789abcdef0123"
LOCAL = OwnPlaces(output="/data/green/out", checkpoint="/data/green/ck")
REMOTE = OwnPlaces(output="s3://lake/green/out", checkpoint="s3://lake/green/ck")


@pytest.mark.parametrize(
    ("places", "text", "marked"),
    [
        (LOCAL, "/data/green/out", "{output}"),
        (LOCAL, "/data/green/out/late", "{output}/late"),
        (LOCAL, "file:///data/green/out/late", "{output}/late"),
        (LOCAL, "file:/data/green/ck", "{checkpoint}"),
        (LOCAL, "'/data/green/out', 1", "'{output}', 1"),
        (LOCAL, "/data/green/output", "/data/green/output"),
        (LOCAL, "/data/green/out.old", "/data/green/out.old"),
        (LOCAL, "/mnt/data/green/out", "/mnt/data/green/out"),
        (LOCAL, "/data/blue/out", "/data/blue/out"),
        (REMOTE, "s3://lake/green/out/late", "{output}/late"),
        (REMOTE, "s3a://lake/green/out/late", "{output}/late"),
        (REMOTE, "s3://lake/green/outer", "s3://lake/green/outer"),
        (OwnPlaces(), "/data/green/out", "/data/green/out"),
        (OwnPlaces(output="/"), "/data", "/data"),
    ],
)
def test_a_whole_path_is_marked_in_each_spelling(places: OwnPlaces, text: str, marked: str) -> None:
    assert places.marked(text) == marked


def deployment(lane: str, output: str, checkpoint: str = "/ck") -> Deployment:
    return replace(make_deployment(), stream=lane, output=output, checkpoint=checkpoint)


def plan(output: str, code: str = CODE, *, target: str = "write") -> QueryPlan:
    sink = SinkPlan(
        sink="foreachbatch", target=target, code=code, options={"errors": f"{output}/bad"}
    )
    made = a_step("project", f"'{output}' AS place")
    return QueryPlan(query="q", spark="4.3.0", output_mode="append", sink=sink, steps=(made,))


def test_the_places_of_another_lane_are_no_difference() -> None:
    blue, green = deployment("orders", "/blue/out"), deployment("orders.green", "/green/out")

    found = comparable(plan("/green/out", f"{CODE}{{output}}"), green, blue)

    assert found == plan("/blue/out", f"{CODE}{{output}}")


def test_another_folder_in_another_lane_stays_a_difference() -> None:
    blue, green = deployment("orders", "/blue/out"), deployment("orders.green", "/green/out")

    assert comparable(plan("/green/out/late"), green, blue) == plan("/blue/out/late")
    assert comparable(plan("/elsewhere"), green, blue) == plan("/elsewhere")


def test_the_folder_of_a_file_sink_stays_a_difference() -> None:
    blue, green = deployment("orders", "/blue/out"), deployment("orders.green", "/green/out")

    found = comparable(plan("/green/out", target="/green/out"), green, blue)

    assert found.sink.target == "/green/out"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (CODE, CODE),
        (f"{CODE}{{checkpoint}}", f"{CODE}{{checkpoint}}"),
        (f"{CODE}{{output}}", f"{CODE}{{output}} moved"),
        (f"{CODE}{{output}}{{checkpoint}}", f"{CODE}{{output}}{{checkpoint}} moved"),
        ("opaque: module x", "opaque: module x"),
    ],
)
def test_a_function_that_uses_a_place_differs_when_the_place_moves_in_its_lane(
    code: str, expected: str
) -> None:
    live, proposed = deployment("orders", "/old/out"), deployment("orders", "/new/out")

    assert comparable(plan("/new/out", code), proposed, live) == plan("/new/out", expected)


def test_a_plan_of_the_same_places_stays_as_it_is() -> None:
    one = deployment("orders", "/out")

    assert comparable(plan("/out", f"{CODE}{{output}}"), one, one) == plan(
        "/out", f"{CODE}{{output}}"
    )


@pytest.mark.parametrize(
    ("lane", "output", "rules"),
    [
        pytest.param("orders.green", "/green/out", [], id="the output of another lane"),
        pytest.param("orders", "/new/out", ["sink.function_body"], id="the output moves"),
    ],
)
def test_an_unchanged_function_that_holds_the_output_is_judged_by_its_lane(
    lane: str, output: str, rules: list[str]
) -> None:
    code = f"{CODE}{{output}}"
    old = replace(plan("/old/out", code), steps=())
    new = replace(plan(output, code), steps=())
    old, new = (
        replace(one, sink=replace(one.sink, options={"function": "write"})) for one in (old, new)
    )
    live, proposed = deployment("orders", "/old/out"), deployment(lane, output)

    found = judge_sink(Pair(old=old, new=comparable(new, proposed, live)))

    assert [one.rule for one in found] == rules
