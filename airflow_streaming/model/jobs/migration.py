"""
A migration of state: where each operator and column of the new state comes from.

The change gate computes it from two plans, a file holds it for review, and a Spark job executes it. An operator
of the new query takes over the state of one old operator, as it is or by columns, or starts without state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.model.jobs.drill import AnsweredOrder
from airflow_streaming.model.wire import Record

BEFORE: Final = "_before"
"""Folder in a copy with its old state, while the migration of the copy is not finished."""
MARKER: Final = f"{BEFORE}/migrating"
"""File by which a copy is known as one that no migration has finished."""
MARK: Final = b"airflow-streaming checkpoint migrate\n"


class Move(StrEnum):
    """How a column of the new state is made."""

    KEEP = "keep"
    RENAME = "rename"
    REORDER = "reorder"
    WIDEN = "widen"
    ADD = "add"
    """Every key starts with the initial value."""
    MERGE = "merge"
    """The merged value of all old keys that become one new key."""


class Merge(StrEnum):
    """How the values of several keys become one; the name of an aggregate function of Spark."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    EVERY = "every"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateColumn:
    """
    A column of the new state.

    :param type: Its type in Spark's short form.
    :param source: Place of the old column, from 0, in the old key for a key and in the old value for a value.
    :param initial: Of an added column, the literal in SQL; ``None`` where a user must declare it.
    :param of: The key or aggregate that the column belongs to, for readers.
    """

    name: str
    type: str
    move: Move
    source: int | None = None
    initial: str | None = None
    merge: Merge | None = None
    of: str = ""


class Carry(StrEnum):
    """How an operator of the new query gets its state."""

    WHOLE = "whole"
    """The files of the old operator, unchanged."""
    COLUMNS = "columns"
    """Rows of the old operator with other columns."""
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorMigration:
    """
    A stateful operator of the new query.

    :param operator: Its number in the new checkpoint.
    :param name: Its name in Spark's operator metadata, e.g. ``stateStoreSave``.
    :param source: Number of the old operator; ``None`` of an empty one.
    :param key: Columns of the new key, of an operator that is carried by columns.
    :param value: Columns of the new value; likewise.
    :param dropped: Old value columns without a place in the new state.
    :param time_mode: Of a ``transformWithState`` that starts without state, Spark's name of its time mode.
    """

    operator: int
    name: str
    carry: Carry
    source: int | None = None
    key: tuple[StateColumn, ...] = ()
    value: tuple[StateColumn, ...] = ()
    dropped: tuple[str, ...] = ()
    time_mode: str = ""

    @property
    def columns(self) -> tuple[StateColumn, ...]:
        return (*self.key, *self.value)

    @property
    def is_merged(self) -> bool:
        """Tell whether several old keys may become one."""
        return any(column.move is Move.MERGE for column in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMigration(Record):
    """
    The migration of one query's state.

    :param operators: Every stateful operator of the new query, by number.
    :param dropped: Numbers of old operators whose state is not used again.
    :param consequences: Effects on the output, one sentence each.
    """

    KIND: ClassVar[str] = "state_migration"

    query: str
    operators: tuple[OperatorMigration, ...] = ()
    dropped: tuple[int, ...] = ()
    consequences: tuple[str, ...] = ()

    def columns(self) -> Iterator[tuple[int, StateColumn]]:
        """Yield the columns of the new state, each with the number of its operator."""
        for operator in self.operators:
            for column in operator.columns:
                yield operator.operator, column

    def undeclared(self) -> Iterator[StateColumn]:
        """Yield the added columns whose initial value a user must declare."""
        for _, column in self.columns():
            if column.move is Move.ADD and column.initial is None:
                yield column


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSchema:
    """The state schema of an operator that is written, as Spark's JSON."""

    operator: int
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationOrder(AnsweredOrder):
    """
    The state of a copied checkpoint is migrated in place.

    :param checkpoint: The copy, as Hadoop spells it; no other process uses it.
    :param partitions: State partitions of it.
    :param is_rocksdb: The provider; otherwise HDFS-backed.
    :param codec: Compression codec of HDFS-backed state.
    :param schemas: Of every operator that is carried by columns.
    :param scratch: A folder of this host for temporary files.
    """

    KIND: ClassVar[str] = "migration_order"

    checkpoint: str
    batch: int
    partitions: int
    is_rocksdb: bool
    codec: str
    operators: tuple[OperatorMigration, ...]
    schemas: tuple[OperatorSchema, ...]
    scratch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProof:
    """
    An operator's state, read back after the migration.

    :param before: Rows of the old state; of an empty operator 0, and ``None`` where its files were moved.
    :param after: Rows of the new state; likewise.
    :param problems: Invariants that do not hold.
    """

    operator: int
    before: int | None
    after: int | None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationAnswer(Record):
    """
    The result of a migration.

    :param condition: Spark's error condition, or the error's class; empty without an error.
    :param failed: The error; empty without one.
    """

    KIND: ClassVar[str] = "migration_answer"

    proofs: tuple[OperatorProof, ...] = ()
    condition: str = ""
    failed: str = ""

    @property
    def is_clean(self) -> bool:
        return not self.failed and not any(proof.problems for proof in self.proofs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated(Record):
    """
    A migrated checkpoint.

    :param batch: Its newest committed batch, after which the state was read.
    :param proofs: Rows before and after, of each operator.
    """

    KIND: ClassVar[str] = "migrated"

    uri: str
    batch: int
    proofs: tuple[OperatorProof, ...]
    consequences: tuple[str, ...] = ()
