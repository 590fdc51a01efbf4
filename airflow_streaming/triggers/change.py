"""
Wake the task that advances a change.

The triggers look and never act. An upgrade's progress shows in the home: a driver that ends or
starts, a stage, a command, the end of the change. A cutover's progress shows there too: a step,
which may be a user's command, and the state of the drivers in all of its lanes. The task looks
again itself in every case.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from airflow_streaming.changes.cutover.lanes import LANES, STEP, StepSeen
from airflow_streaming.home.cached import CachedStream
from airflow_streaming.hooks.launchers import task_launcher
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.triggers.home import HomeTrigger


class UpgradeTrigger(HomeTrigger):
    """
    Fires when the stream has changed, and from time to time.

    :param wake_seconds: Time after which it fires even without a change.
    :param memory: The findings of the task's observer while listening.
    """

    def __init__(
        self,
        *,
        wake_seconds: float = 30.0,
        memory: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.wake_seconds, self.learned_before = wake_seconds, memory
        self._started = time.monotonic()
        self._seen: tuple[Any, ...] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {**kwargs, "wake_seconds": self.wake_seconds, "memory": self.learned_before}

    def look(self, observer: Observer) -> dict[str, Any] | None:
        situation = observer.situation()
        seen = what_is(situation)
        self._seen = self._seen or seen
        is_time = time.monotonic() - self._started >= self.wake_seconds
        if seen == self._seen and not is_time:
            return None
        return {"memory": observer.memory(), "has_changed": seen != self._seen}


def what_is(situation: ReconcileInput) -> tuple[Any, ...]:
    """Return what tells two situations apart for one who waits."""
    seen, change = situation.seen, situation.change
    return (
        situation.desired,
        None if seen is None else seen.epoch.number,
        None if seen is None else judge(seen, situation.rules).state,
        None if change is None else str(change),
    )


class CutoverTrigger(HomeTrigger):
    """
    Fires when a cutover or one of its lanes has changed, and from time to time.

    :param lanes: The lanes to look at, of all streams.
    :param wake_seconds: Time after which it fires even without a change.
    :param memory: The task's findings; findings of a single look are passed on.
    """

    def __init__(
        self,
        *,
        lanes: Sequence[str] = (),
        change: int = 0,
        wake_seconds: float = 30.0,
        memory: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lanes, self.change = tuple(lanes), change
        self.wake_seconds, self.memory = wake_seconds, memory or {}
        self._started = time.monotonic()
        self._newest = StepSeen(self.memory.get(STEP), clock=time.monotonic)
        self._seen: tuple[Any, ...] | None = None
        self._records: CachedStream | None = None
        self._observers: dict[str, Observer] = {}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {
            **kwargs,
            "lanes": list(self.lanes),
            "change": self.change,
            "wake_seconds": self.wake_seconds,
            "memory": self.memory,
        }

    def look_once(self) -> tuple[dict[str, Any] | None, VerdictState | None]:
        if self._records is None:
            store = self._home().store
            self._observers = {lane: self._observer_of(store, lane) for lane in self.lanes}
            self._records = CachedStream(store, self.stream)
        seen = (self._step(self._records), *map(_what_is, self._observers.values()))
        self._seen = self._seen or seen
        is_time = time.monotonic() - self._started >= self.wake_seconds
        if seen == self._seen and not is_time:
            return None, None
        lanes = {lane: observer.memory() for lane, observer in self._observers.items()}
        learned = {**self.memory, LANES: lanes, STEP: self._newest.memory()}
        return {"memory": learned, "has_changed": seen != self._seen}, None

    def lose_sight(self) -> None:
        for observer in self._observers.values():
            observer.lose_sight()

    def look(self, observer: Observer) -> dict[str, Any] | None:
        """Return nothing: ``look_once`` looks at all lanes together."""
        return None

    def _step(self, records: CachedStream) -> tuple[int, bool]:
        step = len(records.steps(self.change))
        self._newest.seen_for(self.change, step)
        return step, records.change_end(self.change) is not None

    def _observer_of(self, store: Any, lane: str) -> Observer:
        home = CachedStream(store, lane)
        return Observer(
            *(home, task_launcher(home)),
            memory=self.memory.get(LANES, {}).get(lane),
        )


def _what_is(observer: Observer) -> tuple[Any, ...]:
    return what_is(observer.situation())
