"""
The checkpoints that the version matrix was measured with, and the plans of their queries.

``checkpoints.json`` holds what each of them said before another Spark saw it;
``python -m tests.system.version_truth --work DIR --record`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from airflow_streaming.checkpoints.read.report import (
    Checkpoint,
    Finding,
    Operator,
    SourcePosition,
    SourceType,
    StateStore,
    StoreType,
)
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.model.codec import encode
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.spark.plan import (
    OperatorKind,
    OperatorPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
)
from airflow_streaming.model.wire import decode

FILE: Final = Path(__file__).with_name("checkpoints.json")

_JOINS: Final = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
_AGGREGATE: Final = OperatorPlan(sort=OperatorKind.AGGREGATE)
_DEDUPLICATE: Final = OperatorPlan(sort=OperatorKind.DEDUPLICATE)
_VARIABLES: Final = OperatorPlan(sort=OperatorKind.TRANSFORM_WITH_STATE)
_WIDE: Final = OperatorPlan(
    sort=OperatorKind.DEDUPLICATE,
    keys=tuple(Column(name=name, type="string") for name in "abcde"),
)
_OPERATORS: Final[Mapping[str, tuple[OperatorPlan, ...]]] = {
    "stateless": (),
    "stateless_file_sink": (),
    "window_aggregate": (_AGGREGATE,),
    "window_aggregate_file_sink": (_AGGREGATE,),
    "aggregate_update": (_AGGREGATE,),
    "aggregate_complete": (_AGGREGATE,),
    "aggregate_objects": (_AGGREGATE,),
    "deduplicate": (_DEDUPLICATE,),
    "deduplicate_wide": (_WIDE,),
    "deduplicate_alike": (_WIDE,),
    "deduplicate_watermark": (_DEDUPLICATE,),
    "deduplicate_within_watermark": (OperatorPlan(sort=OperatorKind.DEDUPLICATE_WITHIN_WATERMARK),),
    **{f"{how}_join": (OperatorPlan(sort=OperatorKind.JOIN, join_type=how),) for how in _JOINS},
    "deduplicate_aggregate": (_AGGREGATE, _DEDUPLICATE),
    "join_aggregate": (_AGGREGATE, OperatorPlan(sort=OperatorKind.JOIN, join_type="inner")),
    "session_window": (OperatorPlan(sort=OperatorKind.SESSION_WINDOW),),
    "limit": (OperatorPlan(sort=OperatorKind.LIMIT),),
    "groups_with_state": (OperatorPlan(sort=OperatorKind.GROUPS_WITH_STATE),),
    "transform_with_state": (_VARIABLES,),
    "transform_with_state_list": (_VARIABLES,),
    "transform_with_state_timers": (replace(_VARIABLES, time_mode="EventTime"),),
    "transform_with_state_ttl": (replace(_VARIABLES, time_mode="ProcessingTime"),),
    "union_aggregate": (_AGGREGATE,),
    "aggregate_aggregate": (_AGGREGATE, _AGGREGATE),
    "python_source": (),
}
_UPDATE: Final = (
    "aggregate_update",
    "aggregate_objects",
    "groups_with_state",
    "transform_with_state",
    "transform_with_state_list",
    "transform_with_state_timers",
    "transform_with_state_ttl",
)
LIKE: Final[Mapping[str, str]] = {
    "union_aggregate": "window_aggregate",
    "python_source": "stateless",
}
"""Queries that the gate takes for another measured one, which they test: their state is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """
    One checkpoint of the measurement, as its first Spark left it.

    :param cell: ``shape/store``; ``version`` is that of the Spark that wrote it.
    :param checkpoint: What the gate looks at; the rest is left at its defaults.
    """

    cell: str
    version: str
    checkpoint: Checkpoint
    schemas: tuple[StoreSchema, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.cell}/{self.version}"

    @property
    def plan(self) -> QueryPlan:
        """The plan of its query."""
        return plan_of(self.cell.partition("/")[0])


def plan_of(shape: str) -> QueryPlan:
    """Return the plan of a measured shape, as far as the version gate looks at it."""
    mode = "complete" if shape == "aggregate_complete" else "append"
    sides = 2 if "join" in shape or "union" in shape else 1
    return QueryPlan(
        query="measured",
        spark="",
        output_mode="update" if shape in _UPDATE else mode,
        sink=SinkPlan(sink="file" if shape.endswith("file_sink") else "foreachbatch"),
        sources=(SourcePlan(source="file", format="json"),) * sides,
        operators=_OPERATORS[shape],
    )


@cache
def measured_checkpoints() -> tuple[Measured, ...]:
    """Return all recorded checkpoints."""
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    return tuple(_read(one, recorded["confs"][one["conf"]]) for one in recorded["checkpoints"])


def text_of(found: Iterable[Measured]) -> str:
    """Return checkpoints as they are recorded, one a line."""
    confs: list[Mapping[str, str]] = []
    lines = []
    for one in found:
        if one.checkpoint.conf not in confs:
            confs.append(one.checkpoint.conf)
        lines.append(json.dumps({**_told(one), "conf": confs.index(one.checkpoint.conf)}))
    shown = ",\n".join(map(json.dumps, confs))
    return f'{{"confs": [\n{shown}\n], "checkpoints": [\n' + ",\n".join(lines) + "\n]}\n"


def _told(one: Measured) -> dict[str, Any]:
    report = one.checkpoint
    return {
        "cell": one.cell,
        "version": one.version,
        "batch": report.last_committed_batch,
        "formats": [report.offset_log_version, report.commit_log_version, report.state_format],
        "at_least": report.spark_at_least,
        "sources": [position.source for position in report.sources],
        "operators": [_operator(operator) for operator in report.operators],
        "schemas": [encode(schema) for schema in one.schemas],
        "problems": [encode(problem) for problem in report.problems],
    }


def _operator(operator: Operator) -> dict[str, Any]:
    return {
        "name": operator.name,
        "schema": operator.schema_version,
        "partitions": operator.partitions,
        "state": operator.state.get("stateVariables", []),
        "time": operator.state.get("timeMode", ""),
        "stores": {store.name: store.store for store in operator.stores},
    }


def _read(told: Mapping[str, Any], conf: Mapping[str, str]) -> Measured:
    offsets, commits, state = told["formats"]
    return Measured(
        cell=told["cell"],
        version=told["version"],
        schemas=tuple(decode(StoreSchema, schema, "schema") for schema in told["schemas"]),
        checkpoint=Checkpoint(
            uri="/checkpoint",
            query_id="q",
            offset_log_version=offsets,
            commit_log_version=commits,
            state_format=state,
            spark_at_least=told["at_least"],
            last_planned_batch=told["batch"],
            last_committed_batch=told["batch"],
            sources=tuple(
                SourcePosition(name=str(number), source=SourceType(source), offset=None)
                for number, source in enumerate(told["sources"])
            ),
            operators=tuple(
                _operator_of(number, one) for number, one in enumerate(told["operators"])
            ),
            conf=conf,
            problems=tuple(decode(Finding, one, "problem") for one in told["problems"]),
        ),
    )


def _state(told: Mapping[str, Any]) -> dict[str, Any]:
    time = {"timeMode": told["time"]} if told.get("time") else {}
    return {"stateVariables": told["state"], **time} if told["state"] else {}


def _operator_of(number: int, told: Mapping[str, Any]) -> Operator:
    return Operator(
        id=number,
        name=told["name"],
        partitions=told["partitions"],
        schema_version=told["schema"],
        state=_state(told),
        stores=tuple(
            StateStore(
                name=name,
                store=StoreType(store),
                partitions=2,
                newest_version=None,
                files=0,
                size=0,
            )
            for name, store in told["stores"].items()
        ),
    )
