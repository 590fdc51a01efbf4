"""The own clock of a drill's driver: it ends by itself when nobody has ended it in time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from airflow_streaming.driver.faults import logger


def leave_after(seconds: float, what: str) -> None:
    """
    End this process at that time, unless it has ended.

    Whoever started it ends it sooner; unless he was killed himself.

    :param what: What this process is, for the log.
    """

    def leave() -> None:
        logger.error("%s did not end within %.0f s.", what, seconds)
        os._exit(1)

    later(seconds, leave)


def later(seconds: float, work: Callable[[], None]) -> threading.Timer:
    """Do something in so many seconds, unless the timer is cancelled or the process ends."""
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()
    return timer
