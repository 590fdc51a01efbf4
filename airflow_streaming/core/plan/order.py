"""What the driver of plan mode is told to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_streaming.core.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOrder(Record):
    """
    One script whose queries are to be planned.

    :param result: File for the ``ScriptPlan``; written anew with every query.
    :param seconds: Time it may take.
    :param application: Path of the script as its author knows it.
    :param source: Where its bytes lie now.
    """

    KIND: ClassVar[str] = "plan-order"

    result: str
    seconds: float
    application: str
    source: str
    arguments: tuple[str, ...] = ()
