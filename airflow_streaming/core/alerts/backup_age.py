"""The age of the newest backup + what was told before → what has to be told now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from airflow_streaming.core.alerts.alert import BACKUP_KEY, Alert, AlertKind
from airflow_streaming.core.alerts.alerting import is_told, moment, open_incidents
from airflow_streaming.core.checkpoint.age import AgeVerdict
from airflow_streaming.core.failures.text import presentable

_ACTION = "Nothing but this: backups are taken when the dag that takes them runs."
_REMEDY = (
    "Look at the last runs of the dag that takes the backups for why none was taken or why none "
    "is good, and run it again. Without one, what a restore brings back is as old as this."
)


def about_age(
    verdict: AgeVerdict, *, stream: str, epoch: int, log: Sequence[Alert], now: datetime
) -> tuple[Alert, ...]:
    """
    Return what has to be told of a stream's newest backup: an incident, its end, or nothing.

    :param epoch: The stream's newest epoch; 0 for one that is not ours.
    :param log: What was told of the stream so far, oldest first.
    :returns: Alerts without a number and an author.
    """
    incident = next((alert for alert in open_incidents(log) if alert.key == BACKUP_KEY), None)
    if verdict.is_late is (incident is not None):
        return ()
    alert = _alert(verdict, incident, stream=stream, epoch=epoch, now=now)
    return () if is_told(alert, log) else (alert,)


def _alert(
    verdict: AgeVerdict, incident: Alert | None, *, stream: str, epoch: int, now: datetime
) -> Alert:
    is_over = incident is not None
    facts = {} if verdict.newest is None else {"newest backup": verdict.newest.id}
    if incident is not None:
        facts |= {"was": incident.reason, "told": moment(incident.at)}
    return Alert(
        stream=stream,
        alert=AlertKind.RECOVERED if is_over else AlertKind.UNHEALTHY,
        key=BACKUP_KEY,
        epoch=epoch,
        at=now,
        by="",
        reason=presentable(verdict.reason),
        rule=BACKUP_KEY,
        action="The incident is closed." if is_over else _ACTION,
        remedy="" if is_over else _REMEDY,
        facts=facts,
    )
