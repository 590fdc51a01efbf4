"""
Observation: what one look at an epoch and its driver found.

Durations in an observation were measured by the observer's own clock, those in a status by the
driver's; they are never mixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Self

from airflow_streaming.core.epoch import Death, Epoch, Exit, Launch
from airflow_streaming.core.rules.rule import Finding
from airflow_streaming.core.status import Status

LAST_WORD_GRACE: Final = timedelta(seconds=60)
"""From its exit record to the end of its process a driver was measured to need 0.5 to 3 s; where
the process cannot be seen, it is given this long."""


class ProcessState(StrEnum):
    """What a launcher sees of a driver's processes."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    """Alive but stopped, as by ``SIGSTOP``."""
    GONE = "gone"
    """Proved: no process of the driver exists."""
    UNSEEN = "unseen"
    """This observer cannot see the driver's host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """
    What a launcher sees of a driver's processes.

    :param cpu_seconds: CPU time used so far, where it can be seen.
    :param detail: The evidence in words, without a full stop.
    """

    state: ProcessState
    detail: str
    cpu_seconds: float | None = None

    @classmethod
    def gone(cls, detail: str) -> Self:
        """Say that no process of the driver exists."""
        return cls(state=ProcessState.GONE, detail=detail)

    @classmethod
    def unseen(cls, detail: str) -> Self:
        """Say that the driver's host cannot be seen from here."""
        return cls(state=ProcessState.UNSEEN, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """
    Everything one look at an epoch found.

    :param silent_for: How long this observer has seen the heartbeat stand still.
    :param cpu_in_silence: CPU seconds used in that time, where they can be seen.
    :param flat_for: How long this observer has seen the CPU time stand still; ``None`` where it was
        not watched, when the CPU time of the whole silence has to do.
    :param suspended_for: How long this observer has seen its processes suspended.
    :param beating: This observer has itself seen the heartbeat rise. A status that was merely read
        may be an hour old, and no clock of ours can tell.
    :param findings: What the stream's health rules say of its figures.
    :param now: The observer's clock.
    """

    epoch: Epoch
    process: Process
    now: datetime
    launch: Launch | None = None
    status: Status | None = None
    exit: Exit | None = None
    death: Death | None = None
    silent_for: timedelta = timedelta(0)
    cpu_in_silence: float | None = None
    flat_for: timedelta | None = None
    suspended_for: timedelta | None = None
    beating: bool = False
    findings: tuple[Finding, ...] = ()

    @property
    def is_dead(self) -> bool:
        """Tell whether the driver is proved gone, or declared so by a person."""
        if self.process.state is ProcessState.UNSEEN and self.exit is not None:
            # It says itself that its queries have ended, and it has fallen silent.
            return self.death is not None or self.silent_for >= LAST_WORD_GRACE
        return self.death is not None or self.process.state is ProcessState.GONE
