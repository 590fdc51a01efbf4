"""How the tests of the version gate's rules ask, and what they ask about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from airflow_streaming.checkpoints.read.report import Checkpoint, Finding, FindingCode, StoreType
from airflow_streaming.gates.findings import GateReport
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.gates.version.judge import can_come_back, judge_version
from airflow_streaming.gates.version.matrix import Matrix, Outcome, Seen, VersionQuestion
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.spark.plan import QueryPlan
from tests.unit.gates.version.cases import (
    STREAMING,
    a_checkpoint,
    a_matrix,
    a_source,
    a_store,
    an_operator,
    an_unnamed_join,
    pinned_by,
)
from tests.unit.gates.version.measured import plan_of

CHECK_OFF: Final = {STREAMING + "stateStore.stateSchemaCheck": "false"}
JOIN_FAILS: Final = Seen(
    there=Outcome.FAILED,
    back=Outcome.SAME,
    condition="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    unchecked=Outcome.SAME,
    unchecked_back=Outcome.SAME,
)
AGGREGATE: Final = a_checkpoint(an_operator())
BOTH_SIDES: Final = (a_source(), a_source(name="1"))
JOIN: Final = a_checkpoint(an_unnamed_join(), sources=BOTH_SIDES)
ROCKSDB: Final = a_store(store=StoreType.ROCKSDB)
ORDER: Final = "spark.sql.dropDuplicates.deterministicKeyOrder.enabled"
NULLABLE: Final = STREAMING + "statefulOperator.alwaysNullableOutput.enabled"
MERGE: Final = STREAMING + "stateStore.rocksdb.mergeOperatorVersion"
FRUIT: Final = ("apple", "berry", "cherry", "date", "s")
SHORT_IN_ALL: Final = ("s", "n", "v", "id", "k")
BEFORE_3_3: Final = a_checkpoint(
    an_operator(), conf={STREAMING + "statefulOperator.useStrictDistribution": "false"}
)
PARTITIONED: Final = replace(
    plan_of("stateless_file_sink"),
    sink=replace(
        plan_of("stateless_file_sink").sink,
        partitioned_by=("where",),
        schema=(Column(name="where", type="struct<city:string>"),),
    ),
)


def judge(
    checkpoint: Checkpoint,
    way: str,
    *,
    plan: QueryPlan | None = None,
    conf: Mapping[str, str] | None = None,
    matrix: Matrix | None = None,
    schemas: tuple[StoreSchema, ...] | None = None,
    back: bool = False,
    written_by: str = "",
) -> GateReport:
    """Ask about a checkpoint that is pinned as by the Spark which is said to have run it."""
    start, _, target = way.partition(" to ")
    pinned = {**pinned_by(written_by or start), **checkpoint.conf}
    checkpoint = replace(checkpoint, conf=pinned)
    question = VersionQuestion(from_version=start, to_version=target, conf=conf or {})
    ask = can_come_back if back else judge_version
    return ask(question, checkpoint, plan, matrix or a_matrix(), schemas=schemas, query="q")


def seen(shape: str, pair: str, **told: Any) -> Matrix:
    return a_matrix({shape: {pair: Seen(**told)}})


def of_aggregates(**told: Any) -> Matrix:
    shapes = ("window_aggregate/hdfs", "aggregate_update/hdfs")
    return a_matrix({shape: {"4.0>4.3": Seen(**told)} for shape in shapes})


def of_duplicates(*names: str) -> StoreSchema:
    return StoreSchema(
        operator=0,
        store="default",
        key=tuple(Column(name=name, type="string") for name in names),
        value=(Column(name="__dummy__", type="void"),),
        path="state/0/0/_metadata/schema",
    )


def a_problem(code: FindingCode, path: str = "offsets/2") -> Finding:
    return Finding(code=code, path=path, message="It is damaged.")
