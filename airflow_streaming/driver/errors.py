"""Faults that must not reach the user's query: logged once when they begin and when they end."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator

from airflow_streaming.model.spark.failures import hide, mask_hidden, presentable
from airflow_streaming.model.spark.secret_conf import secret_values

logger = logging.getLogger("airflow_streaming.driver")


def log_to_stderr() -> None:
    """
    Send the driver's own lines to the driver log, independent of the script's logging setup.

    From then on secrets of the environment are masked in all text of this process.
    """
    hide(secret_values(os.environ))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Masking("%(asctime)s airflow_streaming: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


class _Masking(logging.Formatter):
    """Formats a record with its traceback, without any secret that this process knows."""

    def format(self, record: logging.LogRecord) -> str:
        return mask_hidden(super().format(record))


class ErrorBoundary:
    """Remembers which of our own works fail at present, so that each is logged once per change."""

    def __init__(self) -> None:
        self._present: dict[str, str] = {}

    @contextlib.contextmanager
    def contained(self, work: str) -> Iterator[None]:
        """Run a piece of our own work; an error in it is logged and goes no further."""
        try:
            yield
        except Exception as err:  # noqa: BLE001  # the queries continue after any error
            kind = type(err).__name__
            if self._present.get(work) != kind:
                self._present[work] = kind
                logger.warning("%s fails, the queries continue: %s", work, presentable(str(err)))
        else:
            if self._present.pop(work, None) is not None:
                logger.info("%s works again.", work)
