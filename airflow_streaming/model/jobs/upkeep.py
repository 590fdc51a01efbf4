"""Jobs that keep a Spark or a checkpoint in shape: loading classes for an archive, repartitioning state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from airflow_streaming.model.jobs.drill import AnsweredOrder
from airflow_streaming.model.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLoadingOrder(Record):
    """
    The classes that drivers need are loaded, for an archive of them.

    :param folder: A scratch folder for input, checkpoints and output.
    """

    KIND: ClassVar[str] = "class_loading_order"

    folder: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionOrder(AnsweredOrder):
    """
    The number of state partitions is changed, one checkpoint after another.

    :param checkpoints: Where they lie, as Hadoop spells it; their queries do not run.
    :param partitions: State partitions that each is to have.
    :param unbegun: By checkpoint, a batch that is planned and was begun by no driver. Spark changes the
        number after a committed batch only, so its plan is removed; Spark plans its rows anew.
    """

    KIND: ClassVar[str] = "repartition_order"

    checkpoints: tuple[str, ...]
    partitions: int
    unbegun: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionAnswer(Record):
    """
    The result of a repartitioning.

    :param condition: Spark's error condition, or the error's class; empty without an error.
    :param failed: The error, and its checkpoint; empty without one.
    """

    KIND: ClassVar[str] = "repartition_answer"

    condition: str = ""
    failed: str = ""
