"""
Wake the task that takes an upgrade further.

It looks and never acts. What an upgrade waits for shows in the home: a driver that ends or comes, a
stage, a wish, the end of the change. Whatever it is, the task looks again itself.
"""

from __future__ import annotations

import time
from typing import Any

from airflow_streaming.core.health import HealthRules, judge
from airflow_streaming.core.policy import RestartPolicy
from airflow_streaming.core.situation import Situation
from airflow_streaming.observe.stream import Observer
from airflow_streaming.triggers.home import HomeTrigger


class UpgradeTrigger(HomeTrigger):
    """
    Fires when something has happened to the stream, and from time to time.

    :param wake_seconds: Time after which it fires even when nothing has happened.
    :param memory: What the task's observer has learnt by listening.
    """

    def __init__(
        self,
        *,
        wake_seconds: float = 30.0,
        memory: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.wake_seconds, self.learnt_before = wake_seconds, memory
        self._started = time.monotonic()
        self._seen: tuple[Any, ...] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {**kwargs, "wake_seconds": self.wake_seconds, "memory": self.learnt_before}

    def rules(self) -> tuple[HealthRules | None, RestartPolicy | None]:
        return None, None

    def look(self, observer: Observer) -> dict[str, Any] | None:
        situation = observer.situation()
        seen = what_is(situation)
        self._seen = self._seen or seen
        is_time = time.monotonic() - self._started >= self.wake_seconds
        if seen == self._seen and not is_time:
            return None
        return {"memory": observer.memory(), "has_changed": seen != self._seen}


def what_is(situation: Situation) -> tuple[Any, ...]:
    """Return what tells two situations apart for one who waits."""
    seen, change = situation.seen, situation.change
    return (
        situation.desired,
        None if seen is None else seen.epoch.number,
        None if seen is None else judge(seen, situation.rules).state,
        None if change is None else str(change),
    )
