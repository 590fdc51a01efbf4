"""Secrets that the JVM wrote into the driver's log do not stay there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_streaming.driver.monitoring import output_mask
from airflow_streaming.driver.monitoring.output_mask import OutputFile, OutputMask, open_outputs
from airflow_streaming.model.spark import failures
from tests.patience import until

SECRET = b"hunter2-canary"
KNOWN = (SECRET,)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "000001.log"
    path.touch(0o600)
    return path


@pytest.fixture
def file(log: Path) -> Iterator[OutputFile]:
    opened = OutputFile(os.open(log, os.O_RDWR))
    yield opened
    opened.close()


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


def test_a_secret_is_overwritten_where_it_stands(log: Path, file: OutputFile):
    append(log, b"ERROR cannot connect with hunter2-canary\n\tat org.example.Main\n")

    assert file.mask(KNOWN) == 1
    assert log.read_bytes() == (
        b"ERROR cannot connect with **************\n\tat org.example.Main\n"
    )
    assert file.mask(KNOWN) == 0


def test_one_that_was_written_in_two_strokes_is_found(log: Path, file: OutputFile):
    append(log, b"password=hunter2")
    file.mask(KNOWN)
    append(log, b"-canary\n")
    file.mask(KNOWN)

    assert log.read_bytes() == b"password=**************\n"


@pytest.mark.parametrize("before", [0, 1, 3, 13, 14, 15, 60])
def test_one_across_two_parts_of_a_long_text_is_found(
    log: Path, file: OutputFile, monkeypatch: pytest.MonkeyPatch, before: int
):
    monkeypatch.setattr(output_mask, "CHUNK", 16)
    append(log, b"x" * before + SECRET + b"y" * 40 + SECRET)

    assert file.mask(KNOWN) == 2
    assert SECRET not in log.read_bytes()


def test_one_that_becomes_known_later_is_looked_for_from_the_beginning(log: Path, file: OutputFile):
    append(log, b"hunter2-canary and another-secret\n")
    file.mask((b"another-secret",))

    assert file.mask((b"another-secret", SECRET)) == 1
    assert log.read_bytes() == b"************** and **************\n"


def test_a_log_that_was_cut_is_looked_through_anew(log: Path, file: OutputFile):
    append(log, b"x" * 1000)
    file.mask(KNOWN)
    os.truncate(log, 0)
    append(log, b"hunter2-canary\n")

    assert file.mask(KNOWN) == 1


def test_a_growing_log_is_followed_over_several_looks(
    log: Path, file: OutputFile, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(output_mask, "CHUNK", 16)
    monkeypatch.setattr(output_mask, "MOST", 32)
    append(log, b"x" * 100 + SECRET)

    found = [file.mask(KNOWN) for _ in range(6)]

    assert sum(found) == 1
    assert SECRET not in log.read_bytes()


def test_no_line_of_a_process_that_writes_meanwhile_is_lost(log: Path, file: OutputFile):
    lines = 3_000
    text = f"import os\nfor n in range({lines}): os.write(1, b'%d hunter2-canary\\n' % n)"
    with log.open("ab") as output:
        writer = subprocess.Popen([sys.executable, "-c", text], stdout=output)
    while writer.poll() is None:
        file.mask(KNOWN)
    file.mask(KNOWN)

    wanted = [b"%d **************" % number for number in range(lines)]
    assert log.read_bytes().splitlines() == wanted


def test_only_files_are_opened_and_each_once(log: Path):
    waits = [sys.executable, "-c", "input()"]
    with log.open("ab") as output:
        both = subprocess.Popen(
            waits, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
        )
    piped = subprocess.Popen(
        waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        (found,) = open_outputs([both.pid, both.pid])
        found.close()
        assert open_outputs([piped.pid]) == []
    finally:
        both.communicate(b"\n")
        piped.communicate(b"\n")
    assert open_outputs([both.pid]) == []


def test_the_mask_follows_what_the_process_learns(log: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(failures, "_HIDDEN", failures._Hidden())
    monkeypatch.setattr(output_mask, "LOOK_SECONDS", 0.01)
    with log.open("ab") as output:
        writer = subprocess.Popen(
            [sys.executable, "-c", "print('db: pass\"word-1', flush=True); input()"],
            stdin=subprocess.PIPE,
            stdout=output,
        )
    try:
        mask = OutputMask([writer.pid])
        mask.begin()
        failures.hide(['pass"word-1'])
        until(lambda: log.read_bytes() == b"db: ***********\n", "the mark", seen=log.read_text)
    finally:
        writer.communicate(b"\n")


def test_a_file_that_cannot_be_read_ends_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(failures, "_HIDDEN", failures._Hidden())
    failures.hide(["hunter2-canary"])
    mask = OutputMask([])
    mask._files = [OutputFile(-1)]

    mask.look()
