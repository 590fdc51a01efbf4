"""
The provider's own metrics, through Airflow's.

Every name makes sense without its tags, because plain StatsD drops tags. A metric is never worth an
error: whatever goes wrong in a metrics client is logged once and forgotten.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

log: Final = logging.getLogger(__name__)
PREFIX: Final = "streaming"
_complained: Final[set[str]] = set()


def count(name: str, by: int = 1, **tags: Any) -> None:
    """Add to the counter ``streaming.<name>``."""
    _emit("incr", name, by, tags)


def timing(name: str, seconds: float, **tags: Any) -> None:
    """Record one duration under ``streaming.<name>``; Airflow sends it in milliseconds."""
    _emit("timing", name, timedelta(seconds=seconds), tags)


def _emit(kind: str, name: str, value: Any, tags: dict[str, Any]) -> None:
    from airflow.sdk.observability import stats  # not at dag parse

    try:
        emit: Callable[..., None] = getattr(stats, kind)
        emit(f"{PREFIX}.{name}", value, tags={key: str(tag) for key, tag in tags.items()})
    except Exception as err:  # noqa: BLE001 - no metric is worth a stream
        if name not in _complained:
            _complained.add(name)
            log.warning("The metric %s.%s cannot be emitted: %s", PREFIX, name, err)


class StateClock:
    """
    Counts the verdicts on one stream, and how long each held.

    :param stream: The stream's name, for the tags.
    :param clock: Monotonic seconds.
    """

    def __init__(self, *, stream: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._state: str | None = None
        self._since = 0.0

    def tell(self, state: str | None) -> None:
        """Take note of what a look found; only a change is emitted."""
        if state == self._state:
            return
        now = self._clock()
        if self._state is not None:
            timing(f"time_in_state.{self._state}", now - self._since, stream=self._stream)
        if state is not None:
            count(f"verdict.{state}", stream=self._stream)
        self._state, self._since = state, now
