from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.control import CircuitState, Desired, DesiredState
from airflow_streaming.model.storage import LocalStore
from tests.unit.home.make import NOON

RUNNING, STOPPED = DesiredState.RUNNING, DesiredState.STOPPED


def want(stream: StreamHome, state: DesiredState, by: str = "ada") -> int:
    return stream.want(state, by=by, reason="for a test", now=NOON).number


def test_a_new_stream_has_no_wish_and_no_circuit(stream: StreamHome) -> None:
    assert stream.desired() is None
    assert stream.circuit() is None


def test_the_newest_wish_counts(stream: StreamHome) -> None:
    assert [want(stream, state) for state in (STOPPED, RUNNING, STOPPED)] == [1, 2, 3]

    desired = stream.desired()
    assert desired is not None
    assert (desired.number, desired.state, desired.by) == (3, STOPPED, "ada")


def test_a_wish_that_stands_already_is_not_recorded_again(stream: StreamHome) -> None:
    want(stream, STOPPED)

    again = stream.want(STOPPED, by="bob", reason="me too", now=NOON + timedelta(hours=1))

    assert (again.number, again.by, again.at) == (1, "ada", NOON)
    assert stream.store.names("orders/desired") == ["000001.json"]


def test_a_wish_for_one_number_is_not_recorded_under_another(stream: StreamHome) -> None:
    seen = Desired(number=1, state=STOPPED, by="ada", reason="for a test", at=NOON, change=4)
    want(stream, RUNNING, by="bob")

    assert not stream.want_next(seen)
    assert stream.store.names("orders/desired") == ["000001.json"]
    assert stream.want_next(replace(seen, number=2))
    assert stream.desired() == replace(seen, number=2)


HOUR, NIGHT = NOON + timedelta(hours=1), NOON + timedelta(hours=9)


@pytest.mark.parametrize(
    ("first", "second", "counts"),
    [
        pytest.param(None, HOUR, None, id="no end comes to a stop without one"),
        pytest.param(HOUR, None, None, id="a stop without an end replaces one that has it"),
        pytest.param(HOUR, NIGHT, NIGHT, id="a later end"),
        pytest.param(NIGHT, HOUR, HOUR, id="an earlier end"),
    ],
)
def test_the_newest_end_of_a_stop_counts_but_none_ends_an_open_one(
    stream: StreamHome, first: datetime | None, second: datetime | None, counts: datetime | None
) -> None:
    for until in (first, second, second):
        stream.want(STOPPED, by="ada", reason="a broker", now=NOON, until=until)

    desired = stream.desired()
    assert desired is not None
    assert (desired.state, desired.until) == (STOPPED, counts)
    assert desired.number == (1 if first is None else 2)


@pytest.mark.parametrize(
    ("wish", "is_over"),
    [
        ({"until": HOUR}, True),
        ({"until": HOUR + timedelta(microseconds=1)}, False),
        ({"until": None}, False),
        ({"until": HOUR, "state": RUNNING}, False),
    ],
)
def test_a_stop_is_over_at_its_end(wish: dict[str, Any], is_over: bool) -> None:
    desired = Desired(
        **{"number": 1, "state": STOPPED, "by": "ada", "reason": "", "at": NOON} | wish
    )

    assert desired.is_over(HOUR) is is_over
    assert Desired.from_bytes(desired.to_bytes()).until == desired.until


def test_a_wish_that_loses_its_number_takes_the_next(tmp_path: Path) -> None:
    class BusyStore(LocalStore):
        """Somebody else wants the stream stopped just before our first create."""

        is_first = True

        def create(self, path: str, data: bytes) -> None:
            if self.is_first:
                self.is_first = False
                want(StreamHome(LocalStore(str(tmp_path)), "orders"), STOPPED, by="bob")
            super().create(path, data)

    stream = StreamHome(BusyStore(str(tmp_path)), "orders")

    assert want(stream, RUNNING) == 2

    desired = stream.desired()
    assert desired is not None
    assert (desired.state, desired.by) == (RUNNING, "ada")


def test_racing_wishes_for_one_thing_make_one_record(stream: StreamHome) -> None:
    start = threading.Barrier(12)

    def desired(number: int) -> int:
        start.wait()
        return want(stream, STOPPED, by=f"person {number}")

    with ThreadPoolExecutor(12) as pool:
        assert set(pool.map(desired, range(12))) == {1}

    assert stream.store.names("orders/desired") == ["000001.json"]


def test_racing_wishes_for_two_things_alternate(stream: StreamHome) -> None:
    start = threading.Barrier(12)

    def desired(number: int) -> int:
        start.wait()
        return want(stream, (STOPPED, RUNNING)[number % 2])

    with ThreadPoolExecutor(12) as pool:
        numbers = [*pool.map(desired, range(12))]

    names = stream.store.names("orders/desired")
    wishes = [Desired.from_bytes(stream.store.read(f"orders/desired/{n}") or b"") for n in names]
    assert max(numbers) == len(wishes)
    assert all(one.state is not other.state for one, other in pairwise(wishes))


def test_a_store_that_never_lists_the_newest_file_ends_with_an_error(tmp_path: Path) -> None:
    class StaleStore(LocalStore):
        def names(self, folder: str) -> list[str]:
            return []

    stream = StreamHome(StaleStore(str(tmp_path)), "orders")
    want(stream, STOPPED)

    with pytest.raises(HomeUnavailable, match=r"orders/desired: 100 times another one was there"):
        want(stream, RUNNING)


def open_circuit(stream: StreamHome, epoch: int) -> tuple[int, CircuitState, int]:
    circuit = stream.open_circuit(epoch=epoch, by="policy", reason="budget spent", now=NOON)
    return circuit.number, circuit.state, circuit.epoch


def close_circuit(stream: StreamHome, epoch: int) -> tuple[int, CircuitState, int] | None:
    circuit = stream.close_circuit(epoch=epoch, by="ada", reason="mended", now=NOON)
    return (circuit.number, circuit.state, circuit.epoch) if circuit else None


OPEN, CLOSED = CircuitState.OPEN, CircuitState.CLOSED


def test_a_circuit_opens_once_for_an_epoch(stream: StreamHome) -> None:
    assert open_circuit(stream, 5) == (1, OPEN, 5)
    assert open_circuit(stream, 5) == (1, OPEN, 5)


def test_a_failed_trial_opens_it_anew(stream: StreamHome) -> None:
    open_circuit(stream, 5)

    assert open_circuit(stream, 6) == (2, OPEN, 6)


def test_a_person_closes_an_open_circuit_once(stream: StreamHome) -> None:
    open_circuit(stream, 5)

    assert close_circuit(stream, 5) == (2, CLOSED, 5)
    assert close_circuit(stream, 5) == (2, CLOSED, 5)


def test_closing_what_was_never_open_records_nothing(stream: StreamHome) -> None:
    assert close_circuit(stream, 5) is None
    assert stream.circuit() is None


def test_a_slow_task_does_not_undo_a_persons_close(stream: StreamHome) -> None:
    open_circuit(stream, 5)
    close_circuit(stream, 5)

    assert open_circuit(stream, 5) == (2, CLOSED, 5)
    assert open_circuit(stream, 4) == (2, CLOSED, 5)


def test_the_next_failure_after_a_close_opens_it_again(stream: StreamHome) -> None:
    open_circuit(stream, 5)
    close_circuit(stream, 5)

    assert open_circuit(stream, 6) == (3, OPEN, 6)


def test_a_lost_number_is_an_error_of_the_store_only_when_it_goes_on(tmp_path: Path) -> None:
    class OnceLosing(LocalStore):
        lost = False

        def create(self, path: str, data: bytes) -> None:
            if not self.lost:
                self.lost = True
                raise AlreadyExists(path)
            super().create(path, data)

    stream = StreamHome(OnceLosing(str(tmp_path)), "orders")

    assert open_circuit(stream, 1) == (1, OPEN, 1)
