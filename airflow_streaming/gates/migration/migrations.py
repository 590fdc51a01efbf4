"""The migrations of a script's refused changes, attached to the gate's findings."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.change.judge import Matched, checkpoint_name, judge_change
from airflow_streaming.gates.findings import (
    GateDecision,
    GateFinding,
    GateReport,
    Pattern,
    report_of,
)
from airflow_streaming.gates.migration.migration import Subject, migration_of
from airflow_streaming.gates.migration.migration_columns import NoMigration
from airflow_streaming.gates.migration.migration_file import mapping_digest
from airflow_streaming.gates.migration.reasons import reason_of
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


def carrying(report: GateReport, migrations: Sequence[StateMigration]) -> GateReport:
    """Return a report with migrations; the same one without any."""
    if not migrations:
        return report
    return MigratableReport(
        findings=report.findings, pattern=report.pattern, migrations=tuple(migrations)
    )


def lifted(report: GateReport) -> GateReport:
    """
    Return a report whose refusals are consequences where a migration lifts them.

    A migration whose initial values a user must declare lifts nothing yet.
    """
    migrations = migrations_in(report)
    ready = {one.query for one in migrations if not any(one.undeclared())}
    findings = tuple(_lifted(one) if _is_lifted(one, ready) else one for one in report.findings)
    is_refused = any(one.severity is GateDecision.NOT_ALLOWED for one in findings)
    pattern = report.pattern if is_refused else Pattern.RESTART_IN_PLACE
    return carrying(report_of(findings, pattern), migrations)


def _is_lifted(finding: GateFinding, queries: Container[str]) -> bool:
    is_refused = finding.severity is GateDecision.NOT_ALLOWED
    return is_refused and bool(finding.migration) and finding.query in queries


def _lifted(finding: GateFinding) -> GateFinding:
    return replace(
        finding,
        severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
        message=f"{finding.message} The state is migrated: {' '.join(finding.migration)}",
        remedy="",
        migration=(),
    )


def with_remedy(report: GateReport, remedy: str) -> GateReport:
    """Return a report whose refusals name the switch that migrates their state."""
    findings = tuple(
        replace(one, remedy=remedy) if one.migration else one for one in report.findings
    )
    return carrying(replace(report, findings=findings), migrations_in(report))


def with_declared(report: GateReport, given: StateMigration, name: str) -> GateReport:
    """
    Return a report in which a user's plan takes the place of the computed one, for its initial values.

    :param name: The plan's file, for messages.
    :raises SpecError: it is the plan of another change.
    """
    computed = {one.query: one for one in migrations_in(report)}
    own = computed.get(given.query)
    if own is None or mapping_digest(own) != mapping_digest(given):
        raise SpecError(
            f"{name} is the migration of another change: query {given.query!r} needs "
            f"{'another one' if own else 'none'} now. Write it anew with `gate change --write-migration`."
        )
    computed[given.query] = replace(given, consequences=own.consequences)
    return carrying(report, tuple(computed.values()))


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
            findings = [_with_reason(one, each.new.query) for one in findings]
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
    return carrying(replace(report, findings=tuple(findings)), migrations)


def _judge(old: QueryPlan, new: QueryPlan) -> list[GateFinding]:
    return judge_change(old, new, None)


def _with_reason(finding: GateFinding, query: str) -> GateFinding:
    """Return a refusal of a query without state with the reason why no migration lifts it."""
    if finding.query != query or finding.severity is not GateDecision.NOT_ALLOWED:
        return finding
    return replace(finding, no_migration=reason_of(finding.rule, is_stateful=False))


def _each(
    findings: Sequence[GateFinding], query: str, *, effects: Sequence[str] = (), why: str = ""
) -> list[GateFinding]:
    return [
        replace(one, migration=tuple(effects), no_migration=why)
        if one.query == query and one.severity is GateDecision.NOT_ALLOWED
        else one
        for one in findings
    ]
