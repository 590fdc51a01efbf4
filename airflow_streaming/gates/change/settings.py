"""
Configuration and processing trigger: pinned values, and the effects of a change.

Spark silently ignores a new value of a pinned setting: `OffsetSeqMetadata.setSessionConf` replaces
it by the checkpoint's value. A new number of shuffle partitions and another of Spark's own state
stores are a consequence then, because they were measured to change no row; unmeasured settings are
refused, because they would have no effect.

The effects of other settings, of the session and of Spark's core, are in a table, ``settings.toml``; a key outside it
is unknown.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.change.pair import Pair, has_endless_state, is_at_least, offsets_file
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.gates.spark_defaults import value_of
from airflow_streaming.model.plan.real_time import is_real_time, refusals_of
from airflow_streaming.model.plan.tree import CUT, Expr, Tree
from airflow_streaming.model.spark.plan import OperatorKind, QueryPlan

_STREAMING: Final = "spark.sql.streaming."
PARTITIONS: Final = rule_named("conf.shuffle_partitions")
PROVIDER: Final = rule_named("conf.state_store_provider")
OTHER_PROVIDER: Final = rule_named("conf.state_store_other")
POLICY: Final = rule_named("conf.watermark_policy")
PINNED: Final = rule_named("conf.pinned")
STATELESS: Final = rule_named("conf.stateless")
CHANGELOG: Final = rule_named("conf.changelog")
FORMAT: Final = rule_named("conf.checkpoint_format")
GUARD: Final = rule_named("conf.state_schema_check")
MEANING: Final = rule_named("conf.meaning")
MEANING_ENDLESS: Final = rule_named("conf.meaning_before_endless_state")
NO_MEANING: Final = rule_named("conf.no_meaning")
COMPARED: Final = rule_named("conf.compared")
TIME_ZONE: Final = rule_named("conf.time_zone")
OTHER: Final = rule_named("conf.other")
RULES: Final = (
    PARTITIONS,
    PROVIDER,
    OTHER_PROVIDER,
    POLICY,
    PINNED,
    STATELESS,
    CHANGELOG,
    FORMAT,
    GUARD,
    MEANING,
    MEANING_ENDLESS,
    NO_MEANING,
    COMPARED,
    TIME_ZONE,
    OTHER,
)
_PROVIDER: Final = f"{_STREAMING}stateStore.providerClass"
_BOUND: Final = {
    "spark.sql.shuffle.partitions": PARTITIONS,
    _PROVIDER: PROVIDER,
    f"{_STREAMING}multipleWatermarkPolicy": POLICY,
}
_OWN_PROVIDERS: Final = frozenset(
    f"org.apache.spark.sql.execution.streaming.state.{name}StateStoreProvider"
    for name in ("HDFSBacked", "RocksDB")
)
"""Between these the change was measured; of any other nothing is known."""
_ALWAYS_PINNED: Final = frozenset(
    {
        f"{_STREAMING}flatMapGroupsWithState.stateFormatVersion",
        f"{_STREAMING}aggregation.stateFormatVersion",
        f"{_STREAMING}join.stateFormatVersion",
        f"{_STREAMING}stateStore.compression.codec",
        f"{_STREAMING}stateStore.rocksdb.formatVersion",
        f"{_STREAMING}stateStore.rocksdb.mergeOperatorVersion",
        f"{_STREAMING}stateStore.rowChecksum.enabled",
        f"{_STREAMING}stateStore.encodingFormat",
        f"{_STREAMING}statefulOperator.useStrictDistribution",
        f"{_STREAMING}statefulOperator.alwaysNullableOutput.enabled",
        f"{_STREAMING}queryEvolution.enableSourceEvolution",
        "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan",
        "spark.sql.function.protobufExtensions.enabled",
        "spark.sql.dropDuplicates.deterministicKeyOrder.enabled",
    }
)
_NOT_PINNED: Final = {
    f"{_STREAMING}stateStore.rocksdb.changelogCheckpointing.enabled": CHANGELOG,
    f"{_STREAMING}stateStore.checkpointFormatVersion": FORMAT,
    f"{_STREAMING}offsetLog.formatVersion": FORMAT,
    f"{_STREAMING}stateStore.stateSchemaCheck": GUARD,
}
_TIME_ZONE: Final = "spark.sql.session.timeZone"
_SEES_BATCHES: Final = frozenset(
    {
        *("spark_partition_id", "monotonically_increasing_id", "first", "first_value", "last"),
        *("last_value", "any_value", "collect_list", "collect_set", "array_agg", "listagg"),
        *("string_agg", "percentile_approx", "mode", "rand", "randn", "uuid", "shuffle", "sample"),
        *("python_udf", CUT),
    }
)
"""Functions whose values follow the order of rows, and Python functions, which get rows in batches."""
_SEE_BATCHES: Final = ("input_file_", "approx_")
"""Beginnings of the names of more such functions."""
_MEANING: Final = frozenset({_TIME_ZONE, "spark.sql.ansi.enabled"})
_OFFLINE: Final = (
    "Take the setting back; or rescale the stream with shuffle_partitions, which changes state too; or "
    "start with a new checkpoint (blue-green)."
)

INTERVAL: Final = rule_named("trigger.interval")
ENDS: Final = rule_named("trigger.ends")
OTHER_WAY: Final = rule_named("trigger.execution")
NOT_REAL_TIME: Final = rule_named("trigger.not_real_time")
REAL_TIME_STATE: Final = rule_named("trigger.real_time_state")
UNREAD: Final = rule_named("trigger.unread")
PROCESSING_TRIGGER_RULES: Final = (
    INTERVAL,
    ENDS,
    OTHER_WAY,
    NOT_REAL_TIME,
    REAL_TIME_STATE,
    UNREAD,
)
_OTHER_WAYS: Final = ("continuous", "real time")
_ENDING: Final = ("once", "available now")
_INTERVAL: Final = re.compile(
    r"\s*(?:interval\s+)?(?:\d+(?:\.\d+)?\s*"
    r"(?:microsecond|millisecond|second|minute|hour|day|week|month|year)s?\s*)+",
    re.IGNORECASE,
)


def judge_conf(pair: Pair) -> Iterator[GateFinding]:
    """Compare the configuration of both plans with each other and with the pinned one."""
    for key, value in sorted(pair.new.conf.items()):
        was = pair.old.conf.get(key)
        if key in _BOUND or key in _ALWAYS_PINNED:
            yield from _judge_pinned(pair, key, was, value)
        elif was is not None and was != value:
            # A key that only one of two Sparks knows is the version gate's.
            rule = _rule_unpinned(pair, key)
            yield rule.found(
                f"{key}: {rule.sentence}",
                old=was,
                new=value,
                evidence=f"conf.{key} in {pair.shown_by_plan}",
                about=(f"conf.{key}",),
            )


def pinned_against(
    plan: QueryPlan, pinned: Mapping[str, str], evidence: str
) -> Iterator[GateFinding]:
    """Compare a plan's configuration with a checkpoint's pinned one, without an old plan."""
    for key, value in sorted(plan.conf.items()):
        if key in pinned and pinned[key] != value and (key in _BOUND or key in _ALWAYS_PINNED):
            rule = PINNED if plan.is_stateful else STATELESS
            yield rule.found(
                f"{key}: {rule.sentence}", old=pinned[key], new=value, evidence=evidence
            )


def judge_settings(pair: Pair) -> Iterator[GateFinding]:
    """Compare the sessions' settings besides the pinned configuration, each key by its class."""
    old, new = pair.old.settings, pair.new.settings
    for key in sorted({*old, *new}):
        if value_of(pair.old, key) != value_of(pair.new, key):
            yield _changed(pair, key, f"settings.{key}", old.get(key), new.get(key))


def judge_core(pair: Pair) -> Iterator[GateFinding]:
    """Compare the settings of Spark's core, each key by its class."""
    old, new = pair.cores
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            yield _changed(pair, key, f"core.{key}", old.get(key), new.get(key))


def _changed(pair: Pair, key: str, at: str, was: str | None, now: str | None) -> GateFinding:
    known = meaning_of(key)
    rule = _rule_of_effect(pair, key, known.effect if known is not None else Effect.UNKNOWN)
    return rule.found(
        f"{key}: {rule.sentence}",
        old="Spark's default" if was is None else was,
        new="Spark's default" if now is None else now,
        evidence=f"{at} in {pair.shown_by_plan}",
        about=(at,),
    )


def judge_trigger(pair: Pair) -> Iterator[GateFinding]:
    """Compare the processing triggers."""
    old, new = pair.old.processing_trigger, pair.new.processing_trigger
    if old == new:
        return
    yield _rule(old, new).found(
        old=old or "as soon as possible",
        new=new or "as soon as possible",
        evidence=f"processing trigger in {pair.shown_by_plan}",
        about=("processing_trigger",),
    )


def judge_real_time(plan: QueryPlan, checkpoint: Checkpoint | None) -> Iterator[GateFinding]:
    """Yield why Spark would refuse the new plan in real-time mode."""
    for at, sentence in refusals_of(plan):
        yield NOT_REAL_TIME.found(
            sentence, new=plan.processing_trigger, evidence=f"{at} in the new plan"
        )
    has_old_state = checkpoint is not None and checkpoint.state_format == 1
    if is_real_time(plan.processing_trigger) and plan.is_stateful and has_old_state:
        yield REAL_TIME_STATE.found(
            old="state of checkpoint format 1",
            new=plan.processing_trigger,
            evidence="the state of the checkpoint",
        )


class Effect(StrEnum):
    """The effect of a setting, by the name of its group in the table."""

    VALUES = "values"
    """Other rows are read, or expressions give other values."""
    NOTHING = "nothing"
    """Rows and checkpoint are the same."""
    COMPARED = "compared"
    """It shows in another part of the plan, which is compared."""
    BATCHES = "batches"
    """Partitions, batches or the order of rows differ; the rows are the same unless something sees that."""
    RECORDED = "recorded"
    """Spark takes it from the checkpoint, or a rule of its own judges it."""
    UNKNOWN = "unknown"
    """The effect was not examined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingClass:
    """
    A setting, or a group of settings with one prefix.

    :param source: The origin of this knowledge.
    """

    effect: Effect
    source: str


@cache
def all_classes() -> Mapping[str, SettingClass]:
    """Return the classes by key; a key that ends with a dot is a prefix."""
    text = files("airflow_streaming.gates").joinpath("settings.toml").read_text(encoding="utf-8")
    return {
        key: SettingClass(effect=Effect(effect), source=group["source"])
        for effect, groups in tomllib.loads(text).items()
        for group in groups
        for key in group["keys"]
    }


def meaning_of(key: str) -> SettingClass | None:
    """Return the class of a setting, ``None`` for an unknown one."""
    known = all_classes()
    if key in known:
        return known[key]
    parts = key.split(".")
    prefixes = (".".join(parts[:size]) + "." for size in range(len(parts) - 1, 0, -1))
    return next((known[prefix] for prefix in prefixes if prefix in known), None)


def _judge_pinned(pair: Pair, key: str, was: str | None, value: str) -> Iterator[GateFinding]:
    pinned = pair.pinned(key)
    if was is None or value in (was, pinned):
        # No user set another value; defaults of a newer Spark belong to the version gate.
        return
    rule = _rule_pinned(pair, key, value) if pair.is_stateful else STATELESS
    yield rule.found(
        f"{key}: {rule.sentence}",
        old=was if pinned is None else pinned,
        new=value,
        evidence=offsets_file(pair.checkpoint) or f"conf.{key} in {pair.shown_by_plan}",
        about=(f"conf.{key}",),
        remedy=_OFFLINE if rule is PARTITIONS and _can_repartition(pair) else "",
    )


def _rule_pinned(pair: Pair, key: str, value: str) -> Rule:
    rule = _BOUND.get(key, PINNED)
    if pair.checkpoint is not None and key not in pair.checkpoint.conf:
        # Nothing overrides the new value then.
        return OTHER
    if rule is POLICY and len(pair.new.watermarks) < 2:
        return PINNED
    if rule is PROVIDER and not _is_measured_provider(pair, value):
        return OTHER_PROVIDER
    return rule


def _is_measured_provider(pair: Pair, value: str) -> bool:
    # transformWithState asks the session for its store before the checkpoint is read.
    asks = any(one.sort is OperatorKind.TRANSFORM_WITH_STATE for one in pair.new.operators)
    return not asks and {value, pair.pinned(_PROVIDER)} <= _OWN_PROVIDERS


def _can_repartition(pair: Pair) -> bool:
    provider = pair.pinned(_PROVIDER) or ""
    return "RocksDB" in provider and is_at_least(pair.new.spark, (4, 2))


def _rule_unpinned(pair: Pair, key: str) -> Rule:
    if key in _MEANING:
        return _rule_of_meaning(pair, key)
    rule = _NOT_PINNED.get(key, OTHER)
    return rule if pair.is_stateful or rule is OTHER else STATELESS


def _rule_of_meaning(pair: Pair, key: str) -> Rule:
    if pair.is_stateful and key == _TIME_ZONE:
        return TIME_ZONE
    return MEANING_ENDLESS if has_endless_state(pair.old) else MEANING


def _rule_of_effect(pair: Pair, key: str, effect: Effect) -> Rule:
    if effect is Effect.VALUES:
        return _rule_of_meaning(pair, key)
    if effect is Effect.BATCHES:
        return _rule_of_batches(pair, key)
    return {Effect.COMPARED: COMPARED, Effect.NOTHING: NO_MEANING}.get(effect, OTHER)


def _rule_of_batches(pair: Pair, key: str) -> Rule:
    """Return the rule for other partitions, batches or another order of rows."""
    plans = (pair.old, pair.new)
    if any(_state_sees_batches(plan) for plan in plans):
        return _rule_of_meaning(pair, key)
    return MEANING if any(_output_sees_batches(plan) for plan in plans) else NO_MEANING


def _state_sees_batches(plan: QueryPlan) -> bool:
    operators = plan.operators
    if any(operator.function or operator.code for operator in operators):
        return True
    values = (tree for operator in operators for tree in operator.values)
    return _any_sees_batches(values) or _steps_see_batches(plan, before_state=True)


def _output_sees_batches(plan: QueryPlan) -> bool:
    results = (tree for operator in plan.operators for tree in operator.results)
    behind = _any_sees_batches(results) or _steps_see_batches(plan, before_state=False)
    return bool(plan.sink.code) or behind


def _steps_see_batches(plan: QueryPlan, *, before_state: bool) -> bool:
    steps = [step for step in plan.steps if bool(step.below) is before_state]
    return any(step.step == "map" for step in steps) or _any_sees_batches(s.tree for s in steps)


def _any_sees_batches(trees: Iterable[Tree]) -> bool:
    return any(_sees_batches(one) for tree in trees for one in tree.walk())


def _sees_batches(tree: Tree) -> bool:
    op = tree.op.lower() if isinstance(tree, Expr) else ""
    has_function = isinstance(tree, Expr) and "func" in tree.options
    return has_function or op in _SEES_BATCHES or op.startswith(_SEE_BATCHES)


def _rule(old: str, new: str) -> Rule:
    if not _is_known(new):
        return UNREAD
    if old.startswith(_OTHER_WAYS) != new.startswith(_OTHER_WAYS):
        return OTHER_WAY
    return ENDS if new in _ENDING and old not in _ENDING else INTERVAL


def _is_known(trigger: str) -> bool:
    return (
        not trigger
        or trigger in _ENDING
        or trigger.startswith(_OTHER_WAYS)
        or _INTERVAL.fullmatch(trigger) is not None
    )
