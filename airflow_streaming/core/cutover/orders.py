"""
Orders: what a driver at the barrier is told, and what it answers.

A standby driver has started Spark and run the script up to its first ``start()``. It writes nothing
until it is told to. Orders are ``epochs/000017/orders/000001.json`` and so on, created once; the
answer lies beside each as ``000001.done.json``. What counts longer than the driver that is told is
in the claims of its queries: a batch to absorb before the start, and the shift of batch ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from airflow_streaming.core.wire import Record


class OrderAct(StrEnum):
    """What a driver at the barrier has to do."""

    ABSORB = "absorb"
    """Run the one planned batch of each query with its output thrown away, and wait again."""
    RELEASE = "release"
    """Go on: the queries start as the script says, after what their claims say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyOrder(Record):
    """
    One order to a driver at the barrier.

    :param number: From 1.
    :param absorb: For ``ABSORB``: by query, the batch that its checkpoint has planned and not
        committed. A query that is not named waits on; one that is not at the barrier is an error in
        the answer, and absorbs by its claim when it comes to its start.
    """

    KIND: ClassVar[str] = "standby_order"

    epoch: int
    number: int
    act: OrderAct
    at: datetime
    by: str
    absorb: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyAnswer(Record):
    """
    What became of an order.

    :param committed: By query, the batch that its checkpoint has committed now.
    :param error: Why it could not be done, in words; empty when it was.
    """

    KIND: ClassVar[str] = "standby_answer"

    epoch: int
    number: int
    at: datetime
    committed: Mapping[str, int] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(Record):
    """
    The queries of a standby driver that have come to the barrier; ``epochs/000017/barrier.json``.

    :param queries: Names, in the order in which the script starts them. A script that waits for its
        first query shows only that one.
    """

    KIND: ClassVar[str] = "barrier"

    epoch: int
    queries: tuple[str, ...]
    at: datetime
