"""The file of a migration: written, read back, and refused where more than an initial value was changed."""

from __future__ import annotations

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.migration.migration_file import migration_toml, read_migration
from airflow_streaming.model.jobs.migration import (
    Carry,
    Merge,
    Move,
    OperatorMigration,
    StateColumn,
    StateMigration,
)


def a_column(name: str, move: Move = Move.KEEP, **changes: object) -> StateColumn:
    return StateColumn(name=name, type="bigint", move=move, **changes)  # type: ignore[arg-type]


MIGRATION = StateMigration(
    query='totals "of" shops',
    operators=(
        OperatorMigration(
            operator=0,
            name="stateStoreSave",
            carry=Carry.COLUMNS,
            source=1,
            key=(a_column("user", source=0, of="user"),),
            value=(
                a_column("sum", source=0, of="sum(a)"),
                a_column("sum", source=1, of="sum(b)"),
                a_column("least", Move.MERGE, source=2, merge=Merge.MIN, of="min(c)"),
                a_column("min", Move.ADD, initial="NULL", of="min(d)"),
                a_column("count", Move.ADD, initial="0", of="avg(e)"),
                StateColumn(name="sum", type="double", move=Move.ADD, initial="0", of="avg(e)"),
            ),
            dropped=("max(x)",),
        ),
        OperatorMigration(operator=1, name="dedupe", carry=Carry.EMPTY),
    ),
    dropped=(0,),
    consequences=("min(d) starts anew.", "Backslash \\ and 'quotes'."),
)
TEXT = migration_toml(MIGRATION)


def read(text: str) -> StateMigration:
    return read_migration(text.encode(), "m.toml")


def why_refused(text: str) -> str:
    with pytest.raises(SpecError) as refused:
        read(text)
    return str(refused.value)


def test_a_migration_is_read_back_as_it_was_written() -> None:
    assert read(TEXT) == MIGRATION


def test_a_person_may_declare_an_initial_value() -> None:
    found = read(TEXT.replace('initial = "NULL"', 'initial = "7"'))

    assert found.operators[0].value[3].initial == "7"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('source = 0\nof = "sum(a)"', 'source = 1\nof = "sum(a)"'),
        ('of = "sum(a)"', 'of = "sum(b)"'),
        ("operator = 0", "operator = 1"),
        ("source = 1\ndropped", "source = 0\ndropped"),
        ("dropped = [0]", "dropped = []"),
        ('carry = "empty"', 'carry = "whole"'),
        ('query = "totals', 'query = "total'),
        ('merge = "min"', 'merge = "max"'),
        ('name = "dedupe"', 'name = "stateStoreSave"'),
        ('type = "double"', 'type = "float"'),
    ],
)
def test_any_other_edit_is_refused(old: str, new: str) -> None:
    assert old in TEXT
    assert "more than its initial values" in why_refused(TEXT.replace(old, new, 1))


def test_a_part_of_a_state_cannot_be_declared() -> None:
    assert "more than its initial values" in why_refused(
        TEXT.replace('initial = "0"', 'initial = "3"', 1)
    )


@pytest.mark.parametrize("value", ["'seven'", "7.5", "1 + 1", "(SELECT 1)", "", "x", "TRUE"])
def test_an_initial_value_that_is_no_literal_of_the_type_is_refused(value: str) -> None:
    found = why_refused(TEXT.replace('initial = "NULL"', f'initial = "{value}"'))

    assert "not a literal of type bigint" in found
    assert "min(d)" in found


@pytest.mark.parametrize(
    "text", ["", "format = 1", "format = 2", "a = ", "[[operators]]\noperator = 'x'", "\x00"]
)
def test_another_file_is_refused(text: str) -> None:
    assert "m.toml" in why_refused(text)
    assert "--write-migration" in why_refused(text)


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(SpecError, match=r"m\.toml is not a migration"):
        read_migration(b"\xff\xfe", "m.toml")
