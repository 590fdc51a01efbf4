"""What an alert says: the figures, what was done, and what a person has to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from airflow_streaming.model.health_rules import Severity
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.observation import Verdict, VerdictState
from airflow_streaming.model.records.alert import RESTART_KEY, Alert, AlertKind
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.supervision.alerts.alerting import due, gave_up, restart_failed, restarted
from tests.unit.supervision.builders import NOW, a_give_up, a_restart, minutes
from tests.unit.supervision.telling import BEHIND, FIRES, OVER, Look, a_finding, told_at

GAVE_UP: Final = gave_up(stream="orders", decision=a_give_up(), now=NOW)


def test_an_alert_has_the_figures_and_says_what_is_done_about_them() -> None:
    finding = a_finding(
        "falling_behind/revenue/kafka",
        severity=Severity.RESTART,
        reason="Query 'revenue' works off 62 % of what comes in.",
        figure=0.62,
        bound=0.8,
        since=NOW - minutes(6),
        metric=Metric.PROCESSING_SHARE,
    )
    verdict = Verdict(state=VerdictState.DEGRADED, reason="", findings=(finding,))

    (alert,) = due(stream="orders", epoch=17, verdict=verdict, findings=(), log=(), now=NOW)

    assert alert.reason == "Query 'revenue' works off 62 % of what comes in."
    assert (alert.rule, alert.query, alert.severity) == (
        "falling_behind",
        "revenue",
        Severity.RESTART,
    )
    assert alert.facts == {
        "source": "kafka",
        "figure": "62 %",
        "bound": "80 %",
        "since": "2026-11-21 11:54:00 UTC",
    }
    assert alert.action.startswith("The driver is stopped and started again")
    assert alert.remedy
    assert (alert.number, alert.by) == (0, "")


@pytest.mark.parametrize(
    ("metric", "figure", "bound", "told"),
    [
        (None, 2_732.0, 1_800.0, ("45.5 min", "30 min")),
        (Metric.BACKLOG_RECORDS, 1_234_567.0, 200_000.0, ("1,234,567 records", "200,000 records")),
        (Metric.STATE_BYTES, 5 * 2.0**30, 4 * 2.0**30, ("5 GiB", "4 GiB")),
        (Metric.BATCH_SHARE, 3.5, 3.0, ("3.5 intervals", "3 intervals")),
        (Metric.OBSERVED, 1.5e7, 1e7, ("15,000,000", "10,000,000")),
        (Metric.OBSERVED, 1.5e-6, 0.0, ("0.0000015", "0")),
        (Metric.INPUT_RATE, None, 1.0, (None, "1 rows/s")),
    ],
)
def test_the_figures_of_an_alert_have_units_and_no_exponents(
    metric: Metric | None, figure: float | None, bound: float, told: tuple[str | None, str]
) -> None:
    finding = a_finding("mine/revenue", figure=figure, bound=bound, metric=metric)
    verdict = Verdict(state=VerdictState.DEGRADED, reason="", findings=(finding,))

    (alert,) = due(stream="orders", epoch=17, verdict=verdict, findings=(), log=(), now=NOW)

    assert (alert.facts.get("figure"), alert.facts["bound"]) == told


@pytest.mark.parametrize("rule", ["hung", "stalled", "slow", "unreachable", "query_failed", "mine"])
@pytest.mark.parametrize("severity", Severity)
def test_every_alert_says_what_was_done_and_what_to_do(rule: str, severity: Severity) -> None:
    finding = a_finding(rule, severity=severity)
    verdict = Verdict(state=VerdictState.DEGRADED, reason="", findings=(finding,))

    (alert,) = due(stream="orders", epoch=17, verdict=verdict, findings=(), log=(), now=NOW)

    assert alert.action.endswith(".")
    assert alert.remedy.endswith((".", "TEXT"))
    assert "{" not in alert.remedy


def test_nothing_is_started_beside_a_driver_that_cannot_be_reached() -> None:
    look = Look(state=VerdictState.UNREACHABLE, fires=("unreachable",), query="")

    (alert,) = told_at(look, [], NOW)

    assert "Nothing is started" in alert.action
    assert "declare-dead orders --epoch 17" in alert.remedy


def test_a_poison_batch_is_named_with_its_offsets_and_error() -> None:
    decision = a_give_up(
        failure_kind=FailureKind.POISON_BATCH,
        query="revenue",
        batch_id=0,
        offsets=('kafka: {"0":40}', 'files: {"logOffset":7}'),
        reason="ValueError: price is not a number.",
    )

    alert = gave_up(stream="orders", decision=decision, now=NOW)

    assert (alert.key, alert.alert, alert.query) == (RESTART_KEY, AlertKind.GAVE_UP, "revenue")
    assert alert.reason == "ValueError: price is not a number."
    assert alert.facts == {
        "failure": "poison_batch",
        "batch": "0",
        "offsets": 'kafka: {"0":40}',
        "offsets 2": 'files: {"logOffset":7}',
        "failures in a row": "6",
    }
    assert "set the offending rows aside" in alert.remedy
    assert "start orders --again" in alert.remedy


def test_the_remedy_of_the_decision_comes_before_the_usual_one() -> None:
    decision = a_give_up(failure_kind=FailureKind.POISON_BATCH, remedy="Ask Ada.")

    assert gave_up(stream="orders", decision=decision, now=NOW).remedy.startswith("Ask Ada. Then")


def test_a_restart_is_told_with_the_time_at_which_it_is_due() -> None:
    decision = a_restart(due_in=timedelta(seconds=42), consecutive_failures=3)

    alert = restarted(stream="orders", decision=decision, now=NOW)

    assert "at 2026-11-21 12:00:42 UTC" in alert.action
    assert "failure 3 in a row" in alert.action


def test_the_end_of_an_incident_names_what_was_told() -> None:
    log = [replace(told_at(FIRES, [], NOW)[0], number=7)]

    (alert,) = told_at(OVER, log, NOW + minutes(9))

    assert alert.reason == f"{BEHIND} is clear."
    assert alert.facts == {
        "was": f"{BEHIND} is firing.",
        "told": "2026-11-21 12:00:00 UTC",
        "alert": "7",
    }


@pytest.mark.parametrize(
    "alert",
    [
        restart_failed(stream="orders", epoch=18, error="bad: password=hunter2", now=NOW),
        restarted(stream="orders", decision=a_restart(reason="token=hunter2"), now=NOW),
        gave_up(stream="orders", decision=a_give_up(reason="s3://me:hunter2@host"), now=NOW),
        gave_up(stream="orders", decision=a_give_up(offsets=("secret: hunter2",)), now=NOW),
        *due(
            stream="orders",
            epoch=17,
            verdict=Verdict(
                state=VerdictState.DEGRADED,
                reason="",
                findings=(a_finding(reason="Query ended: secret=hunter2"),),
            ),
            findings=(),
            log=(),
            now=NOW,
        ),
    ],
    ids=["launch", "restart", "given up", "offsets", "finding"],
)
def test_an_alert_holds_no_secret(alert: Alert) -> None:
    assert "hunter2" not in alert.to_bytes().decode()


def test_an_alert_survives_its_record() -> None:
    assert Alert.from_bytes(GAVE_UP.to_bytes()) == GAVE_UP
