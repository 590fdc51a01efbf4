"""A driver that cannot renew its lease ends, whatever its other threads wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from airflow_streaming.driver.lease import LeaseKeeper, instant
from airflow_streaming.model.lease import HeldLease, Instant
from tests.patience import until


class Left(Exception):
    """Stands in for the end of the process."""


class FakeLeaving:
    def __init__(self, *, raises: bool = True) -> None:
        self.ended, self._raises = threading.Event(), raises

    def at_once(self, last_word: Callable[[], None], code: Callable[[], int]) -> NoReturn:
        last_word()
        self.ended.set()
        if not self._raises:
            threading.Event().wait()  # a process that has ended runs no further
        raise Left(code())


def at(seconds: float) -> Instant:
    return Instant(running=seconds, wall=seconds)


def keeper(leaving: Any, now: Callable[[], Instant], words: list[str]) -> LeaseKeeper:
    lease = HeldLease(seconds=30.0, since=at(0))
    return LeaseKeeper(lease, leaving=leaving, last_word=lambda: words.append("word"), now=now)


def test_a_renewal_counts_from_before_the_heartbeat_was_written() -> None:
    clock, words = [at(0)], list[str]()
    held = keeper(FakeLeaving(), lambda: clock[0], words)
    held.renew(at(10))

    clock[0] = at(39.9)
    held.check()
    clock[0] = at(40)
    with pytest.raises(Left) as left:
        held.check()

    assert left.value.args == (3,)
    assert words == ["word"]


def test_a_driver_that_never_got_a_heartbeat_written_ends_too() -> None:
    leaving = FakeLeaving(raises=False)
    held = keeper(leaving, lambda: at(30), [])

    held.begin()

    until(leaving.ended.is_set, "the end by the watchdog")


def test_nothing_starts_before_the_first_heartbeat_is_written() -> None:
    held = keeper(FakeLeaving(), lambda: at(1), [])
    started = threading.Event()
    thread = threading.Thread(target=lambda: (held.wait_until_held(), started.set()), daemon=True)
    thread.start()
    assert not started.is_set()

    held.renew(at(1))

    until(started.is_set, "the start")


def test_both_clocks_are_read() -> None:
    first = instant()
    second = instant()

    assert second.running >= first.running > 0
    assert second.wall > 1_500_000_000
