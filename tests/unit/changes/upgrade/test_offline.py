"""An upgrade whose dag run is gone is taken to its end at a terminal."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.upgrade.commands import UpgradeCommands
from airflow_streaming.changes.upgrade.offline import CarryingThrough
from airflow_streaming.cli import upgrade as command
from airflow_streaming.cli.main import main
from airflow_streaming.exceptions import UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.records.control import ChangeOutcome
from airflow_streaming.model.records.upgrade import SinkFacts
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeCommand
from airflow_streaming.supervision.observer import Observer
from tests.fakes import FAKE_HOST, FakeLauncher
from tests.unit.changes.upgrade.killing import every_step, rows
from tests.unit.changes.upgrade.upgrading import QUERY, Upgraded, end_of

OVERWRITES = (SinkFacts(query=QUERY, sink="foreachbatch", habit=SinkReplaySemantics.OVERWRITES),)
REMEMBERS = (SinkFacts(query=QUERY, sink="foreachbatch", habit=SinkReplaySemantics.REMEMBERS),)


def through(stream: Upgraded, home: StreamHome | None = None) -> CarryingThrough:
    launcher = stream.launcher if home is None else stream.worker or stream.launcher
    change = stream.home.changes()[0]
    return CarryingThrough(
        *(home or stream.home, launcher, stream.store, change),
        by="ada",
        now=lambda: stream.now,
    )


def carry(stream: Upgraded, home: StreamHome | None = None) -> None:
    """Look again and again, as the command does, while time passes."""
    for _ in range(60):
        carrying = through(stream, home)
        for _ in range(3):
            if carrying.go_on().is_there:
                return
            stream.tick()
    raise AssertionError("It came to no end.")


def soaking(stream: Upgraded, **asked: Any) -> None:
    stream.begin(**{"sinks": OVERWRITES, **asked})
    stream.drive(Stage.LAUNCHED)
    stream.tick()


def say(stream: Upgraded, home: StreamHome | None = None) -> UpgradeCommands:
    return UpgradeCommands(home or stream.home, by="ada", now=lambda: stream.now)


def test_a_rollback_is_carried_through_and_the_keep_alive_task_starts_the_old_one(
    tmp_path: Path,
) -> None:
    stream = Upgraded(tmp_path)
    soaking(stream)
    through(stream).check()

    say(stream).give(stream.home.changes()[0], UpgradeCommand.ROLL_BACK, "Wrong totals.")
    carry(stream)

    end = end_of(stream)
    assert end is not None
    assert end.outcome is ChangeOutcome.ROLLED_BACK
    assert (stream.deployment.number, stream.running()) == (3, None)
    stream.tick()
    stream.tick()
    assert stream.running() == 3
    assert rows(stream) == "whole"


def test_a_driver_on_another_host_ends_when_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Upgraded(tmp_path)
    soaking(stream)
    elsewhere = replace(FAKE_HOST, name="worker-2", machine="machine-2", boot="boot-2")
    blind = FakeLauncher(here=elsewhere, drivers=stream.launcher.drivers)
    timed = partial(Observer, clock=lambda: stream.clock)
    monkeypatch.setattr("airflow_streaming.changes.upgrade.offline.Observer", timed)
    stream.worker = blind
    say(stream).give(stream.home.changes()[0], UpgradeCommand.ROLL_BACK, "Wrong totals.")

    carrying = through(stream, stream.home)
    while not (progress := carrying.go_on()).is_there:
        assert not progress.needs_person
        stream.tick()

    stream.tick()
    assert stream.launcher.killed == []
    assert stream.running() == 3


def test_a_stopped_stream_whose_upgrade_is_given_up_is_started_again(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path)
    stream.begin()
    stream.drive(Stage.STOPPED)

    say(stream).give(stream.home.changes()[0], UpgradeCommand.ABORT, "Not today.")
    carry(stream)
    stream.tick()

    end = end_of(stream)
    assert end is not None
    assert end.outcome is ChangeOutcome.ABANDONED
    assert (stream.deployment.number, stream.running()) == (1, 1)


def test_what_only_the_dag_can_put_back_is_refused_before_anything_is_said(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path)
    soaking(stream, sinks=REMEMBERS)

    with pytest.raises(UpgradeRefused, match="rewind_with"):
        through(stream).check()

    assert Stage.ROLLING_BACK not in stream.home.stages(1)


def test_nothing_is_done_before_somebody_has_said_how_it_ends(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path)
    stream.begin(sinks=OVERWRITES)

    progress = through(stream).go_on()

    assert (progress.is_there, progress.needs_person) == (False, True)
    assert stream.stages() == []


def carried_here(stream: Upgraded, home: StreamHome) -> None:
    """Let the dag come as far as the soak, and a person end it at a terminal."""
    if not stream.home.changes():
        stream.begin(home, sinks=OVERWRITES)
    while Stage.LAUNCHED not in stream.home.stages(1):
        stream.advance(Stage.LAUNCHED, home)
        stream.tick()
    if end_of(stream) is None:
        say(stream, home).give(stream.home.changes()[0], UpgradeCommand.ROLL_BACK, "Wrong totals.")
    carry(stream, home)


def test_it_ends_the_same_wherever_the_terminal_was_closed(tmp_path: Path) -> None:
    last = every_step(tmp_path, "works", carried_here, every=5, first=24)

    assert last > 40


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Upgraded:
    """Return a stream that soaks, whose time passes while a command waits."""
    stream = Upgraded(tmp_path)
    soaking(stream)
    monkeypatch.setattr("airflow_streaming.launch.local.LocalLauncher", lambda **_: stream.launcher)
    monkeypatch.setattr("airflow_streaming.changes.upgrade.commands.now_in_utc", lambda: stream.now)
    monkeypatch.setattr(command.time, "sleep", lambda _: stream.tick())
    return stream


def cli(stream: Upgraded, *arguments: str) -> int:
    return main(["--home", stream.uri, "upgrade", *arguments])


def test_the_command_carries_it_through_and_says_what_it_waits_for(
    terminal: Upgraded, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(terminal.folder / "store")
    told = ("roll-back", "orders", "--reason", "Wrong totals.")

    assert cli(terminal, *told) == 0
    assert "the same command with --here" in capsys.readouterr().out
    assert end_of(terminal) is None
    assert cli(terminal, *told, "--here", "--store", store) == 0

    shown = capsys.readouterr()
    assert "The upgrade is closed." in shown.out
    assert "Waiting: " in shown.err
    assert end_of(terminal) is not None
    terminal.tick()
    assert terminal.running() == 3


def test_a_store_without_the_boundary_is_found_out_before_the_stream_is_stopped(
    terminal: Upgraded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    main(["checkpoint", "backup", str(Path(terminal.first) / QUERY), "--store", str(other)])
    capsys.readouterr()

    assert cli(terminal, "roll-back", "orders", "--here", "--store", str(other)) == 1

    assert "--store URI" in capsys.readouterr().err
    assert Stage.ROLLING_BACK not in terminal.home.stages(1)
    assert terminal.running() == 2


@pytest.mark.parametrize("verb", ["keep", "leave"])
def test_a_word_with_nothing_to_carry_through_is_wrong_use(verb: str, terminal: Upgraded) -> None:
    with pytest.raises(SystemExit) as ended:
        cli(terminal, verb, "orders", "--here", "--reason", "So.")

    assert ended.value.code == 2
