"""Changing the number of state partitions of checkpoints: the order, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_streaming.model.jobs.drill import AnsweredOrder
from airflow_streaming.model.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionOrder(AnsweredOrder):
    """
    What Spark is to do, one checkpoint after another.

    :param checkpoints: Where they lie, as Hadoop spells it; their queries do not run.
    :param partitions: State partitions that each is to have.
    """

    KIND: ClassVar[str] = "repartition_order"

    checkpoints: tuple[str, ...]
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionAnswer(Record):
    """
    What became of it.

    :param condition: Spark's error condition, or the error's class; empty when all was done.
    :param failed: What went wrong, and with which checkpoint; empty when nothing did.
    """

    KIND: ClassVar[str] = "repartition_answer"

    condition: str = ""
    failed: str = ""
