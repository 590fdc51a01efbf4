"""
Look repeatedly until there is an event to report, in threads of bounded number.

Where the system reports the end of a driver's process, the next look comes at once, and further
ones soon until no process of the driver is left; the event loop waits for it, without a thread. The
poll stays for all other events and for ends that are not reported.

The threads are not asyncio's own: a store that hangs would fill those up, and block Airflow's own
work in threads. Each home has its own lane of threads, so that a hanging home delays no other.

A trigger looks and never acts: it may run twice, anywhere, and be cut off without notice. It holds
no state but its kwargs; it passes its findings on in the event.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_streaming import telemetry
from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.launch.driver_end import DriverEnd
from airflow_streaming.model.uris import is_local
from airflow_streaming.supervision.readiness.subject import Subject

if TYPE_CHECKING:
    from airflow_streaming.model.observation import VerdictState
    from airflow_streaming.supervision.rules.states import RuleStates

Result = TypeVar("Result")
LOCAL_THREADS: Final = 4
"""A look at local files computes for most of its time, and one thread computes at a time. More
would only keep the event loop waiting for its turn."""
REMOTE_THREADS: Final = 16
"""A look at an object store waits for most of its time."""
MOST_LANES: Final = 8
"""Further homes share the last one; no known installation has as many at a time."""

_lanes: Final[dict[str, HomeThreads]] = {}

HOLD: Final = timedelta(seconds=15)
"""
Least age of a deferral before an event. Airflow 3.3 fails a task whose trigger fires before the
scheduler has seen its worker end, and nothing tells when it has: measured with 3 s, gone with 12 s. See
ADR 25.
"""
LOOK_PATIENCE: Final = 30.0
"""Seconds after which a look counts as failed. It is not repeated before it has come back: looks at
a store that hangs must not pile up."""
DAMAGE_PATIENCE: Final = 300.0
"""Seconds after which records that are there and cannot be read are more than a store in trouble."""
SOON: Final = 0.1
"""
Seconds to the next look after a look right after a process's end that found the driver alive: its
last process may end during that look, and then no end is reported any more. Each further look waits
twice as long, up to the poll.
"""
SPREAD: Final = 5.0
"""Seconds over which first looks are spread at most: a triggerer that takes over a thousand
triggers starts them all at once."""


class HomeThreads:
    """The threads for the looks at one home."""

    def __init__(self, threads: int) -> None:
        self.triggers = 0
        """How many triggers look in it."""
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="looks")
        self._looks: set[Future[Any]] = set()

    def submit(self, look: Callable[[], Result]) -> Future[Result]:
        future = self._threads.submit(look)
        self._looks.add(future)
        future.add_done_callback(self._looks.discard)
        return future

    @property
    def is_idle(self) -> bool:
        """Tell whether it is unused; a hanging look uses it even without its trigger."""
        return not self.triggers and not self._looks

    def close(self) -> None:
        """Let its threads end."""
        self._threads.shutdown(wait=False)


@contextmanager
def lane_of(home: str) -> Iterator[HomeThreads]:
    """Lend the lane of a home to a trigger; used in the event loop only."""
    _give_back()
    lane = _lane(home)
    lane.triggers += 1
    try:
        yield lane
    finally:
        lane.triggers -= 1
        _give_back()


def _lane(home: str) -> HomeThreads:
    name = home if home in _lanes or len(_lanes) < MOST_LANES - 1 else "other homes"
    if name not in _lanes:
        # The last lane is shared, so it has as many threads as the one who waits longest needs.
        _lanes[name] = HomeThreads(
            LOCAL_THREADS if name == home and is_local(home) else REMOTE_THREADS
        )
    return _lanes[name]


def _give_back() -> None:
    # A lane in which a look hangs is kept for the next trigger of that home: with a new one for
    # each, threads that hang would pile up.
    for name in [name for name, lane in _lanes.items() if lane.is_idle]:
        _lanes.pop(name).close()


def hold_left(deferred_at: str | None) -> float:
    """
    Return the seconds for which an event is held, so that Airflow has recorded the deferral.

    :param deferred_at: When the task deferred, ISO 8601; ``None`` where no task waits.
    """
    if deferred_at is None:
        return 0.0
    age = datetime.now(UTC) - datetime.fromisoformat(deferred_at)
    return min(HOLD, max(timedelta(0), HOLD - age)).total_seconds()


class PollingTrigger(BaseTrigger):
    """
    Looks at one stream repeatedly until there is an event to report.

    :param place: URI of the stream's home or checkpoint.
    :param tag: The stream's name in metrics.
    :param deferred_at: When the task deferred, ISO 8601; ``None`` without a waiting task.
    :param poll_seconds: Interval between two looks.
    :param lane: Looks with the same lane share threads; default: the place.
    """

    counts_verdicts: ClassVar[bool] = False
    """Whether it emits metrics of verdicts: one trigger of a stream does, waiting ones do not."""

    _threads: HomeThreads

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
        self._damaged_since: float | None = None
        self._states = telemetry.StateClock(stream=tag)
        self._gauges = telemetry.RuleGauges(stream=tag)
        self._end: DriverEnd | None = None
        self._looks_since_end: int | None = None

    async def run(self) -> AsyncIterator[TriggerEvent]:
        _spare_what_airflow_loaded()
        start = time.monotonic()
        hold_until = start + hold_left(self.deferred_at)
        planned = start + random.uniform(0, min(SPREAD, self.poll_seconds))  # noqa: S311 - spreads
        with self.looking():
            while True:
                planned = await self._sleep_until(planned)
                await self.ask_airflow()
                payload = await self._try_to_look(planned)
                now = time.monotonic()
                if payload is not None and now >= hold_until:
                    yield TriggerEvent(payload)
                    return
                planned = max(now, planned + self._pause()) if payload is None else hold_until

    def _pause(self) -> float:
        if self._end is not None:
            self._looks_since_end = None
        elif self._looks_since_end is not None:
            soon = SOON * 2.0**self._looks_since_end
            self._looks_since_end += 1
            if soon < self.poll_seconds:
                return soon
            self._looks_since_end = None
        return self.poll_seconds * random.uniform(0.9, 1.1)  # noqa: S311 - spreads

    async def _sleep_until(self, planned: float) -> float:
        # A look that the system prompts comes before its time; the poll stays as a fallback.
        seconds = planned - time.monotonic()
        if self._end is None:
            await asyncio.sleep(seconds)
        elif await _comes(self._end, seconds):
            self._end.close()
            self._end, self._looks_since_end = None, 0
        return min(planned, time.monotonic())

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look in the lane of the place; at the end take back a look that has not begun."""
        with lane_of(self._lane) as self._threads:
            try:
                yield
            finally:
                if self._pending is not None:
                    self._pending.cancel()
                if self._end is not None:
                    self._end.close()
                self._gauges.close()

    async def _try_to_look(self, planned: float) -> dict[str, Any] | None:
        try:
            payload = await self._look_in_lane(planned)
        except (HomeUnavailable, RecordError) as err:
            # Not being able to look says nothing of the stream.
            self._say(f"Cannot look at {self._who}: {err}")
            telemetry.count("looks_failed", stream=self._tag)
            self.lose_sight()
            return self._after_trouble(err)
        self._say(None)
        self._damaged_since = None
        return payload

    def _after_trouble(self, err: HomeUnavailable | RecordError) -> dict[str, Any] | None:
        if isinstance(err, HomeUnavailable):
            self._damaged_since = None
            return None
        now = time.monotonic()
        self._damaged_since = self._damaged_since or now
        return self.damaged(str(err)) if now - self._damaged_since >= DAMAGE_PATIENCE else None

    async def _look_in_lane(self, planned: float) -> dict[str, Any] | None:
        if self._pending is None:
            work = self._threads.submit(partial(self._look_now, planned))
            self._pending = asyncio.wrap_future(work)
        done, _ = await asyncio.wait({self._pending}, timeout=LOOK_PATIENCE)
        if not done:
            raise HomeUnavailable(
                f"Reading {self._place} has taken more than {LOOK_PATIENCE:.0f} s. Check that its store "
                "answers; polling continues when it does."
            )
        looked, self._pending = self._pending, None
        return looked.result()

    def _look_now(self, planned: float) -> dict[str, Any] | None:
        began = time.monotonic()
        payload, state = self.look_once()
        if self._end is None:
            self._end = self.driver_end()
        telemetry.timing("poll_lag", max(0.0, began - planned), stream=self._tag)
        telemetry.timing("look_duration", time.monotonic() - began, stream=self._tag)
        if self.counts_verdicts:
            self._states.tell(state, lane=self.watched_lane)
            self._gauges.tell(self.rule_states(), lane=self.watched_lane)
        return payload

    @property
    def watched_lane(self) -> str:
        """Return the lane of the last look; an external stream has one, named as the stream."""
        return self._tag

    def rule_states(self) -> RuleStates:
        """Return whether each rule fires, by the last look."""
        return {}

    async def ask_airflow(self) -> None:
        """Learn what only Airflow knows, before a look."""

    @abstractmethod
    def look_once(self) -> tuple[dict[str, Any] | None, VerdictState | None]:
        """Look, in a thread; return the event's payload if there is one, and the verdict."""

    def driver_end(self) -> DriverEnd | None:
        """Return the end watcher of the last observed driver, in a thread; see ``Observer``."""
        return None

    @abstractmethod
    def lose_sight(self) -> None:
        """Take note that a look failed."""

    def damaged(self, reason: str) -> dict[str, Any] | None:
        """Return the event's payload when records stay unreadable; ``None`` to keep polling."""
        return None

    def _say(self, trouble: str | None) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self.log.warning("%s", trouble or f"Looking at {self._who} works again.")


async def _comes(end: DriverEnd, seconds: float) -> bool:
    """Wait for the end of a process in the event loop, without a thread."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(end, ended.set)
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(end)
    return True


@cache
def _spare_what_airflow_loaded() -> None:
    # Once in a process. A thousand triggers bring about a full garbage collection every minute or
    # two, and it stops the event loop. Most of it went into Airflow's modules, which are never
    # garbage (160 ms were measured). Airflow's dag processor freezes them for the same reason.
    gc.freeze()


class SubjectTrigger(PollingTrigger):
    """
    Polls one stream, managed or external.

    The parameters ``stream``, ``home`` and ``home_conn_id``, or else ``checkpoint``, ``endpoint``
    and ``conn_id``, have the same meaning as in ``Subject``.
    """

    def __init__(
        self,
        *,
        stream: str | None = None,
        home: str | None = None,
        home_conn_id: str | None = None,
        checkpoint: str | None = None,
        endpoint: str | None = None,
        conn_id: str | None = None,
        poll_seconds: float,
        deferred_at: str | None = None,
        **unknown: Any,  # a row written by a newer release must still load
    ) -> None:
        self.subject = Subject(
            stream=stream,
            home=home,
            home_conn_id=home_conn_id,
            checkpoint=checkpoint,
            endpoint=endpoint,
            conn_id=conn_id,
        )
        super().__init__(
            place=self.subject.place,
            who=self.subject.who,
            tag=self.subject.name,
            deferred_at=deferred_at,
            poll_seconds=poll_seconds,
            lane=self.subject.lane,
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {**self.subject.to_dict(), "poll_seconds": self.poll_seconds},
        )
