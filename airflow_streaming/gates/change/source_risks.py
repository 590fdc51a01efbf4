"""
Sources that a restart may read otherwise than the gate has judged.

The findings stand against no change. They name what the comparison of two plans cannot show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.gates.change.pair import shown
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import rule_named
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.spark.source_replay import SourceReplay, replay_of

NOT_REPLAYABLE: Final = rule_named("source.not_replayable")
REPLAY_UNKNOWN: Final = rule_named("source.replay_unknown")
INFERRED: Final = rule_named("source.inferred_schema")
SOURCE_RISK_RULES: Final = (NOT_REPLAYABLE, REPLAY_UNKNOWN, INFERRED)
_RULES: Final = {
    SourceReplay.CANNOT: NOT_REPLAYABLE,
    SourceReplay.UNKNOWN: REPLAY_UNKNOWN,
}


def judge_source_risks(plan: QueryPlan) -> Iterator[GateFinding]:
    """Yield a remark for each source of the new plan that a restart may read otherwise."""
    for number, source in enumerate(plan.sources):
        rule = _RULES.get(replay_of(source))
        if rule is not None:
            yield rule.found(
                f"Source {number} ({source.source}): {rule.sentence}",
                new=source.source,
                evidence=f"sources[{number}] in the new plan",
            )
        if source.inferred:
            yield INFERRED.found(
                f"Source {number} ({', '.join(source.paths)}): {INFERRED.sentence}",
                new=shown(source.schema),
                evidence=f"sources[{number}] in the new plan",
            )
