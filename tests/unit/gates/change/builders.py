"""Plans of small queries, and one-line ways to change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from airflow_streaming.checkpoints.read.report import (
    Checkpoint,
    Operator,
    SourcePosition,
    SourceType,
    StateStore,
    StoreType,
)
from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.findings import GateDecision, worst
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.spark.plan import (
    NodePlan,
    OperatorKind,
    OperatorPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
    StepPlan,
    WatermarkPlan,
)
from tests.trees import a_step, operator_fields

PARTITIONS: Final = "spark.sql.shuffle.partitions"
PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
HDFS: Final = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CONF: Final = {PARTITIONS: "3", PROVIDER: HDFS}
WINDOW: Final = "struct<start:timestamp,end:timestamp>"


def columns(text: str) -> tuple[Column, ...]:
    """Return columns of a text like ``k string, v bigint``."""
    parts = (part.split() for part in text.split(", ") if part)
    return tuple(Column(name=name, type=type_) for name, type_ in parts)


EVENTS: Final = columns("k string, v bigint, ts timestamp")


def _operator(**told: Any) -> OperatorPlan:
    return OperatorPlan(**operator_fields(told))


def a_source(**changes: Any) -> SourcePlan:
    made = SourcePlan(source="file", format="json", paths=("/in",), schema=EVENTS)
    return replace(made, **changes)


def a_kafka_source(**changes: Any) -> SourcePlan:
    made = SourcePlan(
        source="kafka",
        paths=("subscribe a,b",),
        schema=columns("key binary, value binary"),
        options={"kafka.bootstrap.servers": "one:9092", "startingoffsets": "earliest"},
    )
    return replace(made, **changes)


def a_file_sink(schema: str = "k string, v bigint", **changes: Any) -> SinkPlan:
    made = SinkPlan(sink="file", format="parquet", target="/out", schema=columns(schema))
    return replace(made, **changes)


def a_sink(sink: str, schema: str = "k string, v bigint", **changes: Any) -> SinkPlan:
    code = "c0de" if sink.startswith("foreach") else ""
    return replace(SinkPlan(sink=sink, schema=columns(schema), code=code), **changes)


def a_stateless(**changes: Any) -> QueryPlan:
    made = QueryPlan(
        query="q",
        spark="4.3.0",
        output_mode="append",
        sources=(a_source(),),
        sink=a_file_sink(),
        steps=(
            a_step("project", "k, (v * 2) AS v"),
            a_step("filter", "(v > 1)"),
        ),
        processing_trigger="10 seconds",
        conf=CONF,
    )
    return replace(made, **changes)


def an_aggregate(**changes: Any) -> OperatorPlan:
    made = _operator(
        sort=OperatorKind.AGGREGATE,
        keys=(Column(name="window", type=WINDOW), Column(name="k", type="string")),
        key_expressions=("window(ts, 20 seconds)", "k"),
        values=("sum(v)", "count(1)"),
        value_types=("bigint", "bigint"),
        outputs=("total", "lines"),
        window_us=(20_000_000, 20_000_000, 0),
        ends=True,
    )
    return replace(made, **operator_fields(changes))


def an_aggregation(operator: OperatorPlan | None = None, **changes: Any) -> QueryPlan:
    made = QueryPlan(
        query="q",
        spark="4.3.0",
        output_mode="append",
        sources=(a_source(),),
        sink=a_file_sink("k string, total bigint, lines bigint"),
        operators=(operator or an_aggregate(),),
        watermarks=(WatermarkPlan(column="ts", delay_ms=60_000),),
        steps=(a_step("project", "k, total, lines"),),
        conf=CONF,
    )
    return replace(made, **changes)


def a_deduplication(keys: str = "k string, v bigint", **changes: Any) -> QueryPlan:
    made = columns(keys)
    operator = _operator(
        sort=OperatorKind.DEDUPLICATE, keys=made, key_expressions=tuple(c.name for c in made)
    )
    return replace(an_aggregation(operator, steps=(), sink=a_file_sink()), **changes)


def a_join(steps: Sequence[StepPlan] = (), **changes: Any) -> QueryPlan:
    operator = _operator(
        sort=OperatorKind.JOIN,
        keys=columns("k string"),
        key_expressions=("k@0 = k@1",),
        join_type="inner",
        condition="((k@0 = k@1) AND (ts@1 < (ts@0 + interval 5 seconds)))",
        left=EVENTS,
        right=EVENTS,
        ends=True,
    )
    made = an_aggregation(
        replace(operator, **operator_fields(changes.pop("operator", {}))),
        sources=(a_source(), a_source(paths=("/in2",))),
        steps=tuple(steps) or (a_step("project", "k@0, v@1"),),
        sink=a_file_sink(),
    )
    return replace(made, **changes)


def a_session(gap: str = "5 seconds") -> QueryPlan:
    return an_aggregation(
        an_aggregate(
            sort=OperatorKind.SESSION_WINDOW,
            key_expressions=(f"session_window(ts, {gap})", "k"),
            keys=(Column(name="session_window", type=WINDOW), Column(name="k", type="string")),
            window_us=(),
            gap=gap,
        )
    )


def a_stateful_function(**changes: Any) -> QueryPlan:
    operator = _operator(
        sort=OperatorKind.GROUPS_WITH_STATE,
        keys=columns("k string"),
        key_expressions=("k",),
        state_schema="n bigint",
        output_schema="k string, n bigint",
        timeout="NoTimeout",
        function="count_up",
        code="c0de",
    )
    return an_aggregation(
        replace(operator, **operator_fields(changes)),
        steps=(),
        sink=a_sink("foreachbatch"),
        output_mode="update",
    )


def a_processor(**changes: Any) -> QueryPlan:
    operator = _operator(
        sort=OperatorKind.TRANSFORM_WITH_STATE,
        keys=columns("k string"),
        key_expressions=("k",),
        state_schema="list seen (k string); value total (n bigint)",
        output_schema="k string, n bigint",
        time_mode="NoTime",
        code="c0de",
    )
    return an_aggregation(
        replace(operator, **operator_fields(changes)),
        steps=(),
        sink=a_sink("foreachbatch"),
        output_mode="update",
    )


def with_operator(plan: QueryPlan, **changes: Any) -> QueryPlan:
    """Return a plan whose first operator is changed."""
    return replace(
        plan,
        operators=(replace(plan.operators[0], **operator_fields(changes)), *plan.operators[1:]),
    )


def with_source(plan: QueryPlan, **changes: Any) -> QueryPlan:
    """Return a plan whose first source is changed."""
    return replace(plan, sources=(replace(plan.sources[0], **changes), *plan.sources[1:]))


def with_sink(plan: QueryPlan, **changes: Any) -> QueryPlan:
    """Return a plan whose sink is changed."""
    return replace(plan, sink=replace(plan.sink, **changes))


def with_options(plan: QueryPlan, **options: str) -> QueryPlan:
    """Return a plan whose first source has more options; ``__`` stands for a dot."""
    told = {key.replace("__", "."): value for key, value in options.items()}
    return with_source(plan, options={**plan.sources[0].options, **told})


def with_steps(plan: QueryPlan, *steps: tuple[str, str, int]) -> QueryPlan:
    """Return a plan with other steps, each a sort, a text and a number of operators behind."""
    made = tuple(a_step(sort, text, below) for sort, text, below in steps)
    return replace(plan, steps=made)


def with_conf(plan: QueryPlan, conf: Mapping[str, str]) -> QueryPlan:
    """Return a plan with more configuration."""
    return replace(plan, conf={**plan.conf, **conf})


def a_checkpoint(**changes: Any) -> Checkpoint:
    """Return what the checkpoint of ``an_aggregation`` says."""
    made = Checkpoint(
        uri="/ck/q",
        query_id="q-1",
        offset_log_version=1,
        last_planned_batch=7,
        last_committed_batch=7,
        watermark_ms=1_700_000_000_000,
        sources=(SourcePosition(name="0", source=SourceType.FILE, offset={"logOffset": 7}),),
        operators=(an_operator("stateStoreSave"),),
        is_stateful=True,
        shuffle_partitions=3,
        conf=CONF,
    )
    return replace(made, **changes)


def an_operator(name: str | None, **changes: Any) -> Operator:
    store = StateStore(
        name="default", store=StoreType.HDFS, partitions=3, newest_version=8, files=9, size=900
    )
    return replace(Operator(id=0, name=name, partitions=3, stores=(store,)), **changes)


def a_store_schema(key: str = "", value: str = "sum bigint, count bigint", **changes: Any) -> Any:
    made = StoreSchema(
        operator=0,
        store="default",
        key=columns(key) or (Column(name="window", type=WINDOW), Column(name="k", type="string")),
        value=columns(value),
        path="state/0/0/_metadata/schema",
        watermarks=(WatermarkPlan(column="window", delay_ms=60_000),),
    )
    return replace(made, **changes)


def rules_of(old: QueryPlan | None, new: QueryPlan, **given: Any) -> set[str]:
    """Return the names of the rules that a change is found by."""
    checkpoint = given.pop("checkpoint", None)
    return {finding.rule for finding in judge_change(old, new, checkpoint, **given)}


def decision_of(old: QueryPlan | None, new: QueryPlan, **given: Any) -> GateDecision:
    """Return what a change comes to."""
    checkpoint = given.pop("checkpoint", None)
    return worst(finding.severity for finding in judge_change(old, new, checkpoint, **given))


def a_node(**changes: Any) -> NodePlan:
    """Return a node of Spark's plan."""
    return replace(NodePlan(node="Filter", digest="1"), **changes)
