"""Every rule of the change gate, in the order of the manual."""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.compatibility.change import (
    aggregation,
    conf,
    deduplication,
    joins,
    judging,
    operators,
    output_mode,
    processing_trigger,
    projection,
    queries,
    script,
    sink_options,
    sinks,
    source_options,
    source_schema,
    sources,
    steps,
    steps_before,
    unseen,
    user_state,
    variables,
    watermarks,
)
from airflow_streaming.core.compatibility.rules import Rule

CHANGE_RULES: Final[tuple[Rule, ...]] = (
    *queries.RULES,
    *script.RULES,
    *judging.RULES,
    *sources.RULES,
    *source_options.RULES,
    *source_schema.RULES,
    *operators.RULES,
    *aggregation.RULES,
    *deduplication.RULES,
    *joins.RULES,
    *user_state.RULES,
    *variables.RULES,
    *steps.RULES,
    *steps_before.RULES,
    *output_mode.RULES,
    *watermarks.RULES,
    *projection.RULES,
    *sinks.RULES,
    *sink_options.RULES,
    *processing_trigger.RULES,
    *conf.RULES,
    *unseen.RULES,
)
