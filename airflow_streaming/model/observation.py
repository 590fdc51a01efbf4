"""
The result of one look at an epoch, and the verdict on it.

The CPU time used since the last heartbeat is no evidence: a driver that froze in the middle of a
batch had just used seconds of it, and would look busy for minutes to come.

Durations in an observation were measured by the observer's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Self

from airflow_streaming.model.health_rules import Finding, Severity
from airflow_streaming.model.lease import is_over
from airflow_streaming.model.records.epoch import Epoch, Exit, Launch, TerminationProof
from airflow_streaming.model.status import Status

BUSY_SHARE: Final = 0.005
"""A frozen JVM uses no CPU at all, an idle one 1 to 5 % of a core (measured on Spark 4.3)."""

LAST_WORD_GRACE: Final = timedelta(seconds=60)
"""
From its exit record to the end of its process a driver was measured to need 0.5 to 3 s; where the
process cannot be seen, the grace is this long.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuIdle:
    """
    CPU time at the last look, and since when it has been flat.

    :param at: The look, by the observer's monotonic clock.
    :param cpu: CPU seconds used until then.
    :param since: The first look from which on next to nothing was used.
    """

    at: float
    cpu: float
    since: float

    @classmethod
    def begin(cls, at: float, cpu: float) -> Self:
        """Take a first look."""
        return cls(at=at, cpu=cpu, since=at)

    def look(self, at: float, cpu: float) -> CpuIdle:
        """Take another look."""
        # Of a process tree that lost a member the sum goes down, which says nothing of the others.
        is_flat = 0 <= cpu - self.cpu <= BUSY_SHARE * (at - self.at)
        return CpuIdle(at=at, cpu=cpu, since=self.since if is_flat else at)

    @property
    def flat_for(self) -> float:
        """Return the seconds for which it was flat at the last look."""
        return self.at - self.since


class ProcessState(StrEnum):
    """The state of a driver's processes in a launcher's view."""

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
    A launcher's view of a driver's processes.

    :param cpu_seconds: CPU time used so far, where it can be seen.
    :param detail: The evidence in words, without a full stop.
    :param was_asked: False where this process may not contact the driver's cluster, so that the
        driver's state is not known.
    """

    state: ProcessState
    detail: str
    cpu_seconds: float | None = None
    was_asked: bool = True

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
    The result of one look at an epoch.

    :param silent_for: How long this observer has seen the heartbeat stand still.
    :param cpu_in_silence: CPU seconds used in that time, where they can be seen.
    :param flat_for: How long this observer has seen the CPU time stand still; ``None`` where it was
        not watched, when the CPU time of the whole silence is used.
    :param suspended_for: How long this observer has seen its processes suspended.
    :param beating: This observer has itself seen the heartbeat rise. A status that was merely read
        may be an hour old, and no clock of ours can tell.
    :param findings: Findings of the stream's health rules.
    """

    epoch: Epoch
    process: Process
    now: datetime
    launch: Launch | None = None
    status: Status | None = None
    exit: Exit | None = None
    death: TerminationProof | None = None
    silent_for: timedelta = timedelta(0)
    cpu_in_silence: float | None = None
    flat_for: timedelta | None = None
    suspended_for: timedelta | None = None
    beating: bool = False
    findings: tuple[Finding, ...] = ()

    @property
    def is_dead(self) -> bool:
        """Tell whether the driver is proved gone, or declared dead by a user."""
        if self.process.state is ProcessState.UNSEEN and self.exit is not None:
            # It says itself that its queries have ended, and it has fallen silent.
            return self.death is not None or self.silent_for >= LAST_WORD_GRACE
        is_gone = self.process.state is ProcessState.GONE or self.is_past_lease
        return self.death is not None or is_gone

    @property
    def is_past_lease(self) -> bool:
        """Tell whether a driver that is out of sight has ended itself because its lease is over."""
        is_unseen = self.process.state is ProcessState.UNSEEN
        return is_unseen and is_over(self.epoch.lease, self.silent_for)


class VerdictState(StrEnum):
    """The meaning of an observation."""

    STARTING = "starting"
    HEALTHY = "healthy"
    IDLE = "idle"
    """Every query waits and no source has data."""
    DEGRADED = "degraded"
    """At work, but a health rule fires or one of its queries has ended."""
    SLOW = "slow"
    """Silent or long in one batch, but at work."""
    STALLED = "stalled"
    """The driver lives, and a query of it stands still although it has work."""
    PAUSED = "paused"
    """A pause holds every query between two batches."""
    STOPPING = "stopping"
    """A stop was requested, or it has written its exit record and is shutting down."""
    HUNG = "hung"
    UNREACHABLE = "unreachable"
    """Silent, and its host cannot be seen from here."""
    FAILED = "failed"
    """Ended with an error of its own."""
    DEAD = "dead"
    """Gone without an exit record: killed, out of memory, host rebooted."""
    COMPLETED = "completed"
    STOPPED = "stopped"


ENDED: Final = frozenset(
    {VerdictState.FAILED, VerdictState.DEAD, VerdictState.COMPLETED, VerdictState.STOPPED}
)
WELL: Final = frozenset({VerdictState.HEALTHY, VerdictState.IDLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    The state of a stream, and the reason.

    :param rule: The rule that decided: a health rule's name, or a built-in one such as ``stalled``.
    :param query: Its query; empty for the driver.
    :param since: Since when, by the clock of the driver, or of the observer for a silent one.
    :param severity: The response; ``None`` without a need for action.
    :param healthy_for: How long the driver has been making progress, by its own clock.
    :param batches: Batches the epoch has committed; 0 unless it is well.
    :param findings: All firing findings, the gravest first; ``rule`` is the first one's.
    """

    state: VerdictState
    reason: str
    rule: str | None = None
    query: str = ""
    since: datetime | None = None
    severity: Severity | None = None
    healthy_for: timedelta = timedelta(0)
    batches: int = 0
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(
        cls,
        state: VerdictState,
        findings: tuple[Finding, ...],
        *,
        healthy_for: timedelta = timedelta(0),
    ) -> Self:
        """Return the verdict of what fires, the gravest first: that one speaks, the others are counted."""
        first, *others = findings
        also = f" ({len(others)} more findings)" if others else ""
        return cls(
            state=state,
            reason=f"{first.reason}{also}",
            rule=first.rule,
            query=first.query,
            since=first.since,
            severity=first.severity,
            healthy_for=healthy_for,
            findings=findings,
        )

    @property
    def has_ended(self) -> bool:
        """Tell whether the driver is proved gone."""
        return self.state in ENDED

    @property
    def is_well(self) -> bool:
        """Tell whether the stream does its work, or has none to do."""
        return self.state in WELL


class DriverLiveness(StrEnum):
    """The known liveness of the stream's driver."""

    NONE = "none"
    """There never was one, or it is not asked for."""
    DEAD = "dead"
    """Proved gone, or declared dead by a user."""
    ALIVE = "alive"
    UNPROVED = "unproved"
