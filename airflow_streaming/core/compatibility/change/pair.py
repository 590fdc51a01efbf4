"""Pair: the old and the new plan of one query, and what its checkpoint shows of the old one."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.compatibility.stored import StoreSchema
from airflow_streaming.core.plan.plan import QueryPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """
    What is compared.

    :param checkpoint: ``None`` when it was not looked at.
    :param schemas: Columns of its state.
    :param same_code: The script is known to be the same, byte for byte.
    """

    old: QueryPlan
    new: QueryPlan
    checkpoint: Checkpoint | None = None
    schemas: tuple[StoreSchema, ...] = ()
    same_code: bool = False

    @property
    def is_stateful(self) -> bool:
        """Tell whether either plan keeps state."""
        return self.old.is_stateful or self.new.is_stateful

    @property
    def other_spark(self) -> bool:
        """Tell whether two Sparks analysed the plans; they may word the same code differently."""
        return minor(self.old.spark) != minor(self.new.spark)

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

    @property
    def shown_by_offsets(self) -> str:
        """Say which file of the checkpoint shows its sources and configuration."""
        return offsets_file(self.checkpoint) or self.shown_by_plan

    def shown_by_state(self, operator: int) -> str:
        """Say which files of the checkpoint show an operator's state."""
        files = sorted({each.path for each in self.schemas if each.operator == operator})
        return ", ".join(files) or self.shown_by_plan


def offsets_file(checkpoint: Checkpoint | None) -> str:
    """Return the file with the newest plan of a checkpoint; empty without one."""
    if checkpoint is None or checkpoint.last_planned_batch is None:
        return ""
    return f"offsets/{checkpoint.last_planned_batch}"


def minor(version: str) -> tuple[str, ...]:
    """Return major and minor number of a Spark version."""
    return tuple(version.split(".")[:2])


def is_at_least(version: str, floor: tuple[int, int]) -> bool:
    """Tell whether a Spark version is one or a later one; a text that is no version is not."""
    parts = minor(version)
    if len(parts) < 2 or not all(part.isdecimal() for part in parts):
        return False
    return (int(parts[0]), int(parts[1])) >= floor
