from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import psutil
import pytest

from airflow_streaming.home.home import open_home
from airflow_streaming.launch.processes import ProcessHandle
from airflow_streaming.model.host import this_host
from airflow_streaming.model.records.epoch import mark_of
from demo.airflow import free_port
from demo.drivers import DriverCount
from demo.processes import processes_with
from demo.stage import MARK, Stage, clear, end_leftovers
from demo.waiting import wait_for
from tests.unit.supervision.builders import a_deployment, a_launch, an_epoch

WAITS = "import sys; print(flush=True); sys.stdin.read()"


def say(line: str) -> None:
    """Keep the tests quiet."""


@contextmanager
def process(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that waits until it is left alone; it is running Python when this returns."""
    with subprocess.Popen(
        [sys.executable, "-c", WAITS, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **environment},
    ) as started:
        # Until then the system may still show a process without a command line.
        assert started.stdout is not None
        started.stdout.readline()
        yield started
        started.kill()


def test_processes_are_found_by_their_environment(tmp_path: Path) -> None:
    with process(STAGE_OF_THIS_TEST=str(tmp_path)) as started:
        found = [p.pid for p in processes_with("STAGE_OF_THIS_TEST", str(tmp_path))]
        assert found == [started.pid]

    assert [*processes_with("STAGE_OF_THIS_TEST", str(tmp_path))] == []


def test_two_processes_with_one_token_are_one_driver(tmp_path: Path) -> None:
    count = DriverCount(str(tmp_path))
    mine = ("--home", str(tmp_path), "--epoch", "1", "--token", "aaa")
    other = ("--home", "/elsewhere", "--epoch", "1", "--token", "bbb")

    with process(*mine) as jvm, process(*mine) as python, process(*other):
        alive = count.alive()

    assert {token: sorted(pids) for token, pids in alive.items()} == {
        "aaa": sorted([jvm.pid, python.pid])
    }


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_every_stream_of_the_home_is_stopped_with_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.stream.STOP_SECONDS", 0.1)
    (tmp_path / "runtime" / "bin").mkdir(parents=True)
    (tmp_path / "runtime" / "bin" / "python").touch()
    stage = Stage(tmp_path / "demo", runtime=tmp_path / "runtime", say=say)
    other = open_home(stage.home).stream("example_shop")
    other.create_deployment(
        a_deployment(number=1, stream=other.name, application_sha256=sha256(b"").hexdigest()), b""
    )
    here, arguments = (
        this_host(),
        ("--stream", other.name, "--epoch", "1", "--token", mark_of("t-1")),
    )
    other.create_epoch(an_epoch(number=1, deployment=1, stream=other.name, token="t-1", host=here))

    with process("--home", stage.home, *arguments) as driver:
        handle = ProcessHandle.of(psutil.Process(driver.pid)).to_dict()
        other.record_launch(a_launch(epoch=1, token="t-1", host=here, handle=handle))
        stage.close()

        assert not is_alive(driver.pid)
    stop = other.stop_request(1)
    assert stop is not None
    assert stop.by == "demo"


def test_what_a_stage_left_behind_is_killed(tmp_path: Path) -> None:
    with process(**{MARK: str(tmp_path)}) as started:
        assert end_leftovers(tmp_path, say) == ""
        assert not is_alive(started.pid)


def test_a_port_in_use_is_replaced_by_a_free_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert free_port(port) not in (0, port)


def test_a_folder_with_other_things_in_it_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")

    with pytest.raises(RuntimeError, match="in use for something else"):
        clear(tmp_path, say)

    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_waiting_ends_with_the_reason_why_it_became_useless() -> None:
    with pytest.raises(RuntimeError, match="the scheduler ended"):
        wait_for(
            lambda: False,
            what="a miracle",
            seconds=60,
            say=say,
            failing=lambda: "the scheduler ended",
        )


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(RuntimeError, match="in vain for a miracle"):
        wait_for(lambda: False, what="a miracle", seconds=0, say=say, every=0.01)


def test_waiting_in_vain_says_what_there_is_instead() -> None:
    with pytest.raises(RuntimeError, match="two batches"):
        wait_for(lambda: False, what="a miracle", seconds=0, say=say, seen=lambda: "two batches")
