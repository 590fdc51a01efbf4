"""
Looks at homes on behalf of pages, in separate threads and with a deadline.

Airflow's API server runs every route except coroutines in one shared pool of threads. A home
that hangs would fill that pool, and Airflow itself would stop answering. So routes are coroutines,
and the code that reads a home runs here.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from airflow_streaming.exceptions import HomeUnavailable, LookRefused
from airflow_streaming.plugins.access.slots import Limits, Slots

T = TypeVar("T")
MOST_WAITING: Final = 64
"""Looks that may wait for a thread; each keeps a connection of a browser open."""
_TIMER_SLACK: Final = 0.05
"""Seconds by which a timer of the event loop may be early or late."""


@dataclass(slots=True, eq=False)
class _Look:
    home: str
    act: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)
    started: float | None = None
    is_stuck: bool = False


class Looks:
    """
    A small pool of threads in which homes are read for pages.

    :param deadline: Seconds after which a page is refused, and a look that has run for so long is
        written off.
    :param limits: How many threads may be in use.
    :param clock: Seconds that only go forward.
    """

    def __init__(
        self,
        *,
        deadline: float = 4.0,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.deadline = deadline
        self._slots = Slots(limits or Limits())
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[_Look] = []
        self._running: list[_Look] = []

    async def look(self, home: str, act: Callable[[], T]) -> T:
        """
        Return the result of ``act``, which reads one home.

        :param home: The unit of access: the home's URI, with the connection that reaches it.
        :raises LookRefused: the home hangs, every thread is in use, or it took too long.
        """
        look = self._ask(home, act)
        try:
            found: T = await asyncio.wait_for(asyncio.wrap_future(look.future), self.deadline)
        except TimeoutError:
            if _failed_with_timeout(look.future):
                raise
            raise self._late(look) from None
        finally:
            self._leave(look)
        return found

    def _ask(self, home: str, act: Callable[[], Any]) -> _Look:
        look = _Look(home, act)
        with self._lock:
            now = self._clock()
            self._write_off_late(now)
            if rest := self._slots.rest_of(home, now):
                raise _refused(f"Home {home} does not answer.", rest)
            if len(self._waiting) >= MOST_WAITING:
                raise _refused("Too many pages are waiting for homes.", self.deadline)
            self._waiting.append(look)
            self._start_next(now)
        return look

    def _late(self, look: _Look) -> LookRefused:
        with self._lock:
            now = self._clock()
            self._write_off_late(now)
            self._start_next(now)
            rest = self._slots.rest_of(look.home, now)
        if look.started is None:
            return _refused("Every thread for pages is busy.", rest or 1.0)
        return _refused(f"Home {look.home} has not answered in {self.deadline:g} s.", rest or 1.0)

    def _leave(self, look: _Look) -> None:
        # The browser may have gone too; then queued work need not start.
        with self._lock, suppress(ValueError):
            self._waiting.remove(look)

    def _write_off_late(self, now: float) -> None:
        for look in list(self._running):
            if look.started is None or now - look.started < self.deadline - _TIMER_SLACK:
                continue
            self._running.remove(look)
            look.is_stuck = True
            self._slots.write_off(look.home, now)
        for look in list(self._waiting):
            if rest := self._slots.rest_of(look.home, now):
                self._waiting.remove(look)
                _settle(look, error=_refused(f"Home {look.home} does not answer.", rest))

    def _start_next(self, now: float) -> None:
        for look in list(self._waiting):
            if not self._slots.may_start(look.home, now):
                continue
            self._waiting.remove(look)
            # A daemon thread: a hung look must not keep the server from ending.
            thread = threading.Thread(
                target=self._run, args=(look,), name="airflow-streaming-page", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                _settle(look, error=_refused("The API server cannot start a thread.", 1.0))
                continue
            look.started = now
            self._running.append(look)
            self._slots.start(look.home)

    def _run(self, look: _Look) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = look.act()
        except BaseException as err:  # noqa: BLE001 - it belongs to the page that asked
            error = err
        with self._lock:
            if not look.is_stuck:
                self._running.remove(look)
            answered = not isinstance(error, HomeUnavailable | OSError)
            self._slots.finish(look.home, answered=answered, was_stuck=look.is_stuck)
            self._start_next(self._clock())
        _settle(look, result, error)


def _failed_with_timeout(future: Future[Any]) -> bool:
    # A client of a store raises the same error that the deadline does.
    is_done = future.done() and not future.cancelled()
    return is_done and isinstance(future.exception(), TimeoutError)


def _settle(look: _Look, result: Any = None, error: BaseException | None = None) -> None:
    with suppress(InvalidStateError):  # the page has given up
        if error is not None:
            look.future.set_exception(error)
        else:
            look.future.set_result(result)


def _refused(what: str, seconds: float) -> LookRefused:
    wait = max(1, math.ceil(seconds))
    return LookRefused(f"{what} Try again in {wait} s.", retry_after=wait)
