from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from airflow_streaming.driver.sinks.outlet import CAPACITY, Outlet
from airflow_streaming.driver.sinks.port import ProgressEvent, ProgressSink, SinkFault
from airflow_streaming.model.status import SinkStatus
from tests import patience
from tests.patience import PATIENCE
from tests.unit.driver.sinks.events import RecordingSink, an_event


def until(condition: Callable[[], Any]) -> None:
    patience.until(condition, "What the outlet is to do", every=0.002)


class Hanging(RecordingSink):
    """A sink that does not come back until it is let go."""

    def __init__(self) -> None:
        super().__init__(self._hang)
        self.called, self.let_go = threading.Event(), threading.Event()

    def _hang(self, _: Sequence[ProgressEvent]) -> None:
        self.called.set()
        self.let_go.wait()


class Failing(RecordingSink):
    """A sink that fails as long as it has an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(self._fail)
        self.error: Exception | None = error

    def _fail(self, _: Sequence[ProgressEvent]) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    sink = Hanging()
    yield sink
    sink.let_go.set()


def an_outlet(connect: Callable[[], ProgressSink], **options: Any) -> Outlet:
    outlet = Outlet("recording", connect, **options)
    outlet.begin()
    return outlet


def ended(outlet: Outlet, within: float = PATIENCE) -> SinkStatus:
    outlet.end(until=time.monotonic() + within)
    return outlet.status()


def test_every_event_arrives_once_and_in_order() -> None:
    sink = RecordingSink()
    outlet = an_outlet(lambda: sink)
    for batch in range(1_000):
        outlet.offer([an_event(batch)])
        if batch % 250 == 0:
            until(lambda: outlet.status().sent > 0)
    status = ended(outlet)
    assert status.sent + status.dropped == 1_000
    assert sink.batches == sorted(set(sink.batches))
    assert len(sink.batches) == status.sent
    assert sink.batches[-1] == 999
    assert sink.closed.is_set()


def test_a_hanging_sink_costs_the_oldest_events_and_no_time(hanging: Hanging) -> None:
    outlet = an_outlet(lambda: hanging, capacity=10)
    outlet.offer([an_event(0)])
    assert hanging.called.wait(PATIENCE)

    for batch in range(1, 1_001):
        outlet.offer([an_event(batch)])
    # It still hangs, so not one of the offers has waited for it.
    assert outlet.status() == SinkStatus(sink="recording", dropped=990)

    hanging.let_go.set()
    until(lambda: outlet.status().sent == 11)
    assert hanging.batches == [0, *range(991, 1_001)]
    assert ended(outlet) == SinkStatus(sink="recording", sent=11, dropped=990)


def test_a_sink_that_hangs_for_long_is_told_of(hanging: Hanging) -> None:
    now = [100.0]
    outlet = an_outlet(lambda: hanging, clock=lambda: now[0])
    outlet.offer([an_event(0)])
    assert hanging.called.wait(PATIENCE)
    assert outlet.status().trouble is None
    outlet.offer([an_event(1), an_event(2)])
    now[0] += 30
    assert outlet.status().trouble == (
        "Sink 'recording' has not taken 1 reports for 30 s; 2 more wait."
    )


def test_a_hanging_sink_is_given_up_at_the_end_and_its_events_count_as_dropped(
    hanging: Hanging,
) -> None:
    outlet = an_outlet(lambda: hanging)
    outlet.offer([an_event(0)])
    assert hanging.called.wait(PATIENCE)
    outlet.offer([an_event(1), an_event(2)])
    status = ended(outlet, within=0.05)
    assert not hanging.let_go.is_set()
    assert (status.sent, status.dropped) == (0, 3)

    hanging.let_go.set()
    assert hanging.closed.wait(PATIENCE)
    assert (outlet.status().sent, outlet.status().dropped) == (0, 3)


def test_what_waits_is_sent_before_the_end() -> None:
    sink = RecordingSink()
    outlet = Outlet("recording", lambda: sink)
    outlet.offer([an_event(batch) for batch in range(CAPACITY)])
    outlet.begin()
    assert ended(outlet).sent == CAPACITY


def test_after_the_end_an_offer_only_counts() -> None:
    outlet = an_outlet(RecordingSink)
    ended(outlet)
    outlet.offer([an_event(0)])
    assert outlet.status().dropped == 1


def test_an_outlet_that_never_began_can_be_ended() -> None:
    outlet = Outlet("recording", RecordingSink)
    outlet.offer([an_event(0)])
    assert ended(outlet).dropped == 1


@pytest.mark.parametrize(
    ("error", "sent", "trouble"),
    [
        pytest.param(SinkFault("The broker is away.", taken=0), 0, "The broker is away.", id="all"),
        pytest.param(SinkFault("Some were lost.", taken=2), 2, "Some were lost.", id="a part"),
        pytest.param(RuntimeError("no idea"), 0, "RuntimeError: no idea", id="a bug in a client"),
        pytest.param(
            RuntimeError("password=hunter2 refused"),
            0,
            "RuntimeError: password=(redacted) refused",
            id="a secret in the error",
        ),
    ],
)
def test_a_failed_call_is_counted_and_told(error: Exception, sent: int, trouble: str) -> None:
    sink = Failing(error)
    outlet = Outlet("recording", lambda: sink)
    outlet.offer([an_event(batch) for batch in range(3)])
    outlet.begin()
    until(lambda: outlet.status().trouble)
    assert outlet.status() == SinkStatus(
        sink="recording", sent=sent, dropped=3 - sent, trouble=trouble
    )
    sink.error = None
    outlet.offer([an_event(3)])
    until(lambda: outlet.status().trouble is None)
    assert ended(outlet).sent == sent + 1


def test_a_sink_that_cannot_be_connected_is_tried_again() -> None:
    sink = RecordingSink()
    attempts: list[int] = []

    def connect() -> ProgressSink:
        attempts.append(1)
        if len(attempts) < 3:
            raise SinkFault("The port is taken.")
        return sink

    outlet = Outlet("recording", connect, retry=0.01)
    outlet.offer([an_event(0)])
    outlet.begin()
    until(lambda: outlet.status().sent == 1)
    assert len(attempts) == 3
    assert ended(outlet).trouble is None


def test_a_sink_that_never_connects_ends_at_once_and_says_why() -> None:
    def refuse() -> ProgressSink:
        raise SinkFault("The library is missing.")

    outlet = an_outlet(refuse)
    until(lambda: outlet.status().trouble)
    outlet.offer([an_event(0)])
    begun = time.monotonic()
    assert ended(outlet) == SinkStatus(
        sink="recording", dropped=1, trouble="The library is missing."
    )
    assert time.monotonic() - begun < PATIENCE, "it was not waited for"


def test_a_sink_that_serves_its_figures_says_where() -> None:
    sink = RecordingSink()
    sink.url = "http://127.0.0.1:9000/metrics"
    outlet = an_outlet(lambda: sink)
    until(lambda: outlet.status().url)
    assert ended(outlet).url == sink.url
