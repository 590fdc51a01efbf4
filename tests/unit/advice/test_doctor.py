"""The doctor says what is risky, what is fine, and what it could not examine."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.advice.doctor import RULES, examine, risks
from airflow_streaming.advice.examined import Facts, Outcome, RiskLevel
from airflow_streaming.advice.profile import StateStore
from airflow_streaming.model.spark.plan import QueryPlan
from tests.unit.supervision.builders import BEGUN, a_deployment
from tests.unit.supervision.examined import (
    GOOD_CONF,
    PARTITIONS,
    PROVIDER,
    a_planned_query,
    batches,
    facts,
    said,
    the_one,
)


def test_a_stream_with_the_production_profile_is_fine_throughout() -> None:
    found = examine(facts())

    assert [advice for advice in found if advice.outcome is not Outcome.FINE] == []
    assert len({advice.rule for advice in found}) == len(RULES)


@pytest.mark.parametrize(
    ("rule", "level", "changes"),
    [
        pytest.param(
            "metrics", "low", {"deployment": {"conf": {}}}, id="metrics are off by default"
        ),
        pytest.param(
            "metrics",
            "low",
            {"deployment": {"conf": {"spark.sql.streaming.metricsEnabled": "false"}}},
            id="metrics are switched off",
        ),
        pytest.param(
            "shuffle-partitions",
            "medium",
            {"pinned": {"revenue": {PARTITIONS: "200"}}},
            id="200 partitions on two cores",
        ),
        pytest.param(
            "shuffle-partitions", "medium", {"cores": 64}, id="two partitions on 64 cores"
        ),
        pytest.param(
            "fair-scheduling",
            "low",
            {"deployment": {"conf": {}, "fair_pools": True}},
            id="pools without fair scheduling",
        ),
        pytest.param(
            "conf-without-effect",
            "low",
            {"pinned": {"revenue": {PROVIDER: StateStore.HDFS.provider}}},
            id="the checkpoint has another state store than the conf",
        ),
        pytest.param(
            "checkpoint-on-local-disk",
            "high",
            {"status": {"application_id": "app-20261121-0001"}},
            id="a local checkpoint on a standalone cluster",
        ),
        pytest.param(
            "checkpoint-on-local-disk",
            "high",
            {
                "status": {"application_id": "application_1_0001"},
                "query": {"checkpoint": "file:/data/c/revenue"},
            },
            id="a local checkpoint on YARN, as Hadoop spells it",
        ),
        pytest.param(
            "temporary-checkpoint",
            "high",
            {"query": {"checkpoint": "file:/tmp/c/revenue"}},
            id="a checkpoint under /tmp",
        ),
        pytest.param(
            "temporary-checkpoint",
            "high",
            {"query": {"checkpoint": "hdfs://nn:8020/tmp/c"}},
            id="a checkpoint under /tmp of HDFS",
        ),
        pytest.param(
            "temporary-checkpoint",
            "high",
            {"query": {"checkpoint": "/data/temporary-2f6a"}},
            id="a checkpoint that Spark deletes itself",
        ),
        pytest.param(
            "output-in-checkpoint",
            "high",
            {"deployment": {"output": "/data/streams/orders/checkpoints/000003/revenue/out"}},
            id="output in the checkpoint",
        ),
        pytest.param(
            "output-in-checkpoint",
            "high",
            {"deployment": {"output": "/data/streams/orders"}},
            id="the checkpoint in the output",
        ),
        pytest.param(
            "watermark",
            "medium",
            {"history": batches(watermark=None)},
            id="state without a watermark",
        ),
        pytest.param(
            "state-store",
            "medium",
            {
                "history": batches(rows=lambda _: 3_000_000, state_bytes=200 * 2**20),
                "pinned": {"revenue": {PROVIDER: StateStore.HDFS.provider}},
            },
            id="three million keys in the heap",
        ),
        pytest.param(
            "state-store",
            "high",
            {
                "history": batches(rows=lambda _: 1_000, state_bytes=600 * 2**20),
                "pinned": {"revenue": {PROVIDER: StateStore.HDFS.provider}},
            },
            id="more than the heaps have room for",
        ),
        pytest.param(
            "state-growth",
            "high",
            {"history": batches(rows=lambda number: 10_000 + 1_000 * number)},
            id="state that only grows",
        ),
        pytest.param(
            "rate-limit", "medium", {"script": "spark.readStream.json(p)"}, id="no rate limit"
        ),
        pytest.param(
            "processing-trigger",
            "medium",
            {
                "history": batches(every=1.0, input_rows=0),
                "query": {"processing_interval_s": None},
            },
            id="empty batches one upon the other",
        ),
        pytest.param(
            "retention", "medium", {"history": batches(every=0.2)}, id="100 batches are 20 s"
        ),
        pytest.param(
            "retention",
            "medium",
            {
                "history": batches(every=2.0),
                "status": {"first_progress_at": BEGUN + timedelta(seconds=300)},
            },
            id="a restart takes longer than files are kept",
        ),
        pytest.param(
            "event-log",
            "high",
            {
                "deployment": {
                    "spark_version": "3.5.6",
                    "conf": GOOD_CONF | {"spark.eventLog.enabled": "true"},
                }
            },
            id="event logs on Spark 3.5.6",
        ),
    ],
)
def test_a_risk_is_found_with_its_evidence_and_a_remedy(
    rule: str, level: str, changes: dict[str, Any]
) -> None:
    [found] = risks(tuple(said(rule, facts(**changes))))

    assert found.level is RiskLevel(level)
    assert found.evidence
    assert found.remedy.endswith(".")


@pytest.mark.parametrize(
    ("rule", "changes", "missing"),
    [
        pytest.param("shuffle-partitions", {"deployment": {"conf": {}}}, "cores", id="no cores"),
        pytest.param(
            "shuffle-partitions",
            {"deployment": {"conf": {}}, "pinned": {}},
            "neither in conf nor read",
            id="no partitions",
        ),
        pytest.param("conf-without-effect", {"pinned": {}}, "No offsets", id="no checkpoint"),
        pytest.param(
            "checkpoint-on-local-disk",
            {"status": {"application_id": None}},
            "whether the master is a cluster",
            id="no application id",
        ),
        pytest.param(
            "output-in-checkpoint",
            {"deployment": {"application_args": ("--to", "/elsewhere")}},
            "The script chooses its output",
            id="an output of the script's own",
        ),
        pytest.param(
            "state-store",
            {
                "history": batches(rows=lambda _: 3_000_000),
                "pinned": {},
                "deployment": {"conf": {}},
            },
            "3,000,000 rows",
            id="millions of keys in an unknown store",
        ),
        pytest.param("state-growth", {"history": batches(19)}, "19 batches", id="a short history"),
        pytest.param("rate-limit", {"script": None}, "could not be read", id="no script"),
        pytest.param(
            "rate-limit", {"script": "import lib"}, "elsewhere", id="sources in a library"
        ),
        pytest.param(
            "processing-trigger",
            {"history": batches(3), "query": {"processing_interval_s": None}},
            "3 batches",
            id="too few batches for a rhythm",
        ),
        pytest.param("retention", {"history": batches(9)}, "too few", id="no rhythm"),
        pytest.param(
            "event-log",
            {"deployment": {"spark_version": "4.0.0"}},
            "CVE-2025-54920",
            id="event logs may be on by default",
        ),
        pytest.param("event-log", {"deployment": {"spark_version": "x"}}, "'x'", id="no version"),
        pytest.param(
            "metrics",
            {
                "deployment": {"conf": {}},
                "script": 'spark.conf.set("spark.sql.streaming.metricsEnabled", flag)',
            },
            "The script itself",
            id="metrics set by the script",
        ),
    ],
)
def test_what_cannot_be_examined_is_neither_fine_nor_a_risk(
    rule: str, changes: dict[str, Any], missing: str
) -> None:
    found = the_one(rule, facts(**changes))

    assert found.outcome is Outcome.UNKNOWN
    assert missing in found.what


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        pytest.param(
            "shuffle-partitions", {"history": batches(rows=lambda _: None)}, id="no state"
        ),
        pytest.param(
            "state-growth",
            {"history": batches(rows=lambda number: 50_000 + 20_000 * (number % 4))},
            id="state that fills and empties",
        ),
        pytest.param(
            "state-growth",
            {"history": batches(rows=lambda number: 7 + number)},
            id="growth of a few rows",
        ),
        pytest.param(
            "state-store",
            {
                "history": batches(rows=lambda _: 3_000_000, cache_miss_share=0.1),
                "pinned": {},
                "deployment": {"conf": {}},
            },
            id="a figure that only RocksDB reports",
        ),
        pytest.param(
            "processing-trigger",
            {
                "history": batches(every=30.0, input_rows=0),
                "query": {"processing_interval_s": None},
            },
            id="empty batches with pauses",
        ),
        pytest.param(
            "processing-trigger",
            {"history": batches(every=1.0), "query": {"processing_interval_s": None}},
            id="full batches one upon the other",
        ),
        pytest.param(
            "checkpoint-on-local-disk",
            {
                "status": {"application_id": "app-1"},
                "query": {"checkpoint": "s3a://bucket/c/revenue"},
            },
            id="shared storage on a cluster",
        ),
        pytest.param(
            "temporary-checkpoint",
            {"query": {"checkpoint": "s3a://bucket/tmp/c"}},
            id="a key prefix called tmp",
        ),
        pytest.param(
            "temporary-checkpoint", {"query": {"checkpoint": "/data/tmp/c"}}, id="tmp elsewhere"
        ),
        pytest.param("event-log", {"deployment": {"spark_version": "3.5.7"}}, id="3.5.7"),
        pytest.param("event-log", {"deployment": {"spark_version": "4.0.1"}}, id="4.0.1"),
        pytest.param(
            "event-log",
            {
                "deployment": {
                    "spark_version": "3.5.6",
                    "conf": {"spark.eventLog.enabled": "false"},
                }
            },
            id="event logs are off",
        ),
    ],
)
def test_what_looks_alike_and_is_harmless_is_no_risk(rule: str, changes: dict[str, Any]) -> None:
    assert the_one(rule, facts(**changes)).outcome is Outcome.FINE


def test_a_stream_that_never_ran_is_examined_as_far_as_it_goes() -> None:
    never = Facts(deployment=a_deployment(checkpoint="/tmp/checkpoints"))

    found = examine(never)

    assert [(advice.rule, advice.query) for advice in risks(found)] == [
        ("temporary-checkpoint", None),
        ("metrics", None),
    ]
    unexamined = {advice.rule for advice in found if advice.outcome is Outcome.UNKNOWN}
    assert {"shared-checkpoint", "watermark", "state-growth", "rate-limit"} <= unexamined


def test_what_could_not_be_read_is_said_and_the_gravest_risk_comes_first() -> None:
    found = examine(
        facts(
            unread=("Stream sales cannot be read.",),
            deployment={"conf": {}},
            query={"checkpoint": "/tmp/c"},
        )
    )

    assert found[0].rule == "temporary-checkpoint"
    assert "Stream sales cannot be read." in [advice.what for advice in found]
    levels = [advice.level for advice in found if advice.level is not None]
    assert levels == sorted(levels, key=["high", "medium", "low"].index)


@pytest.mark.parametrize(
    ("conf", "cores"),
    [
        ({"spark.master": "local[8]"}, 8),
        ({"spark.master": "local[4, 3]"}, 4),
        ({"spark.cores.max": "6"}, 6),
        ({"spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
    ],
    ids=str,
)
def test_the_number_of_cores_is_found_where_conf_has_it(conf: dict[str, str], cores: int) -> None:
    found = the_one(
        "shuffle-partitions",
        facts(deployment={"conf": conf}, pinned={"revenue": {PARTITIONS: str(cores)}}),
    )

    assert found.what == f"{cores} partitions on {cores} cores."


@pytest.mark.parametrize(
    ("plan", "outcome", "level"),
    [
        pytest.param(a_planned_query(), Outcome.FINE, None, id="format 1"),
        pytest.param(
            a_planned_query(checkpoint_format="2"), Outcome.RISK, RiskLevel.MEDIUM, id="a file sink"
        ),
        pytest.param(a_planned_query("delta", "2"), Outcome.RISK, RiskLevel.HIGH, id="a table"),
        pytest.param(a_planned_query("kafka", "2"), Outcome.FINE, None, id="Kafka"),
        pytest.param(a_planned_query("foreachbatch", "2"), Outcome.UNKNOWN, None, id="a function"),
        pytest.param(
            replace(a_planned_query(checkpoint_format="2"), operators=()),
            Outcome.FINE,
            None,
            id="no state",
        ),
    ],
)
def test_state_that_a_sink_skips_is_a_risk_in_format_2(
    plan: QueryPlan, outcome: Outcome, level: RiskLevel | None
) -> None:
    advice = the_one("skipped-state", facts(plans=(plan,)))

    assert (advice.outcome, advice.level, advice.query) == (outcome, level, "revenue")
    assert bool(advice.remedy) is (outcome is not Outcome.FINE)


def test_state_that_a_sink_skips_is_unknown_before_a_plan_is_recorded() -> None:
    assert the_one("skipped-state", facts(plans=())).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("application", "bounded", "is_risk"),
    [
        ("spark-4fa1", "false", True),
        ("application_1_7", "false", True),
        ("spark-4fa1", "true", False),
        ("local-1", "false", False),
        ("app-2026-0001", "false", False),
    ],
)
def test_rocksdb_without_a_bound_in_a_container_is_a_risk(
    application: str, bounded: str, is_risk: bool
) -> None:
    key = "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage"
    found = facts(
        status={"application_id": application},
        deployment={"conf": {**GOOD_CONF, key: bounded}},
    )
    assert bool(risks(said("rocksdb-memory", found))) is is_risk
