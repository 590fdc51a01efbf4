"""
Alerts about a stream, one numbered record each.

The numbered records are the memory: a task checks before it sends an alert whether it was recorded.
A mark beside a record means that the alert was passed to the notifiers, so if its task died in
between the next one delivers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.model.health_rules import Severity
from airflow_streaming.model.wire import MAX_NOTE_BYTES, Record

RESTART_KEY: Final = "restart"
"""The key of everything about restarts: one incident from a failure to the next healthy batch."""
BACKUP_KEY: Final = "backup_age"
"""The key of a stream that has no backup as new as it should have. The backup task raises it and
ends it; the keep-alive task knows nothing of backups."""

FRESHNESS_KEY: Final = "freshness"
"""The key of a freshness objective, with the name of the burn rate behind it: ``freshness/fast``."""


FLAPPING: Final = timedelta(hours=1)
"""
An alert that fires again in the same epoch this soon after it recovered belongs to the same
incident.
"""


MAINTENANCE_KEY: Final = "maintenance"
"""The key of a maintenance of several streams, with its number behind it: ``maintenance/3``."""


class AlertSource(StrEnum):
    """The task that raises and ends an alert, and whose notifiers it is for."""

    STREAM = "stream"
    BACKUPS = "backups"
    FRESHNESS = "freshness"
    FLEET = "fleet"

    @classmethod
    def of_key(cls, key: str) -> AlertSource:
        """Return the task of an alert's key."""
        if key == BACKUP_KEY:
            return cls.BACKUPS
        sources = {FRESHNESS_KEY: cls.FRESHNESS, MAINTENANCE_KEY: cls.FLEET}
        return sources.get(key.split("/")[0], cls.STREAM)


class AlertKind(StrEnum):
    """The kind of an alert; each has notifiers of its own."""

    UNHEALTHY = "unhealthy"
    """A rule fires, or the driver is hung, stalled, slow or out of reach."""
    RESTARTED = "restarted"
    """The provider restarts the stream, or has failed to."""
    GAVE_UP = "gave_up"
    """The circuit is open: on-call must act."""
    RECOVERED = "recovered"
    """The incident of an earlier alert is over."""
    HELD = "held"
    """Several streams are stopped for a maintenance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert(Record):
    """
    An alert.

    :param number: Position in the stream's alerts; 0 before it is recorded.
    :param key: Its incident, e.g. ``falling_behind/revenue``.
    :param epoch: The epoch it is about.
    :param reason: The event, with its figures.
    :param remedy: The next step for on-call.
    """

    KIND: ClassVar[str] = "alert"
    LARGEST: ClassVar[int] = MAX_NOTE_BYTES

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
    An attempt to pass an alert to the notifiers, recorded before it is made.

    :param attempt: 1 for the first; the task that creates its record makes this attempt.
    """

    KIND: ClassVar[str] = "alert_try"
    LARGEST: ClassVar[int] = MAX_NOTE_BYTES

    number: int
    attempt: int
    at: datetime
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSent(Record):
    """
    The mark that an alert needs no further delivery.

    :param outcome: ``sent``, ``no notifier``, or ``failed: `` and why.
    """

    KIND: ClassVar[str] = "alert_sent"
    LARGEST: ClassVar[int] = MAX_NOTE_BYTES

    number: int
    outcome: str
    at: datetime


def is_told(alert: Alert, log: Sequence[Alert]) -> bool:
    """Tell whether this was recorded already, so that it must not be recorded again."""
    if alert.alert in (AlertKind.RESTARTED, AlertKind.GAVE_UP):
        return any(_same_restart(alert, told) for told in log)
    last = next((told for told in reversed(log) if told.key == alert.key), None)
    is_open = last is not None and last.alert is not AlertKind.RECOVERED
    if alert.alert is AlertKind.RECOVERED:
        return not is_open or _failed_again(alert, last)
    return is_open or (last is not None and _is_flapping(alert, last))


def _same_restart(one: Alert, other: Alert) -> bool:
    # Every restart is sent, also within one incident; a failed launch has a rule of its own.
    mine, others = ((it.alert, it.key, it.epoch, it.rule, it.query) for it in (one, other))
    return mine == others


def _failed_again(recovered: Alert, last: Alert | None) -> bool:
    # The epoch that was seen well has failed since, and another task has recorded that already.
    return last is not None and last.key == RESTART_KEY and last.epoch >= recovered.epoch


def _is_flapping(alert: Alert, recovered: Alert) -> bool:
    # Both ways, because the two times may come from hosts whose clocks differ.
    return alert.epoch == recovered.epoch and abs(alert.at - recovered.at) < FLAPPING
