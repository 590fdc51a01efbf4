"""A plan's stateful operators held against those of the checkpoint: number, sorts and order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.core.checkpoint.report import Checkpoint, Operator
from airflow_streaming.core.compatibility.change.checkpoint_state import held_state
from airflow_streaming.core.compatibility.change.operators import sorts_of, sorts_rule
from airflow_streaming.core.compatibility.finding import GateFinding
from airflow_streaming.core.compatibility.stored import StoreSchema
from airflow_streaming.core.plan.plan import OperatorSort, QueryPlan

_SORTS: Final = {
    "stateStoreSave": OperatorSort.AGGREGATE,
    "dedupe": OperatorSort.DEDUPLICATE,
    "dedupeWithinWatermark": OperatorSort.DEDUPLICATE_WITHIN_WATERMARK,
    "symmetricHashJoin": OperatorSort.JOIN,
    "sessionWindowStateStoreSaveExec": OperatorSort.SESSION_WINDOW,
    "globalLimit": OperatorSort.LIMIT,
    "applyInPandasWithState": OperatorSort.GROUPS_WITH_STATE,
    "flatMapGroupsWithState": OperatorSort.GROUPS_WITH_STATE,
    "transformWithStateExec": OperatorSort.TRANSFORM_WITH_STATE,
    "transformWithStateInPandasExec": OperatorSort.TRANSFORM_WITH_STATE,
    "transformWithStateInPySparkExec": OperatorSort.TRANSFORM_WITH_STATE,
}


def held_operators(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    """Yield what of a plan's stateful operators cannot be those of the checkpoint."""
    if not checkpoint.operators and (checkpoint.is_stateful is None or not plan.operators):
        return
    stored = [sort_of(operator, schemas) for operator in checkpoint.operators]
    planned = sorts_of(plan.operators)
    # A sort that the files do not tell counts as the one of the plan.
    known = [
        sort.value if sort else (planned[place] if place < len(planned) else "other")
        for place, sort in enumerate(stored)
    ]
    if known != planned:
        yield sorts_rule(known, planned).found(
            old=", ".join(known) or "none",
            new=", ".join(planned) or "none",
            evidence=_evidence(checkpoint),
        )
        return
    for number in range(len(planned)):
        yield from held_state(plan, number, checkpoint, schemas)


def sort_of(operator: Operator, schemas: Sequence[StoreSchema]) -> OperatorSort | None:
    """
    Return what an operator of a checkpoint does.

    Spark 3.5 and older write down no names; there the columns of the state tell.
    """
    if operator.name is not None:
        return _SORTS.get(operator.name)
    if any(store.name.startswith(("left-", "right-")) for store in operator.stores):
        return OperatorSort.JOIN
    own = [schema for schema in schemas if schema.operator == operator.id]
    return _by_columns(own[0]) if own else None


def _by_columns(schema: StoreSchema) -> OperatorSort:
    keys = [column.name for column in schema.key]
    values = [column.name for column in schema.value]
    if values == ["__dummy__"]:
        return OperatorSort.DEDUPLICATE
    if values == ["expiresAtMicros"]:
        return OperatorSort.DEDUPLICATE_WITHIN_WATERMARK
    if "sessionStartTime" in keys:
        return OperatorSort.SESSION_WINDOW
    if "groupState" in values:
        return OperatorSort.GROUPS_WITH_STATE
    if (keys, values) == (["key"], ["value"]):
        return OperatorSort.LIMIT
    return OperatorSort.AGGREGATE


def _evidence(checkpoint: Checkpoint) -> str:
    found = (f"state/{o.id}/_metadata" if o.name else f"state/{o.id}" for o in checkpoint.operators)
    return ", ".join(found) or "no folder state"
