"""Notifiers of Airflow's own providers, against servers that speak their protocols."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from airflow.providers.http.notifications import HttpNotifier
from airflow.providers.smtp.notifications.smtp import SmtpNotifier

from airflow_streaming.home.home import StreamHome
from airflow_streaming.links.stream import DriverLogLink, SparkUiLink
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.model.records.restart_decision import RestartAction, RestartDecision
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.notifications.alerts import Alerts
from airflow_streaming.supervision.alerts.alerting import gave_up
from tests.integration.alerts.servers import (
    Mailbox,
    Webhook,
    mail_server,
    mute_server,
    webhook_server,
)
from tests.patience import PATIENCE
from tests.unit.supervision.builders import an_alert
from tests.unit.world import TaskInstance

LIMIT: Final = timedelta(seconds=2)
NOON: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OPERATOR: Final = SimpleNamespace(operator_extra_links=(SparkUiLink(), DriverLogLink()))
SMTP: Final = "AIRFLOW_CONN_MAIL"
HTTP: Final = "AIRFLOW_CONN_CHAT"

POISON: Final = gave_up(
    stream="orders",
    decision=RestartDecision(
        epoch=19,
        action=RestartAction.GIVE_UP,
        decided_at=NOON,
        next_attempt_at=None,
        consecutive_failures=3,
        reason="ValueError: price 'n/a' is not a number. Batch 41 of query 'revenue' has failed 3 "
        "times in the same way.",
        failure_kind=FailureKind.POISON_BATCH,
        query="revenue",
        batch_id=41,
        offsets=('FileStreamSource[file:/data/retail]: {"logOffset":41}',),
    ),
    now=NOON,
)
BEHIND: Final = an_alert(
    epoch=19, at=NOON, reason="Query 'revenue' works off <62 %> of what comes in."
)


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    return StreamHome(LocalStore(str(tmp_path / "home")), "orders")


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    with mail_server() as box:
        connect_mail(monkeypatch, box.port)
        yield box


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with webhook_server() as server:
        connect_webhook(monkeypatch, server.port)
        yield server


def connect_mail(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    # A mute server holds it until it is closed: its own time-out is not what ends a test.
    extra = {"disable_ssl": True, "disable_tls": True, "retry_limit": 1, "timeout": PATIENCE}
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": extra}
    monkeypatch.setenv(SMTP, json.dumps(connection))


def connect_webhook(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    connection = {"conn_type": "http", "host": "127.0.0.1", "port": port}
    monkeypatch.setenv(HTTP, json.dumps(connection))


def a_mail(**changes: Any) -> SmtpNotifier:
    fields: dict[str, Any] = {
        "to": "on-call@example.com",
        "from_email": "streams@example.com",
        "subject": "{{ alert_subject }}",
        "html_content": "<pre>{{ alert_body | e }}</pre>",
        "smtp_conn_id": "mail",
    }
    return SmtpNotifier(**fields | changes)


def a_post() -> HttpNotifier:
    return HttpNotifier(
        http_conn_id="chat",
        endpoint="hooks/streams",
        json={
            "text": "{{ alert_subject }}",
            "stream": "{{ stream }}",
            "batch": "{{ alert.facts.batch }}",
            "offsets": "{{ alert.facts.offsets }}",
            "details": "{{ alert_body }}",
        },
    )


def alerts_of(home: StreamHome, limit: timedelta = timedelta(seconds=30), **given: Any) -> Alerts:
    ti = TaskInstance()
    ti.log_url = "https://airflow.example/log"  # type: ignore[attr-defined]
    return Alerts(
        home,
        OPERATOR,  # type: ignore[arg-type]
        notifiers={AlertKind(kind): notifiers for kind, notifiers in given.items()},
        context={"ti": ti, "params": {}},  # type: ignore[typeddict-item]
        by="orders.orders run r1 try 1",
        limit=limit,
    )


def outcome(home: StreamHome, number: int = 1) -> str | None:
    mark = home.sent(number)
    return mark.outcome if mark else None


def test_a_mail_says_what_happened_and_what_to_do(
    home: StreamHome, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example")

    with alerts_of(home, gave_up=a_mail()) as alerts:
        alerts.tell(POISON)

    (mail,) = mailbox.mails
    assert mail["Subject"] == "Stream orders is down and stays down: poison_batch, query revenue"
    assert (mail["From"], mail["To"]) == ("streams@example.com", "on-call@example.com")
    body = mail.get_body(("html",))
    assert body is not None
    text = body.get_content()
    for line in (
        "Stream &#39;orders&#39; is down and stays down.",
        "ValueError: price &#39;n/a&#39; is not a number.",
        "Batch:             41\n",
        "{&#34;logOffset&#34;:41}",
        "airflow-streaming start orders --again --reason TEXT",
        "Task log: https://airflow.example/log",
        "Driver log: https://airflow.example/streaming/tasks/orders/run-1/orders/-1/driver-log",
        "by orders.orders run r1 try 1.",
    ):
        assert line in text
    assert outcome(home) == "sent"


def test_every_alert_of_a_task_is_a_mail_of_its_own(home: StreamHome, mailbox: Mailbox) -> None:
    notifier = a_mail()

    with alerts_of(home, unhealthy=notifier, recovered=notifier) as alerts:
        alerts.tell(BEHIND, replace(BEHIND, alert=AlertKind.RECOVERED))

    assert [mail["Subject"] for mail in mailbox.mails] == [
        "Stream orders is unhealthy: falling_behind, query revenue",
        "Stream orders has recovered: falling_behind, query revenue",
    ]


def test_a_webhook_gets_the_fields_it_was_set_up_for(home: StreamHome, webhook: Webhook) -> None:
    with alerts_of(home, gave_up=a_post()) as alerts:
        alerts.tell(POISON)

    ((path, received),) = webhook.received
    details = received.pop("details")
    assert path == "/hooks/streams"
    assert received == {
        "text": "Stream orders is down and stays down: poison_batch, query revenue",
        "stream": "orders",
        "batch": "41",
        "offsets": 'FileStreamSource[file:/data/retail]: {"logOffset":41}',
    }
    assert "What to do:\n" in details
    assert outcome(home) == "sent"


def test_a_mail_server_that_refuses_keeps_no_webhook_from_telling(
    home: StreamHome, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mail_server() as gone:
        connect_mail(monkeypatch, gone.port)

    with alerts_of(home, gave_up=[a_mail(), a_post()]) as alerts:
        alerts.tell(POISON)

    assert [path for path, _ in webhook.received] == ["/hooks/streams"]
    assert outcome(home) == "sent, but SmtpNotifier: ConnectionRefusedError"


def test_an_alert_that_met_a_dead_server_is_delivered_by_the_next_task(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mail_server() as gone:
        connect_mail(monkeypatch, gone.port)
    with alerts_of(home, gave_up=a_mail()) as alerts:
        alerts.tell(POISON)
    assert outcome(home) is None

    with mail_server() as back:
        connect_mail(monkeypatch, back.port)
        with alerts_of(home, gave_up=a_mail()):
            pass

        assert len(back.mails) == 1
    assert outcome(home) == "sent"


@pytest.mark.parametrize(
    ("notifier", "connect"),
    [(a_mail, connect_mail), (a_post, connect_webhook)],
    ids=["mail", "webhook"],
)
def test_a_server_that_never_answers_holds_the_task_no_longer_than_the_limit(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch, notifier: Any, connect: Any
) -> None:
    before = set(threading.enumerate())
    with mute_server() as mute:
        connect(monkeypatch, mute.port)
        alerts = alerts_of(home, limit=LIMIT, gave_up=notifier())
        alerts.tell(POISON)
        started = time.monotonic()

        alerts.deliver()

        took = time.monotonic() - started
        assert mute.connected.is_set()
        assert LIMIT.total_seconds() <= took < PATIENCE
        assert outcome(home) is None
    # With its server gone the notifier comes back, so that it does not outlive this test.
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
