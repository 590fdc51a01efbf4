"""
The alerts of a stream: what was told, and what is still to be delivered.

A record says that something is told, a mark beside it that it has been delivered. Whoever dies in
between leaves a record without a mark, and the next task delivers it. A try is recorded before it
is made, so that an alert which takes its task down with it is not tried for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from airflow_streaming.core.alerts.alert import Alert, AlertSent, AlertTry
from airflow_streaming.core.alerts.alerting import is_told
from airflow_streaming.core.names import number_of
from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable, RecordError
from airflow_streaming.home.folder import APPEND_TRIES, StreamFolder

log: Final = logging.getLogger(__name__)

LOG_LENGTH: Final = 200
"""Alerts that count. What was told before the last 200 and is still open would be told again."""

MAX_TRIES: Final = 3
"""Tries to deliver one alert, over all tasks."""


class AlertLog(StreamFolder):
    """Read and add to what was told of one stream."""

    def alerts(self, limit: int = LOG_LENGTH) -> tuple[Alert, ...]:
        """Return the last alerts, oldest first; one that cannot be read is logged and left out."""
        return self._told(self._numbers("alerts")[-max(limit, 1) :])

    def add_alert(self, alert: Alert) -> Alert | None:
        """
        Record an alert under the next number, unless people have been told already.

        :returns: The record, or ``None`` when it was told; by another task, perhaps a moment ago.
        :raises HomeUnavailable: it could not be recorded.
        """
        for _ in range(APPEND_TRIES):
            numbers = self._numbers("alerts")
            if is_told(alert, self._told(numbers[-LOG_LENGTH:])):
                return None
            numbered = replace(alert, number=numbers[-1] + 1 if numbers else 1)
            path = self._layout.record("alerts", numbered.number)
            try:
                self.store.create(path, numbered.to_bytes())
            except AlreadyExists:
                continue  # whoever was first may have told the same
            return numbered
        raise HomeUnavailable(
            f"An alert of stream {self.name!r} was not recorded: {APPEND_TRIES} times another one "
            "was there first. Check that the store lists its newest files."
        )

    def unsent_alerts(self) -> tuple[Alert, ...]:
        """Return the alerts that nobody has finished to deliver, oldest first."""
        paths = self._paths()
        names = (path.rpartition("/")[2] for path in paths)
        numbers = sorted(number for name in names if (number := number_of(name)) is not None)
        unsent = (n for n in numbers[-LOG_LENGTH:] if self._layout.alert_sent(n) not in paths)
        return self._told(unsent)

    def begin_try(self, number: int, *, by: str, now: datetime) -> int | None:
        """
        Claim the next try to deliver an alert.

        :returns: Which try it is, from 1 to ``MAX_TRIES``. ``None`` when it is not the caller's to
            make: another task makes it at this moment, or all are used up; then the alert is marked
            as failed.
        """
        paths = self._paths()
        for attempt in range(1, MAX_TRIES + 1):
            path = self._layout.alert_try(number, attempt)
            if path in paths:
                continue
            record = AlertTry(number=number, attempt=attempt, at=now, by=by)
            try:
                self.store.create(path, record.to_bytes())
            except AlreadyExists:
                return None
            return attempt
        self.mark_sent(number, f"failed: {MAX_TRIES} tries were not seen through", now=now)
        return None

    def mark_sent(self, number: int, outcome: str, *, now: datetime) -> None:
        """Record that nobody has to deliver the alert any more; the first mark stays."""
        record = AlertSent(number=number, outcome=outcome, at=now)
        self._create_or_read(record, self._layout.alert_sent(number), number=number)

    def sent(self, number: int) -> AlertSent | None:
        """Return the mark of a delivered alert, ``None`` while it is to be delivered."""
        return self._read(AlertSent, self._layout.alert_sent(number), number=number)

    def _paths(self) -> set[str]:
        folder = self._layout.folder("alerts")
        return {f"{folder}/{name}" for name in self.store.names(folder)}

    def _told(self, numbers: Iterable[int]) -> tuple[Alert, ...]:
        found = (self._alert(number) for number in numbers)
        return tuple(alert for alert in found if alert is not None)

    def _alert(self, number: int) -> Alert | None:
        try:
            return self._numbered(Alert, "alerts", number)
        except RecordError as err:
            log.warning("Left out of the alerts: %s", err)
            return None
