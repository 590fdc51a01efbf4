"""Which ways of switching are sound follows from both plans and the sink, each by a named rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.changes.judging.methods import WAY_RULES, WaysReport, switch_ways
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.arguments.choices import SinkReplaySemantics, StartWay, SwitchMethod
from airflow_streaming.model.records.upgrade import sink_facts_of
from airflow_streaming.model.spark.plan import OperatorPlan, QueryPlan
from tests.unit.gates.change import builders as b

BLUE, GREEN = "/out/1", "/out/2"
STATE_CHANGED = "cutover.state_differs"


def counting(operator: OperatorPlan | None = None, **changes: Any) -> QueryPlan:
    return b.an_aggregation(operator, sink=b.a_sink("foreachbatch", target="write"), **changes)


def judged(
    old: QueryPlan,
    new: QueryPlan,
    start: StartWay = StartWay.FRESH,
    habit: SinkReplaySemantics | None = None,
) -> WaysReport:
    habits = {"q": habit} if habit else None
    facts = sink_facts_of([old], habits)
    return switch_ways([old], [new], facts, start, output=BLUE, shadow_output=GREEN)


def rules_of(
    report: WaysReport, way: SwitchMethod, decision: GateDecision | None = None
) -> set[str]:
    found = report.of(way).findings
    return {one.rule for one in found if decision in (None, one.severity)}


def to(target: str, plan: QueryPlan) -> QueryPlan:
    return replace(plan, sink=replace(plan.sink, target=target))


def test_a_plan_that_was_recorded_as_text_is_not_compared() -> None:
    report = judged(replace(counting(), capture=3), counting(output_mode="update"))

    assert "cutover.unknown_plans" in rules_of(report, SwitchMethod.HANDOVER)
    assert STATE_CHANGED not in rules_of(report, SwitchMethod.HANDOVER)


FILES = to(BLUE, b.a_stateless()), to(GREEN, b.a_stateless())
FILES_OF_STATE = to(BLUE, b.an_aggregation()), to(GREEN, b.an_aggregation())


def test_a_changed_aggregate_can_go_either_way() -> None:
    new = counting(b.an_aggregate(values=("avg(v)", "count(1)")))

    report = judged(counting(), new)

    assert report.sound == (SwitchMethod.PARALLEL, SwitchMethod.HANDOVER)
    brings = rules_of(report, SwitchMethod.HANDOVER)
    assert {"cutover.ids_shifted", "cutover.open_by_new_code", "cutover.stays"} <= brings


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        pytest.param(
            counting(),
            counting(b.an_aggregate(window_us=(40_000_000, 40_000_000, 0))),
            STATE_CHANGED,
            id="window",
        ),
        pytest.param(counting(), counting(output_mode="update"), STATE_CHANGED, id="output mode"),
        pytest.param(counting(), counting(watermarks=()), STATE_CHANGED, id="watermark"),
        pytest.param(counting(), counting(operators=()), STATE_CHANGED, id="state is gone"),
        pytest.param(
            b.a_session("5 seconds"), b.a_session("9 seconds"), STATE_CHANGED, id="session gap"
        ),
        pytest.param(
            b.a_join(),
            b.a_join(operator={"condition": "(ts@1 < (ts@0 + interval 9 seconds))"}),
            STATE_CHANGED,
            id="join range",
        ),
        pytest.param(
            counting(),
            counting(sources=(b.a_source(paths=("/in2",)),)),
            "cutover.sources",
            id="another source",
        ),
        pytest.param(
            counting(sources=(b.a_source(source="delta"),)),
            counting(sources=(b.a_source(source="delta"),)),
            "cutover.incomparable",
            id="source without a position",
        ),
        pytest.param(
            counting(), replace(counting(), query="other"), "cutover.queries", id="queries"
        ),
        pytest.param(*FILES_OF_STATE, "cutover.file_sink_state", id="file sink with state"),
        pytest.param(
            b.an_aggregation(sink=b.a_sink("delta", target="/out/1")),
            b.an_aggregation(sink=b.a_sink("delta", target="/out/2")),
            "cutover.ids",
            id="sink that remembers ids",
        ),
        pytest.param(
            to(BLUE, b.a_stateless()),
            to(GREEN, b.a_stateless(sink=b.a_file_sink(format="json"))),
            "cutover.sink",
            id="another format",
        ),
        pytest.param(
            b.a_stateless(sink=b.a_sink("kafka", target="orders")),
            b.a_stateless(sink=b.a_sink("kafka", target="orders.green")),
            "cutover.place",
            id="a place that does not follow the output",
        ),
    ],
)
def test_a_handover_is_refused_and_parallel_outputs_are_not(
    old: QueryPlan, new: QueryPlan, rule: str
) -> None:
    report = judged(old, new)

    assert rule in rules_of(report, SwitchMethod.HANDOVER, GateDecision.NOT_ALLOWED)
    assert rule not in rules_of(report, SwitchMethod.PARALLEL)
    refused = next(one for one in report.handover.findings if one.rule == rule)
    assert refused.remedy


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        pytest.param(FILES[0], FILES[0], "cutover.output_shared", id="one output"),
        pytest.param(
            b.a_stateless(sink=b.a_sink("kafka", target="orders")),
            b.a_stateless(sink=b.a_sink("kafka", target="orders")),
            "cutover.output_shared",
            id="one topic",
        ),
        pytest.param(
            counting(),
            counting(sources=(b.a_source(options={"cleansource": "delete"}),)),
            "cutover.clean_source",
            id="files that are cleaned away",
        ),
        pytest.param(
            counting(),
            counting(sources=(b.a_source(source="socket"),)),
            "cutover.one_reader",
            id="socket",
        ),
        pytest.param(
            counting(sources=(b.a_kafka_source(options={"kafka.group.id": "g"}),)),
            counting(sources=(b.a_kafka_source(options={"kafka.group.id": "g"}),)),
            "cutover.one_reader",
            id="one group",
        ),
    ],
)
def test_lanes_that_would_fight_are_refused_either_way(
    old: QueryPlan, new: QueryPlan, rule: str
) -> None:
    report = judged(old, new)

    assert report.sound == ()
    for way in SwitchMethod:
        assert rule in rules_of(report, way, GateDecision.NOT_ALLOWED)


def test_a_file_sink_without_state_can_go_either_way() -> None:
    assert judged(*FILES).sound == (SwitchMethod.PARALLEL, SwitchMethod.HANDOVER)


@pytest.mark.parametrize(
    ("start", "rule"),
    [
        (StartWay.FRESH, "cutover.replayed"),
        (StartWay.CLONED, "cutover.history"),
        (StartWay.CARRIED, "cutover.history"),
    ],
)
def test_it_is_said_where_greens_output_begins(start: StartWay, rule: str) -> None:
    assert rule in rules_of(judged(*FILES, start), SwitchMethod.PARALLEL)


def test_a_carried_start_is_refused_to_state() -> None:
    assert judged(counting(), counting(), StartWay.CARRIED).sound == ()


def test_a_fresh_start_at_the_end_of_kafka_is_told() -> None:
    plan = counting(sources=(b.a_kafka_source(options={}),))

    assert "cutover.latest" in rules_of(judged(plan, plan), SwitchMethod.PARALLEL)


def test_a_rate_source_can_be_handed_over_from_a_clone_alone() -> None:
    plan = counting(sources=(b.a_source(source="rate"),))

    assert SwitchMethod.HANDOVER not in judged(plan, plan).sound
    assert SwitchMethod.HANDOVER in judged(plan, plan, StartWay.CLONED).sound


def test_an_author_may_declare_that_a_sink_only_appends() -> None:
    old, new = (b.an_aggregation(sink=b.a_sink("mongo", target=t)) for t in (BLUE, GREEN))

    assert SwitchMethod.HANDOVER not in judged(old, new).sound
    assert SwitchMethod.HANDOVER in judged(old, new, habit=SinkReplaySemantics.APPENDS).sound


def test_without_blues_plans_nothing_is_called_safe() -> None:
    report = switch_ways([], [counting()], (), StartWay.FRESH)

    assert report.handover.decision is GateDecision.UNKNOWN


def test_a_checkpoint_of_the_scripts_own_is_refused() -> None:
    plan = counting(checkpoint="/mine")
    facts = sink_facts_of([plan], checkpoint="/ck")

    assert switch_ways([plan], [plan], facts, StartWay.FRESH).sound == ()


def test_every_rule_has_a_name_of_its_own_and_a_way_out_where_it_refuses() -> None:
    assert len({rule.name for rule in WAY_RULES}) == len(WAY_RULES)
    assert all(r.remedy for r in WAY_RULES if r.severity is GateDecision.NOT_ALLOWED)


@pytest.mark.parametrize("start", [StartWay.CLONED, StartWay.CARRIED])
def test_a_query_that_blue_lacks_has_no_checkpoint_to_begin_with(start: StartWay) -> None:
    old, new = to(BLUE, b.a_stateless()), replace(to(GREEN, b.a_stateless()), query="renamed")
    facts = sink_facts_of([old])

    report = switch_ways([old], [new], facts, start, output=BLUE, shadow_output=GREEN)
    fresh = switch_ways([old], [new], facts, StartWay.FRESH, output=BLUE, shadow_output=GREEN)

    assert "cutover.no_checkpoint" in rules_of(
        report, SwitchMethod.PARALLEL, GateDecision.NOT_ALLOWED
    )
    assert SwitchMethod.PARALLEL in fresh.sound


@pytest.mark.parametrize("start", [StartWay.CLONED, StartWay.CARRIED])
def test_a_query_that_never_committed_has_no_checkpoint_to_begin_with(start: StartWay) -> None:
    old, new = to(BLUE, b.a_stateless()), to(GREEN, b.a_stateless())
    places = {"output": BLUE, "shadow_output": GREEN}

    report = switch_ways([old], [new], (), start, absent={new.query}, **places)

    assert "cutover.no_checkpoint" in rules_of(
        report, SwitchMethod.PARALLEL, GateDecision.NOT_ALLOWED
    )


def test_a_group_of_a_query_with_another_name_is_shared_too() -> None:
    source = b.a_kafka_source(options={"kafka.group.id": "g"})
    new = replace(to(GREEN, counting(sources=(source,))), query="renamed")

    report = switch_ways([counting(sources=(source,))], [new], (), StartWay.FRESH)

    assert "cutover.one_reader" in rules_of(report, SwitchMethod.PARALLEL, GateDecision.NOT_ALLOWED)


def test_a_handover_of_a_topic_names_what_a_user_of_a_topic_can_do() -> None:
    old, new = (
        replace(b.a_stateless(), sink=b.a_sink("kafka", target=name)) for name in ("o-1", "o-2")
    )

    report = switch_ways([old], [new], (), StartWay.CLONED, output=BLUE, shadow_output=GREEN)

    (found,) = (one for one in report.handover.findings if one.rule == "cutover.place")
    assert "parallel outputs with {stream} and {deployment}" in found.remedy


def test_a_target_with_rows_of_an_earlier_green_is_named_either_way() -> None:
    new = replace(b.a_stateless(), sink=b.a_sink("kafka", target="o.green"))
    old = replace(new, sink=b.a_sink("kafka", target="o"))

    report = switch_ways([old], [new], (), StartWay.FRESH, earlier=[new])

    for way in SwitchMethod:
        assert "cutover.output_used" in rules_of(report, way)
