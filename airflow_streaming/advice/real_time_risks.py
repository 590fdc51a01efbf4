"""Risks of queries in real-time mode: refusals of Spark, repeated output after a kill, missing latency."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from airflow_streaming.advice.examined import Advice, Facts, RiskLevel, fine, risk
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.plan.real_time import (
    DEFAULT_SECONDS,
    interval_of,
    is_real_time,
    refusals_of,
)
from airflow_streaming.model.spark.plan import QueryPlan

_RULE: Final = "real-time"
LONG_INTERVAL: Final = 600.0
"""Seconds between two commits from which on a kill repeats much."""
_MEASURED: Final = "latency"
"""In the name of an observed figure."""
_MEASURE: Final = "Observe percentiles of the rows' age as the example dags/real_time does: df.observe('latency', ...)."


def real_time(facts: Facts) -> Iterator[Advice]:
    """Look at the queries in real-time mode."""
    plans = [plan for plan in facts.plans if is_real_time(plan.processing_trigger)]
    if not plans:
        yield fine(_RULE, "No query is known to run in real-time mode.")
    for plan in plans:
        yield from _refused(plan)
        yield _repeated(facts, plan, interval_of(plan.processing_trigger) or DEFAULT_SECONDS)
        yield _latency(facts, plan)


def _refused(plan: QueryPlan) -> Iterator[Advice]:
    for at, sentence in refusals_of(plan):
        yield risk(
            _RULE,
            RiskLevel.HIGH,
            f"Spark does not run the query: {sentence}",
            query=plan.query,
            evidence=f"{at} of the recorded plan",
            remedy="Change this part of the query, or give it a processing trigger.",
        )


def _repeated(facts: Facts, plan: QueryPlan, interval: float) -> Advice:
    rows = [batch.input_rows for batch in facts.batches(plan.query)]
    usual = f", {median(rows):,.0f} rows as a rule" if rows else ""
    seen = f"one interval of {duration_text(interval)}{usual}"
    if interval < LONG_INTERVAL:
        what = f"A kill repeats the output of at most {seen}."
        return fine("real-time-replay", what, query=plan.query)
    return risk(
        "real-time-replay",
        RiskLevel.MEDIUM,
        "Offsets are committed at the end of an interval only: a kill, or a stop with less grace, writes its rows again.",
        query=plan.query,
        evidence=seen,
        remedy="Use a shorter interval; rows are written as they come with any interval.",
    )


def _latency(facts: Facts, plan: QueryPlan) -> Advice:
    batches = facts.batches(plan.query)
    names = sorted({name for batch in batches for name in batch.observed if _MEASURED in name})
    rule = "real-time-latency"
    if names:
        return fine(rule, f"Its latency is measured: {', '.join(names)}.", query=plan.query)
    return risk(
        rule,
        RiskLevel.LOW,
        "Nothing measures the latency: the progress of Spark 4.3 has no percentiles, and the duration of a batch is "
        "its interval.",
        query=plan.query,
        evidence=f"no observed figure with {_MEASURED!r} in its name in {len(batches)} batches",
        remedy=_MEASURE,
    )
