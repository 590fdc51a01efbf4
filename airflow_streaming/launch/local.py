"""
Detached drivers on this host.

The driver gets a session of its own, so that it outlives the Airflow task and its worker. (A worker
run by systemd needs ``KillMode=process``, or restarting the worker ends the drivers with it.)
``spark-submit`` is a shell script that becomes the JVM by ``exec``, and the JVM starts the Python
wrapper: the recorded process is the JVM, and both carry the epoch's token among their arguments.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil

from airflow_streaming.core.epoch import Epoch, Host, Launch
from airflow_streaming.core.observation import Process, ProcessState
from airflow_streaming.exceptions import LaunchError
from airflow_streaming.files.host import is_proved_rebooted, this_host
from airflow_streaming.launch.evidence import describe, describe_glance
from airflow_streaming.launch.glance import glance
from airflow_streaming.launch.port import TOKEN_OPTION, LaunchRequest
from airflow_streaming.launch.private import open_private_log
from airflow_streaming.launch.processes import look, scan

KILL_PATIENCE: Final = 10.0
"""Seconds to wait for killed processes to be gone; only one in uninterruptible sleep takes longer
than a moment."""

_POLL: Final = 0.05
_ALIVE: Final = frozenset({ProcessState.RUNNING, ProcessState.SUSPENDED})


class LocalLauncher:
    """
    Starts drivers as detached processes of this host.

    :param host: The host this is; by default it is asked from the system.
    """

    kind = "local"

    def __init__(self, host: Host | None = None) -> None:
        self._host = host or this_host()
        self._gone: tuple[str, Process] | None = None

    def host(self) -> Host:
        return self._host

    def launch(self, request: LaunchRequest) -> Launch:
        if (TOKEN_OPTION, request.epoch.token) not in pairwise(request.command):
            raise LaunchError(
                f"The command of stream {request.epoch.stream!r} does not carry the token of epoch "
                f"{request.epoch.number}; its driver could not be found again. Nothing was started."
            )
        process = _spawn(request)
        started = psutil.Process(process.pid).create_time()
        # Whoever started a process has to collect its exit status; until then its id is taken.
        threading.Thread(target=process.wait, name=f"reap-{process.pid}", daemon=True).start()
        return Launch(
            epoch=request.epoch.number,
            token=request.epoch.token,
            host=self._host,
            pid=process.pid,
            started=started,
            log=str(request.log),
            launched_at=datetime.now(UTC),
        )

    def find(self, epoch: Epoch) -> Launch | None:
        if epoch.host != self._host:
            return None
        with contextlib.suppress(psutil.Error, OSError):
            for leader in scan(epoch, None).members[:1]:
                return Launch(
                    epoch=epoch.number,
                    token=epoch.token,
                    host=self._host,
                    pid=leader.pid,
                    started=leader.create_time(),
                    log=_output_of(leader),
                    launched_at=datetime.fromtimestamp(leader.create_time(), UTC),
                )
        return None

    def probe(self, epoch: Epoch, launch: Launch | None, /) -> Process:
        elsewhere = self._judge_host(epoch, launch)
        if elsewhere is not None:
            return elsewhere
        if self._gone is not None and self._gone[0] == epoch.token:
            return self._gone[1]
        alive = glance(epoch, launch)
        if alive is not None:
            return describe_glance(alive, self._host)
        process = self._search(epoch, launch)
        if process.state is ProcessState.GONE and launch is not None:
            # A token is given to one driver only, so a launched one that is gone stays so; a
            # stopped stream is looked at for months.
            self._gone = epoch.token, process
        return process

    def _search(self, epoch: Epoch, launch: Launch | None) -> Process:
        try:
            return describe(look(epoch, launch), epoch, launch, self._host)
        except (psutil.Error, OSError) as err:
            return Process.unseen(f"the processes of host {self._host.name} cannot be read: {err}")

    def kill(self, epoch: Epoch, launch: Launch | None) -> Process:
        elsewhere = self._judge_host(epoch, launch)
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

    def _judge_host(self, epoch: Epoch, launch: Launch | None) -> Process | None:
        here, there = self._host, launch.host if launch is not None else epoch.host
        if here == there:
            return None
        if is_proved_rebooted(here, there):
            return Process.gone(f"host {there.name} was rebooted since the driver was started")
        return Process.unseen(f"driver runs on host {_named(there)}, this is {_named(here)}")


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
    """Kill what is there now and return why that failed."""
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
