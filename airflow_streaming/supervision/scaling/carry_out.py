"""
Decide how a size that was recorded is carried out: by the driver itself, or by a restart.

A driver that can change its size answers each change in its heartbeat. Only its refusal, or its silence, leads to a
restart, so a change leads to one of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.model.durations import age_of, duration_text
from airflow_streaming.model.records.size_change import SizeChange
from airflow_streaming.model.status import Resizing, SizeStatus

ANSWER_WITHIN: Final = timedelta(minutes=2)
"""Time for a driver to see a change; it looks every 10 s, and a home may be away."""
WORK_WITHIN: Final = timedelta(minutes=5)
"""Time for a change in work. The driver ends it after 2 minutes, or refuses it."""


class CarryOut(StrEnum):
    """How a stream gets its size."""

    NOTHING = "nothing"
    """It has it."""
    IN_PLACE = "in_place"
    """Its driver changes it; wait."""
    RESTART = "restart"
    """A new driver starts with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeState:
    """
    The size that a stream has, should have, and what its driver makes of it.

    :param epoch: The epoch of the driver.
    :param wanted: Executors that it should have; ``None`` if the size is not managed.
    :param started_with: Executors that it was started with; ``None`` if unknown.
    :param driver: The size in its heartbeat; ``None`` of an older driver.
    :param newest: The newest change.
    """

    epoch: int
    wanted: int | None
    started_with: int | None
    now: datetime
    driver: SizeStatus | None = None
    newest: SizeChange | None = None

    @property
    def present(self) -> int | None:
        """Return the executors that the driver has asked for."""
        return self.started_with if self.driver is None else self.driver.executors


@dataclass(frozen=True, slots=True)
class CarryOutStep:
    """How the size is carried out, with the reason as a sentence."""

    how: CarryOut
    reason: str = ""

    @property
    def is_in_place(self) -> bool:
        """Tell whether the driver changes its size."""
        return self.how is CarryOut.IN_PLACE

    @property
    def is_restart(self) -> bool:
        """Tell whether a new driver starts with the size."""
        return self.how is CarryOut.RESTART


def carry_out(s: SizeState) -> CarryOutStep:
    """Decide how the stream gets the executors that it should have."""
    if s.wanted is None or s.present is None or s.wanted == s.present:
        return CarryOutStep(CarryOut.NOTHING)
    if s.driver is None:
        return CarryOutStep(CarryOut.RESTART, "This driver cannot change its size.")
    if s.newest is None or not _asks_for(s.newest, s):
        return CarryOutStep(CarryOut.RESTART, "No recorded change asks this driver for it.")
    if s.driver.number < s.newest.number:
        return _within(
            *(s, age_of(s.newest.at, s.now), ANSWER_WITHIN),
            waits="Its driver has not seen the change yet.",
            late="Its driver has not answered the change",
        )
    if s.driver.state is Resizing.WORKING:
        return _within(
            *(s, timedelta(seconds=s.driver.working_for_s), WORK_WITHIN),
            waits=f"Its driver changes it. {s.driver.reason}".rstrip(),
            late="Its driver has not ended the change",
        )
    return CarryOutStep(CarryOut.RESTART, s.driver.reason or "Its driver has another size.")


def _within(
    s: SizeState, lasts: timedelta, limit: timedelta, *, waits: str, late: str
) -> CarryOutStep:
    if lasts < limit:
        return CarryOutStep(CarryOut.IN_PLACE, f"The stream gets {s.wanted} executors. {waits}")
    return CarryOutStep(CarryOut.RESTART, f"{late} in {duration_text(limit)}.")


def _asks_for(change: SizeChange, s: SizeState) -> bool:
    is_for_driver = change.epoch == s.epoch and not change.is_recommended_only
    return is_for_driver and change.executors == s.wanted
