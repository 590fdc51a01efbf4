"""What wakes the task of the campaigns, and how often it is started."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_streaming.changes.campaign.decide import wakes_at
from airflow_streaming.changes.campaign.state import state_of
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.model.arguments.policies import Blackout
from airflow_streaming.model.records.campaign import CampaignTerms
from airflow_streaming.model.records.control import ChangeOutcome
from airflow_streaming.services.campaigns import commands as acts
from airflow_streaming.triggers import campaign as module
from airflow_streaming.triggers.campaign import CampaignTrigger
from tests.unit.changes.upgrade.upgrading import Upgraded, end_of
from tests.unit.operators.test_campaign import Fleet


class Watched(Fleet):
    """The fleet of the task's tests, whose task sleeps until its trigger fires."""

    def __init__(self, stream: Upgraded, patch: pytest.MonkeyPatch) -> None:
        super().__init__(stream, patch)
        self.starts, self.looks = 0, 0
        self.memories: dict[str, Any] = {}
        patch.setattr(
            CampaignTrigger, "open_stream", lambda *_: (stream.home, stream.observer(who="trigger"))
        )

    def start(self) -> CampaignTrigger | None:
        """Run the task once; return its trigger, or ``None`` at its end."""
        self.starts += 1
        try:
            self.task.execute_complete(self.context, memories=self.memories)
        except TaskDeferred as deferred:
            self.memories = (deferred.kwargs or {})["memories"]
            path, kwargs = deferred.trigger.serialize()
            assert path == "airflow_streaming.triggers.campaign.CampaignTrigger"
            return CampaignTrigger(**kwargs)
        return None

    def sleep(self, trigger: CampaignTrigger, ticks: int = 60) -> str:
        """Let the stream live on until the trigger fires; return why it did."""
        for _ in range(ticks):
            payload, _ = trigger.look_once()
            self.looks += 1
            if payload is not None:
                return str(payload["reason"])
            self.stream.tick()
        return ""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(Upgraded(tmp_path, "works"), monkeypatch)


def test_a_soak_starts_no_task_before_its_verdict(fleet: Watched) -> None:
    fleet.begin()
    reasons: list[str] = []

    while (trigger := fleet.start()) is not None:
        reasons.append(fleet.sleep(trigger))
        assert reasons[-1], "The trigger never fired."

    end = end_of(fleet.stream)
    assert end is not None
    assert end.outcome is ChangeOutcome.DONE
    assert reasons[-1] == "orders: launched: take"
    assert fleet.starts <= 5, reasons
    assert fleet.looks > 2 * fleet.starts


def test_a_command_wakes_the_task(fleet: Watched) -> None:
    fleet.begin()
    acts.pause(fleet.campaigns, 1, by="ada", reason="lunch")
    trigger = fleet.start()
    assert trigger is not None
    assert fleet.sleep(trigger, ticks=3) == ""

    acts.resume(fleet.campaigns, 1, by="ada", reason="back")

    assert fleet.sleep(trigger, ticks=1) == "Campaign 1 has a new step."


def test_a_time_wakes_the_task(fleet: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.begin()
    now = datetime.now(UTC)
    told = {"home": fleet.stream.uri, "campaigns": {"1": 0}, "deferred_at": now.isoformat()}
    due = CampaignTrigger(**told, wake_at=now.isoformat())
    waits = CampaignTrigger(**told, wake_at=(now + timedelta(hours=1)).isoformat())
    spent = CampaignTrigger(**told, wake_seconds=0.0)

    assert fleet.sleep(due, ticks=1) == fleet.sleep(spent, ticks=1) == "A time has come."
    assert fleet.sleep(waits, ticks=1) == ""


def test_an_act_that_the_task_could_not_do_is_retried_later(
    fleet: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.begin()
    monkeypatch.setattr(CampaignTrigger, "_acts", lambda *_: {"orders": "backed_up: back_up"})
    told = {"home": fleet.stream.uri, "campaigns": {"1": 0}, "deferred_at": "2026-11-28T12:00:00Z"}
    trigger = CampaignTrigger(**told)

    assert fleet.sleep(trigger, ticks=3) == ""
    monkeypatch.setattr(module, "RETRY", 0.0)
    assert fleet.sleep(trigger, ticks=1) == "orders: backed_up: back_up"


def test_a_stream_that_only_the_task_can_observe_is_left_to_it(
    fleet: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise HomeUnavailable("No credentials.")

    fleet.begin()
    trigger = fleet.start()
    assert trigger is not None
    monkeypatch.setattr(CampaignTrigger, "_act", fail)

    assert fleet.sleep(trigger, ticks=2) == ""
    monkeypatch.setattr(module, "RETRY", 0.0)
    assert fleet.sleep(trigger, ticks=1) == "orders: cannot be observed"


@pytest.mark.parametrize(
    ("terms", "minutes"),
    [
        pytest.param(CampaignTerms(), None, id="nothing"),
        pytest.param(
            CampaignTerms(blackouts=(Blackout(start="12:00", end="13:00"),)), 60, id="blackout"
        ),
        pytest.param(CampaignTerms(wave_soak=timedelta(minutes=30)), None, id="no wave is open"),
    ],
)
def test_times_that_change_the_decision_alone(
    fleet: Watched, terms: CampaignTerms, minutes: int | None
) -> None:
    fleet.begin()
    noon = datetime(2026, 11, 28, 12, tzinfo=UTC)
    from dataclasses import replace

    campaign = replace(fleet.campaigns.campaign(1), terms=terms)

    found = wakes_at(state_of(campaign, []), noon)

    assert found == (None if minutes is None else noon + timedelta(minutes=minutes))
