"""
The Spark JVM beside this Python process: reaching it, ending it, and the CPU time of both.

``spark-submit`` is the JVM; it starts Python and serves it through py4j. Python dies with it only
when a call fails, so the process is watched from here without py4j, which a frozen JVM would
block.

Read from ``/proc``; elsewhere it is this process's own only. Which processes belong to the driver
is looked up anew every ten seconds, because that means reading through all processes of the host.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_SIGNAL_WITH_PARENT: Final = 1
"""``PR_SET_PDEATHSIG`` of Linux."""

FROZEN_SECONDS: Final = 120.0
"""A frozen JVM is killed after this time at the latest; folders of a short job are removed in seconds."""
_WATCHDOG: Final = """\
import select, signal, sys
process, seconds = int(sys.argv[1]), float(sys.argv[2])
waiting = select.poll()
waiting.register(process, select.POLLIN)
if not waiting.poll(1000 * seconds):
    signal.pidfd_send_signal(process, signal.SIGKILL)
"""
"""Ends with the process that it watches, or kills it. It names that process by a descriptor: a number could be another's by then."""

_LOOK_EVERY: Final = 10.0
_MAX_PROCESSES: Final = 5_000
"""Processes of the host that are looked through; on a larger host the driver's two must do."""


def ensure_gateway() -> Any:
    """Connect to the JVM without creating a Spark context, and return py4j's gateway."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    return SparkContext._gateway


def die_with_jvm() -> bool:
    """
    Have the kernel kill this process when its JVM ends, and tell whether that worked.

    For clusters that watch the JVM only: an application that the cluster reports as ended must not
    write any more.
    """
    jvm = os.getppid()
    try:
        asked = bool(ctypes.CDLL(None).prctl(_SIGNAL_WITH_PARENT, signal.SIGKILL) == 0)
    except (OSError, AttributeError):  # no Linux
        return False
    if os.getppid() != jvm:
        os.kill(os.getpid(), signal.SIGKILL)  # the parent ended before prctl took effect
    return asked


def is_under_jvm() -> bool:
    """Tell whether spark-submit, which is the JVM, has started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ and os.getppid() > 1


def set_properties(conf: Mapping[str, str]) -> None:
    """
    Set Spark configuration as system properties of the JVM, the defaults of every SparkConf.

    Settings of the JVM's start, such as its memory, have no effect here.
    """
    system = ensure_gateway().jvm.java.lang.System
    for key, value in conf.items():
        system.setProperty(key, value)


def run_as_child(program: str) -> None:
    """
    Run a Python program as a child of the JVM with the JVM's own output files.

    :raises ChildProcessError: It fails.
    """
    command = [sys.executable, "-ISc", program]
    builder = ensure_gateway().jvm.java.lang.ProcessBuilder(command)
    if code := builder.inheritIO().start().waitFor():
        raise ChildProcessError(f"A child of the JVM ended with {code}.")


def connected_gateway() -> Any | None:
    context = _context_class()
    return None if context is None else context._gateway


def active_context() -> Any | None:
    """Return the running Spark context, if the script has created one."""
    context = _context_class()
    running = None if context is None else context._active_spark_context
    # PySpark announces it before it has its Java part.
    return running if getattr(running, "_jsc", None) is not None else None


def _context_class() -> Any | None:
    pyspark = sys.modules.get("pyspark")
    return getattr(pyspark, "SparkContext", None)


def _killer(pid: int, seconds: float) -> subprocess.Popen[bytes] | None:
    """Start a process of its own session that kills a process after some time; ``None`` outside of Linux."""
    try:
        watched = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
    try:
        return subprocess.Popen(
            [sys.executable, "-ISc", _WATCHDOG, str(watched), str(seconds)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            pass_fds=[watched],
            start_new_session=True,
        )
    except OSError:
        return None
    finally:
        os.close(watched)


class JvmProcess:
    """The JVM's process: by default the parent, because spark-submit starts Python itself."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._pid = self._parent if is_under_jvm() else 0
        self._confirmed = False
        self._watchdog: subprocess.Popen[bytes] | None = None

    def confirm(self, gateway: Any) -> None:
        """Ask the JVM for its own pid, once: a wrapper script may stand between it and Python."""
        if self._confirmed:
            return
        self._confirmed = True
        with contextlib.suppress(Exception):  # Java 8 has no ProcessHandle; the parent it stays
            self._pid = int(gateway.jvm.java.lang.ProcessHandle.current().pid())

    @property
    def pid(self) -> int:
        """Return its pid; 0 while it is not known."""
        return self._pid

    def is_gone(self) -> bool:
        """Tell whether the JVM is known and has died."""
        if not self._pid:
            return False
        if self._pid == self._parent:
            return os.getppid() != self._parent
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    def is_gone_within(self, seconds: float) -> bool:
        """Wait up to that long for the JVM to die, and tell whether it did."""
        until = time.monotonic() + seconds
        while not self.is_gone() and time.monotonic() < until:
            time.sleep(0.05)
        return self.is_gone()

    def freeze(self, *, seconds: float = FROZEN_SECONDS) -> None:
        """
        Stop the JVM from running on, if it is known and there.

        :param seconds: A watchdog kills the JVM after this time, where this process has been killed and
            cannot.
        """
        if self._pid and not self.is_gone():
            self._watchdog = _killer(self._pid, seconds)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGSTOP)

    def kill(self) -> None:
        """Kill the JVM at once. Its number cannot be another's: it is our parent, or it answered."""
        if self._pid and not self.is_gone():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


def stop_spark() -> None:
    """Stop the Spark context if the script left it running, so that its event log is closed."""
    context = active_context()
    if context is not None:
        with contextlib.suppress(Exception):  # the JVM may be gone; the outcome is recorded already
            context.stop()


class JvmView:
    """
    The heartbeat's view of the JVM.

    :param process: Learns the JVM's pid at the first contact.
    """

    def __init__(self, process: JvmProcess) -> None:
        self._process = process
        self._context: Any = None
        self._system: Any = None
        self.application_id: str | None = None
        self.ui_url: str | None = None

    @property
    def pid(self) -> int:
        """Return the JVM's pid; 0 while it is not known."""
        return self._process.pid

    def ping(self) -> None:
        """Have the JVM answer; returns at once while the script has not connected to it yet."""
        gateway = connected_gateway()
        if gateway is None:
            return
        self._process.confirm(gateway)
        if self._system is None:
            # Kept, because finding a class by its name takes one question for each part of it.
            self._system = gateway.jvm.java.lang.System
        self._system.nanoTime()
        self._look_at_context()

    def _look_at_context(self) -> None:
        context = active_context()
        if context is None or context is self._context:
            return
        self.application_id = str(context.applicationId)
        conf = context.getConf()
        self.ui_url = shown_ui(context.uiWebUrl, self.application_id, conf.get)
        self._context = context


def shown_ui(
    own: str | None, application: str, setting: Callable[[str, str], str | None]
) -> str | None:
    """
    Return the URL of an application's UI for browsers; ``None`` where it has no UI.

    :param own: Its own address, on the driver's host.
    :param setting: Returns a Spark setting, or the default passed to it. Masters, workers and
        applications share the settings of a reverse proxy.
    """
    proxy = setting("spark.ui.reverseProxyUrl", "") or ""
    is_proxied = (setting("spark.ui.reverseProxy", "") or "").lower() == "true"
    if own is None or not is_proxied or "://" not in proxy:
        return own
    return f"{proxy.rstrip('/')}/proxy/{application}/"


class CpuMeter:
    """
    Adds up CPU time.

    :param jvm_pid: Returns the JVM's pid; 0 while it is not known.
    :param proc: Where the host's processes are found.
    """

    def __init__(
        self,
        jvm_pid: Callable[[], int],
        *,
        proc: Path = Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jvm_pid, self._proc, self._clock = jvm_pid, proc, clock
        self._pids: tuple[int, ...] = ()
        self._looked_at = float("-inf")
        self._used: dict[tuple[int, int], float] = {}
        self._total = 0.0

    def seconds(self) -> float:
        """Return the seconds used since the first call, by processes seen twice or more."""
        used = dict(self._readings())
        self._total += sum(
            max(0.0, now - self._used[process])
            for process, now in used.items()
            if process in self._used
        )
        self._used = used
        return self._total

    def _readings(self) -> Iterator[tuple[tuple[int, int], float]]:
        own = os.getpid()
        yield (own, 0), time.process_time()
        if self._clock() - self._looked_at >= _LOOK_EVERY:
            self._pids, self._looked_at = self._family(own), self._clock()
        ticks = os.sysconf("SC_CLK_TCK")
        for pid in self._pids:
            found = _stat(self._proc, pid)
            if found is not None and pid != own:
                # With its start time, because pids are reused.
                yield (pid, int(found[19])), (int(found[11]) + int(found[12])) / ticks

    def _family(self, own: int) -> tuple[int, ...]:
        family = {pid for pid in (own, self._jvm_pid()) if pid}
        pids = _pids(self._proc)
        if len(pids) > _MAX_PROCESSES:
            return tuple(family)
        parents = {pid: int(found[1]) for pid in pids if (found := _stat(self._proc, pid))}
        children: dict[int, list[int]] = {}
        for pid, parent in parents.items():
            children.setdefault(parent, []).append(pid)
        waiting = list(family)
        while waiting:
            for child in children.get(waiting.pop(), ()):
                if child not in family:
                    family.add(child)
                    waiting.append(child)
        return tuple(family)


def _pids(proc: Path) -> list[int]:
    try:
        return [int(entry.name) for entry in os.scandir(proc) if entry.name.isdigit()]
    except OSError:
        return []


def _stat(proc: Path, pid: int) -> list[str] | None:
    """Return what follows a process's name: its state, its parent, ...; ``None`` when it is gone."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > 19 else None
