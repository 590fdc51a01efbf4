"""Starts and stops of a selection of streams."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.cli.acts.single import stop
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.restart_decision import RestartAction
from airflow_streaming.model.records.supervision import Supervision
from airflow_streaming.model.spark.failure_signs import FailureKind
from tests.unit.cli.host import Run, begin
from tests.unit.home.make import SCRIPT, make_decision, make_deployment, make_epoch

NAMES = ("clicks", "orders", "views")


@pytest.fixture
def streams(home: Home) -> dict[str, StreamHome]:
    made = {}
    for name in NAMES:
        stream = made[name] = home.stream(name)
        stream.create_deployment(make_deployment(stream=name), SCRIPT)
        team = "web" if name != "orders" else "shop"
        stream.supervise(
            Supervision(number=0, by="dag", at=datetime.now(UTC), labels={"team": team})
        )
    return made


def states(streams: dict[str, StreamHome]) -> list[str]:
    wishes = {name: one.desired() for name, one in streams.items()}
    return [f"{name} {wish.state}" for name, wish in wishes.items() if wish is not None]


def test_a_selection_is_named_first_and_stopped_with_yes(
    run: Run, streams: dict[str, StreamHome]
) -> None:
    code, out, _ = run("stop", "--select", "team=web")

    assert code == 0
    assert "Would stop 2, in this order: clicks, views." in out
    assert "--yes" in out
    assert states(streams) == []

    code, out, _ = run("stop", "--select", "team=web", "--yes", "--reason", "broker upgrade")

    assert code == 0
    assert states(streams) == ["clicks stopped", "views stopped"]
    wish = streams["views"].desired()
    assert wish is not None
    assert (wish.reason, wish.state) == ("broker upgrade", DesiredState.STOPPED)

    assert run("start", "--select", "team=web", "--yes")[0] == 0
    assert states(streams) == ["clicks running", "views running"]


def test_a_stream_that_vanishes_meanwhile_is_refused_and_leaves_no_half_of_itself(
    run: Run, home: Home, streams: dict[str, StreamHome], monkeypatch: pytest.MonkeyPatch
) -> None:
    views = Path(home.store.uri) / "views"

    def stop_and_lose_the_next(*arguments: Any, **options: Any) -> Any:
        shutil.rmtree(views, ignore_errors=True)
        return stop(*arguments, **options)

    monkeypatch.setattr("airflow_streaming.cli.acts.group.stop", stop_and_lose_the_next)
    code, _, err = run("stop", "--select", "team=web", "--yes")

    assert code == 1
    assert "views: It has no deployment any more, and was not changed." in err
    assert states(streams) == ["clicks stopped"]
    assert not views.exists()


def test_a_selection_that_is_stopped_for_some_time_starts_at_one_moment(
    run: Run, streams: dict[str, StreamHome]
) -> None:
    run("stop", "--select", "team=web", "--yes", "--resume-after", "600")

    ends = {name: wish.until for name, one in streams.items() if (wish := one.desired())}
    assert set(ends) == {"clicks", "views"}
    assert ends["clicks"] == ends["views"] is not None


def test_a_start_of_a_selection_leaves_a_copy_that_was_given_up(
    run: Run, streams: dict[str, StreamHome]
) -> None:
    views = streams["views"]
    views.create_epoch(make_epoch(1, stream="views"))
    lies_in_copy = next(kind for kind in FailureKind if kind.is_in_copy)
    views.record_restart_decision(
        make_decision(
            1, action=RestartAction.GIVE_UP, next_attempt_at=None, failure_kind=lies_in_copy
        )
    )
    views.open_circuit(epoch=1, by="policy", reason="It fails.", now=datetime.now(UTC))

    code, _, err = run("start", "--select", "team=web", "--yes")

    assert code == 1
    assert "the same copy would start" in err
    assert states(streams) == ["clicks running"]


def test_a_selection_of_nothing_is_a_problem(run: Run, streams: dict[str, StreamHome]) -> None:
    code, _, err = run("stop", "--select", "team=x", "--yes")

    assert code == 2
    assert "No stream of" in err
    assert states(streams) == []


@pytest.mark.parametrize(
    "wrong",
    [
        ("stop", "orders", "--select", "team=web", "--yes"),
        ("stop", "--select", "team=web", "--color", "green", "--yes"),
        ("start", "--select", "team=web", "--again", "--yes"),
        ("stop", "--select", "teem=web", "--yes"),
        ("stop", "--select", "team", "within", "--yes"),
        ("stop", "--yes"),
        ("stop",),
        ("list", "--select", "team=="),
    ],
)
def test_a_wrong_use_changes_nothing(
    run: Run, streams: dict[str, StreamHome], wrong: tuple[str, ...]
) -> None:
    code, _, err = run(*wrong)

    assert code == 2, err
    assert states(streams) == []


def test_a_stream_that_refuses_does_not_hold_up_the_others(
    run: Run, streams: dict[str, StreamHome], tmp_path: Path
) -> None:
    (tmp_path / "clicks" / "desired").write_text("no folder")

    code, _, err = run("stop", "--select", "team=web", "--yes")

    assert code == 1
    assert "clicks: " in err
    assert "1 of 2 streams refused: clicks." in err
    assert streams["views"].desired() is not None


def test_a_group_stop_waits_for_each_driver(run: Run, stream: StreamHome) -> None:
    begin(stream)

    code, _, err = run("stop", "--select", "name=orders", "--yes", "--wait", "0")

    assert code == 1
    assert "The driver of orders is not proved dead" in err


def test_a_list_shows_the_selected_streams(run: Run, streams: dict[str, StreamHome]) -> None:
    code, out, _ = run("list", "--select", "team=web")

    assert code == 0
    assert "clicks" in out
    assert "orders" not in out

    code, out, _ = run("list", "--select", "team=web", "--limit", "1")
    assert "views" not in out
