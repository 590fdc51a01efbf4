"""
An upgrade's records beside its steps: terms, standing, and replay behavior of its sinks.

A rollback repeats batch ids. The sink decides whether that is harmless: a sink with a log of its
ids skips known ones, a sink that writes by id replaces the batch, and a sink that only appends gets
every row twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.durations import age_of
from airflow_streaming.model.jobs.migration import StateMigration
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade_table import Stage
from airflow_streaming.model.spark.plan import KAFKA, QueryPlan, SinkPlan, SourcePlan
from airflow_streaming.model.spark.sink_place import KEEPS_NOTHING
from airflow_streaming.model.uris import in_full, is_same_place
from airflow_streaming.model.wire import Record

FILE: Final = "file"

_USUAL: Final = timedelta(minutes=30)
_WHILE_DOWN: Final = timedelta(minutes=5)
_DOWN: Final = frozenset(
    {
        Stage.STOPPED,
        Stage.APPLYING,
        Stage.REPARTITIONED,
        Stage.MIGRATED,
        Stage.DEPLOYED,
        Stage.ROLLING_BACK,
        Stage.LEFT,
        Stage.RESTORED,
    }
)


HABITS: Final[Mapping[str, SinkReplaySemantics]] = {
    FILE: SinkReplaySemantics.FILE_LOG,
    KAFKA: SinkReplaySemantics.APPENDS,
    **dict.fromkeys(KEEPS_NOTHING, SinkReplaySemantics.NOTHING),
    # Lake tables keep the id of the query and of its last batch, and skip known ones.
    "table": SinkReplaySemantics.REMEMBERS,
    "delta": SinkReplaySemantics.REMEMBERS,
    "iceberg": SinkReplaySemantics.REMEMBERS,
    "hudi": SinkReplaySemantics.REMEMBERS,
}
"""By the kind of sink; every other one is unknown until its author declares its behavior."""
DECLARABLE: Final = frozenset(SinkReplaySemantics) - {
    SinkReplaySemantics.FILE_LOG,
    SinkReplaySemantics.UNKNOWN,
}
"""Values that an author may declare for a sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFacts:
    """
    Facts about one query for a rollback.

    :param query: Its name, which is its folder in a backup.
    :param sink: ``file``, ``kafka``, ``foreachbatch`` and so on, as in ``SinkPlan``.
    :param target: Path, topic or table; URI of the output folder of a file sink.
    :param cannot_reread: Why its sources cannot be read again; empty when they can.
    :param own_checkpoint: Location of the checkpoint when the script chose it itself, so that no
        deployment can move it; else empty.
    """

    query: str
    sink: str
    habit: SinkReplaySemantics
    target: str = ""
    is_stateful: bool = False
    cannot_reread: str = ""
    own_checkpoint: str = ""


def sink_facts_of(
    plans: Sequence[QueryPlan],
    habits: Mapping[str, SinkReplaySemantics] | None = None,
    *,
    checkpoint: str = "",
) -> tuple[SinkFacts, ...]:
    """
    Return the facts about sinks from plans.

    :param habits: The author's declarations, by the query's name; they take precedence over the
        usual behavior of a kind of sink, but not over a file sink's log.
    :param checkpoint: URI under which the deployment gives its queries their checkpoints; without
        it no location counts as the script's own.
    :raises ValueError: semantics that cannot be declared, or of a query that does not exist.
    """
    declared = dict(habits or {})
    unknown = sorted(set(declared) - {plan.query for plan in plans})
    odd = sorted(habit for habit in declared.values() if habit not in DECLARABLE)
    if unknown or odd:
        raise ValueError(
            f"A sink cannot be declared for query {unknown[0]!r}, which there is not."
            if unknown
            else f"A sink cannot be declared as {odd[0].value!r}; say one of "
            f"{', '.join(sorted(DECLARABLE))}."
        )
    return tuple(_facts(plan, declared.get(plan.query), checkpoint) for plan in plans)


def without_facts(queries: Collection[str], sinks: Sequence[SinkFacts]) -> list[str]:
    """
    Return the queries without facts about their sinks.

    :param queries: Their names; a single unnamed query has the only facts.
    """
    if set(queries) == {""} and len(sinks) == 1:
        return []
    return sorted(set(queries) - {facts.query for facts in sinks})


def _facts(plan: QueryPlan, declared: SinkReplaySemantics | None, checkpoint: str) -> SinkFacts:
    likely = HABITS.get(plan.sink.sink, SinkReplaySemantics.UNKNOWN)
    is_log = likely is SinkReplaySemantics.FILE_LOG
    return SinkFacts(
        query=plan.query,
        sink=plan.sink.sink,
        habit=likely if is_log else declared or likely,
        target=_output(plan.sink) if is_log else plan.sink.target,
        is_stateful=plan.is_stateful,
        cannot_reread=" ".join(filter(None, map(_cannot_reread, plan.sources))),
        own_checkpoint=_own(plan, checkpoint),
    )


def _output(sink: SinkPlan) -> str:
    """Return a file sink's folder as a full URI; empty when it is relative."""
    target = in_full(sink.target)
    return target if target.startswith("/") or "://" in target else ""


def _own(plan: QueryPlan, checkpoint: str) -> str:
    chosen = in_full(plan.checkpoint)
    if not checkpoint or not chosen or ("://" not in chosen and not chosen.startswith("/")):
        return ""
    return "" if is_same_place(chosen, f"{checkpoint.rstrip('/')}/{plan.query}") else chosen


def _cannot_reread(source: SourcePlan) -> str:
    if source.source == "socket":
        return "A socket cannot be read again."
    cleaned = source.options.get("cleansource", "off").lower()
    if source.source == FILE and cleaned != "off":
        return (
            f"Its file source has cleanSource={cleaned}, so files that a batch has read may be gone "
            "when it is to be read again."
        )
    return ""


class RollbackMethod(StrEnum):
    """How to go back once the new deployment has written."""

    REWIND = "rewind"
    """Back to the pre-upgrade backup, with sinks put back in step: as if it had never been tried."""
    RESUME = "resume"
    """The old deployment continues where the new one ended; the new one's output stays."""
    NONE = "none"
    """
    After a committed batch no rollback is possible; an upgrade is refused, or the user agrees.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """
    The plan of a rollback, made before any change.

    :param replay: Data that will come twice, in words; empty for none.
    :param refused: Why a sound rollback is impossible, with an alternative; empty if it is
        possible.
    """

    way: RollbackMethod
    reason: str
    replay: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeTerms(Record):
    """
    All terms that a task needs to finish an upgrade.

    :param rollback: The plan of a rollback.
    :param keeps_by_itself: End the soak by keeping a good deployment; else the user must decide.
    :param stop_grace: How long the old driver may take to reach a batch boundary.
    :param sinks: Of the old deployment: the sinks that a rollback must rewind.
    :param prewarm: Have the new deployment's driver wait at the barrier before the old one is
        stopped; two drivers take memory for that time.
    :param key: Names the request: a request with the same key means this upgrade, ended or not.
    :param partitions: New number of state partitions of the checkpoints before the new deployment
        starts; 0 leaves them as they are.
    :param migrations: Of the queries whose state the new deployment cannot read as it is.
    """

    KIND: ClassVar[str] = "upgrade_terms"

    change: int
    proposed: Deployment
    rollback: RollbackPlan
    soak: SoakTerms = field(default_factory=SoakTerms)
    keeps_by_itself: bool = True
    stop_grace: timedelta = timedelta(seconds=60)
    sinks: tuple[SinkFacts, ...] = ()
    prewarm: bool = False
    key: str = ""
    partitions: int = 0
    migrations: tuple[StateMigration, ...] = ()

    @property
    def sink_logs(self) -> dict[str, str]:
        """Return the output folder of every file sink, by the query's name."""
        logs = (sink for sink in self.sinks if sink.habit is SinkReplaySemantics.FILE_LOG)
        return {sink.query: sink.target for sink in logs}

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the terms but for their number: what names their record."""
        return hashlib.sha256(replace(self, change=0).to_bytes()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenUpgrade:
    """
    An upgrade in progress, or at its end and not closed.

    :param deployment: Number of the new deployment.
    :param stage: Its stage, and ``since`` when.
    :param soaks_for: How long its soak may last.
    """

    change: int
    deployment: int
    stage: Stage
    since: datetime
    soaks_for: timedelta = timedelta(0)

    def __str__(self) -> str:
        which = f"Change {self.change} (upgrade to deployment {self.deployment})"
        if self.is_over:
            return f"{which} has come to its end and was not closed: stage {self.stage}."
        return f"{which} is in progress: stage {self.stage}."

    @property
    def rule(self) -> str:
        return "unfinished_upgrade"

    @property
    def owns_stream(self) -> bool:
        """Tell whether only the upgrade may start a driver now."""
        return not self.is_over

    @property
    def is_over(self) -> bool:
        """Tell whether the stream is no longer the upgrade's, though the change is open."""
        return self.stage.is_end

    def is_overdue(self, now: datetime) -> bool:
        # The task that reached the stage may have had another clock. An alert that comes as much
        # earlier
        # or later as two clocks differ does no harm, and nothing else hangs on this.
        return age_of(self.since, now) > self.patience

    @property
    def patience(self) -> timedelta:
        """Return how long its stage may last before an alert is sent."""
        if self.stage in _DOWN:
            return _WHILE_DOWN
        return _USUAL + (self.soaks_for if self.stage is Stage.LAUNCHED else timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport(Record):
    """
    The digest of a report that a task of a DAG run has pushed to XCom.

    The report itself travels by XCom, which other users may edit. The tasks that read it believe only
    a report with this digest.

    :param key: The run of the DAG.
    :param task: The task that has pushed it.
    :param digest: SHA-256 of the report as JSON.
    """

    KIND: ClassVar[str] = "run_report"

    number: int
    key: str
    task: str
    xcom: str
    digest: str
    by: str
    at: datetime
