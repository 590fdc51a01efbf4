"""Looks that may take long do not hold up the heartbeat."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from airflow_streaming.driver.sources.rare_look import EVERY, RareLook
from tests.patience import PATIENCE


class Counter:
    """Counts when it may."""

    def __init__(self) -> None:
        self.now, self.calls, self.takes = 0.0, 0, 0.0
        self.may = threading.Event()
        self.may.set()
        self.files: RareLook[Mapping[str, float]] = RareLook(
            self.count, {}, doing="Counting", clock=lambda: self.now
        )

    def count(self) -> Mapping[str, float]:
        self.calls += 1
        assert self.may.wait(PATIENCE)
        self.now += self.takes
        if self.calls == 3:
            raise OSError("the folder is gone")
        return {"s": float(self.calls)}

    def known(self) -> Mapping[str, float]:
        self.files.known()
        self.files.wait(PATIENCE)
        return self.files.known()


def test_the_count_is_renewed_at_its_interval_and_forgotten_when_it_fails() -> None:
    counter = Counter()
    assert counter.known() == {"s": 1}
    counter.now += EVERY - 1
    assert counter.known() == {"s": 1}
    counter.now += 1
    assert counter.known() == {"s": 2}
    counter.now += EVERY
    assert counter.known() == {}


def test_a_count_that_takes_long_is_rare() -> None:
    counter = Counter()
    counter.takes = 2.0
    counter.known()
    counter.now += 199
    assert counter.known() == {"s": 1}
    counter.now += 1
    assert counter.known() == {"s": 2}


def test_a_count_that_hangs_holds_nobody_up() -> None:
    counter = Counter()
    counter.may.clear()
    assert counter.files.known() == {}
    counter.now += 10 * EVERY
    assert counter.files.known() == {}
    counter.may.set()
    counter.files.wait(PATIENCE)
    assert counter.calls == 1
