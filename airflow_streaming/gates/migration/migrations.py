"""The migrations of a script's refused changes, attached to the gate's findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.change.judge import Matched, checkpoint_name, judge_change
from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport
from airflow_streaming.gates.migration.migration import Subject, migration_of
from airflow_streaming.gates.migration.migration_columns import NoMigration
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.model.jobs.migration import StateMigration
from airflow_streaming.model.spark.plan import QueryPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratableReport(GateReport):
    """
    A report with migrations of state.

    :param migrations: At most one for each query.
    """

    migrations: tuple[StateMigration, ...] = ()


def migrations_in(report: GateReport) -> tuple[StateMigration, ...]:
    """Return the migrations of a report."""
    return report.migrations if isinstance(report, MigratableReport) else ()


def with_migrations(
    report: GateReport,
    matched: Iterable[Matched],
    checkpoints: Mapping[str, Checkpoint | None],
    schemas: Mapping[str, Sequence[StoreSchema]],
) -> GateReport:
    """
    Return a report whose refusals say how the state can be migrated, or why it cannot.

    The decision stays: a migration is applied only after its proof.

    :param checkpoints: By query; ``schemas`` likewise.
    """
    migrations: list[StateMigration] = []
    findings = list(report.findings)
    for each in matched:
        name = checkpoint_name(each, checkpoints)
        checkpoint = checkpoints.get(name)
        own = [one for one in findings if one.query in ("", each.new.query)]
        is_refused = any(one.severity is GateDecision.NOT_ALLOWED for one in own)
        if each.old is None or checkpoint is None or not is_refused:
            continue
        if not (each.old.is_stateful or each.new.is_stateful):
            continue
        subject = Subject(
            old=each.old,
            new=each.new,
            checkpoint=checkpoint,
            schemas=schemas.get(name, ()),
            findings=own,
        )
        try:
            migration = migration_of(subject, _judge)
        except NoMigration as why:
            findings = _each(findings, each.new.query, why=str(why))
        else:
            migrations.append(migration)
            findings = _each(findings, each.new.query, effects=migration.consequences)
    shown = tuple(findings)
    if not migrations:
        return replace(report, findings=shown)
    return MigratableReport(findings=shown, pattern=report.pattern, migrations=tuple(migrations))


def _judge(old: QueryPlan, new: QueryPlan) -> list[GateFinding]:
    return judge_change(old, new, None)


def _each(
    findings: Sequence[GateFinding], query: str, *, effects: Sequence[str] = (), why: str = ""
) -> list[GateFinding]:
    return [
        replace(one, migration=tuple(effects), no_migration=why)
        if one.query == query and one.severity is GateDecision.NOT_ALLOWED
        else one
        for one in findings
    ]
