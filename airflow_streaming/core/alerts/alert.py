"""
Alerts: what people were told of a stream, one numbered record each.

The numbered records are the memory: who wants to tell something looks first whether it has been
told. A mark beside a record says that it was handed to the notifiers, so that an alert whose task
died in between is delivered by the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.core.rules.rule import Severity
from airflow_streaming.core.wire import Record

RESTART_KEY: Final = "restart"
"""The key of everything about restarts: one incident from a failure to the next healthy batch."""

BACKUP_KEY: Final = "backup_age"
"""The key of a stream that has no backup as new as it should have. Who takes the backups tells of
it and of its end; whoever watches the driver knows nothing of backups."""


class AlertKind(StrEnum):
    """What an alert tells; each has notifiers of its own."""

    UNHEALTHY = "unhealthy"
    """A rule fires, or the driver is hung, stalled, slow or out of reach."""
    RESTARTED = "restarted"
    """The provider restarts the stream, or has failed to."""
    GAVE_UP = "gave_up"
    """The circuit is open: a person has to act."""
    RECOVERED = "recovered"
    """What an earlier alert told is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert(Record):
    """
    One thing that was told.

    :param number: Position in the stream's alerts; 0 before it is recorded.
    :param key: What it is about, e.g. ``falling_behind/revenue``; an incident is one key.
    :param epoch: The epoch it is about.
    :param reason: What happened, with the figures.
    :param action: What the provider did or does about it.
    :param remedy: What a person should do.
    :param facts: Anything else worth showing, by name.
    """

    KIND: ClassVar[str] = "alert"

    stream: str
    alert: AlertKind
    key: str
    epoch: int
    at: datetime
    by: str
    reason: str
    number: int = 0
    severity: Severity = Severity.ALERT
    rule: str = ""
    query: str = ""
    action: str = ""
    remedy: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertTry(Record):
    """
    One try to hand an alert to the notifiers, recorded before it is made.

    :param number: The alert's.
    :param attempt: 1 for the first; whoever creates its record makes this try.
    """

    KIND: ClassVar[str] = "alert_try"

    number: int
    attempt: int
    at: datetime
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSent(Record):
    """
    The mark that nobody has to deliver an alert any more.

    :param outcome: ``sent``, ``no notifier``, or ``failed: `` and why.
    """

    KIND: ClassVar[str] = "alert_sent"

    number: int
    outcome: str
    at: datetime
