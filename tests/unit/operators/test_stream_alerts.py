"""What a task tells is recorded, delivered once, and never holds the stream up."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from airflow.sdk import BaseNotifier
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import HomeUnavailable, LaunchError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.links.stream import DriverLogLink, SparkUiLink
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.records.restart_decision import RestartAction, RestartDecision
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.notifications import alerts as _alerts
from airflow_streaming.notifications.alerts import Alerts
from airflow_streaming.supervision.decide import Action, Step
from tests.patience import until
from tests.unit.home.make import make_epoch
from tests.unit.supervision.builders import an_alert
from tests.unit.world import TaskInstance

NOON: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LONG: Final = timedelta(seconds=20)
SHORT: Final = timedelta(milliseconds=200)
A_WHILE: Final = timedelta(seconds=1)

FIRES: Final = an_alert(at=NOON)
BACKLOG: Final = replace(FIRES, key="backlog/revenue", rule="backlog")
OPERATOR: Final = SimpleNamespace(operator_extra_links=(SparkUiLink(), DriverLogLink()))


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    return StreamHome(LocalStore(str(tmp_path / "home")), "orders")


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets notifiers that hang go, at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


class Telling(BaseNotifier):
    """Writes down the text that it renders."""

    template_fields: Sequence[str] = ("text",)

    def __init__(self, text: str, *, error: BaseException | None = None) -> None:
        super().__init__()
        self.text, self.error = text, error
        self.heard: list[str] = []

    def notify(self, context: Any) -> None:
        self.heard.append(self.text)
        if self.error is not None:
            raise self.error


def alerts_of(
    home: StreamHome, *, limit: timedelta = LONG, ti: Any = None, **notifiers: Any
) -> Alerts:
    return Alerts(
        home,
        OPERATOR,  # type: ignore[arg-type]
        notifiers={AlertKind(kind): given for kind, given in notifiers.items()},
        context={"ti": ti or TaskInstance(), "params": {}},  # type: ignore[typeddict-item]
        by="a test",
        limit=limit,
    )


def outcome(home: StreamHome, number: int = 1) -> str | None:
    mark = home.sent(number)
    return mark.outcome if mark else None


def test_a_callable_gets_the_context_with_the_alert_in_it(home: StreamHome) -> None:
    heard: list[dict[str, Any]] = []
    alerts = alerts_of(home, unhealthy=heard.append)

    alerts.tell(FIRES)
    alerts.deliver()

    (context,) = heard
    assert context["stream"] == "orders"
    assert context["ti"].task_id == "orders"
    assert context["alert"]["rule"] == "falling_behind"
    assert context["alert"]["by"] == "a test"
    assert json.loads(json.dumps(context["alert"])) == context["alert"]
    assert context["alert_subject"] == "Stream orders is unhealthy: falling_behind, query revenue"
    assert "Query 'revenue' falls behind." in context["alert_body"]
    assert context["exception"] == context["reason"] == "Query 'revenue' falls behind."
    assert outcome(home) == "sent"


def test_a_notifier_renders_its_templates_for_every_alert_anew(home: StreamHome) -> None:
    notifier = Telling("{{ stream }}: {{ alert.rule }} of {{ alert.query }}")
    alerts = alerts_of(home, unhealthy=[notifier])

    alerts.tell(FIRES, BACKLOG)
    alerts.deliver()

    assert notifier.heard == ["orders: falling_behind of revenue", "orders: backlog of revenue"]
    assert notifier.text == "{{ stream }}: {{ alert.rule }} of {{ alert.query }}"


def test_what_one_notifier_adds_to_its_context_no_other_sees(home: StreamHome) -> None:
    heard: list[dict[str, Any]] = []
    alerts = alerts_of(home, unhealthy=[Telling("mine"), heard.append])

    alerts.tell(FIRES)
    alerts.deliver()

    assert "text" not in heard[0]


def test_everybody_is_told_what_he_asked_for(home: StreamHome) -> None:
    notifiers = {kind.value: Telling("{{ alert.alert }}") for kind in AlertKind}
    alerts = alerts_of(home, **notifiers)

    alerts.tell(
        FIRES,
        replace(FIRES, alert=AlertKind.RECOVERED),
        replace(FIRES, alert=AlertKind.RESTARTED, key="restart"),
        replace(FIRES, alert=AlertKind.GAVE_UP, key="restart"),
        replace(FIRES, alert=AlertKind.HELD, key="held"),
    )
    alerts.deliver()

    assert {kind: notifier.heard for kind, notifier in notifiers.items()} == {
        kind.value: [kind.value] for kind in AlertKind
    }


@pytest.mark.parametrize("given", [None, (), []], ids=["none", "empty", "empty list"])
def test_what_nobody_asked_for_is_recorded_and_done_with(home: StreamHome, given: Any) -> None:
    alerts = alerts_of(home, unhealthy=given)

    alerts.tell(FIRES)
    alerts.deliver()

    assert [alert.reason for alert in home.alerts()] == [FIRES.reason]
    assert outcome(home) == "no notifier"


def test_what_was_told_is_not_delivered_again(home: StreamHome) -> None:
    notifier = Telling("told")
    alerts = alerts_of(home, unhealthy=notifier)

    for _ in range(3):
        alerts.tell(FIRES)
        alerts.deliver()

    assert notifier.heard == ["told"]


def test_what_a_task_could_not_deliver_the_next_one_does(home: StreamHome) -> None:
    alerts_of(home, unhealthy=Telling("of the task that died")).tell(FIRES)
    notifier = Telling("of the next task")

    alerts_of(home, unhealthy=notifier).deliver()

    assert notifier.heard == ["of the next task"]
    assert outcome(home) == "sent"


def leave(how: BaseException | None) -> None:
    if how is not None:
        raise how


@pytest.mark.parametrize(
    "how",
    [None, AirflowFailException("down"), KeyboardInterrupt()],
    ids=["by its end", "by a failure", "by a signal"],
)
def test_however_a_task_ends_it_delivers_first(home: StreamHome, how: BaseException | None) -> None:
    notifier = Telling("told")
    left: BaseException | None = None

    try:
        with alerts_of(home, unhealthy=notifier) as alerts:
            alerts.tell(FIRES)
            leave(how)
    except BaseException as err:  # noqa: BLE001 - that it comes through is the point
        left = err

    assert left is how
    assert notifier.heard == ["told"]


def raising(context: Any) -> None:
    raise ConnectionError("https://hooks.example/T0/secret-path refused")


@pytest.mark.parametrize(
    "fault",
    [
        raising,
        Telling("x", error=ValueError("no")),
        Telling("x", error=SystemExit(1)),
        "no callable",
    ],
    ids=["a callable", "a notifier", "one that would end the process", "no callable at all"],
)
def test_a_notifier_that_fails_takes_nobody_with_it(home: StreamHome, fault: Any) -> None:
    good = Telling("told")
    alerts = alerts_of(home, unhealthy=[fault, good])

    alerts.tell(FIRES)
    alerts.deliver()

    assert good.heard == ["told"]
    assert (outcome(home) or "").startswith("sent, but ")


def test_why_a_notifier_failed_is_recorded_without_the_address_it_quotes(home: StreamHome) -> None:
    alerts = alerts_of(home, unhealthy=[raising, Telling("told")])

    alerts.tell(FIRES)
    alerts.deliver()

    assert outcome(home) == "sent, but raising: ConnectionError"


def test_an_alert_that_nobody_takes_is_tried_by_three_tasks(home: StreamHome) -> None:
    alerts_of(home).tell(FIRES)
    outcomes = []

    for _ in range(4):
        alerts_of(home, unhealthy=raising).deliver()
        outcomes.append(outcome(home))

    assert outcomes == [None, None, *["failed: raising: ConnectionError"] * 2]


def let_work_first(monkeypatch: pytest.MonkeyPatch, is_done: Callable[[], bool]) -> None:
    """Let the limit run out only after the notifiers have done what they do."""

    class Thread(threading.Thread):
        def join(self, timeout: float | None = None) -> None:
            until(is_done, "What the notifiers do", every=0.01)
            super().join(timeout)

    monkeypatch.setattr(_alerts, "Thread", Thread)


def test_a_notifier_that_hangs_holds_nobody_up(
    home: StreamHome, release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, begun = Telling("{{ alert.rule }}"), threading.Event()

    def hanging(context: Any) -> None:
        begun.set()
        release.wait()

    let_work_first(monkeypatch, lambda: begun.is_set() and len(good.heard) == 2)
    alerts = alerts_of(home, limit=SHORT, unhealthy=[hanging, good])
    alerts.tell(FIRES, BACKLOG)

    alerts.deliver()

    assert not release.is_set()
    assert good.heard == ["falling_behind", "backlog"]
    assert outcome(home, 1) == outcome(home, 2) == "sent, but hanging: no answer in time"


def test_many_that_hang_take_no_longer_than_one(home: StreamHome, release: threading.Event) -> None:
    hanging = [(lambda context: release.wait()) for _ in range(20)]
    alerts = alerts_of(home, limit=A_WHILE, unhealthy=hanging)
    alerts.tell(FIRES, BACKLOG)
    started = time.monotonic()

    alerts.deliver()

    assert time.monotonic() - started < len(hanging) * A_WHILE.total_seconds()
    assert outcome(home) is None


def test_a_notifier_that_hangs_does_not_keep_the_process(
    home: StreamHome, release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung: list[threading.Thread] = []
    let_work_first(monkeypatch, lambda: bool(hung))

    def hanging(context: Any) -> None:
        hung.append(threading.current_thread())
        release.wait()

    alerts = alerts_of(home, limit=SHORT, unhealthy=hanging)
    alerts.tell(FIRES)
    alerts.deliver()

    assert [thread.daemon for thread in hung] == [True]


class Away(LocalStore):
    """A store that cannot be reached."""

    def names(self, folder: str) -> list[str]:
        raise HomeUnavailable("The store is away.")


def test_a_home_that_is_away_stops_no_task(tmp_path: Path) -> None:
    notifier = Telling("told")
    alerts = alerts_of(StreamHome(Away(str(tmp_path)), "orders"), unhealthy=notifier)

    alerts.tell(FIRES)
    alerts.deliver()

    assert notifier.heard == []


def a_decision(action: RestartAction) -> RestartDecision:
    return RestartDecision(
        epoch=17,
        action=action,
        decided_at=NOON,
        next_attempt_at=NOON if action is RestartAction.RESTART else None,
        consecutive_failures=3,
        reason="The sink is full.",
        failure_kind=FailureKind.TRANSIENT,
    )


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (RestartAction.RESTART, AlertKind.RESTARTED),
        (RestartAction.GIVE_UP, AlertKind.GAVE_UP),
    ],
)
def test_a_decision_about_a_failure_is_told(
    home: StreamHome, action: RestartAction, kind: AlertKind
) -> None:
    alerts_of(home).tell_decision(a_decision(action))

    (alert,) = home.alerts()
    assert (alert.alert, alert.epoch, alert.reason) == (kind, 17, "The sink is full.")


def launching(home: StreamHome, cause: LaunchCause, error: Callable[[], BaseException]) -> None:
    step = Step(action=Action.LAUNCH, reason="", cause=cause)
    with alerts_of(home).launch_failures(step, None):
        raise error()


@pytest.mark.parametrize("cause", [LaunchCause.RESTART, LaunchCause.TRIAL])
def test_an_automatic_restart_that_fails_is_told_and_still_fails(
    home: StreamHome, cause: LaunchCause
) -> None:
    home.create_epoch(make_epoch(1))

    with pytest.raises(LaunchError):
        launching(home, cause, lambda: LaunchError("No such java."))

    (alert,) = home.alerts()
    assert (alert.alert, alert.rule, alert.epoch) == (AlertKind.RESTARTED, "restart_failed", 1)
    assert "No such java." in alert.reason


@pytest.mark.parametrize("cause", [LaunchCause.FIRST, LaunchCause.START])
def test_a_launch_that_was_asked_for_is_left_to_the_task_to_tell(
    home: StreamHome, cause: LaunchCause
) -> None:
    with pytest.raises(LaunchError):
        launching(home, cause, lambda: LaunchError("No such java."))

    assert home.alerts() == ()


def test_a_message_leads_to_the_task_and_to_the_driver(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/af/")
    ti = TaskInstance(run_id="scheduled__2026-03-01T12:00:00+00:00")
    ti.log_url = "https://airflow.example/af/log"  # type: ignore[attr-defined]
    heard: list[dict[str, Any]] = []
    alerts = alerts_of(home, ti=ti, unhealthy=heard.append)

    alerts.tell(FIRES)
    alerts.deliver()

    run = "scheduled__2026-03-01T12%3A00%3A00%2B00%3A00"
    page = f"https://airflow.example/af/streaming/tasks/orders/{run}/orders/-1"
    assert heard[0]["alert_links"] == {
        "Task log": "https://airflow.example/af/log",
        "Spark UI": f"{page}/spark-ui",
        "Driver log": f"{page}/driver-log",
    }
    assert f"Driver log: {page}/driver-log" in heard[0]["alert_body"]


def test_without_an_address_of_airflow_there_are_no_links(home: StreamHome) -> None:
    heard: list[dict[str, Any]] = []
    alerts = alerts_of(home, unhealthy=heard.append)

    alerts.tell(FIRES)
    alerts.deliver()

    assert heard[0]["alert_links"] == {}
    assert "Where to look" not in heard[0]["alert_body"]
