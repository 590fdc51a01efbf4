"""
The fence: an epoch whose successor exists may write no more.

Numbers of epochs rise by one and their records are never deleted, so one small read tells: the
record after ours. The home being unavailable is no proof of anything and stops nobody; a new epoch
is begun only after the old driver is proved dead or a person vouched for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from airflow_streaming.core.names import Layout
from airflow_streaming.driver.faults import Faults, logger
from airflow_streaming.driver.leaving import Leaving
from airflow_streaming.files.store import Store

FENCED_CODE = 3


class Fence:
    """
    Looks for a newer epoch, and ends this driver at once when there is one.

    :param last_word: Writes the exit record.
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        epoch: int,
        *,
        leaving: Leaving,
        last_word: Callable[[], None],
    ) -> None:
        self._store, self._next = store, layout.record("epochs", epoch + 1)
        self._epoch, self._leaving, self._last_word = epoch, leaving, last_word
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
        self._leaving.at_once(self._last_word, lambda: FENCED_CODE)
