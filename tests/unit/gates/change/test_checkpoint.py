"""What a checkpoint alone tells of the code that made it, and what it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.checkpoints.read.report import (
    Checkpoint,
    Finding,
    FindingCode,
    StateStore,
    StoreType,
)
from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.spark.plan import OperatorKind, QueryPlan, WatermarkPlan
from tests.unit.gates.change import builders as b
from tests.unit.gates.change.checkpoint_cases import AGG, CASES, CHECKPOINT, FITTING, SCHEMAS, named


@pytest.mark.parametrize(
    ("plan", "checkpoint", "schemas", "rule"), CASES.values(), ids=CASES.keys()
)
def test_a_checkpoint_refuses_by_what_it_says(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: tuple[Any, ...], rule: str
) -> None:
    found = judge_change(None, plan, checkpoint, schemas=schemas)
    assert rule in {f.rule for f in found if f.severity is GateDecision.NOT_ALLOWED}


@pytest.mark.parametrize(
    ("plan", "checkpoint", "schemas", "rule"), CASES.values(), ids=CASES.keys()
)
def test_a_recorded_plan_that_is_not_of_the_checkpoint_is_told(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: tuple[Any, ...], rule: str
) -> None:
    found = judge_change(plan, plan, checkpoint, schemas=schemas)
    assert {"checkpoint.contradiction", rule} <= {finding.rule for finding in found}


@pytest.mark.parametrize(("plan", "checkpoint", "schemas"), FITTING.values(), ids=FITTING.keys())
def test_a_plan_that_fits_is_unknown_without_the_old_plan(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: tuple[Any, ...]
) -> None:
    assert b.decision_of(None, plan, checkpoint=checkpoint, schemas=schemas) is GateDecision.UNKNOWN


@pytest.mark.parametrize(("plan", "checkpoint", "schemas"), FITTING.values(), ids=FITTING.keys())
def test_a_plan_that_fits_contradicts_nothing(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: tuple[Any, ...]
) -> None:
    assert b.rules_of(plan, plan, checkpoint=checkpoint, schemas=schemas) <= {
        "sink.function_body",
        "user_state.function_body",
    }


SHOWN: Mapping[str, tuple[str, str, OperatorKind]] = {
    "deduplication": ("k string", "__dummy__ void", OperatorKind.DEDUPLICATE),
    "within the watermark": (
        "k string",
        "expiresAtMicros bigint",
        OperatorKind.DEDUPLICATE_WITHIN_WATERMARK,
    ),
    "session": (
        "k string, sessionStartTime timestamp",
        "count bigint",
        OperatorKind.SESSION_WINDOW,
    ),
    "groups": ("k string", "groupState struct<n:int>", OperatorKind.GROUPS_WITH_STATE),
    "limit": ("key void", "value bigint", OperatorKind.LIMIT),
}


@pytest.mark.parametrize(("key", "value", "sort"), SHOWN.values(), ids=SHOWN.keys())
def test_the_columns_tell_the_operator_where_spark_wrote_no_name(
    key: str, value: str, sort: OperatorKind
) -> None:
    checkpoint = b.a_checkpoint(operators=(b.an_operator(None),))
    found = judge_change(None, AGG, checkpoint, schemas=(b.a_store_schema(key, value),))
    assert {f.old for f in found if f.rule == "operator.sort"} == {sort.value}


def test_the_stores_tell_a_join_where_spark_wrote_no_name() -> None:
    store = StateStore(
        name="left-keyToNumValues",
        store=StoreType.HDFS,
        partitions=3,
        newest_version=8,
        files=9,
        size=900,
    )
    checkpoint = b.a_checkpoint(operators=(b.an_operator(None, stores=(store,)),))
    assert "operator.sort" in b.rules_of(None, AGG, checkpoint=checkpoint)


@pytest.mark.parametrize(("seconds", "rule"), [(90, "watermark.longer"), (30, "watermark.shorter")])
def test_the_columns_tell_the_delay_of_the_watermark(seconds: int, rule: str) -> None:
    plan = replace(AGG, watermarks=(WatermarkPlan(column="ts", delay_ms=seconds * 1000),))
    assert rule in b.rules_of(None, plan, checkpoint=CHECKPOINT, schemas=SCHEMAS)


def test_a_watermark_that_is_gone_is_seen_by_the_time_in_the_log() -> None:
    plan = replace(AGG, watermarks=(), output_mode="update")
    assert "watermark.removed" in b.rules_of(None, plan, checkpoint=CHECKPOINT)


def test_a_pinned_setting_is_told_without_the_old_plan() -> None:
    plan = b.with_conf(AGG, {b.PARTITIONS: "5"})
    found = judge_change(None, plan, CHECKPOINT, schemas=SCHEMAS)
    assert [(f.old, f.new) for f in found if f.rule == "conf.pinned"] == [("3", "5")]


def test_state_that_cannot_be_told_is_unknown() -> None:
    checkpoint = b.a_checkpoint(operators=(), is_stateful=None)
    assert "unseen.state" in b.rules_of(None, AGG, checkpoint=checkpoint)


def test_state_without_readable_columns_is_unknown() -> None:
    assert "unseen.state_columns" in b.rules_of(None, AGG, checkpoint=CHECKPOINT)


@pytest.mark.parametrize(
    ("plan", "rule"),
    [
        (AGG, "unseen.aggregation"),
        (b.a_join(), "unseen.join"),
        (b.a_deduplication(), "unseen.deduplication"),
        (b.a_stateful_function(), "unseen.user_state"),
        (b.with_operator(AGG, sort=OperatorKind.OTHER), "unseen.operator"),
        (AGG, "unseen.output_mode"),
        (AGG, "unseen.sources"),
        (AGG, "unseen.sink"),
        (AGG, "unseen.steps"),
    ],
)
def test_what_the_checkpoint_does_not_tell_has_a_rule_of_its_own(
    plan: QueryPlan, rule: str
) -> None:
    assert rule in b.rules_of(None, plan, checkpoint=CHECKPOINT, schemas=SCHEMAS)


def test_a_named_source_more_is_no_contradiction() -> None:
    plan = replace(AGG, sources=(b.a_source(name="a"), b.a_source(name="c")))
    assert "source.naming" not in b.rules_of(None, plan, checkpoint=named("a", "b"))


def test_an_unsound_checkpoint_is_refused_whatever_the_code() -> None:
    problem = Finding(
        code=FindingCode.BATCHES_SKIPPED, path="offsets/7", message="Batch 6 was skipped."
    )
    checkpoint = b.a_checkpoint(problems=(problem,))
    found = judge_change(AGG, AGG, checkpoint, schemas=SCHEMAS)
    assert [(f.rule, f.evidence) for f in found] == [("checkpoint.unsound", "offsets/7")]


def test_a_query_without_a_checkpoint_is_new() -> None:
    assert b.rules_of(None, AGG) == {"query.added"}


def test_a_checkpoint_without_a_batch_binds_nothing() -> None:
    empty = Checkpoint(uri="/ck/q", query_id="q-1")
    assert b.rules_of(None, AGG, checkpoint=empty) == {"query.added"}


def test_an_old_plan_that_nobody_could_read_is_no_plan() -> None:
    old = replace(AGG, sources=(), operators=(), notes=("The plan could not be read: X.",))
    found = b.rules_of(old, AGG, checkpoint=CHECKPOINT, schemas=SCHEMAS)
    assert {"plan.note", "unseen.aggregation"} <= found
    assert "source.number" not in found


def test_a_new_plan_that_nobody_could_read_is_compared_with_nothing() -> None:
    new = replace(AGG, sources=(), operators=(), notes=("The plan could not be read: X.",))
    assert b.rules_of(AGG, new, checkpoint=CHECKPOINT) == {"plan.note"}


def test_the_file_that_shows_it_is_named() -> None:
    found = judge_change(
        AGG, b.with_operator(AGG, values=("max(v)", "count(1)")), CHECKPOINT, schemas=SCHEMAS
    )
    assert [f.evidence for f in found] == ["state/0/0/_metadata/schema"]
