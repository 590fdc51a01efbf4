from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from airflow_streaming.driver.monitoring.queries import TrackedQuery
from airflow_streaming.driver.shutdown import BOUNDARY_WAIT, Boundary, may_stop, stop_queries
from tests.unit.driver.fakes import FakeQuery, make_tracked


@pytest.mark.parametrize(
    ("gated", "processing", "waited", "expected"),
    [
        pytest.param(True, False, 0.0, True, id="gated, at rest"),
        pytest.param(True, True, 1000.0, False, id="gated, never in the middle of a batch"),
        pytest.param(False, False, 0.0, True, id="other sink, at rest"),
        pytest.param(False, True, 1.0, False, id="other sink, waits for a quiet moment"),
        pytest.param(False, True, BOUNDARY_WAIT, True, id="other sink, waited long enough"),
    ],
)
def test_a_query_is_stopped_where_its_batch_is_safe(
    gated: bool, processing: bool, waited: float, expected: bool
) -> None:
    assert may_stop(gated=gated, processing=processing, waited=waited) is expected


@pytest.mark.parametrize(
    ("crossed", "due", "until", "expected"),
    [
        pytest.param(False, 20.0, 55.0, False, id="the grace lasts until the commit"),
        pytest.param(True, 20.0, 55.0, True, id="committed"),
        pytest.param(False, 300.0, 55.0, True, id="it would not last"),
    ],
)
def test_a_query_in_real_time_mode_is_stopped_behind_its_commit(
    crossed: bool, due: float, until: float, expected: bool
) -> None:
    boundary = Boundary(is_crossed=crossed, due=due, until=until)
    assert may_stop(gated=False, processing=True, waited=9.0, boundary=boundary) is expected


class Clock:
    """Time that passes only while somebody waits; stop() runs on threads of its own meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.at: dict[float, Callable[[], None]] = {}

    def pause(self, seconds: float) -> None:
        for thread in threading.enumerate():
            if thread.name.startswith("airflow-streaming-stop-"):
                thread.join()
        self.now = round(self.now + seconds, 6)
        for moment in [m for m in self.at if m <= self.now]:
            self.at.pop(moment)()

    def stop(self, *queries: TrackedQuery, until: float = 60) -> list[str]:
        return stop_queries(lambda: queries, until=until, clock=lambda: self.now, pause=self.pause)


def test_queries_at_rest_are_stopped_at_once_and_only_once() -> None:
    fakes = [FakeQuery(), FakeQuery()]
    clock = Clock()
    assert clock.stop(*(make_tracked(q, name=str(i)) for i, q in enumerate(fakes))) == []
    assert [q.stopped for q in fakes] == [1, 1]
    assert clock.now < 1


def test_a_gated_query_ends_by_itself_after_its_batch() -> None:
    fake, clock = FakeQuery(), Clock()
    fake.processing = True
    clock.at[20.0] = fake.fail  # the gate has turned the next batch away
    assert clock.stop(make_tracked(fake, gated=True)) == []
    assert fake.stopped == 0


def test_another_sink_is_stopped_in_the_middle_after_a_short_wait() -> None:
    fake, clock = FakeQuery(), Clock()
    fake.processing = True
    assert clock.stop(make_tracked(fake)) == []
    assert BOUNDARY_WAIT <= clock.now < BOUNDARY_WAIT + 1


@pytest.mark.parametrize(
    ("interval", "stopped_at"),
    [
        pytest.param(20.0, 12.0, id="with the next commit"),
        pytest.param(300.0, 0.0, id="at once, because the grace is too short"),
    ],
)
def test_real_time_mode_waits_for_the_commit_where_it_can(
    interval: float, stopped_at: float
) -> None:
    fake, clock = FakeQuery(), Clock()
    fake.processing, fake.commits_every = True, interval
    fake.commit(1)
    tracked = make_tracked(fake)
    tracked.poll()
    clock.at[12.0] = lambda: fake.commit(2)
    assert clock.stop(tracked) == []
    assert stopped_at <= clock.now <= stopped_at + 0.3


def test_one_that_does_not_stop_in_time_is_named() -> None:
    stuck, good, clock = FakeQuery(), FakeQuery(), Clock()
    stuck.stops_when_asked = False
    left = clock.stop(make_tracked(stuck, name="stuck"), make_tracked(good), until=3)
    assert left == ["stuck"]
    assert stuck.stopped == 1
    assert 3 <= clock.now < 4


def test_a_query_that_cannot_be_asked_counts_as_running() -> None:
    class Silent(FakeQuery):
        def is_active(self) -> bool:
            raise OSError("the JVM does not answer")

    assert Clock().stop(make_tracked(Silent()), until=1) == ["q"]
