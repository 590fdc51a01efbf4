"""Reports with migrations: a refusal becomes a consequence, or stays with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, Pattern
from airflow_streaming.gates.migration.migrations import (
    MigratableReport,
    lifted,
    migrations_in,
    with_declared,
)
from airflow_streaming.model.jobs.migration import (
    Carry,
    Move,
    OperatorMigration,
    StateColumn,
    StateMigration,
)

ADDED = StateColumn(name="min", type="bigint", move=Move.ADD, initial="NULL", of="min(x)")
OPERATOR = OperatorMigration(
    operator=0, name="stateStoreSave", carry=Carry.COLUMNS, source=0, value=(ADDED,)
)
MIGRATION = StateMigration(query="a", operators=(OPERATOR,), consequences=("min(x) starts anew.",))
REFUSED = GateFinding(
    rule="aggregation.aggregates",
    severity=GateDecision.NOT_ALLOWED,
    message="An aggregate was added.",
    query="a",
    migration=MIGRATION.consequences,
)


def a_report(*more: GateFinding, migration: StateMigration = MIGRATION) -> GateReport:
    return MigratableReport(
        findings=(REFUSED, *more), pattern=Pattern.BLUE_GREEN, migrations=(migration,)
    )


def undeclared() -> StateMigration:
    column = replace(ADDED, initial=None)
    return replace(MIGRATION, operators=(replace(OPERATOR, value=(column,)),))


@pytest.mark.parametrize(
    ("report", "decision", "pattern"),
    [
        (a_report(), GateDecision.ALLOWED_WITH_CONSEQUENCE, Pattern.RESTART_IN_PLACE),
        (
            a_report(replace(REFUSED, query="b", migration=())),
            GateDecision.NOT_ALLOWED,
            Pattern.BLUE_GREEN,
        ),
        (a_report(migration=undeclared()), GateDecision.NOT_ALLOWED, Pattern.BLUE_GREEN),
    ],
    ids=["every refusal", "another query is refused", "without a declared value"],
)
def test_a_migration_lifts_the_refusals_of_its_query(
    report: GateReport, decision: GateDecision, pattern: Pattern
) -> None:
    found = lifted(report)

    assert (found.decision, found.pattern) == (decision, pattern)
    assert migrations_in(found) == migrations_in(report)


def test_a_users_initial_value_takes_the_place_of_the_computed_one() -> None:
    value = replace(ADDED, initial="7")
    given = replace(
        MIGRATION, operators=(replace(OPERATOR, value=(value,)),), consequences=("Nothing.",)
    )
    (found,) = migrations_in(with_declared(a_report(), given, "m.toml"))

    assert found.operators[0].value[0].initial == "7"
    assert found.consequences == MIGRATION.consequences


@pytest.mark.parametrize("given", [replace(MIGRATION, query="b"), replace(MIGRATION, dropped=(1,))])
def test_the_plan_of_another_change_is_refused(given: StateMigration) -> None:
    with pytest.raises(SpecError, match="another change"):
        with_declared(a_report(), given, "m.toml")
