"""
Whether the number of state partitions of a checkpoint can be changed in place, and why not.

Spark does it itself from 4.2 on: it writes one batch that reads no input, with the state in another
number of partitions. Cases that Spark refuses half-way are refused here in advance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan, SinkFacts
from airflow_streaming.model.spark.conf import SparkVersion

FIRST: Final = (4, 2)
"""Spark that has ``StreamingCheckpointManager.repartition``."""
_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OPERATORS: Final = frozenset(
    {
        *("stateStoreSave", "dedupe", "dedupeWithinWatermark", "symmetricHashJoin"),
        *("sessionWindowStateStoreSaveExec", "flatMapGroupsWithState", "applyInPandasWithState"),
        *("transformWithStateExec", "transformWithStateInPandasExec"),
        "transformWithStateInPySparkExec",
    }
)
"""Operators that Spark has a rule for, by the names in their metadata (``StatefulOperatorsUtils``)."""

POSSIBLE: Final = rule_named("state_partitions.possible")


class Refusal(StrEnum):
    """Why the number of state partitions cannot be changed in place; names of gate rules."""

    SPARK = "state_partitions.spark"
    PROVIDER = "state_partitions.provider"
    OPERATOR = "state_partitions.operator"
    UNFINISHED = "state_partitions.unfinished"
    DAMAGED = "state_partitions.damaged"
    FILE_SINK = "state_partitions.file_sink"
    NO_WAY_BACK = "state_partitions.no_way_back"


REFUSED: Final[Mapping[Refusal, Rule]] = {one: rule_named(one) for one in Refusal}
RULES: Final = (POSSIBLE, *REFUSED.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionPlan:
    """
    The planned repartition of a stream's state.

    :param partitions: New number of state partitions; 0 if it stays, or cannot change.
    :param findings: The repartition, or the reason against it, for the report.
    """

    partitions: int = 0
    findings: tuple[GateFinding, ...] = ()


def plan_repartition(
    reports: Mapping[str, Checkpoint],
    wanted: int,
    spark: SparkVersion,
    *,
    sinks: Sequence[SinkFacts] = (),
    rollback: RollbackPlan,
) -> RepartitionPlan:
    """
    Plan a new number of state partitions.

    :param reports: Each query's checkpoint, by query.
    :param wanted: New number of state partitions.
    :param spark: Version of the Spark that runs the stream.
    :param rollback: How the stream goes back once the new deployment has written.
    """
    moved = {name: one for name, one in reports.items() if _is_other(one, wanted)}
    if not moved:
        return RepartitionPlan()
    against = [
        REFUSED[code].found(
            query=query,
            old=str(moved[query].shuffle_partitions) if query in moved else "",
            new=str(wanted),
            evidence=evidence,
        )
        for code, query, evidence in _against(moved, spark, sinks, rollback)
    ]
    if against:
        return RepartitionPlan(findings=tuple(against))
    found = (
        POSSIBLE.found(query=query, old=str(one.shuffle_partitions), new=str(wanted))
        for query, one in sorted(moved.items())
    )
    return RepartitionPlan(partitions=wanted, findings=tuple(found))


def is_done(reports: Iterable[Checkpoint], wanted: int) -> bool:
    """Tell whether all state has the number of partitions, and no batch is left half done."""
    return all(
        not report.is_stateful
        or (
            report.shuffle_partitions == wanted
            and report.last_planned_batch == report.last_committed_batch
        )
        for report in reports
    )


def _is_other(report: Checkpoint, wanted: int) -> bool:
    return bool(report.is_stateful) and report.shuffle_partitions not in (None, wanted)


def _against(
    moved: Mapping[str, Checkpoint],
    spark: SparkVersion,
    sinks: Sequence[SinkFacts],
    rollback: RollbackPlan,
) -> Iterator[tuple[Refusal, str, str]]:
    if spark[:2] < FIRST:
        yield Refusal.SPARK, "", f"Spark {'.'.join(map(str, spark))}"
    if rollback.way is RollbackMethod.NONE:
        yield Refusal.NO_WAY_BACK, "", rollback.reason
    for query, report in sorted(moved.items()):
        for code, evidence in (*_against_state(report), *_against_sink(query, len(moved), sinks)):
            yield code, query, evidence


def _against_state(report: Checkpoint) -> Iterator[tuple[Refusal, str]]:
    if report.problems:
        yield Refusal.DAMAGED, report.problems[0].message
    provider = report.conf.get(_PROVIDER, "")
    if provider != _ROCKSDB:
        yield Refusal.PROVIDER, provider or "no provider is pinned"
    for operator in report.operators:
        if operator.name not in OPERATORS:
            yield Refusal.OPERATOR, f"operator {operator.id}: {operator.name or 'no name'}"
    # The query runs meanwhile, so an uncommitted batch is no obstacle; no committed batch is.
    if report.last_committed_batch is None or report.async_progress:
        yield Refusal.UNFINISHED, f"newest commit: {report.last_committed_batch}"


def _against_sink(
    query: str, queries: int, sinks: Sequence[SinkFacts]
) -> Iterator[tuple[Refusal, str]]:
    is_only = queries == 1 and len(sinks) == 1
    for facts in sinks:
        if facts.query == query or is_only:
            if facts.habit is SinkReplaySemantics.FILE_LOG:
                yield Refusal.FILE_SINK, facts.target or "_spark_metadata"
            if facts.own_checkpoint:
                yield Refusal.NO_WAY_BACK, facts.own_checkpoint
