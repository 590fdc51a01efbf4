"""
Whether an upgrade can be taken to its decided end without the dag that began it.

All that a way back needs stands in the home and in the backup store, but for two things that only
the dag has. One is the stream's spec with its secrets, which starts a driver: that is left to the
task that keeps the stream alive. The other is the author's function that takes batches back out of
a sink: without it the checkpoint would go back alone, and rows be lost or doubled.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from airflow_streaming.core.upgrade.rollback_sinks import KAFKA, SinkFacts, SinkHabit
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.terms import RollbackWay, UpgradeTerms

_WITHOUT_FUNCTION: Final = frozenset({SinkHabit.FILE_LOG, SinkHabit.NOTHING, SinkHabit.OVERWRITES})
"""Habits of sinks that are in step again with no help of their author."""


def why_only_dag(terms: UpgradeTerms, stages: Container[Stage]) -> str:
    """Return why only the dag can take an upgrade back; empty when that needs nothing of it."""
    is_put_back = Stage.RESTORED in stages or Stage.LEFT in stages
    if Stage.APPLYING not in stages or is_put_back or terms.rollback.way is not RollbackWay.REWIND:
        return ""
    asking = needs_function(terms.sinks)
    if not asking:
        return ""
    return (
        f"the sink of query {', '.join(map(repr, asking))} is put back in step by a function of the "
        "dag (rewind_sink), which nobody has here. Clear the failed task of the upgrade's run, or "
        "start a run of the upgrade dag: it carries this out before it looks at anything else."
    )


def needs_function(sinks: Sequence[SinkFacts]) -> list[str]:
    """Return the queries whose sinks only a function of their author may put back in step."""
    return [
        facts.query
        for facts in sinks
        # Rows that come twice in Kafka are all that there is to accept: no function is asked.
        if facts.habit not in _WITHOUT_FUNCTION and facts.sink != KAFKA
    ]
