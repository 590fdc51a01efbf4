"""A stream with nothing risky about it, for the doctor to examine, and what he says."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow_streaming.advice.cost.restart_forecast import Restart
from airflow_streaming.advice.doctor import examine
from airflow_streaming.advice.examined import Advice, Facts
from airflow_streaming.advice.profile import StateStore, production
from airflow_streaming.advice.profile_conf import effective, resolve
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.spark.plan import (
    OperatorKind,
    OperatorPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
)
from airflow_streaming.model.spark.releases import CHECKPOINT_FORMAT
from tests.unit.supervision.builders import BEGUN, a_batch, a_deployment, a_query, a_status

PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SCRIPT = 'spark.readStream.option("maxFilesPerTrigger", 5).json(path)'
GOOD_CONF = {**effective(resolve(production(cores=2), "4.3.0", {})), "spark.master": "local[2]"}


def batches(count: int = 40, *, every: float = 10.0, **changes: Any) -> tuple[BatchProgress, ...]:
    """Return a calm history; ``rows`` may be a function of the batch's number."""
    state = changes.pop("rows", lambda _: 500)
    return tuple(
        a_batch(
            **{
                "batch_id": number,
                "at": _at(BEGUN + timedelta(seconds=number * every)),
                "watermark": "2026-11-21T11:00:00.000Z",
                "state_rows": state(number),
                "duration_ms": 900,
                **changes,
            }
        )
        for number in range(count)
    )


def _at(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def facts(**changes: Any) -> Facts:
    """Return a stream with nothing risky about it."""
    history = changes.pop("history", batches())
    query = changes.pop("query", {})
    queries = (a_query(**{"progress": history[-1], "processing_interval_s": 10.0, **query}),)
    deployment = {
        "conf": GOOD_CONF,
        "fair_pools": True,
        "application_args": ("{output}",),
        **changes.pop("deployment", {}),
    }
    known: dict[str, Any] = {
        "deployment": a_deployment(**deployment),
        "status": a_status(
            **{"application_id": "local-1", "queries": queries, **changes.pop("status", {})}
        ),
        "history": history,
        "pinned": {"revenue": {PARTITIONS: "2", PROVIDER: StateStore.ROCKSDB.provider}},
        "plans": (a_planned_query(),),
        "script": SCRIPT,
        "restarts": (Restart(20.0, 3.0, 1.0),) * 3,
    }
    return Facts(**known | changes)


def a_planned_query(sink: str = "file", checkpoint_format: str = "1") -> QueryPlan:
    """Return the plan of a stateful query."""
    return QueryPlan(
        query="revenue",
        spark="4.3.0",
        output_mode="append",
        sources=(SourcePlan(source="file", format="json"),),
        sink=SinkPlan(sink=sink),
        operators=(OperatorPlan(sort=OperatorKind.AGGREGATE),),
        conf={CHECKPOINT_FORMAT: checkpoint_format},
    )


def said(rule: str, found: Facts) -> list[Advice]:
    return [advice for advice in examine(found) if advice.rule == rule]


def the_one(rule: str, found: Facts) -> Advice:
    [advice] = said(rule, found)
    return advice
