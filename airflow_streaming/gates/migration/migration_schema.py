"""State schemas of migrated operators, and the check of a migration against the checkpoint that it reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.read.schemas import ColumnFamily, Field
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.gates.change.pair import plain_type
from airflow_streaming.gates.migration.migration import check_rows_writable, check_writable
from airflow_streaming.gates.migration.migration_columns import NoMigration
from airflow_streaming.model.jobs.migration import (
    Carry,
    Move,
    OperatorMigration,
    OperatorSchema,
    StateColumn,
    StateMigration,
)
from airflow_streaming.model.plan.schema import field_json, json_type, type_name

PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
CODEC: Final = "spark.sql.streaming.stateStore.compression.codec"


def check_against(
    migration: StateMigration, checkpoint: Checkpoint, stored: Mapping[int, ColumnFamily]
) -> None:
    """
    Refuse a migration that was computed from another state than the checkpoint has.

    :param stored: Key and value of the default store, by the number of the operator.
    :raises CheckpointRefused: with the first difference.
    """
    try:
        check_writable(checkpoint)
        if any(one.carry is Carry.COLUMNS for one in migration.operators):
            check_rows_writable(checkpoint)
    except NoMigration as why:
        raise CheckpointRefused(f"{checkpoint.uri} cannot be migrated. {why}") from why
    there = {operator.id: operator for operator in checkpoint.operators}
    for one in migration.operators:
        if one.source is None:
            continue
        known = there.get(one.source)
        if known is None or known.name != one.name:
            raise _other(checkpoint, f"operator {one.source}", known and known.name, one.name)
        if one.carry is Carry.COLUMNS:
            _check_columns(one, checkpoint, stored.get(one.source))
    used = {one.source for one in migration.operators}
    lost = sorted(there.keys() - used - set(migration.dropped))
    if lost:
        raise _other(checkpoint, "its operators", f"{lost} too", "all of them in the plan")


def state_schema(one: OperatorMigration, stored: ColumnFamily | None) -> OperatorSchema:
    """Return the state schema of an operator that is written anew."""
    return OperatorSchema(
        operator=one.operator,
        key=_struct(one.key, () if stored is None else stored.key),
        value=_struct(one.value, () if stored is None else stored.value),
    )


def _struct(columns: Sequence[StateColumn], stored: Sequence[Field]) -> str:
    fields = [_field(column, stored) for column in columns]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


def _field(column: StateColumn, stored: Sequence[Field]) -> Any:
    if column.source is None:
        return field_json(column.name, json_type(column.type))
    was = stored[column.source]
    same = column.move is not Move.WIDEN
    return field_json(column.name, was.type if same else json_type(column.type), was.metadata)


def _check_columns(
    one: OperatorMigration, checkpoint: Checkpoint, stored: ColumnFamily | None
) -> None:
    if stored is None:
        raise _other(checkpoint, f"operator {one.source}", "no readable schema", "its schema")
    for what, columns, fields in (
        ("key", one.key, stored.key),
        ("value", one.value, stored.value),
    ):
        for column in columns:
            if column.source is None:
                continue
            field = fields[column.source] if column.source < len(fields) else None
            found = "no such column" if field is None else type_name(field.type)
            same = plain_type(found) == plain_type(column.type)
            if field is None or (not same and column.move is not Move.WIDEN):
                place = f"{what} column {column.source} of operator {one.source}"
                raise _other(checkpoint, place, found, column.type)


def _other(checkpoint: Checkpoint, what: str, found: object, expected: object) -> CheckpointRefused:
    return CheckpointRefused(
        f"The migration does not fit {checkpoint.uri}: {what} is {found or 'missing'}, the plan expects {expected}. "
        "Ask the change gate again, with this checkpoint."
    )
