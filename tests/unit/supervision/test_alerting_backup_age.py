"""A stream without a backup as new as it should have is told once, and its end once."""

from __future__ import annotations

from typing import Final

import pytest

from airflow_streaming.checkpoints.vault.retention_policy import AgeVerdict
from airflow_streaming.model.health_rules import Finding, RuleState, Severity
from airflow_streaming.model.observation import Verdict, VerdictState
from airflow_streaming.model.records.alert import BACKUP_KEY, Alert, AlertKind
from airflow_streaming.supervision.alerts.alerting import about_age, end_of
from airflow_streaming.supervision.alerts.message import render
from tests.unit.checkpoints.backups import a_backup, at

LATE: Final = AgeVerdict(is_late=True, reason="There is no good backup.")
GOOD: Final = AgeVerdict(is_late=False, reason="The newest is new.", newest=a_backup(1))


def told(*verdicts: AgeVerdict, hours_apart: float = 2) -> list[Alert]:
    """Return all that is told while verdicts follow each other."""
    log: list[Alert] = []
    for number, verdict in enumerate(verdicts):
        now = at(number * hours_apart)
        log += about_age(verdict, stream="orders", epoch=3, log=log, now=now)
    return log


@pytest.mark.parametrize(
    ("verdicts", "alerts"),
    [
        pytest.param([GOOD, GOOD], [], id="never late"),
        pytest.param([LATE, LATE, LATE], [AlertKind.UNHEALTHY], id="late for long"),
        pytest.param(
            [LATE, GOOD, GOOD], [AlertKind.UNHEALTHY, AlertKind.RECOVERED], id="late and over"
        ),
        pytest.param(
            [LATE, GOOD, LATE],
            [AlertKind.UNHEALTHY, AlertKind.RECOVERED, AlertKind.UNHEALTHY],
            id="late again",
        ),
    ],
)
def test_an_incident_is_told_once_and_so_is_its_end(
    verdicts: list[AgeVerdict], alerts: list[AlertKind]
) -> None:
    assert [alert.alert for alert in told(*verdicts)] == alerts


def test_what_is_late_again_within_the_hour_is_the_incident_already_told() -> None:
    alerts = told(LATE, GOOD, LATE, hours_apart=0.25)

    assert [alert.alert for alert in alerts] == [AlertKind.UNHEALTHY, AlertKind.RECOVERED]


def test_the_message_says_what_and_what_to_do() -> None:
    late, over = (render(alert, links={}) for alert in told(LATE, GOOD))

    assert late.subject == "Stream orders is unhealthy: backup_age"
    assert "There is no good backup." in late.body
    assert "The next run of the backup DAG" in late.body
    assert over.subject == "Stream orders has recovered: backup_age"
    assert a_backup(1).id in over.body


def test_who_watches_the_driver_does_not_take_a_healthy_stream_for_the_end() -> None:
    (incident,) = told(LATE)
    healthy = Verdict(state=VerdictState.HEALTHY, reason="All is well.", batches=3)
    clear = Finding(
        rule="slow", state=RuleState.CLEAR, reason="Fine.", severity=Severity.ALERT, query="q"
    )

    assert incident.key == BACKUP_KEY
    assert end_of(incident, verdict=healthy, findings=[clear], epoch=4) is None
