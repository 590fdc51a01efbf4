"""A plan's watermarks and output mode held against what the state's files tell of the old ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.compatibility.change.output_mode import STATEFUL
from airflow_streaming.core.compatibility.change.pair import offsets_file
from airflow_streaming.core.compatibility.change.watermarks import (
    LONGER,
    NEEDED,
    REMOVED,
    SHORTER,
    has_effect,
    needs_watermark,
    text_of,
)
from airflow_streaming.core.compatibility.finding import GateFinding
from airflow_streaming.core.compatibility.stored import StoreSchema
from airflow_streaming.core.plan.plan import QueryPlan

_MODE: Final = "outputMode"


def held_watermarks(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    """Yield how a plan's watermarks differ from the delays that the state's columns carry."""
    if not has_effect(plan):
        return
    before = {each.delay_ms: schema.path for schema in schemas for each in schema.watermarks}
    after = {each.delay_ms for each in plan.watermarks}
    has_time = (checkpoint.watermark_ms or 0) > 0
    if not after and (before or has_time):
        rule = NEEDED if needs_watermark(plan) else REMOVED
        yield rule.found(
            old=_delays(before), new="none", evidence=_first(before) or offsets_file(checkpoint)
        )
    elif before and after.isdisjoint(before):
        rule = LONGER if max(after) > max(before) else SHORTER
        yield rule.found(old=_delays(before), new=text_of(plan.watermarks), evidence=_first(before))


def held_output_mode(plan: QueryPlan, checkpoint: Checkpoint) -> Iterator[GateFinding]:
    """Yield an output mode that is not the one that an operator wrote down."""
    for operator in checkpoint.operators:
        told = str(operator.state.get(_MODE, "")).lower()
        if told and told != plan.output_mode:
            yield STATEFUL.found(
                old=told, new=plan.output_mode, evidence=f"state/{operator.id}/_metadata/v2"
            )


def _delays(before: dict[int, str]) -> str:
    return ", ".join(f"{delay / 1000:g} s" for delay in sorted(before)) or "a watermark"


def _first(before: dict[int, str]) -> str:
    return next(iter(before.values()), "")
