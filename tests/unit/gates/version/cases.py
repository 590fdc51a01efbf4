"""Checkpoints, plans and a small matrix for the tests of the version gate's rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_streaming.checkpoints.read.formats import PINNED_SINCE, newer_than
from airflow_streaming.checkpoints.read.report import (
    Checkpoint,
    Operator,
    SourcePosition,
    SourceType,
    StateStore,
    StoreType,
)
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.gates.version.checkpoint_rules import OLD_VALUES
from airflow_streaming.gates.version.matrix import Matrix, Outcome, Seen
from airflow_streaming.gates.version.shape import PIN
from airflow_streaming.model.plan.schema import Column

JOIN_STORES: Final = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)
STREAMING: Final = "spark.sql.streaming."
FINE: Final = Seen(there=Outcome.SAME, back=Outcome.SAME)


def a_store(name: str = "default", store: StoreType = StoreType.HDFS) -> StateStore:
    return StateStore(name=name, store=store, partitions=2, newest_version=3, files=4, size=9)


def an_operator(name: str | None = "stateStoreSave", **changes: Any) -> Operator:
    stores = [a_store()]
    if name == "symmetricHashJoin":
        stores = [a_store(each) for each in JOIN_STORES]
    told: dict[str, Any] = {"id": 0, "partitions": 2, "stores": tuple(stores)}
    return Operator(name=name, **{**told, **changes})


def an_unnamed_join() -> Operator:
    return an_operator(None, stores=tuple(a_store(each) for each in JOIN_STORES))


def a_source(source: SourceType = SourceType.FILE, name: str = "0") -> SourcePosition:
    return SourcePosition(name=name, source=source, offset={"logOffset": 2})


def a_checkpoint(*operators: Operator, **changes: Any) -> Checkpoint:
    """A sound checkpoint of Spark 3.5 with a few batches."""
    told: dict[str, Any] = {
        "uri": "/checkpoint",
        "query_id": "q",
        "offset_log_version": 1,
        "commit_log_version": 1,
        "state_format": 1 if operators else None,
        "spark_at_least": "3.5",
        "last_planned_batch": 2,
        "last_committed_batch": 2,
        "sources": (a_source(),),
        "conf": {"spark.sql.shuffle.partitions": "2"},
    }
    return Checkpoint(operators=operators, **{**told, **changes})


def join_schemas(*, nullable: bool) -> tuple[StoreSchema, ...]:
    return tuple(
        StoreSchema(
            operator=0,
            store=store,
            key=(Column(name="field0", type="bigint"),),
            value=(Column(name="id", type="bigint", nullable=nullable),),
            path=f"state/0/0/{store}/_metadata/schema",
        )
        for store in JOIN_STORES
        if store.endswith("-keyWithIndexToValue")
    )


_VALUES: Final = {
    STREAMING + "stateStore.rocksdb.mergeOperatorVersion": "2",
    STREAMING + "statefulOperator.alwaysNullableOutput.enabled": "true",
    PIN: "true",
    STREAMING + "statefulOperator.useStrictDistribution": "true",
    STREAMING + "join.stateFormatVersion": "2",
}


def pinned_by(version: str) -> dict[str, str]:
    """What a Spark pins in the plans of a query that it has begun."""
    return {
        key: _VALUES.get(key, OLD_VALUES.get(key, "min"))
        for key, since in PINNED_SINCE.items()
        if not newer_than(since, version)
    }


def a_matrix(cells: Mapping[str, Mapping[str, Seen]] | None = None) -> Matrix:
    """A matrix in which all is fine but what is given."""
    shapes = (
        "stateless/none",
        "stateless_file_sink/none",
        "window_aggregate/hdfs",
        "aggregate_update/hdfs",
        "inner_join/hdfs",
        "full_outer_join/hdfs",
    )
    pairs = [f"{a}>{b}" for a in ("3.5", "4.0", "4.3") for b in ("3.5", "4.0", "4.3")]
    fine = {shape: dict.fromkeys(pairs, FINE) for shape in shapes}
    given = {name: {**fine.get(name, {}), **pairs} for name, pairs in (cells or {}).items()}
    releases = {"3.5": "3.5.9", "4.0": "4.0.5", "4.3": "4.3.0"}
    return Matrix(measured="2026-11-21", releases=releases, cells={**fine, **given})
