"""
The fence: an epoch whose successor exists may write no more.

Numbers of epochs rise by one and their records are never deleted, so one small read tells: the
record after ours. The home being unavailable is no proof of anything and stops nobody; a new epoch
is begun only after the old driver is proved dead or a person vouched for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import NoReturn

from airflow_streaming.core.names import Layout
from airflow_streaming.driver.faults import Faults, logger
from airflow_streaming.driver.jvm import JvmProcess
from airflow_streaming.files.store import Store

FENCED_CODE = 3


class Fence:
    """
    Looks for a newer epoch, and ends this driver at once when there is one.

    :param last_word: Writes the exit record.
    :param store_needs_jvm: The home is reached through the JVM, which must die after the writing.
    :param leave: Ends this process with an exit code, whatever its threads do.
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        epoch: int,
        *,
        jvm: JvmProcess,
        last_word: Callable[[], None],
        store_needs_jvm: bool,
        leave: Callable[[int], NoReturn] = os._exit,
    ) -> None:
        self._store, self._next = store, layout.record("epochs", epoch + 1)
        self._epoch, self._jvm, self._last_word = epoch, jvm, last_word
        self._store_needs_jvm, self._leave = store_needs_jvm, leave
        self._faults = Faults()

    def check(self) -> None:
        """Return if this epoch is the newest as far as can be seen; otherwise do not return."""
        newer = False
        with self._faults.contained("Looking for a newer epoch"):
            newer = self._store.read(self._next) is not None
        if newer:
            self._end()

    def _end(self) -> NoReturn:
        logger.error("Epoch %d is fenced: %s exists. Ending at once.", self._epoch, self._next)
        if not self._store_needs_jvm:
            self._jvm.kill()
        bounded(self._last_word, seconds=1.0 if self._store_needs_jvm else 2.0)
        self._jvm.kill()
        self._leave(FENCED_CODE)


def bounded(work: Callable[[], None], *, seconds: float) -> bool:
    """Do some work on a thread of its own and wait no longer than that; tell whether it ended."""
    thread = threading.Thread(target=work, name="airflow-streaming-bounded", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()
