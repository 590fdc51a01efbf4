"""Which acts ask for the stream's name, which are red, and what the banner of an open cutover says."""

from __future__ import annotations

import shutil
import warnings
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_streaming.cli.cutover import page_of
from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.cutover_table import CutoverCommand
from airflow_streaming.model.records.epoch import Exit, Outcome
from airflow_streaming.model.records.restart_decision import RestartAction, RestartDecision
from airflow_streaming.model.records.upgrade_table import UpgradeCommand
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.plugins.act_weight import GENTLE, PLANNED, asks_name, is_red

with warnings.catch_warnings():
    # Starlette would rather have a successor of httpx that Airflow does not bring.
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

    from tests.page.server import page_app

pytestmark = pytest.mark.filterwarnings("ignore")
ACTS = {
    *(f"upgrade.{one}" for one in UpgradeCommand),
    *(f"cutover.{one}" for one in CutoverCommand),
    *("start", "start-again", "stop", "declare-dead"),
}


@pytest.mark.parametrize(
    ("act", "asks", "red"),
    [
        ("upgrade.keep", True, False),
        ("upgrade.roll-back", True, True),
        ("upgrade.abort", True, True),
        ("upgrade.leave", True, True),
        ("cutover.promote", True, False),
        ("cutover.keep", True, False),
        ("cutover.roll-back", True, True),
        ("cutover.retire", True, True),
        ("cutover.look-again", False, False),
        ("start", False, False),
        ("start-again", True, True),
        ("stop", True, True),
    ],
)
def test_an_act_is_red_only_where_something_is_stopped_undone_or_given_up(
    act: str, asks: bool, red: bool
) -> None:
    assert act in ACTS
    assert (asks_name(act), is_red(act)) == (asks, red)


def test_every_act_with_less_weight_is_an_act() -> None:
    assert GENTLE | PLANNED <= ACTS


@pytest.fixture
def home(demo_home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo_home, tmp_path / "home"))


def fail(lane: StreamHome, times: int) -> None:
    """Let the newest driver of a lane have failed for the n-th time in a row."""
    epoch, now = lane.newest_epoch(), datetime.now(UTC)
    assert epoch is not None
    ended = Exit(
        epoch=epoch.number,
        outcome=Outcome.FAILED,
        reason="Path does not exist: s3://shop/orders\n\tat org.apache.spark",
        ended_at=now,
        failure_kind=FailureKind.UNKNOWN,
        signature="s1",
    )
    lane.store.create(
        Layout(lane.name).epoch(epoch.number, "exit.json"), Layout(lane.name).bytes_of(ended)
    )
    lane.record_restart_decision(
        RestartDecision(
            epoch=epoch.number,
            action=RestartAction.RESTART,
            decided_at=now,
            next_attempt_at=now,
            consecutive_failures=times,
            reason=f"Failure {times} in a row: restarting in 4 min.",
        )
    )


def test_the_banner_of_a_cutover_and_the_shell_tell_that_green_fails(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blue = open_home(str(home)).stream("fraud_eu")
    with TestClient(page_app(home, monkeypatch.setattr)) as client:
        before = client.get("/api/streams/fraud_eu/fraud_eu").json()["change"]
    fail(blue.beside("fraud_eu.green"), 3)
    with TestClient(page_app(home, monkeypatch.setattr)) as client:
        after = client.get("/api/streams/fraud_eu/fraud_eu").json()["change"]
    change = blue.unfinished_change()
    assert change is not None
    page = page_of(blue, change)

    assert before["failing"] == ""
    assert after["failing"] == (
        "Lane 'fraud_eu.green' has failed 3 times in a row. Failure 3 in a row: restarting in 4 min. "
        "Epoch 1: Path does not exist: s3://shop/orders at org.apache.spark"
    )
    assert page.failing == (after["failing"],)
    assert f"  FAILING: {after['failing']}" in page.lines()
