"""The exit record: the driver's own word on why it ended, said once."""

from __future__ import annotations

import threading
import time
from typing import Final

from airflow_streaming.core.epoch import Exit
from airflow_streaming.driver.faults import logger
from airflow_streaming.exceptions import AlreadyExists, StreamingError
from airflow_streaming.files.store import Store

_TRIES: Final = 3
_BETWEEN: Final = 1.0


class LastWord:
    """
    Writes the exit record of one epoch.

    :param path: The record's path in the home.
    """

    def __init__(self, store: Store, path: str) -> None:
        self._store, self._path = store, path
        self._lock = threading.Lock()
        self.said: Exit | None = None

    def say(self, exit: Exit) -> None:
        """Write the record unless another thread has said its last word already."""
        with self._lock:
            if self.said is not None:
                return
            self.said = exit
            logger.info("Driver of epoch %d ends: %s. %s", exit.epoch, exit.outcome, exit.reason)
            self._write(exit)

    def _write(self, exit: Exit) -> None:
        for left in reversed(range(_TRIES)):
            try:
                self._store.create(self._path, exit.to_bytes())
            except AlreadyExists:
                return
            except StreamingError as err:
                if not left:
                    logger.warning("The exit record could not be written: %s", err)
                    return
                time.sleep(_BETWEEN)
            else:
                return
