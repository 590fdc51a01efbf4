"""
Unseen: what a checkpoint does not tell of the code that made it.

Whoever has no plan of the old code does not know these, and they are never taken for equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.compatibility.change.pair import offsets_file
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.compatibility.stored import StoreSchema
from airflow_streaming.core.plan.plan import OperatorSort, QueryPlan

_REMEDY: Final = (
    "Give the old script, or a plan of it, to be compared with; or rehearse the new one."
)
_SOURCE: Final = "what Spark writes into a checkpoint"


def _rule(name: str, sentence: str) -> Rule:
    return Rule(
        name=f"unseen.{name}",
        severity=GateDecision.UNKNOWN,
        sentence=sentence,
        source=_SOURCE,
        remedy=_REMEDY,
    )


SOURCES: Final = _rule(
    "sources",
    "The checkpoint does not tell what its sources read: paths, formats, schemas, options.",
)
SINK: Final = _rule(
    "sink", "The checkpoint does not tell where its query writes, and with which columns."
)
STEPS: Final = _rule(
    "steps", "The checkpoint does not tell of filters, projections and functions without state."
)
OUTPUT_MODE: Final = _rule("output_mode", "The checkpoint does not tell the output mode.")
AGGREGATION: Final = _rule(
    "aggregation",
    "State tells the names and types of keys and aggregates; not what is summed up, how keys are "
    "computed, how long a window or a session's gap is.",
)
JOIN: Final = _rule(
    "join", "State tells the columns of both sides; not the join's type and its condition."
)
DEDUPLICATION: Final = _rule(
    "deduplication", "State tells the columns of a deduplication; not how they are computed."
)
USER_STATE: Final = _rule(
    "user_state",
    "State tells the keys of a user's function, and its variables where they have names; not all "
    "of its schema.",
)
OTHER: Final = _rule("operator", "State tells too little of this operator to compare it.")
STATE_COLUMNS: Final = _rule(
    "state_columns", "The files with the columns of the state are missing or cannot be read."
)
STATE: Final = _rule("state", "The checkpoint does not tell whether its query keeps state.")
SPARK: Final = Rule(
    name="unseen.spark",
    severity=GateDecision.UNKNOWN,
    sentence="The checkpoint does not tell which Spark wrote it, and so not whether another one is "
    "to read it.",
    source=_SOURCE,
    remedy="Say which (--from, or from_version), or give a plan of the old script made by it.",
)

RULES: Final = (
    SOURCES,
    SINK,
    STEPS,
    OUTPUT_MODE,
    AGGREGATION,
    JOIN,
    DEDUPLICATION,
    USER_STATE,
    OTHER,
    STATE_COLUMNS,
    STATE,
    SPARK,
)

_BY_SORT: Final = {
    OperatorSort.AGGREGATE: AGGREGATION,
    OperatorSort.SESSION_WINDOW: AGGREGATION,
    OperatorSort.JOIN: JOIN,
    OperatorSort.DEDUPLICATE: DEDUPLICATION,
    OperatorSort.DEDUPLICATE_WITHIN_WATERMARK: DEDUPLICATION,
    OperatorSort.GROUPS_WITH_STATE: USER_STATE,
    OperatorSort.TRANSFORM_WITH_STATE: USER_STATE,
}


def judge_unseen(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    """Yield a finding for everything that stays unknown without the plan of the old code."""
    evidence = offsets_file(checkpoint)
    for rule in (SOURCES, SINK, STEPS):
        yield rule.found(evidence=evidence)
    if checkpoint.is_stateful is None:
        yield STATE.found(evidence="no folder state")
    if not plan.operators:
        return
    if not any("outputMode" in operator.state for operator in checkpoint.operators):
        yield OUTPUT_MODE.found(evidence=evidence)
    for rule in sorted({_BY_SORT.get(o.sort, OTHER) for o in plan.operators}, key=lambda r: r.name):
        yield rule.found(evidence="state")
    told = {schema.operator for schema in schemas}
    for operator in checkpoint.operators:
        if operator.id not in told:
            yield STATE_COLUMNS.found(evidence=f"state/{operator.id}")
