"""Secrets that the JVM wrote into the driver's log do not stay there, and the log stays small."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_streaming.driver.monitoring import output_files
from airflow_streaming.driver.monitoring.output_files import (
    APPENDER,
    OutputFile,
    OutputFiles,
    open_outputs,
    overwrites,
)
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
    monkeypatch.setattr(output_files, "CHUNK", 16)
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
    monkeypatch.setattr(output_files, "CHUNK", 16)
    monkeypatch.setattr(output_files, "MOST", 32)
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
    monkeypatch.setattr(output_files, "LOOK_SECONDS", 0.01)
    with log.open("ab") as output:
        writer = subprocess.Popen(
            [sys.executable, "-c", "print('db: pass\"word-1', flush=True); input()"],
            stdin=subprocess.PIPE,
            stdout=output,
        )
    try:
        mask = OutputFiles([writer.pid])
        mask.begin()
        failures.hide(['pass"word-1'])
        until(lambda: log.read_bytes() == b"db: ***********\n", "the mark", seen=log.read_text)
    finally:
        writer.communicate(b"\n")


def test_a_file_that_cannot_be_read_ends_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(failures, "_HIDDEN", failures._Hidden())
    failures.hide(["hunter2-canary"])
    outputs = OutputFiles([], most=100)
    outputs._files = [OutputFile(-1)]

    outputs.look()


@pytest.fixture
def appended(log: Path) -> Iterator[OutputFile]:
    with contextlib.closing(OutputFile(os.open(log, os.O_RDWR), log)) as opened:
        yield opened


def test_a_full_log_becomes_its_older_part_and_begins_anew(log: Path, appended: OutputFile):
    append(log, b"first\n" * 20)
    assert not appended.bound(121, ())
    assert appended.bound(120, ())
    append(log, b"second\n")

    older = log.with_name("000001.log.1")
    assert (log.read_bytes(), older.read_bytes()) == (b"second\n", b"first\n" * 20)
    assert older.stat().st_mode & 0o777 == 0o600
    append(log, b"third\n" * 20)
    assert appended.bound(127, ())
    assert older.read_bytes() == b"second\n" + b"third\n" * 20
    assert sorted(path.name for path in log.parent.iterdir()) == ["000001.log", "000001.log.1"]


def test_only_the_last_bytes_of_a_flood_are_kept(log: Path, appended: OutputFile):
    append(log, b"first\n" * 100 + b"second\n" * 20)

    assert appended.bound(140, ())
    assert log.with_name("000001.log.1").read_bytes() == b"second\n" * 20


def test_a_writer_that_is_faster_than_the_copy_does_not_hold_it(
    log: Path, appended: OutputFile, monkeypatch: pytest.MonkeyPatch
):
    send = os.sendfile

    def slow(*arguments: int) -> int:
        append(log, b"x" * 100)
        return send(*arguments)

    monkeypatch.setattr(output_files, "CHUNK", 50)
    monkeypatch.setattr(os, "sendfile", slow)
    append(log, b"x" * 1000)

    assert appended.bound(500, ())
    assert log.with_name("000001.log.1").stat().st_size == 1000


@pytest.mark.parametrize("after", range(len(SECRET) + 1))
def test_a_secret_is_not_cut_by_the_begin_of_the_copy(log: Path, appended: OutputFile, after: int):
    append(log, b"x" * 200 + SECRET + b"y" * (100 - after))

    assert appended.bound(100, KNOWN)
    assert log.with_name("000001.log.1").read_bytes() == b"*" * after + b"y" * (100 - after)


def test_the_older_part_leaves_its_room_to_the_next_one(
    log: Path, appended: OutputFile, monkeypatch: pytest.MonkeyPatch
):
    older, seen = log.with_name("000001.log.1"), list[bool]()
    older.write_bytes(b"older\n")
    send = os.sendfile

    def look(*arguments: int) -> int:
        seen.append(older.exists())
        return send(*arguments)

    monkeypatch.setattr(os, "sendfile", look)
    append(log, b"newer\n" * 20)

    assert appended.bound(100, ())
    assert not any(seen)
    assert older.read_bytes().endswith(b"newer\n")


def test_no_secret_reaches_the_older_part(log: Path, appended: OutputFile):
    append(log, b"x" * 100 + SECRET)  # written after the last look

    assert appended.bound(100 + len(SECRET), KNOWN)
    assert log.with_name("000001.log.1").read_bytes() == b"x" * 100 + b"*" * len(SECRET)


def test_a_log_that_cannot_be_copied_is_cut_at_twice_the_size(log: Path, appended: OutputFile):
    log.with_name("000001.log.part").mkdir()
    append(log, b"x" * 100)
    with pytest.raises(IsADirectoryError):
        appended.bound(100, ())
    assert log.stat().st_size == 100

    append(log, b"x" * 100)
    assert appended.bound(100, ())
    assert log.stat().st_size == 0


def test_a_link_in_place_of_the_copy_leads_nowhere(log: Path, appended: OutputFile, tmp_path: Path):
    other = tmp_path / "other"
    other.write_bytes(b"not a log")
    log.with_name("000001.log.part").symlink_to(other)
    append(log, b"x" * 100)

    with pytest.raises(OSError, match="symbolic links"):
        appended.bound(100, ())
    assert other.read_bytes() == b"not a log"


@pytest.mark.parametrize("mode", ["wb", "moved"])
def test_a_file_that_a_process_does_not_append_to_or_that_has_moved_is_not_cut(
    log: Path, mode: str
):
    text = "import os; os.write(1, b'x' * 300); input()"
    with log.open("ab" if mode == "moved" else mode) as output:
        writer = subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=output
        )
    try:
        until(lambda: log.stat().st_size == 300, "the output", seen=log.read_text)
        outputs = OutputFiles([writer.pid], most=100)
        if mode == "moved":
            log = log.rename(log.with_name("moved"))
        outputs.look()
        assert log.stat().st_size == 300
    finally:
        writer.communicate(b"\n")


def test_a_child_makes_a_process_append_to_the_files_that_it_writes(log: Path):
    text = "import os, subprocess, sys; subprocess.run(sys.argv[1:]); os.write(1, b'x' * 300); input(); os.write(1, b'end')"
    with log.open("wb") as output:
        assert not fcntl.fcntl(output, fcntl.F_GETFL) & os.O_APPEND
        writer = subprocess.Popen(
            [sys.executable, "-c", text, sys.executable, "-ISc", APPENDER],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.PIPE,
        )
        assert overwrites(writer.pid)
        until(lambda: log.stat().st_size == 300, "the output", seen=log.read_text)
        assert not overwrites(writer.pid)
    OutputFiles([writer.pid], most=600).look()

    assert writer.communicate(b"\n")[1] == b""
    assert log.read_bytes() == b"end"
    assert log.with_name("000001.log.1").read_bytes() == b"x" * 300


def test_pipes_devices_and_appended_files_are_not_overwritten(log: Path):
    with log.open("ab") as output:
        for end in (output, subprocess.PIPE, subprocess.DEVNULL):
            writer = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=end, stderr=end)
            assert not overwrites(writer.pid)
            writer.communicate(b"")
    assert not overwrites(writer.pid), "a process that has ended"


def test_the_older_part_has_the_readers_of_the_log(log: Path, appended: OutputFile):
    log.chmod(0o640)
    append(log, b"line\n")
    assert appended.bound(5, ())
    assert log.with_name("000001.log.1").stat().st_mode & 0o777 == 0o640


def test_a_flood_stays_within_its_bound_and_ends_with_its_newest_lines(log: Path):
    with log.open("ab") as output:
        writer = subprocess.Popen(
            [sys.executable, "-c", "for line in iter(input, ''): print(line * 100, flush=True)"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    outputs, older = OutputFiles([writer.pid], most=20_000), log.with_name("000001.log.1")
    try:
        for round in range(100):
            assert writer.stdin is not None
            writer.stdin.write(f"{round:05} no broker\n")
            writer.stdin.flush()
            until(lambda n=round: b"%05d" % n in log.read_bytes(), "the lines", seen=log.read_text)
            outputs.look()
            kept = older.read_bytes() if older.exists() else b""
            assert len(kept) + log.stat().st_size < 25_000
    finally:
        writer.communicate("\n")
    lines = (older.read_text() + log.read_text()).split()[::2]
    rounds = [int(line[:5]) for line in lines if line[:5].isdecimal()]
    assert rounds == sorted(rounds)
    assert rounds[-1] == 99


RELAY = """
import os, subprocess, sys
# As the worker of a standalone cluster: the driver's output comes by pipes and is appended to two files.
child = subprocess.Popen(
    [sys.executable, "-c", "import os; input(); print(os.getpid(), flush=True); input()"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
)
files = [open(name, sys.argv[1]) for name in ("stdout", "stderr")]
print(child.pid, flush=True)
for line in iter(sys.stdin.readline, "end\\n"):
    os.write(files[1].fileno(), line.encode())
child.kill()
"""


@contextlib.contextmanager
def relayed(folder: Path, mode: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Give a process that writes another one's output to files of a folder, and the other one's id."""
    relay = subprocess.Popen(
        [sys.executable, "-c", RELAY, mode],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert relay.stdout is not None
    try:
        yield relay, int(relay.stdout.readline())
    finally:
        relay.communicate("end\n")


def test_a_log_that_a_worker_writes_from_the_drivers_pipe_is_masked_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(failures, "_HIDDEN", failures._Hidden())
    failures.hide([SECRET.decode()])
    log = tmp_path / "stderr"
    with relayed(tmp_path, "ab") as (relay, driver):
        outputs = OutputFiles([driver], most=200)
        assert relay.stdin is not None
        relay.stdin.write("hunter2-canary " * 10 + "\n")
        relay.stdin.flush()
        until(lambda: log.stat().st_size == 151, "the output", seen=log.read_text)
        outputs.look()

    assert log.read_bytes() == b""
    assert (tmp_path / "stderr.1").read_bytes() == ((b"*" * 14 + b" ") * 10 + b"\n")[-100:]


@pytest.mark.parametrize("mode", ["wb", "elsewhere"])
def test_a_file_beside_a_pipe_is_left_alone_unless_the_parent_appends_to_it(
    tmp_path: Path, mode: str
):
    (tmp_path / "elsewhere").mkdir()
    folder = tmp_path / "elsewhere" if mode == "elsewhere" else tmp_path
    with relayed(folder, "wb" if mode == "wb" else "ab") as (_, driver):
        if mode == "elsewhere":
            (folder / "stderr").rename(tmp_path / "moved")
            (folder / "stdout").rename(tmp_path / "moved-too")
            (folder / "stderr").touch()
            (folder / "stdout").touch()
        assert open_outputs([driver]) == []
