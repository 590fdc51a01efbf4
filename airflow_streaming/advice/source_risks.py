"""Risks of sources: rows that a restart cannot read again, inferred columns that change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.advice.examined import (
    NO_PLANS,
    Advice,
    Facts,
    RiskLevel,
    fine,
    risk,
    unknown,
)
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.spark.plan import SourceReplay, replay_of

SCHEMA_INFERENCE: Final = "spark.sql.streaming.schemaInference"
_REMEDY_IF_UNKNOWN: Final = "Read the source's documentation: after a kill it must return the same rows for the same offsets."


def replay(facts: Facts) -> Iterator[Advice]:
    """Look for sources that cannot send the rows of a planned batch again."""
    rule = "source-replay"
    if not facts.plans:
        yield unknown(rule, NO_PLANS)
    for plan in facts.plans:
        found = {source.source: replay_of(source) for source in plan.sources}
        cannot = [name for name, value in found.items() if value is SourceReplay.CANNOT]
        unclear = [name for name, value in found.items() if value is SourceReplay.UNKNOWN]
        if cannot:
            yield risk(
                rule,
                RiskLevel.HIGH,
                "A restart cannot read the rows of the interrupted batch again: they are lost, or every "
                "later start fails.",
                query=plan.query,
                evidence=f"source {', '.join(cannot)}",
                remedy=FailureKind.SOURCE_NOT_REPLAYABLE.remedy,
            )
        elif unclear or not found:
            names = f" ({', '.join(unclear)})" if unclear else ""
            what = f"Whether its source{names} can send a batch again is not recorded."
            yield unknown(rule, what, query=plan.query, remedy=_REMEDY_IF_UNKNOWN)
        else:
            yield fine(rule, f"Its sources can be replayed: {', '.join(found)}.", query=plan.query)


def schema_inference(facts: Facts) -> Iterator[Advice]:
    """Look for file sources whose columns Spark finds in the files."""
    rule = "schema-inference"
    if not facts.plans:
        yield unknown(rule, NO_PLANS)
    for plan in facts.plans:
        inferred = [path for source in plan.sources if source.inferred for path in source.paths]
        if inferred:
            yield risk(
                rule,
                RiskLevel.MEDIUM,
                "Every start infers the columns from the files that are there, so a restart may find other "
                "columns or types: a column is lost or null, or the state does not fit any more.",
                query=plan.query,
                evidence=f"no schema for {', '.join(inferred)}; {SCHEMA_INFERENCE} is on",
                remedy=f"Give the source a schema, readStream.schema(...), and leave {SCHEMA_INFERENCE} off.",
            )
        else:
            yield fine(rule, "No source infers its columns.", query=plan.query)
