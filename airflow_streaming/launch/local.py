"""
Detached drivers on this host.

The driver gets a session of its own, so that it outlives the Airflow task and its worker. (A worker
run by systemd needs ``KillMode=process``, or restarting the worker ends the drivers with it.)
``spark-submit`` is a shell script that becomes the JVM by ``exec``, and the JVM starts the Python
wrapper: the recorded process is the JVM, and both carry the epoch's token among their arguments.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil

from airflow_streaming.exceptions import LaunchError, RecordError
from airflow_streaming.launch.driver_end import DriverEnd, open_end
from airflow_streaming.launch.environment import (
    delete_secret,
    open_private_log,
    secret_files,
    sweep_secrets,
)
from airflow_streaming.launch.port import TOKEN_OPTION, DriverLog, Heartbeat, LaunchRequest
from airflow_streaming.launch.processes import (
    ProcessHandle,
    ProcessScan,
    ProcessTree,
    carries,
    glance,
    is_drivers,
    look,
    owner_of,
    scan,
)
from airflow_streaming.model.host import booted_at, is_proved_rebooted, this_host
from airflow_streaming.model.names import numbered, older_part
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch
from airflow_streaming.model.storage import LocalFolder

_STOPPED: Final = frozenset({psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP})

log: Final = logging.getLogger(__name__)
KILL_PATIENCE: Final = 10.0
"""Seconds to wait for killed processes to be gone; only one in uninterruptible sleep takes longer
than a moment."""
_POLL: Final = 0.05
_ALIVE: Final = frozenset({ProcessState.RUNNING, ProcessState.SUSPENDED})


def describe(seen: ProcessScan, epoch: Epoch, launch: Launch | None, host: Host) -> Process:
    """Return a driver's state from a scan of this host; ``GONE`` only from a complete scan."""
    if seen.members:
        return _describe_alive(seen, epoch, launch, host)
    if not seen.is_complete:
        return Process.unseen(
            f"no process with the driver's token was found on host {host.name}, but processes of "
            "other users are hidden from this user"
        )
    handle = ProcessHandle.recorded(launch)
    lost = f"process {handle.pid} is gone and " if handle is not None else ""
    return Process.gone(f"{lost}no process on host {host.name} carries the driver's token")


def describe_glance(seen: ProcessTree, host: Host) -> Process:
    """Return a driver's state from a glance that found it alive."""
    return _alive(seen.leader, seen.stopped, host, lost=None, cpu_seconds=seen.cpu_seconds)


def _describe_alive(seen: ProcessScan, epoch: Epoch, launch: Launch | None, host: Host) -> Process:
    leader, handle = seen.members[0], ProcessHandle.recorded(launch)
    owner = owner_of(epoch, launch)
    stopped = (member for member in seen.members if _is_stopped(member, epoch, leader, owner))
    first = next(stopped, None)
    return _alive(
        leader.pid,
        first.pid if first is not None else None,
        host,
        lost=handle.pid if handle is not None and handle.pid != leader.pid else None,
        cpu_seconds=_cpu_seconds(seen),
    )


def _alive(
    leader: int, stopped: int | None, host: Host, *, lost: int | None, cpu_seconds: float
) -> Process:
    if stopped is not None:
        words = f"process {stopped} is stopped on host {host.name}"
        return Process(state=ProcessState.SUSPENDED, detail=words, cpu_seconds=cpu_seconds)
    words = f"process {leader} is alive on host {host.name}"
    if lost is not None:
        words = f"process {lost} is gone, but its {words}"
    return Process(state=ProcessState.RUNNING, detail=words, cpu_seconds=cpu_seconds)


def _is_stopped(
    process: psutil.Process, epoch: Epoch, leader: psutil.Process, owner: int | None
) -> bool:
    # Members without the token are Python workers; a debugger on one does not stop the driver.
    with contextlib.suppress(psutil.Error):
        if process.status() not in _STOPPED:
            return False
        return process == leader or carries(process, epoch, owner)
    return False


def _cpu_seconds(seen: ProcessScan) -> float:
    total = 0.0
    for process in seen.members:
        with contextlib.suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])  # user and system, its own and ended children's
    return total


class LocalLauncher:
    """
    Starts drivers as detached processes of this host.

    :param host: This host; read from the system by default.
    :param booted: Returns when this host was booted.
    :param folder: Folder of driver logs, by stream; ``None`` if not known.
    """

    kind = "local"

    def __init__(
        self,
        host: Host | None = None,
        booted: Callable[[], datetime | None] = booted_at,
        folder: Path | None = None,
    ) -> None:
        self._host = host or this_host()
        self._booted, self._folder = booted, folder
        self._gone: tuple[str, Process] | None = None

    def host(self) -> Host:
        return self._host

    def launch(self, request: LaunchRequest) -> Launch:
        pairs = pairwise(request.command)
        if not request.epoch.is_carried_by(v for option, v in pairs if option == TOKEN_OPTION):
            raise LaunchError(
                f"The command of stream {request.epoch.stream!r} does not carry the token of epoch "
                f"{request.epoch.number}; its driver could not be found again. Nothing was started."
            )
        sweep_secrets(request.log.parent, request.epoch.number, keep=request.private_files)
        process = _spawn(request)
        handle = ProcessHandle.of(psutil.Process(process.pid))
        # The parent of a process must collect its exit status; until then its id is taken.
        threading.Thread(target=process.wait, name=f"reap-{process.pid}", daemon=True).start()
        return self._launched(request.epoch, handle, str(request.log), datetime.now(UTC))

    def find(self, epoch: Epoch) -> Launch | None:
        if epoch.host != self._host:
            return None
        with contextlib.suppress(psutil.Error, OSError):
            for leader in scan(epoch, None).members[:1]:
                handle = ProcessHandle.of(leader)
                began = datetime.fromtimestamp(handle.started, UTC)
                return self._launched(epoch, handle, _output_of(leader), began)
        return None

    def _launched(self, epoch: Epoch, handle: ProcessHandle, log: str, at: datetime) -> Launch:
        return Launch(
            epoch=epoch.number,
            token=epoch.token,
            host=self._host,
            launched_at=at,
            handle=handle.to_dict(),
            driver=f"pid {handle.pid}",
            log=log,
        )

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        elsewhere = self._judge_host(epoch, launch, heartbeat)
        if elsewhere is not None:
            return elsewhere
        if self._gone is not None and self._gone[0] == epoch.token:
            return self._gone[1]
        alive = glance(epoch, launch)
        if alive is not None:
            return describe_glance(alive, self._host)
        process = self._search(epoch, launch)
        if process.state is ProcessState.GONE and launch is not None:
            # A token belongs to one driver only, so a launched driver that is gone stays gone; a
            # stopped stream may be watched for months.
            self._gone = epoch.token, process
        return process

    def open_end(self, epoch: Epoch, launch: Launch | None) -> DriverEnd | None:
        """Watch for the end of the driver's leader, or of what outlived it; see ``EndWatcher``."""
        if self._host != (launch.host if launch is not None else epoch.host):
            return None
        handle = ProcessHandle.recorded(launch)
        end = None if handle is None else open_end(handle.pid, partial(is_drivers, epoch))
        if end is not None:
            return end
        with contextlib.suppress(psutil.Error, OSError):
            for member in look(epoch, launch).members[:1]:
                return open_end(member.pid, partial(is_drivers, epoch))
        return None

    def _search(self, epoch: Epoch, launch: Launch | None) -> Process:
        try:
            return describe(look(epoch, launch), epoch, launch, self._host)
        except (psutil.Error, OSError) as err:
            return Process.unseen(f"the processes of host {self._host.name} cannot be read: {err}")

    def kill(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None = None
    ) -> Process:
        elsewhere = self._judge_host(epoch, launch, heartbeat)
        if elsewhere is not None:
            return elsewhere
        deadline = time.monotonic() + KILL_PATIENCE
        while True:
            refusal = _kill_all(epoch, launch)
            seen = self._search(epoch, launch)
            if seen.state not in _ALIVE:
                return seen
            if refusal is not None:
                return replace(seen, detail=f"{seen.detail}; killing it failed: {refusal}")
            if time.monotonic() >= deadline:
                waited = f"still there {KILL_PATIENCE:.0f} s after SIGKILL"
                return replace(seen, detail=f"{seen.detail}; {waited}")
            time.sleep(_POLL)

    def clean_up(self, epoch: Epoch, launch: Launch | None = None) -> None:
        # Never in a folder that the launch record names: every writer of the home can write that record.
        if self._folder is not None:
            for file in secret_files(self._folder / epoch.stream, epoch):
                delete_secret(file)

    def logs(self, epoch: Epoch, launch: Launch, file: Path | None, most: int) -> DriverLog:
        if file is None and self._folder is not None:
            file = self._folder / epoch.stream / f"{numbered(epoch.number)}.log"
        is_here = launch.host == self._host
        place = launch.log if is_here else f"{launch.log} on host {launch.host.name}"
        if file is None or launch.log != str(file):
            return DriverLog(place=f"{launch.log} on host {launch.host.name}")
        # Another host's file is the driver's own on a shared file system, and older where it is not.
        since = 0.0 if is_here else launch.launched_at.timestamp()
        absent = DriverLog(place=place, trouble="the log file does not exist" if is_here else "")
        try:
            return _end_of(file, place, most, since=since) or absent
        except FileNotFoundError:
            return absent
        except RecordError as err:
            return DriverLog(place=place, trouble=str(err))
        except OSError as err:
            return DriverLog(place=place, trouble=err.strerror or str(err))

    def _judge_host(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None
    ) -> Process | None:
        here, there = self._host, launch.host if launch is not None else epoch.host
        if here == there:
            return None
        if self._is_rebooted(epoch, launch, heartbeat):
            return Process.gone(f"host {there.name} was rebooted since the driver was started")
        return Process.unseen(f"driver runs on host {_named(there)}, this is {_named(here)}")

    def _is_rebooted(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None
    ) -> bool:
        there = launch.host if launch is not None else epoch.host
        if heartbeat is None or not self._host.rebooted_since(there):
            return False
        try:
            alive = [epoch.created_at, launch.launched_at if launch else None, heartbeat()]
        except RecordError as err:
            log.warning("Whether host %s was rebooted is not known: %s", there.name, err)
            return False
        return is_proved_rebooted(self._host, there, booted=self._booted(), alive=alive)


def _end_of(file: Path, place: str, most: int, *, since: float) -> DriverLog | None:
    """Return the end of a log; ``None`` if no log was written since then."""
    handle = LocalFolder(file.parent).open(file.name)
    if handle is None:
        return None
    with os.fdopen(handle, "rb") as opened:
        if os.fstat(handle).st_mtime < since:
            return None
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - most))
        tail = opened.read(most)
    # A log that was just begun anew says little without its older part.
    older = (
        _end_of(file.with_name(older_part(file.name)), place, most - len(tail), since=since)
        if len(tail) < most
        else None
    )
    return DriverLog(place=place, tail=(older.tail or b"" if older else b"") + tail, size=size)


def _spawn(request: LaunchRequest) -> subprocess.Popen[bytes]:
    log = open_private_log(request.log)
    try:
        return subprocess.Popen(
            request.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(request.environment),
            cwd=request.log.parent,
            start_new_session=True,
        )
    except (OSError, ValueError) as err:
        # ValueError: a NUL character in an argument or the environment.
        raise LaunchError(
            f"The driver of stream {request.epoch.stream!r} could not be started with "
            f"{request.command[0]}: {getattr(err, 'strerror', None) or err}. "
            "Check the stream's runtime and arguments."
        ) from err
    finally:
        os.close(log)


def _output_of(process: psutil.Process) -> str:
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{process.pid}/fd/1").readlink())
    return ""


def _named(host: Host) -> str:
    facts = [f"boot {host.boot[:8]}"] if host.boot else []
    facts += [host.pid_space] if host.pid_space else []
    return f"{host.name} ({', '.join(facts)})" if facts else host.name


def _kill_all(epoch: Epoch, launch: Launch | None) -> str | None:
    """Kill all present processes and return the reason for a failure."""
    try:
        members = look(epoch, launch).members
        for process in members:
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                _kill(process)
    except (PermissionError, psutil.AccessDenied):
        return "this user may not kill it"
    except (psutil.Error, OSError) as err:
        return str(err)
    return None


def _kill(process: psutil.Process) -> None:
    # A group is killed in one stroke, so that none of its processes can fork meanwhile.
    if process.is_running() and os.getsid(process.pid) == process.pid:
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
