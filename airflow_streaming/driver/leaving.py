"""
Leaving at once: the JVM is killed, the last word is said, and the process ends.

A batch may be in work, so the JVM dies first, wherever the word can be written without it: no
reader of the word then meets a Spark that writes on. A ``foreachBatch`` function in this process
ends only with the process, which is why the word also says that the driver was cut off.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final, NoReturn

from airflow_streaming.driver.jvm import JvmProcess

_MARGIN: Final = 2.0
"""Seconds for the last word."""

_MARGIN_BY_JVM: Final = 1.0
"""The same while the JVM, which may be writing, has to live for it."""


class Leaving:
    """
    Ends this process, whatever its threads do.

    :param store_needs_jvm: The home is reached through the JVM, which must die after the word.
    :param leave: Ends this process with an exit code.
    """

    def __init__(
        self,
        jvm: JvmProcess,
        *,
        store_needs_jvm: bool,
        leave: Callable[[int], NoReturn] = os._exit,
    ) -> None:
        self._jvm, self._store_needs_jvm, self._leave = jvm, store_needs_jvm, leave
        self._lock = threading.Lock()

    def at_once(self, last_word: Callable[[], None], code: Callable[[], int]) -> NoReturn:
        """
        Kill the JVM, say the last word within two seconds and end the process.

        Of several threads the first one counts: the others see a JVM that it has killed.

        :param code: Returns the exit code, once the word is said.
        """
        with self._lock:
            if not self._store_needs_jvm:
                self._jvm.kill()
            bounded(last_word, seconds=_MARGIN_BY_JVM if self._store_needs_jvm else _MARGIN)
            self._jvm.kill()
            self._leave(code())


def bounded(work: Callable[[], None], *, seconds: float) -> bool:
    """Do some work on a thread of its own and wait no longer than that; tell whether it ended."""
    thread = threading.Thread(target=work, name="airflow-streaming-bounded", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()
