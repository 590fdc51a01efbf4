"""
The watch: a thread that looks once a second for a reason to end, and never asks the JVM.

It must see a stop request, a newer epoch and the death of the JVM even while every other thread
waits for a JVM that hangs. Signals wake it at once. Their handlers do nothing else: py4j inside a
signal handler was seen to end the driver with an error.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable
from typing import Final

from airflow_streaming.core.epoch import StopRequest
from airflow_streaming.core.names import Layout
from airflow_streaming.driver.ending import Ending, Stop
from airflow_streaming.driver.faults import Faults, logger
from airflow_streaming.driver.fence import Fence
from airflow_streaming.driver.jvm import JvmProcess
from airflow_streaming.exceptions import RecordError
from airflow_streaming.files.store import Store

LOOK_SECONDS: Final = 1.0
GRACE_VARIABLE: Final = "AIRFLOW_STREAMING_STOP_GRACE"
DEFAULT_GRACE: Final = 60.0
"""Seconds a stop by SIGTERM, or by a request that cannot be read, may take."""

_MAX_GRACE: Final = 86_400.0


class Watch:
    """
    Looks for reasons to end.

    :param on_jvm_gone: Called when the JVM has died; does not return.
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        epoch: int,
        *,
        ending: Ending,
        fence: Fence,
        jvm: JvmProcess,
        on_jvm_gone: Callable[[], object],
    ) -> None:
        self._store, self._path, self._epoch = store, layout.epoch(epoch, "stop.json"), epoch
        self._ending, self._fence, self._jvm = ending, fence, jvm
        self._on_jvm_gone = on_jvm_gone
        self._terminated = False
        self._faults = Faults()
        self._waking, self._wake = os.pipe()

    def begin(self) -> None:
        """Install the signal handlers and start looking; must be called in the main thread."""
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGTERM, self._note_termination)
        # A driver that was suspended may have lost its epoch meanwhile; it looks before it works.
        signal.signal(signal.SIGCONT, _do_nothing)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        threading.Thread(target=self._run, name="airflow-streaming-watch", daemon=True).start()

    def look(self) -> None:
        """Look once for every reason to end."""
        if self._jvm.is_gone():
            self._on_jvm_gone()
        self._fence.check()
        if self._ending.begun.is_set():
            return
        stop = self._stop_wanted()
        if stop is not None and self._ending.ask_stop(stop):
            logger.info("Stopping within %.0f s, by %s: %s", stop.grace, stop.by, stop.reason)

    def _run(self) -> None:
        ready = select.poll()
        ready.register(self._waking, select.POLLIN)
        while True:
            with self._faults.contained("Watching for a stop"):
                self.look()
            if ready.poll(LOOK_SECONDS * 1000):
                os.read(self._waking, 1024)

    def _stop_wanted(self) -> Stop | None:
        if self._terminated:
            return Stop(by="SIGTERM", reason="The process was asked to end.", grace=signal_grace())
        data = None
        with self._faults.contained("Looking for a stop request"):
            data = self._store.read(self._path)
        return None if data is None else read_stop(data)

    def _note_termination(self, *_: object) -> None:
        self._terminated = True


def read_stop(data: bytes) -> Stop:
    """Read a stop request; one that cannot be read still asks to stop, with the usual grace."""
    try:
        request = StopRequest.from_bytes(data)
    except RecordError as err:
        logger.warning("The stop request cannot be read (%s); stopping all the same.", err)
        return Stop(by="a stop request", reason="It could not be read.", grace=signal_grace())
    return Stop(by=request.by, reason=request.reason, grace=request.grace_seconds)


def signal_grace() -> float:
    """Return the grace of a stop by signal: from the environment, else 60 s."""
    with contextlib.suppress(ValueError):
        return min(max(float(os.environ.get(GRACE_VARIABLE, DEFAULT_GRACE)), 0.0), _MAX_GRACE)
    return DEFAULT_GRACE


def _do_nothing(*_: object) -> None:
    pass
