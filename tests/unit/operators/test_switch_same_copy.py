"""A copy of script and settings that was given up is not launched again by mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.cli.main import main
from airflow_streaming.exceptions import SameCopyRefused
from airflow_streaming.home.history import PartCache
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.control import CircuitState, DesiredState
from airflow_streaming.model.records.restart_decision import RestartAction
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.operators.switch import StartStreamOperator
from airflow_streaming.plugins.acts import _ACTS
from airflow_streaming.plugins.views import StreamWatch, now_utc
from airflow_streaming.services import streams
from airflow_streaming.supervision.alerts.alerting import gave_up
from tests.unit.home.make import NOON, make_death, make_decision, make_deployment, make_epoch
from tests.unit.world import World

PAGE = Path(__file__).parents[3] / "docs" / "failures.md"
LOOPS = ("airflow-streaming start orders --reason", "StartStreamOperator")


def give_up(stream: StreamHome, kind: FailureKind, *, epoch: int = 1, deployment: int = 1) -> None:
    if stream.newest_deployment() is None:
        stream.create_deployment(make_deployment(), b"print('a stream')\n")
    stream.create_epoch(make_epoch(epoch, deployment=deployment))
    decision = make_decision(
        epoch, action=RestartAction.GIVE_UP, next_attempt_at=None, failure_kind=kind
    )
    stream.record_restart_decision(decision)
    stream.declare_dead(make_death(epoch))
    stream.open_circuit(epoch=epoch, by="policy", reason="It fails.", now=NOON)


def is_open(stream: StreamHome) -> bool:
    circuit = stream.circuit()
    return circuit is not None and circuit.state is CircuitState.OPEN


@pytest.mark.parametrize("kind", FailureKind)
def test_a_kind_that_lies_in_the_copy_is_refused(world: World, kind: FailureKind) -> None:
    give_up(world.home, kind)

    if kind.is_in_copy:
        with pytest.raises(SameCopyRefused, match=r"Deployment 1 .* the same copy would start"):
            streams.start(world.home, by="ada", reason="try")
        assert is_open(world.home)
        assert world.home.desired() is None
        streams.start(world.home, by="ada", reason="the rows are gone", again=True)
    else:
        streams.start(world.home, by="ada", reason="try")
    assert not is_open(world.home)


def test_another_copy_starts(world: World) -> None:
    give_up(world.home, FailureKind.USER_CODE)
    world.home.create_deployment(make_deployment(2, b"fixed"), b"fixed")

    streams.start(world.home, by="ada", reason="corrected")

    assert not is_open(world.home)


def test_a_stream_that_a_user_stopped_starts(world: World) -> None:
    give_up(world.home, FailureKind.USER_CODE)
    streams.start(world.home, by="ada", reason="again", again=True)
    streams.stop(world.home, by="ada", reason="night")

    assert streams.start(world.home, by="ada", reason="morning").is_new


def test_the_command_refuses_and_names_the_act(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    give_up(world.home, FailureKind.CONFIGURATION)
    assert main(["--home", world.uri, "start", "orders"]) == 1
    refused = capsys.readouterr().err
    assert "the same copy would start" in refused
    assert "restart=True" in refused
    assert main(["--home", world.uri, "start", "orders", "--again"]) == 0


def test_the_operator_fails_without_another_try(world: World) -> None:
    give_up(world.home, FailureKind.INCOMPATIBLE)
    given: Any = {"task_id": "start", "home": world.uri, "stream": "orders"}

    with pytest.raises(AirflowFailException, match="the same copy would start"):
        StartStreamOperator(**given).execute(world.context())
    StartStreamOperator(**given, again=True).execute(world.context())

    assert not is_open(world.home)


@pytest.mark.parametrize("is_off", [False, True], ids=["wanted running", "stopped"])
def test_the_page_offers_the_same_copy_as_an_act_of_its_own(world: World, is_off: bool) -> None:
    give_up(world.home, FailureKind.USER_CODE)
    if is_off:
        world.home.want(DesiredState.STOPPED, by="ada", reason="night", now=NOON)
    page = StreamWatch(home=world.home, parts=PartCache(), probe=world.launcher.probe)

    shown = page.whole(now_utc())
    acts = {one["act"]: one for one in shown["acts"]}

    assert "start" not in acts
    assert acts["start-again"]["red"]
    assert "Deployment 1 failed in this way" in acts["start-again"]["says"]
    assert "Apply the dag's edited spec" in acts["start-again"]["says"]
    assert is_off or "restart=True" in shown["remedy"]
    assert _ACTS["start-again"](world.home, "ada", "the rows are gone", None).endswith("closed.")
    assert not is_open(world.home)


@pytest.mark.parametrize("kind", FailureKind)
def test_an_alert_names_the_act_that_brings_the_stream_back(kind: FailureKind) -> None:
    decision = make_decision(action=RestartAction.GIVE_UP, next_attempt_at=None, failure_kind=kind)

    remedy = gave_up(stream="orders", decision=decision, now=NOON).remedy

    assert ("restart=True" in remedy) is kind.is_in_copy
    assert any(loop in remedy for loop in LOOPS) is not kind.is_in_copy


def test_restart_true_brings_the_corrected_script(world: World) -> None:
    trigger = world.run()
    give_up_running(world)
    world.script.write_text("spark = 'corrected'\n")

    trigger = world.run(restart=True)

    assert trigger is not None
    assert not is_open(world.home)
    assert (world.epochs(), world.epoch().deployment) == (2, 2)


def give_up_running(world: World) -> None:
    world.crash()
    decision = make_decision(
        action=RestartAction.GIVE_UP, next_attempt_at=None, failure_kind=FailureKind.USER_CODE
    )
    world.home.record_restart_decision(decision)
    world.home.open_circuit(epoch=1, by="policy", reason="It fails.", now=NOON)


@pytest.mark.parametrize("kind", FailureKind)
def test_the_page_on_failures_says_which_kinds_lie_in_the_copy(kind: FailureKind) -> None:
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{kind}` |"))

    assert row.strip("| ").split("|")[-1].strip() == ("yes" if kind.is_in_copy else "no")
