"""Real-time mode: intervals, what Spark refuses, and the task slots that a query holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_streaming.model.plan.real_time import (
    SlotDemand,
    interval_of,
    refusals_of,
    slots_of,
)
from airflow_streaming.model.spark.plan import (
    NodePlan,
    OperatorKind,
    OperatorPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
)


@pytest.mark.parametrize(
    ("trigger", "seconds"),
    [
        pytest.param("real time 5 minutes", 300.0, id="minutes"),
        pytest.param("real time 30 seconds", 30.0, id="seconds"),
        pytest.param("real time 1 minute 30 seconds", 90.0, id="two units"),
        pytest.param("real time interval 5000 ms", 5.0, id="milliseconds"),
        pytest.param("real time 2h", 7200.0, id="no blank"),
        pytest.param("real time soon", None, id="no interval"),
        pytest.param("real time 5 minutes and more", None, id="a rest"),
        pytest.param("real time 1 month", None, id="no fixed length"),
        pytest.param("5 minutes", None, id="batches"),
        pytest.param("continuous 1 second", None, id="continuous"),
    ],
)
def test_the_interval_is_read_as_spark_reads_it(trigger: str, seconds: float | None) -> None:
    assert interval_of(trigger) == seconds


def a_plan(**changes: Any) -> QueryPlan:
    fields: dict[str, Any] = {
        "query": "q",
        "spark": "4.3.0",
        "output_mode": "update",
        "processing_trigger": "real time 30 seconds",
        "sources": (SourcePlan(source="kafka"),),
        "sink": SinkPlan(sink="kafka"),
    }
    return QueryPlan(**fields | changes)


def operator(kind: OperatorKind) -> tuple[OperatorPlan, ...]:
    return (OperatorPlan(sort=kind),)


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        pytest.param({}, [], id="Kafka to Kafka"),
        pytest.param({"sink": SinkPlan(sink="foreach")}, [], id="foreach"),
        pytest.param({"sources": (SourcePlan(source="theirs"),)}, [], id="a source of others"),
        pytest.param({"operators": operator(OperatorKind.AGGREGATE)}, [], id="an aggregation"),
        pytest.param({"operators": operator(OperatorKind.DEDUPLICATE)}, [], id="duplicates"),
        pytest.param({"output_mode": "append"}, ["output_mode"], id="append"),
        pytest.param(
            {"processing_trigger": "real time 4 seconds"}, ["processing_trigger"], id="too short"
        ),
        pytest.param(
            {
                "processing_trigger": "real time 4 seconds",
                "settings": {"spark.sql.streaming.realTimeMode.minBatchDuration": "1000"},
            },
            [],
            id="as short as the session allows",
        ),
        pytest.param(
            {"sources": (SourcePlan(source="kafka"), SourcePlan(source="rate"))},
            ["sources[1]"],
            id="a second source without it",
        ),
        pytest.param({"sink": SinkPlan(sink="foreachbatch")}, ["sink"], id="foreachBatch"),
        pytest.param({"sink": SinkPlan(sink="file")}, ["sink"], id="files"),
        pytest.param({"sink": SinkPlan(sink="delta")}, ["sink"], id="a sink of others"),
        pytest.param({"operators": operator(OperatorKind.JOIN)}, ["operators[0]"], id="a join"),
        pytest.param(
            {"operators": operator(OperatorKind.TRANSFORM_WITH_STATE)},
            ["operators[0]"],
            id="transformWithState",
        ),
        pytest.param(
            {"spark": "4.2.1", "operators": operator(OperatorKind.AGGREGATE)},
            ["operators[0]"],
            id="state before 4.3",
        ),
        pytest.param({"nodes": (NodePlan(node="MapInPandas"),)}, ["steps"], id="mapInPandas"),
        pytest.param(
            {
                "sink": SinkPlan(sink="delta"),
                "settings": {"spark.sql.streaming.realTimeMode.allowlistCheck": "false"},
            },
            [],
            id="the check is off",
        ),
        pytest.param(
            {"processing_trigger": "", "sink": SinkPlan(sink="file")}, [], id="in batches"
        ),
    ],
)
def test_what_spark_refuses_in_real_time_mode_is_named(
    changes: dict[str, Any], places: list[str]
) -> None:
    assert [place for place, _ in refusals_of(a_plan(**changes))] == places


@pytest.mark.parametrize(
    ("demand", "needed", "is_short"),
    [
        pytest.param(SlotDemand(readers=2, slots=2), 2, False, id="as many as partitions"),
        pytest.param(SlotDemand(readers=3, slots=2), 3, True, id="a partition more"),
        pytest.param(SlotDemand(readers=2, stateful=2, slots=3), 4, True, id="state beside it"),
        pytest.param(SlotDemand(readers=2, others=2, slots=3), 4, True, id="another query"),
        pytest.param(SlotDemand(readers=9), 9, False, id="unknown slots"),
    ],
)
def test_each_task_needs_a_slot(demand: SlotDemand, needed: int, is_short: bool) -> None:
    assert (demand.needed, demand.is_short) == (needed, is_short)


def test_the_sentence_says_what_the_slots_are_for() -> None:
    told = SlotDemand(readers=3, stateful=2, others=1, slots=4).sentence
    assert told.startswith(
        "It needs 6 task slots at once (3 to read partitions, 2 behind shuffles, 1 for other queries) and the "
        "application has 4."
    )


YARN = {"spark.master": "yarn"}
DYNAMIC = {**YARN, "spark.dynamicAllocation.enabled": "true", "spark.executor.cores": "2"}
STANDALONE = {"spark.master": "spark://one:7077"}


@pytest.mark.parametrize(
    ("conf", "slots"),
    [
        pytest.param({"spark.master": "local[4]"}, 8, id="threads"),
        pytest.param({"spark.master": "local[4]", "spark.task.cpus": "2"}, 4, id="two cores each"),
        pytest.param({**YARN, "spark.executor.instances": "3"}, 3, id="an executor has one core"),
        pytest.param(
            {**YARN, "spark.executor.instances": "3", "spark.executor.cores": "4"}, 12, id="cores"
        ),
        pytest.param({**DYNAMIC, "spark.dynamicAllocation.maxExecutors": "5"}, 10, id="at most"),
        pytest.param(DYNAMIC, None, id="no bound"),
        pytest.param({**STANDALONE, "spark.cores.max": "6"}, 6, id="cores of the application"),
        pytest.param(STANDALONE, None, id="all that the cluster has"),
    ],
)
def test_slots_are_what_the_application_may_come_to(
    conf: Mapping[str, str], slots: int | None
) -> None:
    assert slots_of(conf, 8) == slots
