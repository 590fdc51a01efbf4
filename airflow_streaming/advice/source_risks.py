"""Risks of sources: rows that a restart cannot read again."""

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
from airflow_streaming.model.spark.source_replay import SourceReplay, replay_of

_ASK: Final = "Read the source's documentation: after a kill it must return the same rows for the same offsets."


def replay(facts: Facts) -> Iterator[Advice]:
    """Look for sources that cannot send the rows of a planned batch again."""
    rule = "source-replay"
    if not facts.plans:
        yield unknown(rule, NO_PLANS)
    for plan in facts.plans:
        found = {source.source: replay_of(source) for source in plan.sources}
        cannot = [name for name, value in found.items() if value is SourceReplay.CANNOT]
        open_ = [name for name, value in found.items() if value is SourceReplay.UNKNOWN]
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
        elif open_ or not found:
            names = f" ({', '.join(open_)})" if open_ else ""
            what = f"Whether its source{names} can send a batch again is not recorded."
            yield unknown(rule, what, query=plan.query, remedy=_ASK)
        else:
            yield fine(rule, f"Its sources can be replayed: {', '.join(found)}.", query=plan.query)
