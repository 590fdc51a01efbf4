"""
Configuration: what the checkpoint pins, and what decides the meaning of rows.

Spark passes over a new value of what is pinned, without a word. So a change that was asked for is
refused, because it would not happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.core.compatibility.change.pair import Pair, is_at_least, offsets_file
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import QueryPlan

_STREAMING: Final = "spark.sql.streaming."
_GUIDE: Final = "Structured Streaming guide, configuration that cannot change on a checkpoint"

PARTITIONS: Final = Rule(
    name="conf.shuffle_partitions",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The shuffle partitions of a query with state cannot change on its checkpoint: Spark "
    "goes on with the pinned number.",
    source=f"{_GUIDE}; measured: 2 to 5 stays 2",
    remedy="Keep the number, or start with a new checkpoint (blue-green).",
)
PROVIDER: Final = Rule(
    name="conf.state_store_provider",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The state store of a query cannot change on its checkpoint: Spark goes on with the "
    "pinned one.",
    source=f"{_GUIDE}; measured: RocksDB on a checkpoint of HDFS stays HDFS",
    remedy="Keep the provider, or start with a new checkpoint (blue-green).",
)
POLICY: Final = Rule(
    name="conf.watermark_policy",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The policy for several watermarks cannot change on a checkpoint: Spark goes on with "
    "the pinned one.",
    source=f"{_GUIDE}; measured: max on a checkpoint of min stays min",
    remedy="Keep the policy, or start with a new checkpoint (blue-green).",
)
PINNED: Final = Rule(
    name="conf.pinned",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="The checkpoint pins another value: the new one has no effect.",
    source="OffsetSeqMetadata; measured: changed values are overridden by the log",
)
STATELESS: Final = Rule(
    name="conf.stateless",
    severity=GateDecision.ALLOWED,
    sentence="A query without state has nothing that depends on it.",
    source="OffsetSeqMetadata",
)
CHANGELOG: Final = Rule(
    name="conf.changelog",
    severity=GateDecision.ALLOWED,
    sentence="RocksDB may begin and cease to write changelogs between two starts.",
    source="measured: works both ways",
)
FORMAT: Final = Rule(
    name="conf.checkpoint_format",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="State goes on in the format that the checkpoint has: the new value has no effect.",
    source="measured: checkpointFormatVersion 2 on a checkpoint of format 1 stays 1",
)
GUARD: Final = Rule(
    name="conf.state_schema_check",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Spark's own check of the state's columns is off: a change that does not fit is no "
    "longer refused.",
    source="spark.sql.streaming.stateStore.stateSchemaCheck",
    remedy="Use it for one start only, where the version gate asks for it.",
)
MEANING: Final = Rule(
    name="conf.meaning",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="It decides what expressions mean: days, casts, overflows. New rows follow the new "
    "value, state and written rows do not.",
    source="Spark SQL configuration; not pinned in the checkpoint",
)
TIME_ZONE: Final = Rule(
    name="conf.time_zone",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The session's time zone must stay under state: it cuts days and reads times, and is "
    "not pinned, so that groups which are open would be made by both.",
    source="Spark SQL configuration; not pinned in the checkpoint",
    remedy="Keep the time zone, or start with a new checkpoint (blue-green).",
)
OTHER: Final = Rule(
    name="conf.other",
    severity=GateDecision.UNKNOWN,
    sentence="What this configuration does to a query that goes on is not known.",
    source="no rule covers it",
    remedy="Rehearse it.",
)

RULES: Final = (
    PARTITIONS,
    PROVIDER,
    POLICY,
    PINNED,
    STATELESS,
    CHANGELOG,
    FORMAT,
    GUARD,
    MEANING,
    TIME_ZONE,
    OTHER,
)

_REFUSED: Final = {
    "spark.sql.shuffle.partitions": PARTITIONS,
    f"{_STREAMING}stateStore.providerClass": PROVIDER,
    f"{_STREAMING}multipleWatermarkPolicy": POLICY,
}
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
_MEANING: Final = frozenset({_TIME_ZONE, "spark.sql.ansi.enabled"})
_OFFLINE: Final = (
    "Keep the number; or repartition the state offline with Spark 4.2 or newer, on a copy of the "
    "checkpoint; or start with a new one (blue-green)."
)


def judge_conf(pair: Pair) -> Iterator[GateFinding]:
    """Compare the configuration of both plans with each other and with what is pinned."""
    for key, value in sorted(pair.new.conf.items()):
        was = pair.old.conf.get(key)
        if key in _REFUSED or key in _ALWAYS_PINNED:
            yield from _judge_pinned(pair, key, was, value)
        elif was is not None and was != value:
            # A key that only one of two Sparks knows is the version gate's.
            rule = _rule_unpinned(pair, key)
            yield rule.found(
                f"{key}: {rule.sentence}",
                old=was,
                new=value,
                evidence=pair.shown_by_plan,
            )


def pinned_against(
    plan: QueryPlan, pinned: Mapping[str, str], evidence: str
) -> Iterator[GateFinding]:
    """Compare a plan's configuration with what a checkpoint pins, where no old plan is known."""
    for key, value in sorted(plan.conf.items()):
        if key in pinned and pinned[key] != value and (key in _REFUSED or key in _ALWAYS_PINNED):
            rule = PINNED if plan.is_stateful else STATELESS
            yield rule.found(
                f"{key}: {rule.sentence}", old=pinned[key], new=value, evidence=evidence
            )


def _judge_pinned(pair: Pair, key: str, was: str | None, value: str) -> Iterator[GateFinding]:
    pinned = pair.pinned(key)
    if was is None or value in (was, pinned):
        # Nobody asked for another value; what a newer Spark brings is the version gate's.
        return
    rule = _REFUSED.get(key, PINNED) if pair.is_stateful else STATELESS
    if rule is POLICY and len(pair.new.watermarks) < 2:
        rule = PINNED
    yield rule.found(
        f"{key}: {rule.sentence}",
        old=was if pinned is None else pinned,
        new=value,
        evidence=offsets_file(pair.checkpoint) or pair.shown_by_plan,
        remedy=_OFFLINE if rule is PARTITIONS and _can_repartition(pair) else "",
    )


def _can_repartition(pair: Pair) -> bool:
    provider = pair.pinned(f"{_STREAMING}stateStore.providerClass") or ""
    return "RocksDB" in provider and is_at_least(pair.new.spark, (4, 2))


def _rule_unpinned(pair: Pair, key: str) -> Rule:
    if key in _MEANING:
        return TIME_ZONE if pair.is_stateful and key == _TIME_ZONE else MEANING
    rule = _NOT_PINNED.get(key, OTHER)
    return rule if pair.is_stateful or rule is OTHER else STATELESS
