"""
Look at one stream again and again, until there is something to tell.

A trigger looks and never acts: it may run twice, anywhere, and be cut off without notice. It holds
no state but its kwargs; what it learns by listening it hands over in the event.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, ClassVar, Final, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_streaming import telemetry
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.policy import RestartPolicy
from airflow_streaming.core.verdict import VerdictState
from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.home.following import LiveLane
from airflow_streaming.home.home import Home
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.observe.stream import Observer
from airflow_streaming.triggers import lanes

Value = TypeVar("Value")

log: Final = logging.getLogger(__name__)

HOLD: Final = timedelta(seconds=15)
"""
Least age of a deferral before an event. Airflow 3.3 fails a task whose trigger fires before the
scheduler has seen its worker end: measured with 3 s, gone with 12 s.
"""

LOOK_PATIENCE: Final = 30.0
"""Seconds after which a look counts as failed. It is not repeated before it has come back: looks at
a store that hangs must not pile up."""

SPREAD: Final = 5.0
"""Seconds over which first looks are spread at most: a triggerer that takes over a thousand
triggers starts them all at once."""


class PollingTrigger(BaseTrigger):
    """
    Looks at one stream again and again until there is something to tell.

    :param place: URI of what is read to see it.
    :param who: What messages call the stream.
    :param tag: What metrics call it.
    :param deferred_at: When the task deferred, ISO 8601; ``None`` where no task waits.
    :param poll_seconds: Time between two looks.
    :param lane: Looks with the same lane share threads; default: the place.
    """

    counts_verdicts: ClassVar[bool] = False
    """Whether it emits metrics of verdicts: one trigger of a stream does, those that wait do not."""

    def __init__(
        self,
        *,
        place: str,
        who: str,
        tag: str,
        deferred_at: str | None,
        poll_seconds: float,
        lane: str | None = None,
    ) -> None:
        super().__init__()
        self.deferred_at = deferred_at
        self.poll_seconds = poll_seconds
        self._place, self._who, self._tag = place, who, tag
        self._lane = lane or place
        self._trouble: str | None = None
        self._pending: asyncio.Future[dict[str, Any] | None] | None = None
        self._states = telemetry.StateClock(stream=tag)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        _spare_what_airflow_loaded()
        start = time.monotonic()
        hold_until = start + self._hold()
        planned = start + random.uniform(0, min(SPREAD, self.poll_seconds))  # noqa: S311 - spreads
        try:
            while True:
                await asyncio.sleep(planned - time.monotonic())
                await self.ask_airflow()
                payload = await self._try_to_look(planned)
                now = time.monotonic()
                if payload is not None and now >= hold_until:
                    yield TriggerEvent(payload)
                    return
                pause = self.poll_seconds * random.uniform(0.9, 1.1)  # noqa: S311 - spreads
                planned = max(now, planned + pause) if payload is None else hold_until
        finally:
            self.stop_looking()

    def stop_looking(self) -> None:
        """Take back a look that has not begun."""
        if self._pending is not None:
            self._pending.cancel()

    async def _try_to_look(self, planned: float) -> dict[str, Any] | None:
        try:
            payload = await self._look_in_lane(planned)
        except (HomeUnavailable, RecordError) as err:
            # Not being able to look says nothing of the stream.
            self._say(f"Cannot look at {self._who}: {err}")
            telemetry.count("looks_failed", stream=self._tag)
            self.lose_sight()
            return None
        self._say(None)
        return payload

    async def _look_in_lane(self, planned: float) -> dict[str, Any] | None:
        if self._pending is None:
            work = lanes.submit(self._lane, partial(self._look_now, planned))
            self._pending = asyncio.wrap_future(work)
        done, _ = await asyncio.wait({self._pending}, timeout=LOOK_PATIENCE)
        if not done:
            raise HomeUnavailable(
                f"Reading {self._place} has taken more than {LOOK_PATIENCE:.0f} s. Check that its "
                "store answers; the stream is looked at again when it does."
            )
        looked, self._pending = self._pending, None
        return looked.result()

    def _look_now(self, planned: float) -> dict[str, Any] | None:
        began = time.monotonic()
        payload, state = self.look_once()
        telemetry.timing("poll_lag", max(0.0, began - planned), stream=self._tag)
        telemetry.timing("look_duration", time.monotonic() - began, stream=self._tag)
        if self.counts_verdicts:
            self._states.tell(state)
        return payload

    async def ask_airflow(self) -> None:
        """Learn what only Airflow knows, before a look."""

    @abstractmethod
    def look_once(self) -> tuple[dict[str, Any] | None, VerdictState | None]:
        """Look, in a thread; return the event's payload if there is one, and the verdict."""

    @abstractmethod
    def lose_sight(self) -> None:
        """Take note that a look failed."""

    def _hold(self) -> float:
        if self.deferred_at is None:
            return 0.0
        age = datetime.now(UTC) - datetime.fromisoformat(self.deferred_at)
        return min(HOLD, max(timedelta(0), HOLD - age)).total_seconds()

    def _say(self, trouble: str | None) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self.log.warning("%s", trouble or f"Looking at {self._who} works again.")


class HomeTrigger(PollingTrigger):
    """
    Looks at one stream of ours, as a situation: at the lane of it that is live.

    :param home: The home's URI.
    :param stream: The stream's name.
    :param home_conn_id: Connection with credentials for the home.
    :param deferred_at: When the task deferred, ISO 8601.
    :param poll_seconds: Time between two looks.
    """

    learnt_before: dict[str, Any] | None = None
    """What the observer of the task has learnt by listening, where it hands it over."""

    asks_every = 0.0
    """Seconds between two questions which lane is live; 0 for every look."""

    follows = False
    """Whether its task keeps alive what is live, and so has to be told when that is another lane."""

    def __init__(
        self,
        *,
        home: str,
        stream: str,
        home_conn_id: str | None = None,
        deferred_at: str,
        poll_seconds: float = 5.0,
        **unknown: Any,  # a row written by a newer release must still load
    ) -> None:
        super().__init__(
            place=home,
            who=f"stream {stream!r}",
            tag=stream,
            deferred_at=deferred_at,
            poll_seconds=poll_seconds,
        )
        self.home = home
        self.stream = stream
        self.home_conn_id = home_conn_id
        self._live: LiveLane | None = None
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
            self._live = LiveLane(self._home().store, self.stream, every=self.asks_every)
        lane = self.lane(self._live)
        if self._watcher is None or lane != self._watched_lane:
            self._watcher, self._watched_lane = self._observer(self._live, lane), lane
        return self.look(self._watcher), self._watcher.state

    def lose_sight(self) -> None:
        if self._watcher is not None:
            self._watcher.lose_sight()

    def lane(self, live: LiveLane) -> str:
        """Return the lane to look at now."""
        return live()

    @property
    def watched_lane(self) -> str:
        """Return the lane that was looked at last."""
        return self._watched_lane

    @abstractmethod
    def look(self, observer: Observer) -> dict[str, Any] | None:
        """Look once; return the event's payload, or ``None`` to go on looking."""

    @abstractmethod
    def rules(self) -> tuple[HealthRules | None, RestartPolicy | None]:
        """Return what the observer judges by; ``None`` for what the home records."""

    def _home(self) -> Home:
        return StreamHomeHook(self.home, self.home_conn_id, looks_only=True).get_conn()

    def _observer(self, live: LiveLane, lane: str) -> Observer:
        rules, policy = self.rules()
        return Observer(
            *(live.home(lane), LocalLauncher()),
            rules=rules,
            policy=policy,
            # What was learnt of one lane says nothing of the other.
            memory=self.learnt_before if self._watcher is None else None,
            live=live if self.follows else None,
        )


@cache
def _spare_what_airflow_loaded() -> None:
    # Once in a process. A thousand triggers bring about a full garbage collection every minute or
    # two, and it stops the event loop. Most of it went into Airflow's modules, which are never
    # garbage (160 ms were measured). Airflow's dag processor freezes them for the same reason.
    gc.freeze()


def rules_from(data: dict[str, Any] | None) -> HealthRules | None:
    """
    Return the rules that a trigger's kwargs hold, if any.

    A row of a newer release may hold rules that this one does not know. A driver that died is worth
    more than they are, so the usual rules do then; whoever is woken decides by the real ones.
    """
    return None if data is None else _understood(HealthRules.from_dict, data, HealthRules())


def policy_from(data: dict[str, Any] | None) -> RestartPolicy | None:
    """Return the restart policy that a trigger's kwargs hold, if any; the same holds for it."""
    return None if data is None else _understood(RestartPolicy.from_dict, data, RestartPolicy())


def _understood(
    read: Callable[[dict[str, Any]], Value], data: dict[str, Any], usual: Value
) -> Value:
    try:
        return read(data)
    except RecordError as err:
        log.warning("Looking by what is usual: %s", err)
        return usual
