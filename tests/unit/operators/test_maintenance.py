"""A maintenance of several streams: real records and keep-alive tasks, played drivers, counted alerts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import open_home
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.operators.maintenance import MaintenanceOperator
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.services.maintenance import MaintenanceLog
from tests.unit.world import World, make_world

NAMES = ("clicks", "orders", "payments", "refunds", "shipments", "views")


class Member(World):
    """A stream of the fleet, kept by its own task, with notifiers that count."""

    def __init__(self, fleet: World, name: str, sent: list[str]) -> None:
        self.folder, self.uri, self.script = fleet.folder, fleet.uri, fleet.script
        self.launcher, self.ti, self.run_started_at = fleet.launcher, fleet.ti, None
        self.lane, self._sent, self._trigger = name, sent, None

    def keep(self) -> None:
        """Have the keep-alive task look, and defer again."""
        count = lambda context: self._sent.append(f"{self.lane}: {context['alert']['alert']}")
        task = SparkStreamOperator(
            task_id=self.lane,
            stream=self.spec(name=self.lane),
            dag=DAG(self.lane, schedule=None),
            on_unhealthy=count,
            on_restart=count,
            on_gave_up=count,
            on_recovered=count,
        )
        self.ti.dag_id = self.lane
        trigger = self._trigger
        self._trigger = self.run(task) if trigger is None else self.wake(trigger, task)

    def bring_forward(self) -> None:
        """Let the end of the stop have come."""
        now = datetime.now(UTC)
        self.home.want(DesiredState.STOPPED, by="test", reason="time passes", now=now, until=now)


class Fleet:
    """Six streams of one home, and the task of a maintenance."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.world = make_world(folder, patch)
        self.alerts: list[str] = []
        """What the notifiers of the streams got."""
        self.group: list[dict[str, Any]] = []
        """What the notifiers of the maintenance got."""
        self.members = {name: Member(self.world, name, self.alerts) for name in NAMES}
        for member in self.members.values():
            member.keep()
            member.say(progressed_for=timedelta(minutes=1))

    def task(self, lasts: timedelta = timedelta(0), **more: Any) -> MaintenanceOperator:
        with DAG("broker", schedule=None):
            return MaintenanceOperator(
                task_id="maintenance",
                **{
                    "home": self.world.uri,
                    "select": "name",
                    "lasts": lasts,
                    "reason": "the broker moves",
                    "on_begun": self.group.append,
                    "on_ended": self.group.append,
                    **more,
                },
            )

    def step(self, task: MaintenanceOperator, *, first: bool = False) -> Any:
        """Run the task once; return its result, or the deferral."""
        self.world.ti.dag_id = "broker"
        try:
            act = task.execute if first else task.execute_complete
            return act(self.world.context())
        except TaskDeferred as deferred:
            return deferred

    def kinds(self) -> list[str]:
        return [context["alert"]["alert"] for context in self.group]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    return Fleet(tmp_path, monkeypatch)


def test_six_streams_are_held_and_come_back_with_two_alerts(fleet: Fleet) -> None:
    task = fleet.task(timedelta(hours=1))
    assert isinstance(fleet.step(task, first=True), TaskDeferred)
    for member in fleet.members.values():
        assert member.home.desired().state is DesiredState.STOPPED
        member.keep()
        member.crash()
        for _ in range(3):
            member.keep()
        assert member.epochs() == 1
    assert isinstance(fleet.step(task), TaskDeferred), "The end has not come."

    for member in fleet.members.values():
        member.bring_forward()
    assert isinstance(fleet.step(task), TaskDeferred), "They are not back yet."
    for member in fleet.members.values():
        member.keep()
        assert member.epochs() == 2
        member.say(progressed_for=timedelta(seconds=1))
        member.keep()
    found = fleet.step(task)

    assert found == dict.fromkeys(NAMES, "back")
    assert fleet.kinds() == [AlertKind.HELD, AlertKind.RECOVERED]
    assert fleet.alerts == []
    begun, ended = fleet.group
    assert "clicks, orders, payments" in begun["alert_body"]
    assert begun["alert_subject"] == "Streams of the home are held for a maintenance: maintenance"
    assert "6 streams run again" in ended["alert_body"]


def test_without_a_maintenance_each_stream_is_reported(fleet: Fleet) -> None:
    for member in fleet.members.values():
        member.crash()
        member.keep()

    assert sorted(fleet.alerts) == [f"{name}: restarted" for name in NAMES]


def test_a_second_try_continues_and_sends_nothing_twice(fleet: Fleet) -> None:
    task = fleet.task(timedelta(hours=2))
    fleet.step(task, first=True)
    fleet.step(task, first=True)

    assert fleet.kinds() == [AlertKind.HELD]
    newest = MaintenanceLog(open_home(fleet.world.uri).store).newest()
    assert newest is not None
    assert newest.number == 1
    wishes = [member.home.desired() for member in fleet.members.values()]
    assert [(wish.number, wish.until) for wish in wishes] == [(1, newest.until)] * 6


def test_a_stream_that_a_user_stopped_or_started_is_left(fleet: Fleet) -> None:
    now = datetime.now(UTC)
    orders, views = fleet.members["orders"], fleet.members["views"]
    orders.home.want(DesiredState.STOPPED, by="ada", reason="month end", now=now)
    task = fleet.task(timedelta(hours=2))
    fleet.step(task, first=True)
    views.home.want(DesiredState.RUNNING, by="kim", reason="now", now=now + timedelta(minutes=1))

    fleet.step(task, first=True)

    assert orders.home.desired().until is None
    assert views.home.desired().state is DesiredState.RUNNING
    assert "orders (it is stopped without an end)" in fleet.group[0]["alert_body"]


def test_streams_that_are_not_back_fail_the_task_after_the_one_alert(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_streaming.operators.maintenance.PATIENCE", timedelta(0))
    task = fleet.task()

    for _ in range(2):
        with pytest.raises(AirflowFailException, match="6 streams are not back"):
            fleet.step(task, first=True)

    assert fleet.kinds() == [AlertKind.HELD, AlertKind.RECOVERED]


def test_a_later_maintenance_of_others_does_not_end_the_first(fleet: Fleet) -> None:
    first, second = (
        fleet.task(timedelta(hours=1), select="name=orders"),
        fleet.task(timedelta(hours=2), select="name=views"),
    )
    assert isinstance(fleet.step(first, first=True), TaskDeferred)
    own, fleet.world.ti.task_id = fleet.world.ti.task_id, "other"
    assert isinstance(fleet.step(second, first=True), TaskDeferred)
    fleet.world.ti.task_id = own

    assert isinstance(fleet.step(first), TaskDeferred), "it waits for its own end"
    assert isinstance(fleet.step(first, first=True), TaskDeferred)
    newest = MaintenanceLog(open_home(fleet.world.uri).store).newest()
    assert newest.number == 2, "the second try begins no third one"


def test_a_stream_that_another_stop_holds_longer_is_not_missing(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_streaming.operators.maintenance.PATIENCE", timedelta(0))
    now = datetime.now(UTC)
    task = fleet.task(timedelta(seconds=1))
    fleet.step(task, first=True)
    for member in fleet.members.values():
        longer = now + timedelta(hours=1)
        member.home.want(DesiredState.STOPPED, by="kim", reason="net", now=now, until=longer)

    assert fleet.step(task) == dict.fromkeys(NAMES, "held_longer")


def test_a_selection_of_nothing_is_skipped(fleet: Fleet) -> None:
    with pytest.raises(AirflowSkipException, match="No stream of"):
        fleet.step(fleet.task(select="name=none"), first=True)
    assert fleet.group == []


@pytest.mark.parametrize(
    ("wrong", "why"), [({"at_once": 0}, "at_once is 0"), ({"lasts": timedelta(days=400)}, "lasts")]
)
def test_wrong_arguments_are_refused_at_once(fleet: Fleet, wrong: Any, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        fleet.task(**wrong)
