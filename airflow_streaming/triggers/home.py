"""Look at one stream of a home, at its live lane, until there is something to tell."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import Home
from airflow_streaming.home.live_lane import LiveLaneCache
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.hooks.launchers import task_launcher
from airflow_streaming.launch.driver_end import DriverEnd
from airflow_streaming.model.arguments.autoscale import Autoscale
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.supervision.rules.states import RuleStates
from airflow_streaming.triggers.polling import PollingTrigger

Value = TypeVar("Value")
log: Final = logging.getLogger(__name__)


class HomeTrigger(PollingTrigger):
    """
    Looks at one stream of ours, as a situation: at the lane of it that is live.

    :param home_conn_id: Connection with credentials for the home.
    :param poll_seconds: Time between two looks.
    """

    learned_before: dict[str, Any] | None = None
    """The findings of the task's observer while listening, if passed on."""

    asks_every = 0.0
    """Seconds between two questions which lane is live; 0 for every look."""

    follows = False
    """Whether its task keeps the live lane running, and so must know when another lane is live."""

    def __init__(
        self,
        *,
        home: str,
        stream: str,
        home_conn_id: str | None = None,
        deferred_at: str,
        poll_seconds: float = 5.0,
        labels: Mapping[str, str] | None = None,
        **unknown: Any,  # a row written by a newer release must still load
    ) -> None:
        super().__init__(
            place=home,
            who=f"stream {stream!r}",
            tag=stream,
            deferred_at=deferred_at,
            poll_seconds=poll_seconds,
            labels=labels,
        )
        self.home = home
        self.stream = stream
        self.home_conn_id = home_conn_id
        self._live: LiveLaneCache | None = None
        self._watcher: Observer | None = None
        self._watched_lane = ""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "home": self.home,
                "stream": self.stream,
                "home_conn_id": self.home_conn_id,
                "deferred_at": self.deferred_at,
                "poll_seconds": self.poll_seconds,
            },
        )

    def look_once(self) -> tuple[dict[str, Any] | None, VerdictState | None]:
        if self._live is None:
            self._live = LiveLaneCache(self._home().store, self.stream, every=self.asks_every)
        lane = self.lane(self._live)
        if self._watcher is None or lane != self._watched_lane:
            self._watcher, self._watched_lane = self._observer(self._live, lane), lane
        return self.look(self._watcher), self._watcher.state

    def rule_states(self) -> RuleStates:
        return {} if self._watcher is None else self._watcher.rule_states

    def driver_end(self) -> DriverEnd | None:
        return None if self._watcher is None else self._watcher.driver_end()

    def lose_sight(self) -> None:
        if self._watcher is not None:
            self._watcher.lose_sight()

    def damaged(self, reason: str) -> dict[str, Any] | None:
        # The log of a triggerer is rarely read. The task looks itself, and fails with the cause.
        return {"action": "look", "reason": reason, "memory": None}

    def lane(self, live: LiveLaneCache) -> str:
        """Return the lane to look at now."""
        return live()

    @property
    def watched_lane(self) -> str:
        """Return the lane of the last look."""
        return self._watched_lane

    @abstractmethod
    def look(self, observer: Observer) -> dict[str, Any] | None:
        """Look once; return the event's payload, or ``None`` to keep polling."""

    def _home(self) -> Home:
        return StreamHomeHook(self.home, self.home_conn_id, looks_only=True).get_conn()

    def _observer(self, live: LiveLaneCache, lane: str) -> Observer:
        home = live.home(lane)
        return Observer(
            *(home, task_launcher(home)),
            # Findings about one lane do not apply to the other.
            memory=self.learned_before if self._watcher is None else None,
            live=live if self.follows else None,
        )


def rules_from(data: dict[str, Any] | None) -> HealthRules | None:
    """
    Return the rules that a trigger's kwargs hold, if any.

    A row of a newer release may hold rules that this one does not know. A driver that died is worth
    more than they are, so the default rules apply then; the resumed task decides by the recorded
    ones.
    """
    return None if data is None else _understood(HealthRules.from_dict, data, HealthRules())


def autoscale_from(data: dict[str, Any] | None) -> Autoscale | None:
    """Return the size settings in a trigger's kwargs; unknown settings change no size."""
    if data is None:
        return None
    read: Callable[[dict[str, Any]], Autoscale | None] = Autoscale.from_dict
    return _understood(read, data, None)


def _understood(
    read: Callable[[dict[str, Any]], Value], data: dict[str, Any], usual: Value
) -> Value:
    try:
        return read(data)
    except RecordError as err:
        log.warning("Cannot parse trigger settings, using defaults: %s", err)
        return usual
