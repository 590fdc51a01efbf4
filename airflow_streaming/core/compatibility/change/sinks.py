"""
Sinks: which may follow which, and what of their parameters may change.

A file sink keeps a log of its own in the output folder, counted by batch: it must have been there
from the first batch on. Kafka and the user's functions keep none, so they can come in at any batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.change.sink_options import judge_sink_options
from airflow_streaming.core.compatibility.change.sources import place
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import SinkPlan

_GUIDE: Final = "Structured Streaming guide, recovery semantics after changes"
_NEW_OUTPUT: Final = (
    "Start with a new checkpoint that goes on at the old one's offsets where the query keeps no "
    "state, else run both beside each other (blue-green)."
)

FILE_TO_KAFKA: Final = Rule(
    name="sink.file_to_kafka",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A file sink may become Kafka, which gets new rows only; those in the files stay "
    "there.",
    source=_GUIDE,
)
TO_FILE: Final = Rule(
    name="sink.to_file",
    severity=GateDecision.NOT_ALLOWED,
    sentence="No other sink may become a file sink: its log would begin in the middle.",
    source=f"{_GUIDE}: Kafka to file is not allowed",
    remedy=_NEW_OUTPUT,
)
KAFKA_AND_FOREACH: Final = Rule(
    name="sink.kafka_and_foreach",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Kafka may become foreach or foreachBatch and the other way round: the new sink gets "
    "new rows only, and a function must bear that its first batch is not batch 0.",
    source=_GUIDE,
)
FREE: Final = Rule(
    name="sink.without_memory",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A sink that remembers nothing may follow any other: it gets new rows only, and the "
    "old output gets none any more.",
    source="by construction: Kafka, foreach, foreachBatch, console and noop keep no log of batches",
)
TO_MEMORY: Final = Rule(
    name="sink.to_memory",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A memory sink goes on from a checkpoint in complete mode only.",
    source="Spark's StreamingQueryManager: recovery from a checkpoint for the memory sink",
    remedy="Use another sink; memory is for trying out.",
)
OTHER_TYPE: Final = Rule(
    name="sink.type",
    severity=GateDecision.UNKNOWN,
    sentence="Whether this sink may follow that one is decided by the sink.",
    source=f"{_GUIDE}: to be verified case by case",
    remedy="Ask the sink's documentation, and rehearse it; or take a new checkpoint.",
)
PATH: Final = Rule(
    name="sink.path",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A file sink must keep its path: the log in the output folder counts the batches.",
    source=f"{_GUIDE}; measured: the log of another folder drops batches or lacks them",
    remedy=_NEW_OUTPUT,
)
FORMAT: Final = Rule(
    name="sink.format",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A file sink must keep the format of its files: no reader takes a folder of two.",
    source="measured: another format starts and leaves a mixed folder",
    remedy=_NEW_OUTPUT,
)
PARTITIONING: Final = Rule(
    name="sink.partitioning",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A file sink must keep its partition columns: a folder of two layouts cannot be read.",
    source="Spark's partition discovery: conflicting directory structures",
    remedy=_NEW_OUTPUT,
)
TOPIC: Final = Rule(
    name="sink.topic",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="The topic may change: new rows go to the new one, and none of the old is moved.",
    source=_GUIDE,
)
TABLE: Final = Rule(
    name="sink.target",
    severity=GateDecision.UNKNOWN,
    sentence="Whether this sink may go on with another target is decided by the sink.",
    source=f"{_GUIDE}: to be verified case by case",
    remedy="Ask the sink's documentation, and rehearse it; or take a new checkpoint.",
)
FUNCTION: Final = Rule(
    name="sink.function",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="The function of foreach or foreachBatch may change; what that means for rows and "
    "batches that the old one wrote is up to it.",
    source=_GUIDE,
)
BODY: Final = Rule(
    name="sink.function_body",
    severity=GateDecision.ALLOWED,
    sentence="The function of foreach or foreachBatch may change. No plan shows what it does, so "
    "see yourself that the new one goes well with what the old one wrote.",
    source=_GUIDE,
)
VIEW: Final = Rule(
    name="sink.view",
    severity=GateDecision.ALLOWED,
    sentence="What only shows or drops rows keeps nothing that could be wrong.",
    source="by construction",
)

RULES: Final = (
    FILE_TO_KAFKA,
    TO_FILE,
    KAFKA_AND_FOREACH,
    FREE,
    TO_MEMORY,
    OTHER_TYPE,
    PATH,
    FORMAT,
    PARTITIONING,
    TOPIC,
    TABLE,
    FUNCTION,
    BODY,
    VIEW,
)

FOREACH: Final = frozenset({"foreach", "foreachbatch"})
VIEWS: Final = frozenset({"console", "noop", "memory"})
_WITHOUT_MEMORY: Final = frozenset({"kafka", "console", "noop"}) | FOREACH


def judge_sink(pair: Pair) -> Iterator[GateFinding]:
    """Compare where both plans write."""
    old, new = pair.old.sink, pair.new.sink
    if old.sink != new.sink:
        yield _type_rule(old, new, pair.new.output_mode).found(
            old=sink_text(old), new=sink_text(new), evidence=pair.shown_by_plan
        )
        return
    yield from _judge_target(pair, old, new)
    yield from judge_sink_options(old, new, pair.shown_by_plan)
    if old.sink in FOREACH:
        yield from _judge_function(pair, _function(old), _function(new))


def sink_text(sink: SinkPlan) -> str:
    """Return a sink for a person."""
    return " ".join(part for part in (sink.sink, sink.format, sink.target) if part)


def _type_rule(old: SinkPlan, new: SinkPlan, output_mode: str) -> Rule:
    if new.sink == "memory":
        return FREE if output_mode == "complete" else TO_MEMORY
    if new.sink == "file":
        return TO_FILE
    if (old.sink, new.sink) == ("file", "kafka"):
        return FILE_TO_KAFKA
    if {old.sink, new.sink} <= {"kafka", *FOREACH}:
        return KAFKA_AND_FOREACH
    return FREE if new.sink in _WITHOUT_MEMORY else OTHER_TYPE


def _judge_target(pair: Pair, old: SinkPlan, new: SinkPlan) -> Iterator[GateFinding]:
    evidence = pair.shown_by_plan
    if old.sink == "file" and old.format != new.format:
        yield FORMAT.found(old=old.format, new=new.format, evidence=evidence)
    if old.partitioned_by != new.partitioned_by:
        yield PARTITIONING.found(
            old=", ".join(old.partitioned_by),
            new=", ".join(new.partitioned_by),
            evidence=evidence,
        )
    if old.sink not in FOREACH and place(old.target) != place(new.target):
        yield _target_rule(old.sink).found(old=old.target, new=new.target, evidence=evidence)


def _function(sink: SinkPlan) -> str:
    return sink.options.get("function") or sink.target


def _judge_function(pair: Pair, old: str, new: str) -> Iterator[GateFinding]:
    if old != new:
        yield FUNCTION.found(
            old=old or "not told", new=new or "not told", evidence=pair.shown_by_plan
        )
    elif not pair.same_code:
        yield BODY.found(evidence=pair.shown_by_plan)


def _target_rule(sink: str) -> Rule:
    if sink in VIEWS:
        return VIEW
    return {"file": PATH, "kafka": TOPIC}.get(sink, TABLE)
