"""
Find the risks in the setup of a stream.

Health rules judge the present state; the doctor judges the setup. Every rule reports risks, facts without risk, and
facts that it could not examine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from airflow_streaming.advice.batch_risks import processing_trigger, rate_limit, retention
from airflow_streaming.advice.checkpoint_risks import (
    backup_store,
    local_disk,
    output_in_checkpoint,
    shared,
    temporary,
)
from airflow_streaming.advice.cost.cost_rows import request_cost, restart_time
from airflow_streaming.advice.examined import Advice, Facts, Outcome, RiskLevel, unknown
from airflow_streaming.advice.executor_risks import dynamic_allocation, executors
from airflow_streaming.advice.real_time_risks import real_time
from airflow_streaming.advice.setting_risks import (
    event_log,
    fair_scheduling,
    metrics,
    shuffle_partitions,
    without_effect,
)
from airflow_streaming.advice.source_risks import replay, schema_inference
from airflow_streaming.advice.state_risks import (
    growth,
    rocksdb_memory,
    skipped_state,
    state_store,
    watermark,
)

Rule = Callable[[Facts], Iterator[Advice]]
RULES: Final[tuple[Rule, ...]] = (
    shared,
    local_disk,
    temporary,
    output_in_checkpoint,
    backup_store,
    growth,
    watermark,
    state_store,
    skipped_state,
    rocksdb_memory,
    replay,
    real_time,
    event_log,
    shuffle_partitions,
    fair_scheduling,
    rate_limit,
    processing_trigger,
    retention,
    schema_inference,
    executors,
    dynamic_allocation,
    without_effect,
    metrics,
    request_cost,
    restart_time,
)
_GRAVITY: Final = {RiskLevel.HIGH: 0, RiskLevel.MEDIUM: 1, RiskLevel.LOW: 2, None: 3}
_ORDER: Final = {Outcome.RISK: 0, Outcome.UNKNOWN: 1, Outcome.FINE: 2}


def examine(facts: Facts) -> tuple[Advice, ...]:
    """Return the advice of every rule: risks, the gravest first; then unknown facts; then facts without risk."""
    said = [unknown("reading", sentence) for sentence in facts.unread]
    said += [advice for rule in RULES for advice in rule(facts)]
    return tuple(sorted(said, key=lambda one: (_ORDER[one.outcome], _GRAVITY[one.level])))


def risks(advice: Iterable[Advice]) -> tuple[Advice, ...]:
    return tuple(one for one in advice if one.outcome is Outcome.RISK)
