"""
The Spark JVM beside this Python process: reaching it, and ending it for good.

``spark-submit`` is the JVM; it starts Python and serves it through py4j. Python dies with it only
when somebody looks, so the process is watched from here without py4j, which a frozen JVM would
block.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import Any


def ensure_gateway() -> Any:
    """Connect to the JVM without creating a Spark context, and return py4j's gateway."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    return SparkContext._gateway


def connected_gateway() -> Any | None:
    """Return the gateway if the script has connected to the JVM already."""
    context = _context_class()
    return None if context is None else context._gateway


def active_context() -> Any | None:
    """Return the running Spark context, if the script has created one."""
    context = _context_class()
    return None if context is None else context._active_spark_context


def _context_class() -> Any | None:
    pyspark = sys.modules.get("pyspark")
    return getattr(pyspark, "SparkContext", None)


class JvmProcess:
    """The JVM's process: by default the parent, because spark-submit starts Python itself."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        under_submit = "PYSPARK_GATEWAY_PORT" in os.environ and self._parent > 1
        self._pid = self._parent if under_submit else 0
        self._confirmed = False

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
    What the heartbeat asks of the JVM.

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
        self.ui_url = context.uiWebUrl
        self._context = context
