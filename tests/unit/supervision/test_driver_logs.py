"""The end of a failed driver's log: what is kept of it, and what is shown afterwards."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.cli import history as command
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.port import DriverLog
from airflow_streaming.model.names import numbered
from airflow_streaming.model.records.epoch import KeptLog
from airflow_streaming.supervision.driver_logs import MOST, keep_log, masked, shown_log
from tests.fakes import FAKE_HOST, FakeLauncher
from tests.unit.launch.test_port_contract import LocalWorld, make_contract_epoch
from tests.unit.world import World

AT = datetime(2026, 11, 22, tzinfo=UTC)


def test_what_is_kept_begins_with_a_whole_line_and_holds_no_secret() -> None:
    tail = b"half of planted-1\nwhole planted-1 x\npassword=canary-4711;\n"

    assert masked(tail, {"planted-1"}, most=len(tail)) == (
        "whole (redacted) x\npassword=(redacted)\n"
    )
    assert masked(tail, {"planted-1"}).startswith("half of (redacted)\n")
    assert masked(b"planted" * 100, most=50) == "", "one line without an end is no line"


def test_of_two_secrets_the_longer_is_masked_first() -> None:
    assert masked(b"planted-12\n", {"planted-1", "planted-12"}) == "(redacted)\n"


def kept(**changes: Any) -> KeptLog:
    return KeptLog(epoch=1, place="there", text="the end\n", kept_at=AT, **changes)


@pytest.mark.parametrize(
    ("log", "record", "expected"),
    [
        (DriverLog(place="here", tail=b"now\n"), kept(), "now\n"),
        (DriverLog(place="here", trouble="gone"), kept(size=9), "the end\n"),
        (DriverLog(place="here"), kept(), "the end\n"),
        (DriverLog(place="here"), None, "here"),
    ],
)
def test_the_log_of_now_is_shown_before_the_kept_one(
    log: DriverLog, record: KeptLog | None, expected: str
) -> None:
    assert expected in shown_log(log, record)


def test_a_log_that_should_be_there_is_missed() -> None:
    with pytest.raises(LookupError):
        shown_log(DriverLog(place="here", trouble="gone"), None)


class Logs(FakeLauncher):
    """A launcher whose drivers write a secret and more than is kept."""

    tail = b"x" * MOST + b"\nplanted-2 and the end\x00\x1b[31m\n"

    def logs(self, *_: Any) -> DriverLog:
        return DriverLog(place="pod orders-e1", tail=self.tail[-MOST:], size=len(self.tail))


def fail(world: World, launcher: FakeLauncher, **asked: Any) -> None:
    world.launcher = launcher
    trigger = world.run(world.operator(**asked))
    world.launcher.end(world.epoch().token)
    world.wake(trigger, world.operator(**asked), action="settle", reason="The test says failed.")


def test_the_log_of_a_failed_driver_is_kept_without_its_secrets(world: World) -> None:
    fail(world, Logs(), env={"API": "planted-2"})

    record = world.home.driver_log(1)

    assert record is not None
    assert record.place == "pod orders-e1"
    assert record.size == len(Logs.tail)
    assert record.text.startswith("(redacted) and the end")
    written = [path for path in world.folder.rglob("*") if path.is_file()]
    assert [path for path in written if b"planted-2" in path.read_bytes()] == []


def test_the_first_log_counts(world: World) -> None:
    fail(world, Logs())
    before = world.home.driver_log(1)
    launcher = Logs()
    launcher.tail = b"another\n"

    keep_log(world.home, launcher, world.home.epoch(1), world.home.launch(1), now=AT)

    assert world.home.driver_log(1) == before


@pytest.mark.parametrize("tail", [None, b""])
def test_a_log_that_cannot_be_had_is_no_obstacle(world: World, tail: bytes | None) -> None:
    class NoLogs(FakeLauncher):
        def logs(self, *_: Any) -> DriverLog:
            return DriverLog(place="there", tail=tail, trouble="no rights")

    fail(world, NoLogs())

    assert world.home.driver_log(1) is None
    assert world.home.restart_decision(1) is not None


def test_a_home_that_is_away_is_no_obstacle(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(world, Logs())

    def away(*_: Any) -> None:
        raise HomeUnavailable("The home is away.")

    monkeypatch.setattr(type(world.home), "driver_log", away)
    keep_log(world.home, Logs(), world.home.epoch(1), world.home.launch(1), now=AT)


def test_the_largest_log_fits_into_a_record(world: World) -> None:
    launcher = Logs()
    launcher.tail = ("\n" + '\x01é"\\' * (MOST // 5)).encode() + b"\nthe end\n"

    fail(world, launcher)

    record = world.home.driver_log(1)
    assert record is not None
    assert record.text.endswith("the end\n")


def test_a_local_launcher_reads_its_own_file_only(tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, LocalLauncher(FAKE_HOST, folder=tmp_path / "drivers"))
    epoch = make_contract_epoch(world.launcher)
    launch = world.start(epoch)
    try:
        assert world.launcher.logs(epoch, launch, None, 100).tail is None, "it names another file"
        own = tmp_path / "drivers" / "orders" / f"{numbered(7)}.log"
        own.parent.mkdir(parents=True)
        own.write_text("A line.\n")
        shown = world.launcher.logs(epoch, replace(launch, log=str(own)), None, 100)
        assert shown.tail == b"A line.\n"
    finally:
        world.launcher.kill(epoch, launch)


def test_the_command_shows_what_was_kept(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    fail(world, Logs(), env={"API": "planted-2"})

    class Gone(FakeLauncher):
        def logs(self, *_: Any) -> DriverLog:
            return DriverLog(place="pod orders-e1", trouble="404 NotFound")

    asked = argparse.Namespace(epoch=1, follow=False)
    assert command.show_log(world.home, asked, Gone()) == 0
    shown = capsys.readouterr().out
    assert "(redacted) and the end" in shown
    assert "\x1b" not in shown
    assert command.show_log(world.home, argparse.Namespace(epoch=9, follow=False), Gone()) == 1


@pytest.mark.filterwarnings("ignore")
def test_the_page_shows_what_was_kept(world: World) -> None:
    from airflow_streaming.plugins import routes

    world.launcher = Logs()
    world.run()
    epoch, launch = world.epoch(), world.home.launch(1)
    keep_log(world.home, world.launcher, epoch, launch, now=AT, secrets={"planted-2"})

    class Gone:
        def logs(self, *_: object) -> DriverLog:
            return DriverLog(place="pod orders-e1", trouble="404 NotFound")

    shown = bytes(routes._end_of_log(world.home, Gone()).body)

    assert b"and the end" in shown
    assert b"planted" not in shown
