"""The task that works on campaigns: its records and engine are real, drivers and time are played."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_streaming.changes.upgrade.preflight_report import Preflight
from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.findings import GateFinding, report_of
from airflow_streaming.home.campaigns import Campaigns
from airflow_streaming.model.records.campaign import CampaignTerms, FleetChange
from airflow_streaming.model.records.control import ChangeOutcome
from airflow_streaming.operators import campaign as module
from airflow_streaming.operators.campaign import FleetUpgradeOperator
from airflow_streaming.operators.common.upgrade import UpgradeTask
from airflow_streaming.services.campaigns import commands as acts
from airflow_streaming.spec import FormPolicy, StreamSpec
from tests.unit.changes.upgrade.upgrading import REWIND, SINKS, SOAK, Upgraded, end_of
from tests.unit.operators.upgrades import TaskInstance, hook_of


class Fleet:
    """One real stream, and the task of its fleet."""

    def __init__(self, stream: Upgraded, patch: pytest.MonkeyPatch, **spec: Any) -> None:
        self.stream, self.findings = stream, tuple[GateFinding, ...]()
        self.started_at = datetime.now(UTC)
        told = {"application": "orders.py", "home": stream.uri, "runtime": "spark-4.3", **spec}
        with DAG("fleet_upgrade", schedule=None):
            self.task = FleetUpgradeOperator(
                task_id="campaigns", streams=[StreamSpec(name="orders", **told)], soak=SOAK
            )
        patch.setattr(UpgradeTask, "hook", lambda *_: hook_of(stream))
        patch.setattr(UpgradeTask, "engine", lambda *_: stream.engine())
        patch.setattr(FleetUpgradeOperator, "open_hook", lambda *_, **__: hook_of(stream))
        patch.setattr(module._MemberTask, "examined", self._examined)

    def _examined(self, task: Any, *_: Any) -> tuple[Preflight, bytes]:
        found = Preflight(
            stream="orders",
            replaced=1,
            proposed=self.stream.proposed(),
            differences=(),
            gates=report_of(self.findings),
            rollback=REWIND,
            sinks=SINKS,
        )
        return found, self.stream.new_script

    @property
    def campaigns(self) -> Campaigns:
        return Campaigns(self.stream.home.store)

    def begin(self, *names: str, **change: Any) -> None:
        acts.begin_campaign(
            self.campaigns,
            FleetChange(**(change or {"runtime": "spark-4.4"})),
            (names or ("orders",),),
            CampaignTerms(),
            selector="",
            follows={},
            by="ada",
            reason="why",
            now=lambda: self.stream.now - timedelta(minutes=1),
        )

    @property
    def context(self) -> Any:
        ti = TaskInstance(task_id="campaigns", run_id="run-1", xcoms={}, dag_id="fleet_upgrade")
        return {"ti": ti, "params": {}, "dag_run": SimpleNamespace(start_date=self.started_at)}

    def play(self) -> Any:
        """Run the task until it ends; between two looks the stream lives on."""
        memories: dict[str, Any] = {}
        for _ in range(60):
            try:
                return self.task.execute_complete(self.context, memories=memories)
            except TaskDeferred as deferred:
                memories = (deferred.kwargs or {})["memories"]
            self.stream.tick()
        raise AssertionError("The task came to no end.")


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda code="works", **spec: Fleet(Upgraded(tmp_path, code), monkeypatch, **spec)


def outcome(fleet: Fleet) -> ChangeOutcome | None:
    end = end_of(fleet.stream)
    return None if end is None else end.outcome


def test_a_campaign_is_worked_on_until_it_is_done(make: Any) -> None:
    fleet = make()
    fleet.begin()

    assert fleet.play() == {"1": "done"}
    assert outcome(fleet) is ChangeOutcome.DONE
    change = fleet.stream.home.changes()[0]
    assert fleet.stream.home.terms(change).key == "campaign 1"


def test_a_bad_stream_fails_the_task_once_with_its_reason(make: Any) -> None:
    fleet = make("fails after two")
    fleet.begin()

    with pytest.raises(AirflowFailException, match=r"Campaign 1 was stopped by stream 'orders': "):
        fleet.play()
    assert outcome(fleet) is ChangeOutcome.ROLLED_BACK


def test_a_try_after_the_end_of_a_campaign_fails_with_its_reason(make: Any) -> None:
    fleet = make("fails after two")
    fleet.begin()
    fleet.started_at = datetime.now(UTC)
    for _ in range(2):
        with pytest.raises(AirflowFailException, match="was stopped by stream 'orders'"):
            fleet.play()

    fleet.started_at = datetime.now(UTC)
    with pytest.raises(AirflowSkipException, match="no open campaign"):
        fleet.play()


def test_without_a_campaign_the_task_is_skipped(make: Any) -> None:
    with pytest.raises(AirflowSkipException, match="no open campaign"):
        make().task.execute(make().context)


def test_a_stream_that_the_task_does_not_know_is_left(make: Any) -> None:
    fleet = make()
    fleet.begin("views")

    with pytest.raises(AirflowFailException, match=r"upgraded no stream\. views: .* has no stream"):
        fleet.play()


@pytest.mark.parametrize("change", [{"application": "/tmp/evil.py"}, {"conf": {"spark.jars": "x"}}])
def test_a_campaign_may_no_more_than_a_form_of_the_stream(make: Any, change: Any) -> None:
    fleet = make()
    fleet.begin(**change)

    with pytest.raises(AirflowFailException, match="'orders' refuses the change"):
        fleet.play()
    assert not fleet.stream.home.changes()


def test_the_author_may_allow_more(make: Any) -> None:
    fleet = make(form_policy=FormPolicy(applications=("/srv/jobs",)))
    fleet.begin(application="/srv/jobs/orders.py")

    assert fleet.play() == {"1": "done"}
    assert outcome(fleet) is ChangeOutcome.DONE


def test_streams_of_two_homes_need_two_tasks() -> None:
    specs = [
        StreamSpec(name=name, application="a.py", home=f"/data/{name}", runtime="spark-4.3")
        for name in ("orders", "views")
    ]
    with pytest.raises(SpecError, match="streams of one home"):
        FleetUpgradeOperator(task_id="campaigns", streams=specs)
