"""
Sinks, their names and options: which may follow which.

A file sink keeps a log of its own in the output folder, counted by batch: it must have been there
from the first batch on. Kafka and the user's functions keep none, so they can come in at any batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.gates.change.sources import place
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.gates.start_checks.defaults import is_default_of_sink
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.plan.real_time import is_real_time
from airflow_streaming.model.records.upgrade import HABITS
from airflow_streaming.model.spark.logs import NamedSink
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan

CONNECTION: Final = rule_named("sink.connection")
CLUSTER: Final = rule_named("sink.cluster")
WRITING: Final = rule_named("sink.writing")
RETENTION: Final = rule_named("sink.retention")
ASYNC: Final = rule_named("sink.async_progress")
OPTIONS_VIEW: Final = rule_named("sink.view_option")
DEFAULT: Final = rule_named("sink.default")
OPTION: Final = rule_named("sink.option")
SINK_OPTION_RULES: Final = (
    CONNECTION,
    CLUSTER,
    WRITING,
    RETENTION,
    ASYNC,
    OPTIONS_VIEW,
    DEFAULT,
    OPTION,
)
_SAID_ELSEWHERE: Final = frozenset(
    {"path", "topic", "checkpointlocation", "queryname", "format", "table", "function"}
)
_VIEWS: Final = frozenset({"console", "noop", "memory"})
_ASYNC: Final = "asyncprogresstracking"

FILE_TO_KAFKA: Final = rule_named("sink.file_to_kafka")
TO_FILE: Final = rule_named("sink.to_file")
KAFKA_AND_FOREACH: Final = rule_named("sink.kafka_and_foreach")
FREE: Final = rule_named("sink.without_memory")
TO_MEMORY: Final = rule_named("sink.to_memory")
OTHER_TYPE: Final = rule_named("sink.type")
PATH: Final = rule_named("sink.path")
FORMAT: Final = rule_named("sink.format")
PARTITIONING: Final = rule_named("sink.partitioning")
TOPIC: Final = rule_named("sink.topic")
TABLE: Final = rule_named("sink.target")
FUNCTION: Final = rule_named("sink.function")
BODY: Final = rule_named("sink.function_body")
VIEW: Final = rule_named("sink.view")
SKIPS_STATE: Final = rule_named("sink.skips_state")
RULES: Final = (
    SKIPS_STATE,
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
LEFT: Final = rule_named("sink.name_left")
MOVES: Final = rule_named("sink.name_moves")
RETURNS: Final = rule_named("sink.name_returns")
REUSED: Final = rule_named("sink.name_reused")
NEEDED: Final = rule_named("sink.name_needed")
WITHOUT_NAMES: Final = rule_named("sink.name_refused")
NAME_RULES: Final = (LEFT, MOVES, RETURNS, REUSED, NEEDED, WITHOUT_NAMES)
_EVOLUTION: Final = "spark.sql.streaming.queryEvolution.enableSinkEvolution"
_IS_ASYNC: Final = f"{_ASYNC}enabled"
FOREACH: Final = frozenset({"foreach", "foreachbatch"})
VIEWS: Final = frozenset({"console", "noop", "memory"})
_FUNCTION: Final = ("sink.target", "sink.code", "sink.options.function")
_WITHOUT_MEMORY: Final = frozenset({"kafka", "console", "noop"}) | FOREACH


def judge_sink_options(old: SinkPlan, new: SinkPlan, evidence: str) -> Iterator[GateFinding]:
    """Compare the options of a sink of one type, each by its own rule."""
    for key in sorted({*old.options, *new.options} - _SAID_ELSEWHERE):
        was, now = old.options.get(key), new.options.get(key)
        if was == now:
            continue
        kind = old.format if old.sink == "file" else old.sink
        is_default = all(is_default_of_sink(kind, key, value) for value in (was, now))
        rule = DEFAULT if is_default else _rule(old.sink, key)
        yield rule.found(
            f"Option {key} changes. {rule.sentence}",
            old="not set" if was is None else was,
            new="not set" if now is None else now,
            evidence=f"sink.options.{key} in {evidence}",
            about=(f"sink.options.{key}",),
        )


def judge_sink(pair: Pair) -> Iterator[GateFinding]:
    """Compare where both plans write."""
    old, new = pair.old.sink, pair.new.sink
    if old.sink != new.sink:
        yield _type_rule(old, new, pair.new.output_mode).found(
            old=sink_text(old),
            new=sink_text(new),
            evidence=f"sink in {pair.shown_by_plan}",
            about=("sink.*",),
        )
        return
    yield from _judge_target(pair, old, new)
    yield from judge_sink_options(old, new, pair.shown_by_plan)
    if old.sink in FOREACH:
        yield from _judge_function(pair, _function(old), _function(new))


def judge_sink_name(pair: Pair) -> Iterator[GateFinding]:
    """Compare the name of the sink with the names in the checkpoint's commits and in the old plan."""
    named = {sink.name: sink for sink in pair.checkpoint.sinks} if pair.checkpoint else {}
    active = next((sink.name for sink in named.values() if sink.is_active), pair.old.sink.name)
    rule = _name_rule(pair, active, named)
    if rule is not None:
        yield rule.found(
            old=active or "(no name)",
            new=pair.new.sink.name or "(no name)",
            evidence=_shown_commit(pair) if named else pair.shown_at("sink.name"),
            about=("sink.name",),
        )


def judge_sink_evolution(plan: QueryPlan) -> Iterator[GateFinding]:
    """Yield why Spark refuses to name the sink of a query, or to leave it without a name."""
    if {**plan.conf, **plan.settings}.get(_EVOLUTION) != "true":
        return
    if not plan.sink.name:
        yield NEEDED.found(new="(no name)", evidence="sink.name in the new plan")
    chosen = plan.sink.options.get(_IS_ASYNC, "").lower()
    is_async = chosen == "true" or (is_real_time(plan.processing_trigger) and chosen != "false")
    if is_async or plan.processing_trigger.startswith("continuous"):
        yield WITHOUT_NAMES.found(new=plan.processing_trigger or _IS_ASYNC, evidence="the new plan")


def _name_rule(pair: Pair, active: str, named: Mapping[str, NamedSink]) -> Rule | None:
    name = pair.new.sink.name
    if name == active:
        return REUSED if name and pair.old.sink.sink != pair.new.sink.sink else None
    if not name:
        return LEFT
    return RETURNS if name in named else MOVES


def _shown_commit(pair: Pair) -> str:
    return f"commits/{pair.checkpoint.last_committed_batch}" if pair.checkpoint else ""


def judge_skipping(plan: QueryPlan, checkpoint: Checkpoint | None) -> Iterator[GateFinding]:
    """Yield that a kill may leave a checkpoint which Spark cannot continue from."""
    if checkpoint is None or checkpoint.state_format != 2 or not plan.is_stateful:
        return
    if not HABITS.get(plan.sink.sink, SinkReplaySemantics.UNKNOWN).executes_again:
        evidence = f"commits/{checkpoint.last_committed_batch}"
        yield SKIPS_STATE.found(new=sink_text(plan.sink), evidence=evidence)


def sink_text(sink: SinkPlan) -> str:
    """Return a sink for readers."""
    return " ".join(part for part in (sink.sink, sink.format, sink.target) if part)


def _rule(sink: str, key: str) -> Rule:
    if key.startswith(_ASYNC):
        return ASYNC
    if sink == "kafka" and key.startswith("kafka."):
        return CLUSTER if key == "kafka.bootstrap.servers" else CONNECTION
    if sink == "file":
        return RETENTION if key == "retention" else WRITING
    return OPTIONS_VIEW if sink in _VIEWS else OPTION


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
    if old.sink == "file" and old.format != new.format:
        yield FORMAT.found(old=old.format, new=new.format, evidence=pair.shown_at("sink.format"))
    if old.partitioned_by != new.partitioned_by:
        yield PARTITIONING.found(
            old=", ".join(old.partitioned_by),
            new=", ".join(new.partitioned_by),
            evidence=pair.shown_at("sink.partitioned_by"),
        )
    if old.sink not in FOREACH and place(old.target) != place(new.target):
        yield _target_rule(old.sink).found(
            old=old.target,
            new=new.target,
            evidence=pair.shown_at("sink.target"),
            about=("sink.target",),
        )


def _function(sink: SinkPlan) -> str:
    return sink.options.get("function") or sink.target


def _judge_function(pair: Pair, old: str, new: str) -> Iterator[GateFinding]:
    evidence = f"sink.code in {pair.shown_by_plan}"
    if old != new:
        yield FUNCTION.found(
            old=old or "not told", new=new or "not told", evidence=evidence, about=_FUNCTION
        )
    elif not pair.same_body(pair.old.sink.code, pair.new.sink.code):
        yield BODY.found(
            old=pair.old.sink.code, new=pair.new.sink.code, evidence=evidence, about=_FUNCTION
        )


def _target_rule(sink: str) -> Rule:
    if sink in VIEWS:
        return VIEW
    return {"file": PATH, "kafka": TOPIC}.get(sink, TABLE)
