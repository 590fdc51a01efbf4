"""Options of a sink: how it is reached, how it writes, and what no table knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import SinkPlan

_KAFKA: Final = "Structured Streaming and Kafka integration guide"

CONNECTION: Final = Rule(
    name="sink.connection",
    severity=GateDecision.ALLOWED,
    sentence="How the sink is logged in to, and how it sends, is no part of the checkpoint.",
    source=_KAFKA,
)
CLUSTER: Final = Rule(
    name="sink.cluster",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Other servers may be another cluster: new rows go there, and none of the old is "
    "moved.",
    source=_KAFKA,
)
WRITING: Final = Rule(
    name="sink.writing",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="New files are written in another way than those that are there.",
    source="Structured Streaming guide, file sink",
)
RETENTION: Final = Rule(
    name="sink.retention",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Files older than the retention leave the sink's log: readers no longer see them.",
    source="SPARK-27188",
)
ASYNC: Final = Rule(
    name="sink.async_progress",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="With asynchronous progress the logs have gaps: batches that were written may come "
    "again after a failure, and no live backup can be taken.",
    source="SPARK-39591",
)
VIEW: Final = Rule(
    name="sink.view_option",
    severity=GateDecision.ALLOWED,
    sentence="How rows are shown keeps nothing that could be wrong.",
    source="by construction",
)
OPTION: Final = Rule(
    name="sink.option",
    severity=GateDecision.UNKNOWN,
    sentence="What this option does to a sink that goes on is not known.",
    source="no rule covers it",
    remedy="Rehearse it, and ask the sink's documentation.",
)

RULES: Final = (CONNECTION, CLUSTER, WRITING, RETENTION, ASYNC, VIEW, OPTION)

_SAID_ELSEWHERE: Final = frozenset(
    {"path", "topic", "checkpointlocation", "queryname", "format", "table", "function"}
)
_VIEWS: Final = frozenset({"console", "noop", "memory"})
_ASYNC: Final = "asyncprogresstracking"


def judge_sink_options(old: SinkPlan, new: SinkPlan, evidence: str) -> Iterator[GateFinding]:
    """Compare the options of a sink of one type, each by its own rule."""
    for key in sorted({*old.options, *new.options} - _SAID_ELSEWHERE):
        was, now = old.options.get(key), new.options.get(key)
        if was == now:
            continue
        rule = _rule(old.sink, key)
        yield rule.found(
            f"Option {key} changes. {rule.sentence}",
            old="not set" if was is None else was,
            new="not set" if now is None else now,
            evidence=evidence,
        )


def _rule(sink: str, key: str) -> Rule:
    if key.startswith(_ASYNC):
        return ASYNC
    if sink == "kafka" and key.startswith("kafka."):
        return CLUSTER if key == "kafka.bootstrap.servers" else CONNECTION
    if sink == "file":
        return RETENTION if key == "retention" else WRITING
    return VIEW if sink in _VIEWS else OPTION
