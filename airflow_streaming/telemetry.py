"""
The provider's own metrics, through Airflow's.

Every name makes sense without its tags, because plain StatsD drops tags. An error of a metrics
client is logged once and never raised.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

log: Final = logging.getLogger(__name__)
PREFIX: Final = "streaming"
_NOT_IN_TAGS: Final = re.compile(r"[^\w.-]")
_complained: Final[set[str]] = set()


def count(name: str, by: int = 1, /, **tags: Any) -> None:
    """Add to the counter ``streaming.<name>``."""
    _emit("incr", name, by, tags)


def timing(name: str, seconds: float, **tags: Any) -> None:
    """Record one duration under ``streaming.<name>``; Airflow sends it in milliseconds."""
    _emit("timing", name, timedelta(seconds=seconds), tags)


def gauge(name: str, value: float, **tags: Any) -> None:
    """Set the gauge ``streaming.<name>``."""
    _emit("gauge", name, value, tags)


def _emit(kind: str, name: str, value: Any, tags: dict[str, Any]) -> None:
    from airflow.sdk.observability import stats  # not at dag parse

    try:
        emit: Callable[..., None] = getattr(stats, kind)
        emit(f"{PREFIX}.{name}", value, tags={key: str(tag) for key, tag in tags.items()})
    except Exception as err:  # noqa: BLE001 - no metric is worth a stream
        if name not in _complained:
            _complained.add(name)
            log.warning("The metric %s.%s cannot be emitted: %s", PREFIX, name, err)


class RuleGauges:
    """
    Exports whether each rule of a stream fires, as the gauge ``streaming.rule_firing``.

    The first look exports every rule, each further look the rules that fire or have changed. ``close``
    exports 0 for all, so that a stream without a trigger fires no rule. A rule of a retired lane
    fires no more either.

    :param stream: The stream's name, for the tags.
    :param labels: Further tags.
    """

    def __init__(self, *, stream: str, labels: Mapping[str, str] | None = None) -> None:
        self._tags = {**(labels or {}), "stream": stream}
        self._exported: dict[tuple[str, str, str], bool] = {}
        self._is_closed = False

    def tell(self, states: Mapping[tuple[str, str], bool], *, lane: str) -> None:
        """Export the states of one look at a lane; a rule without a state does not fire."""
        if self._is_closed:
            return  # a look that was under way when the trigger ended
        known = {(lane, *key): fires for key, fires in states.items()}
        gone = dict.fromkeys(self._exported.keys() - known.keys(), False)
        for key, fires in {**known, **gone}.items():
            if fires or self._exported.get(key) is not fires:
                self._export(key, fires=fires)
        self._exported = known

    def close(self) -> None:
        """Export that no rule fires, and nothing more."""
        self._is_closed = True
        for key, fires in self._exported.items():
            if fires:
                self._export(key, fires=False)
        self._exported = {}

    def _export(self, key: tuple[str, str, str], *, fires: bool) -> None:
        lane, rule, query = (_NOT_IN_TAGS.sub("_", part) for part in key)
        tags = {"lane": lane, "rule": rule, "query": query or "driver"}
        gauge("rule_firing", int(fires), **self._tags, **tags)


class StateClock:
    """
    Counts the verdicts on one stream, and how long each held.

    :param stream: The stream's name, for the tags.
    :param labels: Further tags.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        stream: str,
        labels: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tags, self._clock = {**(labels or {}), "stream": stream}, clock
        self._state: str | None = None
        self._lane = ""
        self._since = 0.0

    def tell(self, state: str | None, *, lane: str) -> None:
        """Emit the changes since the last look at a lane."""
        if state == self._state and (state is None or lane == self._lane):
            return
        now = self._clock()
        if self._state is not None:
            timing(f"time_in_state.{self._state}", now - self._since, **self._tags, lane=self._lane)
        if state is not None:
            count(f"verdict.{state}", **self._tags, lane=lane)
        self._state, self._lane, self._since = state, lane, now
