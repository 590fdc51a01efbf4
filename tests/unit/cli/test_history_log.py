"""The command ``log``: the newest driver's output wherever it can be read, and followed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.cli import history
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.port import DriverLog
from airflow_streaming.model.host import this_host
from airflow_streaming.model.records.epoch import Epoch, KeptLog, Launch
from airflow_streaming.model.uris import digest_of
from airflow_streaming.supervision.driver_logs import added, named_log
from tests.unit.cli.host import Run
from tests.unit.home.make import NOON, make_epoch, make_launch


def launched(
    stream: StreamHome, folder: Path, number: int = 1, text: str | None = "line 1\n"
) -> Launch:
    """Record a driver of this host with its log in a folder; return the launch."""
    log = folder / digest_of(stream.store.uri) / stream.name / f"{number:06d}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    if text is not None:
        log.write_text(text)
    stream.create_epoch(make_epoch(number, host=this_host()))
    launch = make_launch(number, host=this_host(), log=str(log))
    stream.record_launch(launch)
    return launch


def test_a_log_on_this_host_is_shown(run: Run, stream: StreamHome, tmp_path: Path) -> None:
    launched(stream, tmp_path / "drivers")

    code, out, _ = run("log", "orders")

    assert code == 0
    assert "line 1" in out


def test_the_log_of_another_host_is_read_on_a_shared_file_system(
    run: Run, stream: StreamHome, tmp_path: Path
) -> None:
    log = tmp_path / digest_of(stream.store.uri) / "orders" / "000001.log"
    log.parent.mkdir(parents=True)
    log.write_text("line 1\n")
    stream.create_epoch(make_epoch())
    stream.record_launch(make_launch(log=str(log)))

    _, out, _ = run("log", "orders")
    assert "line 1" in out

    os.utime(log, (NOON.timestamp() - 3600,) * 2)
    _, out, _ = run("log", "orders")
    assert "line 1" not in out, "a file that is older than the launch is another driver's"
    assert "cannot be read from here" in out


def test_a_newest_epoch_without_a_driver_leaves_the_log_before_it(
    run: Run, stream: StreamHome, tmp_path: Path
) -> None:
    launched(stream, tmp_path / "drivers")
    stream.create_epoch(make_epoch(2))

    assert "line 1" in run("log", "orders")[1]
    code, _, err = run("log", "orders", "--epoch", "2")
    assert (code, "No driver of epoch 2" in err) == (1, True)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/logs/orders/000001.log",
        "/logs/home-0123456789abcdef/orders/000001.log",
        "/logs/HOME/payments/000001.log",
        "/logs/HOME/orders/000002.log",
        "logs/HOME/orders/000001.log",
        "/logs/../HOME/orders/000001.log",
        "/logs/HOME//orders/000001.log",
        "s3://logs/HOME/orders/000001.log",
        "",
    ],
)
def test_a_file_with_another_name_is_not_opened(stream: StreamHome, path: str) -> None:
    home = digest_of(stream.store.uri)
    epoch, launch = make_epoch(), make_launch(log=path.replace("HOME", home))

    assert named_log(stream, epoch, launch) is None
    own = replace(launch, log=f"/logs/{home}/orders/000001.log")
    assert named_log(stream, epoch, own) is not None


def test_a_promoted_standby_keeps_its_log(stream: StreamHome) -> None:
    epoch = make_epoch(5, promotes=2)
    log = f"/logs/{digest_of(stream.store.uri)}/orders.standby/000002.log"

    assert named_log(stream, epoch, make_launch(5, log=log)) == Path(log)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, (b"a\nb\n", 4), b"a\nb\n"),
        ((b"a\n", 2), (b"a\nb\n", 4), b"b\n"),
        ((b"a\n", 2), (b"a\n", 2), b""),
        ((b"a\nb\n", 4), (b"c\n", 2), b"c\n"),
        ((b"a\nb\n", 4), (b"a\nb\nc\n", 2), b"c\n"),
        ((b"a\n", 2), (b"y\nz\n", 100), b"y\nz\n"),
        ((b"a\nb\n", None), (b"b\nc\n", None), b"b\nc\n"),
        ((b"a\nb\n", None), (b"a\nb\nc\n", None), b"c\n"),
        ((b"a\n", None), (b"z\n", None), b"z\n"),
        ((b"", 0), (b"a\n", 2), b"a\n"),
        ((b"a\n", 2), (None, None), b""),
    ],
    ids=[
        "first look",
        "grown",
        "same",
        "rotated",
        "rotated, with the older part in front",
        "more than a tail",
        "no overlap",
        "overlap",
        "another pod",
        "empty before",
        "unreadable",
    ],
)
def test_only_new_bytes_are_added(
    before: tuple[bytes | None, int | None] | None,
    now: tuple[bytes | None, int | None],
    expected: bytes,
) -> None:
    looks = [
        None if one is None else DriverLog(place="here", tail=one[0], size=one[1])
        for one in (before, now)
    ]
    assert looks[1] is not None

    assert added(looks[0], looks[1]) == expected


class Done(Exception):
    """The end of a test's patience."""


def follow(stream: StreamHome, *moves: Callable[[], object]) -> None:
    """Follow a log; one move is made between two looks."""
    left = iter(moves)

    def pause() -> None:
        move = next(left, None)
        if move is None:
            raise Done
        move()

    with pytest.raises(Done):
        history.follow_log(stream, LocalLauncher(), 1, pause)


def test_a_log_is_followed_in_whole_lines_across_epochs(
    stream: StreamHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "drivers"
    log = Path(launched(stream, folder, text="one\nhalf").log)

    def write(text: str) -> Callable[[], None]:
        def add() -> None:
            with log.open("a") as opened:
                opened.write(text)

        return add

    follow(
        stream,
        write(" line\nsecret password=canary\n"),
        write("the end"),
        lambda: launched(stream, folder, 2, "two\n"),
    )

    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"==> epoch 1: {log} <==",
        "one",
        "half line",
        "secret password=(redacted)",
        "the end",
        f"==> epoch 2: {log.parent / '000002.log'} <==",
        "two",
    ]


def test_a_stream_that_has_not_run_is_awaited(
    stream: StreamHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    follow(stream, lambda: None, lambda: launched(stream, tmp_path / "drivers"))

    captured = capsys.readouterr()
    assert captured.err.count("has no epoch yet") == 1
    assert "line 1" in captured.out


def test_a_log_that_is_lost_is_followed_in_what_was_kept(
    stream: StreamHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launched(stream, tmp_path / "drivers", text=None)

    def keep() -> None:
        stream.keep_driver_log(KeptLog(epoch=1, place="there", text="kept line\n", kept_at=NOON))

    follow(stream, lambda: None, keep, lambda: None)

    captured = capsys.readouterr()
    assert captured.err.count("cannot be read") == 1
    assert captured.out.count("kept line") == 1


def test_a_home_that_is_away_for_a_moment_ends_nothing(
    stream: StreamHome,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launched(stream, tmp_path / "drivers")
    read, looks = StreamHome.newest_epoch, []

    def away(home: StreamHome) -> Epoch | None:
        looks.append(1)
        if len(looks) in (2, 3):
            raise HomeUnavailable("The home is away.")
        return read(home)

    monkeypatch.setattr(StreamHome, "newest_epoch", away)

    follow(stream, lambda: None, lambda: None)

    captured = capsys.readouterr()
    assert "The home is away. The command looks again." in captured.err
    assert "line 1" in captured.out
