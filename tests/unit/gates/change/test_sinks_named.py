"""Sinks with names: which name may follow which, and where Spark takes none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.spark.logs import NamedSink
from airflow_streaming.model.spark.plan import QueryPlan
from tests.unit.gates.change.builders import (
    a_checkpoint,
    a_sink,
    a_source,
    a_stateless,
    decision_of,
    rules_of,
)

EVOLUTION = {"spark.sql.streaming.queryEvolution.enableSinkEvolution": "true"}
KAFKA = "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable"
BROKERS = {"kafka.bootstrap.servers": "one:9092"}


def to_kafka(name: str, **changes: Any) -> QueryPlan:
    sink = a_sink("kafka", "key string, value string", target="t", options=BROKERS, name=name)
    return a_stateless(sink=sink, settings=EVOLUTION, **changes)


def named(active: str, *others: str) -> Checkpoint:
    sinks = [NamedSink(name=active, provider=KAFKA, is_active=True)]
    sinks += [NamedSink(name=other, provider=KAFKA, is_active=False) for other in others]
    return a_checkpoint(commit_log_version=3, sinks=tuple(sinks), operators=(), is_stateful=False)


@pytest.mark.parametrize(
    ("old", "new", "checkpoint", "rule", "decision"),
    [
        pytest.param("a", "a", named("a"), None, GateDecision.ALLOWED, id="the same name"),
        pytest.param(
            "a",
            "b",
            named("a"),
            "sink.name_moves",
            GateDecision.ALLOWED_WITH_CONSEQUENCE,
            id="a new name",
        ),
        pytest.param(
            "a",
            "b",
            named("a", "b"),
            "sink.name_returns",
            GateDecision.ALLOWED_WITH_CONSEQUENCE,
            id="back to a sink of before",
        ),
        pytest.param(
            "a",
            "b",
            None,
            "sink.name_moves",
            GateDecision.ALLOWED_WITH_CONSEQUENCE,
            id="before the first batch",
        ),
    ],
)
def test_the_name_of_a_sink_may_move(
    old: str, new: str, checkpoint: Checkpoint | None, rule: str | None, decision: GateDecision
) -> None:
    found = rules_of(to_kafka(old), to_kafka(new), checkpoint=checkpoint)

    assert {one for one in found if one.startswith("sink.name")} == ({rule} if rule else set())
    assert decision_of(to_kafka(old), to_kafka(new), checkpoint=checkpoint) is decision


def test_a_name_of_another_kind_of_sink_is_refused() -> None:
    console = replace(to_kafka("a"), sink=a_sink("console", name="a"))

    assert "sink.name_reused" in rules_of(to_kafka("a"), console, checkpoint=named("a"))
    assert decision_of(to_kafka("a"), console) is GateDecision.NOT_ALLOWED


def test_a_name_that_is_left_out_is_a_consequence_and_refused_while_spark_wants_one() -> None:
    without = replace(to_kafka(""), settings={})

    assert "sink.name_left" in rules_of(to_kafka("a"), without, checkpoint=named("a"))
    assert "sink.name_needed" not in rules_of(to_kafka("a"), without, checkpoint=named("a"))
    assert decision_of(to_kafka("a"), to_kafka(""), checkpoint=named("a")) is (
        GateDecision.NOT_ALLOWED
    )


@pytest.mark.parametrize(
    ("trigger", "options", "is_refused"),
    [
        pytest.param("10 seconds", {}, False, id="batches"),
        pytest.param("", {"asyncprogresstrackingenabled": "true"}, True, id="asynchronous"),
        pytest.param("continuous 1 second", {}, True, id="continuous"),
        pytest.param("real time 30 seconds", {}, True, id="real time"),
        pytest.param(
            "real time 30 seconds",
            {"asyncprogresstrackingenabled": "false"},
            False,
            id="real time, committed at once",
        ),
    ],
)
def test_names_and_asynchronous_commits_exclude_each_other(
    trigger: str, options: dict[str, str], is_refused: bool
) -> None:
    plan = to_kafka("a", processing_trigger=trigger, output_mode="update")
    plan = replace(plan, sink=replace(plan.sink, options={**BROKERS, **options}))

    assert ("sink.name_refused" in rules_of(plan, plan)) is is_refused


@pytest.mark.parametrize(
    ("spark", "names", "is_offered"),
    [
        pytest.param("4.3.0", ("", ""), True, id="before the first batch"),
        pytest.param("4.3.0", ("a", "b"), False, id="named"),
        pytest.param("4.1.4", ("", ""), False, id="a Spark without names"),
        pytest.param("4.3.0", ("",), False, id="one source"),
    ],
)
def test_names_of_sources_are_offered_while_a_checkpoint_can_get_them(
    spark: str, names: tuple[str, ...], is_offered: bool
) -> None:
    sources = tuple(
        a_source(name=name, paths=(f"/in/{number}",)) for number, name in enumerate(names)
    )
    plan = a_stateless(spark=spark, sources=sources)
    rule = "source.could_be_named"

    assert (rule in {one.rule for one in judge_change(None, plan, None)}) is is_offered
    assert rule not in {one.rule for one in judge_change(plan, plan, a_checkpoint())}


def test_another_number_of_sources_comes_with_the_advice_to_name_them_first() -> None:
    two = a_stateless(sources=(a_source(), a_source(paths=("/more",))))
    [number] = [
        one for one in judge_change(a_stateless(), two, None) if one.rule == "source.number"
    ]
    older = replace(two, spark="4.1.4")
    [before] = [
        one for one in judge_change(a_stateless(), older, None) if one.rule == "source.number"
    ]

    assert "only name the sources" in number.remedy
    assert "only name the sources" not in before.remedy
