"""Output mode: which rows of a result the sink gets, and what an aggregation forgets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule

STATEFUL: Final = Rule(
    name="output_mode.stateful",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A query with state must keep its output mode: it decides what was written of the "
    "groups that are open, and which are forgotten.",
    source="measured: append to update, and to complete, start and give mixed results",
    remedy="Start with a new checkpoint and a new output (blue-green).",
)
STATELESS: Final = Rule(
    name="output_mode.stateless",
    severity=GateDecision.ALLOWED,
    sentence="Without state, append and update write the same rows.",
    source="Structured Streaming guide, output modes",
)

RULES: Final = (STATEFUL, STATELESS)


def judge_output_mode(pair: Pair) -> Iterator[GateFinding]:
    """Compare the output modes."""
    old, new = pair.old.output_mode, pair.new.output_mode
    if old != new:
        rule = STATEFUL if pair.is_stateful else STATELESS
        yield rule.found(old=old, new=new, evidence=pair.shown_by_plan)
