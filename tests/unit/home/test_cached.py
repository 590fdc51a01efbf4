"""What a watcher knows by heart is what the home says, and costs few requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.home.cached import FORGET_AFTER, TRY_RARE_AFTER, CachedStream
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.supervision.observer import Observer
from tests.fakes import FakeLauncher
from tests.unit.home.make import (
    NOON,
    SCRIPT,
    make_death,
    make_decision,
    make_deployment,
    make_epoch,
    make_exit,
    make_launch,
    make_status,
    make_stop,
)

MOST_REQUESTS = 6
LAYOUT = Layout("orders")


class CountingStore(LocalStore):
    """Counts what an object store would be asked."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.asked: Counter[str] = Counter()

    def read(self, path: str) -> bytes | None:
        self.asked[f"read {path}"] += 1
        return super().read(path)

    def names(self, folder: str) -> list[str]:
        self.asked[f"list {folder}"] += 1
        return super().names(folder)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(stream: StreamHome) -> CountingStore:
    return CountingStore(stream.store.uri)


@pytest.fixture
def cached(store: CountingStore, clock: Clock) -> CachedStream:
    return CachedStream(store, "orders", clock=clock)


def write_status(stream: StreamHome, epoch: int, beat: int) -> None:
    status = make_status(epoch, beat=beat).to_bytes()
    stream.store.replace(LAYOUT.epoch(epoch, "status.json"), status)


@pytest.fixture
def running(stream: StreamHome) -> StreamHome:
    """A stream whose first driver runs."""
    stream.create_deployment(make_deployment(), SCRIPT)
    stream.create_epoch(make_epoch())
    stream.record_launch(make_launch())
    write_status(stream, 1, beat=1)
    return stream


def observer(home: StreamHome) -> Observer:
    return Observer(home, FakeLauncher(), rules=HealthRules(), policy=RestartPolicy())


def test_a_look_at_a_stream_at_rest_costs_few_requests(
    running: StreamHome, cached: CachedStream, store: CountingStore
) -> None:
    watcher = observer(cached)
    watcher.situation(tells=True)
    store.asked.clear()

    watcher.situation(tells=True)

    assert store.asked.total() <= MOST_REQUESTS, store.asked
    assert [asked for asked in store.asked if asked.startswith("list")] == [
        "list orders/epochs/000001"
    ], "a listing costs twelve reads"


def test_what_was_created_once_is_read_once(
    running: StreamHome, cached: CachedStream, store: CountingStore
) -> None:
    assert cached.epoch(1) == cached.epoch(1) == running.epoch(1)
    assert cached.launch(1) == cached.launch(1) == running.launch(1)

    assert store.asked == {
        "read orders/epochs/000001.json": 1,
        "read orders/epochs/000001/launch.json": 1,
    }


def test_every_beat_is_seen(running: StreamHome, cached: CachedStream) -> None:
    beats = []
    for beat in (1, 2, 3):
        write_status(running, 1, beat)
        status = cached.status(1)
        assert status is not None
        beats.append(status.beat)

    assert beats == [1, 2, 3]


def begin_epoch(stream: StreamHome) -> None:
    stream.create_epoch(make_epoch(2))


def begin_epoch_of_a_new_deployment(stream: StreamHome) -> None:
    stream.create_deployment(make_deployment(2), SCRIPT)
    stream.create_epoch(make_epoch(2, deployment=2))


def begin_two_epochs(stream: StreamHome) -> None:
    stream.create_epoch(make_epoch(2))
    stream.create_epoch(make_epoch(3))


def want(stream: StreamHome) -> None:
    stream.want(DesiredState.STOPPED, by="ann", reason="x", now=NOON)


def change_the_wish(stream: StreamHome) -> None:
    want(stream)
    stream.want(DesiredState.RUNNING, by="ann", reason="x", now=NOON)


def open_circuit(stream: StreamHome) -> None:
    stream.open_circuit(epoch=1, by="rule", reason="x", now=NOON)


@pytest.mark.parametrize(
    "write",
    [
        begin_epoch,
        begin_epoch_of_a_new_deployment,
        begin_two_epochs,
        want,
        change_the_wish,
        open_circuit,
        lambda stream: stream.request_stop(make_stop()),
        lambda stream: stream.store.create(
            LAYOUT.epoch(1, "exit.json"), LAYOUT.bytes_of(make_exit())
        ),
        lambda stream: stream.declare_dead(make_death()),
        lambda stream: stream.record_restart_decision(make_decision()),
    ],
    ids=[
        "a new epoch",
        "a new deployment",
        "two epochs at once",
        "a wish",
        "two wishes at once",
        "an open circuit",
        "a stop request",
        "last words",
        "a death",
        "a restart decision",
    ],
)
def test_the_next_look_sees_what_was_written_since(
    running: StreamHome, cached: CachedStream, write: Callable[[StreamHome], None]
) -> None:
    watcher, fixed = observer(cached), datetime.now(UTC) + timedelta(hours=1)
    watcher._now = lambda: fixed
    watcher.situation()
    before = watcher.situation()

    write(running)

    fresh = observer(running)
    fresh._now = lambda: fixed
    after, expected = watcher.situation(), fresh.situation()
    assert after != before
    for field in ("desired", "deployment", "circuit", "decision", "stop"):
        assert getattr(after, field) == getattr(expected, field)
    assert after.seen is not None
    assert expected.seen is not None
    for field in ("epoch", "launch", "status", "exit", "death"):
        assert getattr(after.seen, field) == getattr(expected.seen, field)


def test_a_deployment_without_an_epoch_is_seen_within_a_minute(
    running: StreamHome, cached: CachedStream, clock: Clock
) -> None:
    assert cached.newest_deployment() == make_deployment()
    running.create_deployment(make_deployment(2), SCRIPT)

    clock.now += TRY_RARE_AFTER

    assert cached.newest_deployment() == make_deployment(2)


def test_a_home_that_is_suddenly_empty_is_told_and_read_anew(
    running: StreamHome, cached: CachedStream, tmp_path: Path
) -> None:
    observer(cached).situation()
    (tmp_path / "home" / "orders").rename(tmp_path / "unmounted")

    with pytest.raises(HomeUnavailable, match=r"epochs/000001/ lacks files .* is read anew"):
        observer(cached).situation()

    assert cached.newest_epoch() is None
    assert observer(cached).situation().seen is None


def test_what_no_program_would_do_is_seen_after_five_minutes(
    running: StreamHome, cached: CachedStream, clock: Clock
) -> None:
    assert cached.newest_epoch() == make_epoch(1)
    running.create_epoch(make_epoch(9))
    assert cached.newest_epoch() == make_epoch(1), "the next number after 1 is 2"

    clock.now += FORGET_AFTER

    assert cached.newest_epoch() == make_epoch(9)


def test_a_record_that_cannot_be_read_is_tried_again(
    running: StreamHome, cached: CachedStream
) -> None:
    path = LAYOUT.epoch(1, "exit.json")
    running.store.create(path, b"{}")
    with pytest.raises(RecordError, match=r"exit\.json cannot be read"):
        cached.exit(1)

    running.store.replace(path, make_exit().to_bytes("orders"))

    assert cached.exit(1) == make_exit()


def test_writing_goes_on_from_the_newest_number(running: StreamHome, cached: CachedStream) -> None:
    assert cached.desired() is None
    want(running)

    newest = cached.want(DesiredState.RUNNING, by="bob", reason="y", now=NOON)

    assert newest.number == 2
    assert running.desired() == newest
