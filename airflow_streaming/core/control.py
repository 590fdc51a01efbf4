"""
What is wanted of a stream, and what happened to it.

People and rules change the desired state and the circuit; the timeline tells the story.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from airflow_streaming.core.wire import Record


class DesiredState(StrEnum):
    """Whether the stream should run."""

    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired(Record):
    """
    One change of the desired state; the newest number counts.

    :param change: The lane's change that recorded it for its own ends; ``None`` for a wish of a
        person or a rule.
    """

    KIND: ClassVar[str] = "desired"

    number: int
    state: DesiredState
    by: str
    reason: str
    at: datetime
    change: int | None = None


class CircuitState(StrEnum):
    """Whether a failed stream may be restarted."""

    CLOSED = "closed"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit(Record):
    """
    One change of the circuit; the newest number counts.

    An open circuit keeps the stream down until a person closes it, or the policy allows one try.
    That try is a later epoch: from then on its fate counts, and this record no longer holds.

    :param epoch: The epoch whose failure opened it, or the newest one when a person closed it.
    """

    KIND: ClassVar[str] = "circuit"

    number: int
    state: CircuitState
    epoch: int
    by: str
    reason: str
    at: datetime

    def holds(self, newest_epoch: int | None) -> bool:
        """Tell whether it is open and no later epoch has been begun."""
        return self.state is CircuitState.OPEN and self.epoch >= (newest_epoch or 0)


class EventKind(StrEnum):
    """What happened to a stream, for its timeline."""

    DEPLOYED = "deployed"
    PROPOSED = "proposed"
    LAUNCHED = "launched"
    STOP_REQUESTED = "stop_requested"
    KILLED = "killed"
    DECLARED_DEAD = "declared_dead"
    RESTART_DECIDED = "restart_decided"
    CIRCUIT_OPENED = "circuit_opened"
    CIRCUIT_CLOSED = "circuit_closed"
    DESIRED = "desired"
    BLOCKED = "blocked"
    CHECKPOINT_CHANGED = "checkpoint_changed"
    UPGRADE = "upgrade"
    CUTOVER = "cutover"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Record):
    """One line of the timeline; never read to decide anything."""

    KIND: ClassVar[str] = "event"

    event: EventKind
    at: datetime
    by: str
    message: str
    epoch: int | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
