from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo.airflow import free_port
from demo.drivers import DriverCount
from demo.processes import processes_with
from demo.stage import clear
from demo.waiting import wait_for

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
    count = DriverCount(tmp_path)
    mine = ("--home", str(tmp_path), "--epoch", "1", "--token", "aaa")
    other = ("--home", "/elsewhere", "--epoch", "1", "--token", "bbb")

    with process(*mine) as jvm, process(*mine) as python, process(*other):
        alive = count.alive()

    assert {token: sorted(pids) for token, pids in alive.items()} == {
        "aaa": sorted([jvm.pid, python.pid])
    }


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
