from __future__ import annotations

import json
import os
import platform
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_streaming.exceptions import LaunchError
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.port import TOKEN_OPTION, LaunchRequest
from airflow_streaming.launch.processes import ProcessHandle, carries
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch
from tests.patience import until
from tests.unit.launch.conftest import MakeEpoch
from tests.unit.launch.test_port_contract import wait_until

SLEEP = "import time; time.sleep(600)"
REPO = Path(__file__).parents[3]


@pytest.fixture
def epoch(make_epoch: MakeEpoch) -> Iterator[Epoch]:
    epoch = make_epoch()
    yield epoch
    LocalLauncher().kill(epoch, None)


def python(epoch: Epoch, folder: Path, code: str) -> LaunchRequest:
    return LaunchRequest(
        epoch=epoch,
        command=(sys.executable, "-S", "-E", "-c", code, "--token", epoch.mark),
        environment={"PATH": os.environ["PATH"]},
        log=folder / "logs" / "orders" / "driver.log",
    )


def start(epoch: Epoch, folder: Path, code: str = SLEEP) -> Launch:
    return LocalLauncher().launch(python(epoch, folder, code))


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_output_goes_to_a_private_log_that_is_appended_to(epoch: Epoch, tmp_path: Path) -> None:
    for _ in range(2):
        start(epoch, tmp_path, "import sys; print('out'); print('err', file=sys.stderr)")
    log = tmp_path / "logs" / "orders" / "driver.log"

    wait_until(lambda: sorted(read(log).split()) == ["err", "err", "out", "out"])
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(log.parent.parent.stat().st_mode) == 0o700


def test_a_driver_inherits_nothing_but_what_it_is_given(epoch: Epoch, tmp_path: Path) -> None:
    code = """
import json, os, sys
sid = os.getsid(0) == os.getpid()
fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}"))
print(json.dumps([sid, sys.stdin.read(), sorted(os.environ), os.getcwd(), fds]))
"""
    leaky = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(leaky, True)
    start(epoch, tmp_path, code)
    log = tmp_path / "logs" / "orders" / "driver.log"
    wait_until(lambda: read(log).endswith("\n"))
    os.close(leaky)

    leads_session, stdin, environment, folder, descriptors = json.loads(read(log))

    assert leads_session
    assert stdin == ""
    assert [name for name in environment if name != "LC_CTYPE"] == ["PATH"]
    assert folder == str(log.parent)
    assert descriptors == [0, 1, 2]


def test_a_driver_survives_the_death_of_whoever_launched_it(epoch: Epoch, tmp_path: Path) -> None:
    launch_it = f"""
import os, pathlib, sys
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.port import TOKEN_OPTION, LaunchRequest
from airflow_streaming.launch.processes import ProcessHandle, carries
epoch = Epoch.from_bytes(sys.stdin.buffer.read())
launch = LocalLauncher().launch(LaunchRequest(
    epoch=epoch,
    command=(sys.executable, "-c", {SLEEP!r}, "--token", epoch.mark),
    environment={{}},
    log=pathlib.Path({str(tmp_path / "driver.log")!r}),
))
sys.stdout.buffer.write(launch.to_bytes())
sys.stdout.flush()
os.killpg(0, 9)
"""
    launcher = subprocess.run(
        [sys.executable, "-c", launch_it],
        input=epoch.to_bytes(),
        capture_output=True,
        check=False,
        cwd=REPO,
        start_new_session=True,
    )
    assert launcher.returncode == -signal.SIGKILL, launcher.stderr

    launch = Launch.from_bytes(launcher.stdout)

    assert LocalLauncher().probe(epoch, launch).state is ProcessState.RUNNING
    assert LocalLauncher().kill(epoch, launch).state is ProcessState.GONE


def test_a_pid_that_now_belongs_to_somebody_else_is_gone_and_not_killed(
    epoch: Epoch, tmp_path: Path
) -> None:
    launch = start(epoch, tmp_path)
    LocalLauncher().kill(epoch, launch)
    with subprocess.Popen([sys.executable, "-c", SLEEP, epoch.mark]) as innocent:
        reused = replace(launch, handle=ProcessHandle.of(psutil.Process(innocent.pid)).to_dict())
        try:
            assert LocalLauncher().probe(epoch, reused).state is ProcessState.GONE
            assert LocalLauncher().kill(epoch, reused).state is ProcessState.GONE
            assert innocent.poll() is None
        finally:
            innocent.kill()


def test_a_driver_whose_clock_was_set_is_still_known_by_its_token(
    epoch: Epoch, tmp_path: Path
) -> None:
    launch = start(epoch, tmp_path)

    handle = ProcessHandle.recorded(launch)
    assert handle is not None
    moved = replace(launch, handle=replace(handle, started=handle.started - 3600).to_dict())

    assert LocalLauncher().probe(epoch, moved).state is ProcessState.RUNNING


def test_a_driver_of_another_epoch_is_not_taken_for_this_one(
    epoch: Epoch, make_epoch: MakeEpoch, tmp_path: Path
) -> None:
    launch = start(epoch, tmp_path)
    other = make_epoch(token="f" * 32, number=2)

    assert LocalLauncher().probe(other, replace(launch, epoch=2)).state is ProcessState.GONE
    assert LocalLauncher().kill(other, replace(launch, epoch=2)).state is ProcessState.GONE
    assert LocalLauncher().probe(epoch, launch).state is ProcessState.RUNNING


def test_a_stopped_child_with_the_token_suspends_the_driver(epoch: Epoch, tmp_path: Path) -> None:
    code = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)", *sys.argv[1:]])
time.sleep(600)
"""
    launch = start(epoch, tmp_path, code)
    leader = psutil.Process(int(launch.handle["pid"]))
    wait_until(lambda: any("--token" in child.cmdline() for child in leader.children()))
    (child,) = leader.children()

    child.suspend()

    wait_until(lambda: LocalLauncher().probe(epoch, launch).state is ProcessState.SUSPENDED)
    assert str(child.pid) in LocalLauncher().probe(epoch, launch).detail
    child.resume()
    wait_until(lambda: LocalLauncher().probe(epoch, launch).state is ProcessState.RUNNING)


def test_children_without_the_token_are_killed_too(epoch: Epoch, tmp_path: Path) -> None:
    code = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""
    launch = start(epoch, tmp_path, code)
    wait_until(lambda: read(Path(launch.log)).endswith("\n"))
    worker = psutil.Process(int(read(Path(launch.log))))

    LocalLauncher().kill(epoch, launch)

    wait_until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)


def test_cpu_time_of_children_counts(epoch: Epoch, tmp_path: Path) -> None:
    code = """
import subprocess, sys, time
burn = "import time\\nwhile time.process_time() < 0.5: pass\\nprint('done', flush=True)"
subprocess.Popen([sys.executable, "-S", "-E", "-c", burn + "\\ntime.sleep(600)"])
time.sleep(600)
"""
    launch = start(epoch, tmp_path, code)
    wait_until(lambda: "done" in read(Path(launch.log)))

    cpu_seconds = LocalLauncher().probe(epoch, launch).cpu_seconds

    assert cpu_seconds is not None
    assert 0.4 <= cpu_seconds < 10  # the kernel counts in ticks of 10 ms


def test_a_zombie_is_gone(epoch: Epoch, tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass", "--token", epoch.mark])
    wait_until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    launch = replace(
        start(epoch, tmp_path, "pass"),
        handle=ProcessHandle.of(psutil.Process(child.pid)).to_dict(),
    )

    wait_until(lambda: LocalLauncher().probe(epoch, launch).state is ProcessState.GONE)
    child.wait()


def test_a_zombie_with_a_thread_still_at_work_is_not_gone(epoch: Epoch, tmp_path: Path) -> None:
    end_this_thread = {"x86_64": 60, "aarch64": 93}.get(platform.machine())
    if end_this_thread is None:
        pytest.skip("The number of the system call that ends one thread is not known here.")
    code = f"""
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall({end_this_thread}, 0)
"""
    launch = start(epoch, tmp_path, code)
    leader = psutil.Process(int(launch.handle["pid"]))
    wait_until(lambda: leader.status() == psutil.STATUS_ZOMBIE)

    assert LocalLauncher().probe(epoch, launch).state is ProcessState.RUNNING
    assert LocalLauncher().kill(epoch, launch).state is ProcessState.GONE


def test_an_ended_driver_leaves_no_zombie_in_a_long_lived_launcher(
    epoch: Epoch, tmp_path: Path
) -> None:
    launch = start(epoch, tmp_path, "pass")

    wait_until(lambda: not psutil.pid_exists(int(launch.handle["pid"])))
    name = f"reap-{launch.handle['pid']}"
    wait_until(lambda: not any(thread.name == name for thread in threading.enumerate()))


class _Hidden:
    """A process whose command line is kept from us."""

    def __init__(self, pid: int, created: float) -> None:
        self.pid, self._created = pid, created

    def cmdline(self) -> list[str]:
        raise psutil.AccessDenied(self.pid)

    def create_time(self) -> float:
        return self._created


@pytest.mark.parametrize(
    ("log_is_ours", "age", "expected"),
    [
        pytest.param(False, -60, ProcessState.UNSEEN, id="a_younger_process_could_be_the_driver"),
        pytest.param(False, 60, ProcessState.GONE, id="an_older_process_cannot_be_the_driver"),
        pytest.param(True, -60, ProcessState.GONE, id="our_driver_is_never_hidden_from_us"),
    ],
)
def test_a_process_that_cannot_be_looked_at(
    epoch: Epoch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    log_is_ours: bool,
    age: float,
    expected: ProcessState,
) -> None:
    launch = start(epoch, tmp_path, "pass")
    wait_until(lambda: LocalLauncher().probe(epoch, launch).state is ProcessState.GONE)
    if not log_is_ours:
        Path(launch.log).unlink()
    hidden = _Hidden(4_000_000, epoch.created_at.timestamp() - age)
    monkeypatch.setattr(psutil, "process_iter", lambda: iter([hidden]))

    assert LocalLauncher().probe(epoch, launch).state is expected


def test_where_other_users_processes_are_hidden_nothing_is_proved(
    epoch: Epoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "pids", lambda: [4242])

    process = LocalLauncher().probe(epoch, None)

    assert process.state is ProcessState.UNSEEN
    assert "hidden from this user" in process.detail


def test_a_process_table_that_cannot_be_read_is_unseen(
    epoch: Epoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> list[int]:
        raise PermissionError("no /proc here")

    monkeypatch.setattr(psutil, "pids", fail)

    assert LocalLauncher().probe(epoch, None).state is ProcessState.UNSEEN
    assert LocalLauncher().find(epoch) is None


def test_a_driver_that_may_not_be_killed_is_told_as_alive(
    epoch: Epoch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = start(epoch, tmp_path)

    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", refuse)
        process = LocalLauncher().kill(epoch, launch)

    assert process.state is ProcessState.RUNNING
    assert process.detail.endswith("killing it failed: this user may not kill it")


def test_a_host_is_named_with_its_boot(epoch: Epoch) -> None:
    here = Host(name="worker-2", boot="b0b0b0b0-1111", pid_space="pid:[7]")
    other = replace(epoch, host=Host(name="worker-1"))

    assert LocalLauncher(here).probe(other, None).detail == (
        "driver runs on host worker-1, this is worker-2 (boot b0b0b0b0, pid:[7])"
    )


def test_a_command_without_the_token_is_refused(epoch: Epoch, tmp_path: Path) -> None:
    request = replace(python(epoch, tmp_path, SLEEP), command=("spark-submit", epoch.mark))

    with pytest.raises(
        LaunchError, match=r"'orders' does not carry the token of epoch 1; .* Nothing was started\."
    ):
        LocalLauncher().launch(request)


@pytest.mark.parametrize(
    ("binary", "argument", "sentence"),
    [
        pytest.param(
            "/nowhere/bin/spark-submit",
            "x",
            r"driver of stream 'orders' could not be started with /nowhere/bin/spark-submit: "
            r"No such file or directory\. Check the stream's runtime and arguments\.",
            id="spark_submit_missing",
        ),
        pytest.param("/etc/passwd", "x", "with /etc/passwd: Permission denied", id="no_program"),
        pytest.param(sys.executable, "\0", "embedded null byte", id="nul_in_an_argument"),
        pytest.param(sys.executable, "x" * 3_000_000, "Argument list too long", id="too_long"),
    ],
)
def test_a_driver_that_cannot_be_started_is_told(
    epoch: Epoch, tmp_path: Path, binary: str, argument: str, sentence: str
) -> None:
    request = replace(
        python(epoch, tmp_path, SLEEP), command=(binary, argument, "--token", epoch.mark)
    )

    with pytest.raises(LaunchError, match=sentence):
        LocalLauncher().launch(request)

    assert LocalLauncher().find(epoch) is None


@pytest.mark.parametrize("sort", ["link", "pipe", "folder"])
def test_only_a_plain_file_is_shown_as_the_log(epoch: Epoch, tmp_path: Path, sort: str) -> None:
    launch = start(epoch, tmp_path, "pass")
    log = Path(launch.log)
    LocalLauncher().kill(epoch, launch)
    log.rename(tmp_path / "secret")
    (tmp_path / "secret").write_text("of another user")
    if sort == "link":
        log.symlink_to(tmp_path / "secret")
    elif sort == "pipe":
        os.mkfifo(log)
    else:
        log.mkdir()

    shown = LocalLauncher().logs(epoch, launch, log, 1000)

    assert (shown.tail, bool(shown.trouble)) == (None, True)


def test_the_end_of_a_log_that_was_just_begun_anew_reaches_into_its_older_part(
    epoch: Epoch, tmp_path: Path
) -> None:
    launch = start(epoch, tmp_path, "pass")
    log = Path(launch.log)
    LocalLauncher().kill(epoch, launch)
    log.with_name(f"{log.name}.1").write_text("the broker is away\nno broker answers\n")
    log.write_text("the driver ends\n")

    shown = [LocalLauncher().logs(epoch, launch, log, most) for most in (10, 34, 1000)]

    assert [(one.tail, one.size) for one in shown] == [
        (b"iver ends\n", 16),
        (b"no broker answers\nthe driver ends\n", 16),
        (b"the broker is away\nno broker answers\nthe driver ends\n", 16),
    ]


def test_a_log_that_is_a_link_is_refused(epoch: Epoch, tmp_path: Path) -> None:
    request = python(epoch, tmp_path, SLEEP)
    request.log.parent.mkdir(parents=True)
    request.log.symlink_to(tmp_path / "victim")

    with pytest.raises(LaunchError, match=r"driver log .*driver\.log cannot be written: .*links"):
        LocalLauncher().launch(request)

    assert not (tmp_path / "victim").exists()


class StartingProcess:
    """
    A process as psutil shows it while the kernel replaces its program.

    :param shown: Its command lines at one look after the other; the last one stays.
    """

    def __init__(self, shown: list[list[str]], *, status: str, program: str) -> None:
        self._shown, self._status, self._program = shown, status, program

    def cmdline(self) -> list[str]:
        return self._shown.pop(0) if len(self._shown) > 1 else self._shown[0]

    def status(self) -> str:
        return self._status

    def exe(self) -> str:
        return self._program

    def uids(self) -> tuple[int, int, int]:
        return (1, 1, 1)


@pytest.mark.parametrize(
    ("status", "program", "is_ours"),
    [
        (psutil.STATUS_RUNNING, "/usr/bin/java", True),
        (psutil.STATUS_ZOMBIE, "/usr/bin/java", False),
        (psutil.STATUS_SLEEPING, "", False),
    ],
    ids=["starting", "zombie", "kernel_thread"],
)
def test_a_process_that_is_starting_a_program_is_looked_at_until_it_shows_its_command(
    epoch: Epoch, status: str, program: str, is_ours: bool
) -> None:
    shown = [[], [], ["java", TOKEN_OPTION, epoch.mark]]
    process: Any = StartingProcess(shown, status=status, program=program)

    assert carries(process, epoch, owner=1) is is_ours


def test_a_process_that_never_shows_a_command_is_no_driver(epoch: Epoch) -> None:
    process: Any = StartingProcess([[]], status=psutil.STATUS_SLEEPING, program="/usr/bin/x")

    assert not carries(process, epoch, owner=1)


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "not_recorded"])
def test_a_process_of_another_user_with_the_token_is_no_driver(
    make_epoch: MakeEpoch, tmp_path: Path, is_recorded: bool
) -> None:
    epoch = make_epoch(owner=os.geteuid())
    launch = start(epoch, tmp_path)
    try:
        # For a driver of another user, ours is the one that only pretends.
        theirs = replace(epoch, owner=os.geteuid() + 1)
        known = launch if is_recorded else None

        assert LocalLauncher().probe(epoch, known).state is ProcessState.RUNNING
        assert LocalLauncher().probe(theirs, known).state is ProcessState.GONE
        assert LocalLauncher().find(theirs) is None
        assert LocalLauncher().kill(theirs, known).state is ProcessState.GONE
        assert psutil.pid_exists(int(launch.handle["pid"]))
    finally:
        LocalLauncher().kill(epoch, launch)


def test_a_command_line_shows_none_of_the_token(epoch: Epoch, tmp_path: Path) -> None:
    launch = start(epoch, tmp_path)

    # The system shows it a moment after the program was started.
    command = until(Path(f"/proc/{launch.handle['pid']}/cmdline").read_bytes, "A command line")

    assert epoch.mark.encode() in command
    assert epoch.token.encode() not in command
