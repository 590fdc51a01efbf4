"""Verdict: what an observation means, with the reason, the rule, the figures and since when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.core.rules.rule import Finding, Severity


class VerdictState(StrEnum):
    """What an observation means."""

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
    STOPPING = "stopping"
    """It was asked to stop, or has said its last word and is going down."""
    HUNG = "hung"
    UNREACHABLE = "unreachable"
    """Silent, and its host cannot be seen from here."""
    FAILED = "failed"
    """Ended with an error of its own."""
    DEAD = "dead"
    """Gone without a word: killed, out of memory, host rebooted."""
    COMPLETED = "completed"
    STOPPED = "stopped"


ENDED: Final = frozenset(
    {VerdictState.FAILED, VerdictState.DEAD, VerdictState.COMPLETED, VerdictState.STOPPED}
)
WELL: Final = frozenset({VerdictState.HEALTHY, VerdictState.IDLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    What is the matter, and why.

    :param rule: The rule that decided: a health rule's name, or a built-in one such as ``stalled``.
    :param query: The query it speaks of; empty when it speaks of the driver.
    :param since: Since when, by the clock of the driver, or of the observer for a silent one.
    :param severity: What it asks for; ``None`` when nothing is to be done.
    :param healthy_for: How long the driver has been making progress, by its own clock.
    :param batches: Batches the epoch has committed; 0 unless it is well.
    :param findings: Everything that fires, the gravest first; ``rule`` is the first one's.
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

    @property
    def has_ended(self) -> bool:
        """Tell whether the driver is proved gone."""
        return self.state in ENDED

    @property
    def is_well(self) -> bool:
        """Tell whether the stream does its work, or has none to do."""
        return self.state in WELL
