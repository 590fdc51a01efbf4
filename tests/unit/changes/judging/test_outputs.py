"""Green is refused a place that a query of blue, or of another stream, writes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.changes.judging.outputs import OutputFolders, judge_outputs
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan
from tests.unit.gates.change import builders as b

FOLDERS = OutputFolders(blue="/home/orders/output/000001", green="/home/orders.green/output/000001")
SERVERS = {"kafka.bootstrap.servers": "a:9092"}
SHARED, OTHER, UNSEEN = "cutover.output_shared", "cutover.output_of_other", "cutover.output_unseen"


def writing(query: str, sink: SinkPlan) -> QueryPlan:
    return replace(b.a_stateless(), query=query, sink=sink)


def topic(name: str) -> SinkPlan:
    return b.a_sink("kafka", target=name, options=SERVERS)


def files(target: str) -> SinkPlan:
    return b.a_file_sink(target=target)


def rules(
    green: SinkPlan,
    *blue: SinkPlan,
    others: dict[str, list[QueryPlan] | None] | None = None,
    folders: OutputFolders = FOLDERS,
) -> list[str]:
    known = [writing(f"blue{number}", sink) for number, sink in enumerate(blue)]
    found = list(judge_outputs([writing("green", green)], known, others or {}, folders))
    assert {one.query for one in found} <= {"green"}
    return [one.rule for one in found]


CODE = b.a_sink("foreachbatch", target="write")


@pytest.mark.parametrize(
    ("green", "blue"),
    [
        (topic("orders"), topic("orders")),
        (files("/lake/orders"), files("/lake/orders")),
        (files("/lake/orders/new"), files("/lake/orders")),
        (b.a_sink("table", target="orders"), b.a_sink("table", target="default.orders")),
        (b.a_sink("acme", options={"table": "t"}), b.a_sink("acme", options={"table": "t"})),
        (files(f"{FOLDERS.blue}/part"), CODE),
        (topic(f"x{FOLDERS.blue}"), CODE),
    ],
)
def test_a_renamed_query_is_refused_its_old_place(green: SinkPlan, blue: SinkPlan) -> None:
    assert rules(green, b.a_sink("noop"), blue) == [SHARED]


@pytest.mark.parametrize(
    ("green", "blue"),
    [
        (topic("orders.green"), topic("orders")),
        (files(f"{FOLDERS.green}/orders"), CODE),
        (files(f"{FOLDERS.green}/orders"), files(f"{FOLDERS.blue}/orders")),
        (files("/lake/orders2"), files("/lake/orders")),
        (topic("orders"), b.a_sink("console")),
        (b.a_sink("noop"), topic("orders")),
        (b.a_sink("memory"), CODE),
    ],
)
def test_a_place_of_its_own_is_no_finding(green: SinkPlan, blue: SinkPlan) -> None:
    assert rules(green, blue) == []


@pytest.mark.parametrize(
    ("green", "blue"),
    [
        (CODE, topic("orders")),
        (topic("orders"), CODE),
        (b.a_sink("kafka", target=""), topic("orders")),
        (topic("orders"), b.a_sink("kafka", target="")),
        (topic("orders"), b.a_sink("kafka", target="orders", options={})),
    ],
)
def test_a_place_that_is_not_proved_to_be_green_s_own_is_a_finding(
    green: SinkPlan, blue: SinkPlan
) -> None:
    assert rules(green, blue) == [UNSEEN]


def test_a_place_that_blue_s_function_was_seen_to_write_is_refused() -> None:
    blue = replace(writing("by_code", CODE), writes=(topic("orders"),))

    def found(green: SinkPlan) -> list[tuple[str, str]]:
        return [
            (one.rule, one.old) for one in judge_outputs([writing("g", green)], [blue], {}, FOLDERS)
        ]

    seen = "query by_code: foreachbatch, which writes kafka orders"
    assert found(topic("orders")) == [(SHARED, seen)]
    assert found(topic("refunds")) == [(UNSEEN, seen)]
    assert found(CODE) == [(UNSEEN, seen)]


def test_every_writer_of_blue_is_named() -> None:
    assert rules(topic("t"), topic("t"), CODE, topic("t")) == [SHARED, UNSEEN, SHARED]


def test_green_s_folder_inside_blue_s_is_not_its_own() -> None:
    folders = OutputFolders(blue="/out", green="/out/green")

    assert rules(files("/out/green/x"), folders=folders) == [SHARED]


def test_green_s_folder_that_leads_to_blue_s_is_not_its_own() -> None:
    folders = OutputFolders(blue="/blue", green="/green", real_blue="/blue", real_green="/blue")
    linked = replace(files("/green/x"), real_path="/blue/x")

    assert rules(linked, folders=folders) == [SHARED]


def test_a_link_inside_green_s_folder_that_leads_to_blue_s_is_not_its_own() -> None:
    folders = OutputFolders(blue="/blue", green="/green", real_blue="/disk/b", real_green="/disk/g")
    inside = replace(files("/green/x"), real_path="/disk/g/x")
    linked = replace(files("/green/x"), real_path="/disk/b/x")

    assert rules(inside, CODE, folders=folders) == []
    assert rules(linked, folders=folders) == [SHARED]


def test_a_folder_above_green_s_own_is_not_its_own() -> None:
    assert rules(files("/home"), files("/home/orders/x")) == [SHARED]


def test_without_folders_only_the_sinks_are_compared() -> None:
    assert rules(files("/x"), files("/y"), folders=OutputFolders()) == []


def test_the_place_of_another_stream_is_refused() -> None:
    others = {"a": [writing("q", topic("orders"))], "b": [writing("q", topic("refunds"))]}

    assert rules(topic("orders"), others=others) == [OTHER]


def test_a_stream_whose_plans_are_unreadable_is_a_finding() -> None:
    assert rules(topic("orders"), others={"a": None, "b": []}) == [UNSEEN]


def test_all_other_streams_that_name_no_place_are_one_finding() -> None:
    others: dict[str, list[QueryPlan] | None] = {
        f"s{number}": [writing("q", CODE)] for number in range(7)
    }
    others["apart"] = [writing("q", topic("refunds"))]
    folders = replace(FOLDERS, green="/green")

    found = list(judge_outputs([writing("green", topic("orders"))], [], others, FOLDERS))

    assert [one.rule for one in found] == [UNSEEN]
    assert "s0, s1, s2, s3, s4 and 2 others" in found[0].old
    assert rules(files("/green/x"), others=others, folders=folders) == []
