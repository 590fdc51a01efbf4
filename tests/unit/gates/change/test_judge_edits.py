"""Every rule that compares two plans, on an edit that it is about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.findings import GateDecision
from tests.unit.gates.change import builders as b
from tests.unit.gates.change.edits import EDITS

PLANS = {
    "stateless": b.a_stateless(),
    "aggregation": b.an_aggregation(),
    "deduplication": b.a_deduplication(),
    "join": b.a_join(),
    "session": b.a_session(),
}


def test_an_edit_is_judged_by_its_rule() -> None:
    for edit in EDITS:
        assert edit.rule in b.rules_of(edit.old, edit.new), edit.name
        assert b.decision_of(edit.old, edit.new) is edit.decision, edit.name


def test_every_finding_says_what_shows_it_and_what_to_do() -> None:
    found = [(edit.name, f) for edit in EDITS for f in judge_change(edit.old, edit.new, None)]

    for edit, finding in found:
        assert finding.message.endswith("."), edit
        assert finding.evidence != "the recorded plan and the new one", edit
        assert finding.evidence, edit
        assert finding.query == "q", edit
        assert finding.remedy, edit


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_a_plan_that_does_not_change_has_no_findings(plan: b.QueryPlan) -> None:
    assert judge_change(plan, plan, None) == []


def test_functions_of_the_same_script_are_not_new() -> None:
    plan = b.a_stateful_function()
    assert judge_change(plan, plan, None, same_code=True) == []


def test_a_newer_spark_that_knows_more_settings_asks_for_nothing() -> None:
    old = replace(b.an_aggregation(), spark="3.5.9")
    new = b.with_conf(
        b.an_aggregation(), {"spark.sql.dropDuplicates.deterministicKeyOrder.enabled": "true"}
    )
    assert judge_change(old, new, None) == []


def test_a_path_may_be_spelled_in_another_way() -> None:
    old = b.with_source(b.a_stateless(), paths=("file:///in/",))
    assert judge_change(old, b.a_stateless(), None) == []


def test_topics_may_be_listed_in_another_order() -> None:
    old = replace(b.a_stateless(), sources=(b.a_kafka_source(),))
    new = b.with_source(old, paths=("subscribe b,a",))
    assert judge_change(old, new, None) == []


def test_what_is_not_kept_may_change_behind_a_join() -> None:
    old = b.a_join()
    new = b.with_steps(old, ("project", "k@0, (v@1 + 1) AS v", 0))
    assert b.decision_of(old, new) is GateDecision.ALLOWED_WITH_CONSEQUENCE


def test_a_filter_keeps_the_order_of_aggregates_apart_from_the_projection() -> None:
    old = b.with_steps(b.an_aggregation(), ("project", "k, total, lines", 0), ("filter", "a", 0))
    new = b.with_steps(old, ("project", "k, lines, total", 0), ("filter", "a", 0))
    assert "aggregation.used" not in b.rules_of(old, new)


def test_a_column_made_of_a_changed_column_is_changed() -> None:
    plan = b.with_operator(b.an_aggregation(), values=("sum(y)", "count(1)"))
    old = b.with_steps(plan, ("project", "k, (x + 1) AS y", 1), ("project", "k, v AS x", 1))
    new = b.with_steps(plan, ("project", "k, (x + 1) AS y", 1), ("project", "k, ts AS x", 1))
    assert "step.column_before_state" in b.rules_of(old, new)


def test_rocksdb_offers_to_repartition_the_state_by_a_rescale() -> None:
    old = b.with_conf(b.an_aggregation(), {b.PROVIDER: b.ROCKSDB})
    found = judge_change(old, b.with_conf(old, {b.PARTITIONS: "5"}), None)
    assert ["rescale" in finding.remedy for finding in found] == [True]


def test_hdfs_does_not_offer_to_repartition_the_state() -> None:
    old = b.an_aggregation()
    found = judge_change(old, b.with_conf(old, {b.PARTITIONS: "5"}), None)
    assert ["rescale" in finding.remedy for finding in found] == [False]
