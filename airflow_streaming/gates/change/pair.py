"""The old and the new plan of one query, and how their columns are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.model.plan.schema import Column, type_name
from airflow_streaming.model.spark.plan import OPAQUE, OperatorPlan, QueryPlan

_WIDER: Final = {
    "tinyint": ("smallint", "int", "bigint", "double"),
    "smallint": ("int", "bigint", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
}

SameFiles = frozenset[tuple[tuple[str, ...], tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """
    How two lists of columns differ.

    :param retyped: Columns of another type, old and new.
    :param is_reordered: Whether columns that both have come in another order.
    """

    added: tuple[Column, ...] = ()
    removed: tuple[Column, ...] = ()
    retyped: tuple[tuple[Column, Column], ...] = ()
    is_reordered: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.retyped or self.is_reordered)


def column_change(old: Sequence[Column], new: Sequence[Column]) -> ColumnChange:
    """Compare columns by name."""
    was = {column.name: column for column in old}
    now = {column.name: column for column in new}
    kept = [column for column in old if column.name in now]
    return ColumnChange(
        added=tuple(column for column in new if column.name not in was),
        removed=tuple(column for column in old if column.name not in now),
        retyped=tuple(
            (column, now[column.name])
            for column in kept
            if plain_type(column.type) != plain_type(now[column.name].type)
        ),
        is_reordered=[c.name for c in kept] != [c.name for c in new if c.name in was],
    )


def same_columns(old: Sequence[Column], new: Sequence[Column]) -> bool:
    """Tell whether names, types and order are equal."""
    return signature(old) == signature(new)


def signature(columns: Iterable[Column]) -> tuple[tuple[str, str], ...]:
    """Return what two lists of columns are compared by."""
    return tuple((column.name, plain_type(column.type)) for column in columns)


def types_of(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the types alone."""
    return tuple(plain_type(column.type) for column in columns)


def plain_type(text: str) -> str:
    """Return a type's name without spaces, in Spark's short form."""
    return type_name("".join(text.split()))


def is_wider(old: str, new: str) -> bool:
    """Tell whether every value of the old type is one of the new."""
    return plain_type(new) in _WIDER.get(plain_type(old), ())


def shown(columns: Iterable[Column]) -> str:
    """Return columns for readers."""
    return ", ".join(f"{column.name} {column.type}" for column in columns) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """
    An old and a new plan to compare.

    :param checkpoint: ``None`` if it was not read.
    :param schemas: Columns of its state.
    :param same_files: Old and new paths of file sources that list the same files, in one spelling.
    """

    old: QueryPlan
    new: QueryPlan
    checkpoint: Checkpoint | None = None
    schemas: tuple[StoreSchema, ...] = ()
    same_code: bool = False
    same_files: SameFiles = frozenset()

    @property
    def is_stateful(self) -> bool:
        """Tell whether either plan keeps state."""
        return self.old.is_stateful or self.new.is_stateful

    @property
    def other_spark(self) -> bool:
        """Tell whether two Sparks analyzed the plans; they may word the same code differently."""
        return minor(self.old.spark) != minor(self.new.spark)

    def same_body(self, old: str, new: str) -> bool:
        """
        Tell whether two fingerprints are known to be of one code.

        The modules beside a script may change while the script is the same. Two Sparks may have another
        Python, whose fingerprints differ.
        """
        is_unread = not old or not new or OPAQUE in old or OPAQUE in new
        if is_unread or self.other_spark:
            return self.same_code or (not is_unread and old == new)
        return old == new

    @property
    def cores(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the settings of Spark's core of both plans; none where one of them was recorded without."""
        old, new = self.old.core, self.new.core
        return ({}, {}) if old is None or new is None else (old, new)

    def pinned(self, key: str) -> str | None:
        """Return a configuration that the checkpoint pins; without one, the old plan's."""
        if self.checkpoint is not None and key in self.checkpoint.conf:
            return self.checkpoint.conf[key]
        return self.old.conf.get(key)

    @property
    def shown_by_plan(self) -> str:
        """Say which plans show a difference."""
        if self.other_spark:
            return (
                f"the recorded plan (Spark {self.old.spark}) and the new one (Spark "
                f"{self.new.spark}); compare plans of one Spark to rule out another wording"
            )
        return "the recorded plan and the new one"

    def shown_at(self, at: str) -> str:
        """Say at which place of which plans a difference is seen, e.g. ``operators[0].window_us``."""
        return f"{at} in {self.shown_by_plan}"

    @property
    def shown_by_offsets(self) -> str:
        """Say which file of the checkpoint shows its sources and configuration."""
        return offsets_file(self.checkpoint) or self.shown_at("sources")

    def shown_by_state(self, operator: int) -> str:
        """Say which files of the checkpoint show an operator's state."""
        files = sorted({each.path for each in self.schemas if each.operator == operator})
        return ", ".join(files) or self.shown_at(f"operators[{operator}]")


def ends_by_itself(plan: QueryPlan, operator: OperatorPlan) -> bool:
    """Tell whether the watermark ends every part of an operator's state, as Spark plans it."""
    return bool(plan.watermarks) and plan.output_mode != "complete" and operator.ends


def has_endless_state(plan: QueryPlan) -> bool:
    """Tell whether some state of a query keeps for ever what went into it."""
    return not all(ends_by_itself(plan, operator) for operator in plan.operators)


def offsets_file(checkpoint: Checkpoint | None) -> str:
    """Return the file with the newest plan of a checkpoint; empty without one."""
    if checkpoint is None or checkpoint.last_planned_batch is None:
        return ""
    return f"offsets/{checkpoint.last_planned_batch}"


def minor(version: str) -> tuple[str, ...]:
    """Return major and minor number of a Spark version."""
    return tuple(version.split(".")[:2])


def is_at_least(version: str, floor: tuple[int, int]) -> bool:
    """Return whether a Spark version is at least this one; false for invalid versions."""
    parts = minor(version)
    if len(parts) < 2 or not all(part.isdecimal() for part in parts):
        return False
    return (int(parts[0]), int(parts[1])) >= floor
