"""Checkpoints beside plans: those that a checkpoint refuses by what it says, and those that fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_streaming.checkpoints.read.report import Checkpoint, SourcePosition, SourceType
from airflow_streaming.model.spark.plan import QueryPlan
from tests.unit.gates.change import builders as b

AGG = b.an_aggregation()
CHECKPOINT = b.a_checkpoint()
SCHEMAS = (b.a_store_schema(),)
STATELESS = b.a_checkpoint(operators=(), is_stateful=False)
DEDUP = b.a_checkpoint(operators=(b.an_operator("dedupe"),))
JOIN = b.a_checkpoint(
    operators=(b.an_operator("symmetricHashJoin"),), sources=CHECKPOINT.sources * 2
)
GROUPS = b.a_checkpoint(operators=(b.an_operator("applyInPandasWithState"),))
TWS_STATE: Mapping[str, Any] = {
    "timeMode": "NoTime",
    "outputMode": "Update",
    "stateVariables": [
        {"stateName": "seen", "stateVariableType": "ListState", "ttlEnabled": False},
        {"stateName": "total", "stateVariableType": "ValueState", "ttlEnabled": False},
    ],
}
TWS = b.a_checkpoint(operators=(b.an_operator("transformWithStateInPandasExec", state=TWS_STATE),))


def at(position: SourceType, offset: Any = None) -> Checkpoint:
    return b.a_checkpoint(sources=(SourcePosition(name="0", source=position, offset=offset),))


def named(*names: str) -> Checkpoint:
    return b.a_checkpoint(
        sources=tuple(
            SourcePosition(name=name, source=SourceType.FILE, offset={"logOffset": 1})
            for name in names
        )
    )


def side(store: str, value: str) -> Any:
    return b.a_store_schema("field0 string, index bigint", value, store=store, watermarks=())


KAFKA = replace(AGG, sources=(b.a_kafka_source(),))
TOPICS = {"a": {"0": 1}, "b": {"0": 5}}

CASES: Mapping[str, tuple[QueryPlan, Checkpoint, tuple[Any, ...], str]] = {
    "sources": (b.a_join(), CHECKPOINT, SCHEMAS, "source.number"),
    "offsets of another source": (AGG, at(SourceType.NUMBER, 5), SCHEMAS, "source.type"),
    "topics": (KAFKA, at(SourceType.KAFKA, {"c": {"0": 1}}), SCHEMAS, "source.topics"),
    "names": (AGG, named("a"), SCHEMAS, "source.naming"),
    "state of a query without": (b.a_stateless(), CHECKPOINT, SCHEMAS, "operator.last"),
    "no state": (AGG, STATELESS, (), "operator.first"),
    "another operator": (AGG, DEDUP, (), "operator.sort"),
    "another function": (
        b.with_operator(AGG, values=("max(v)", "count(1)")),
        CHECKPOINT,
        SCHEMAS,
        "aggregation.aggregates",
    ),
    "another key": (
        AGG,
        CHECKPOINT,
        (b.a_store_schema("window int, k string"),),
        "aggregation.keys",
    ),
    "another key of the type": (
        AGG,
        CHECKPOINT,
        (b.a_store_schema(f"window {b.WINDOW}, j string"),),
        "aggregation.keys",
    ),
    "another type": (
        AGG,
        CHECKPOINT,
        (b.a_store_schema(value="sum double, count bigint"),),
        "aggregation.types",
    ),
    "deduplicated by less": (
        b.a_deduplication(),
        DEDUP,
        (b.a_store_schema("k string", "__dummy__ void"),),
        "deduplication.columns",
    ),
    "deduplicated in another order": (
        b.a_deduplication(),
        DEDUP,
        (b.a_store_schema("v bigint, k string", "__dummy__ void"),),
        "deduplication.order",
    ),
    "a side's columns": (
        b.a_join(),
        JOIN,
        (side("left-keyWithIndexToValue", "k string, w int, matched boolean"),),
        "join.schema",
    ),
    "keys of a join": (
        b.a_join(),
        JOIN,
        (replace(side("left-keyWithIndexToValue", "k string"), key=b.columns("field0 int")),),
        "join.keys",
    ),
    "a timeout": (
        b.a_stateful_function(),
        GROUPS,
        (b.a_store_schema("k string", "groupState struct<n:bigint>, timeoutTimestamp int"),),
        "user_state.timeout",
    ),
    "a function's keys": (
        b.a_stateful_function(),
        GROUPS,
        (b.a_store_schema("j int", "groupState struct<n:int>"),),
        "user_state.keys",
    ),
    "a time mode": (
        b.with_operator(b.a_processor(), time_mode="EventTime"),
        TWS,
        (),
        "user_state.time_mode",
    ),
    "a variable": (
        b.with_operator(b.a_processor(), state_schema="map total (n int)"),
        TWS,
        (),
        "variable.changed",
    ),
    "an output mode": (
        replace(b.a_processor(), output_mode="append"),
        TWS,
        (),
        "output_mode.stateful",
    ),
    "a watermark that is needed": (
        replace(AGG, watermarks=()),
        CHECKPOINT,
        SCHEMAS,
        "watermark.needed",
    ),
}


FITTING: Mapping[str, tuple[QueryPlan, Checkpoint, tuple[Any, ...]]] = {
    "aggregation": (AGG, CHECKPOINT, SCHEMAS),
    "with computed keys": (
        b.with_operator(AGG, keys=b.columns("u string"), key_expressions=("upper(k)",)),
        CHECKPOINT,
        (b.a_store_schema("_groupingexpression string"),),
    ),
    "with keys among the values": (
        AGG,
        CHECKPOINT,
        (b.a_store_schema(value=f"window {b.WINDOW}, k string, sum bigint, count bigint"),),
    ),
    "with functions that nobody knows": (
        b.with_operator(AGG, values=("my_sum(v)", "count(1)")),
        CHECKPOINT,
        SCHEMAS,
    ),
    "without files": (AGG, CHECKPOINT, ()),
    "of Spark 3.5": (AGG, b.a_checkpoint(operators=(b.an_operator(None),)), SCHEMAS),
    "Kafka": (KAFKA, at(SourceType.KAFKA, TOPICS), SCHEMAS),
    "not started": (KAFKA, at(SourceType.NOT_STARTED), SCHEMAS),
    "deduplication": (
        b.a_deduplication(),
        DEDUP,
        (b.a_store_schema("k string, v bigint", "__dummy__ void"),),
    ),
    "join": (
        b.a_join(),
        JOIN,
        (
            side("left-keyWithIndexToValue", "k string, ts timestamp, matched boolean"),
            side("right-keyWithIndexToValue", "k string, v bigint, ts timestamp, matched boolean"),
        ),
    ),
    "state variables": (b.a_processor(), TWS, ()),
    "without state": (b.a_stateless(), STATELESS, ()),
}
