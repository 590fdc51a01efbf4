"""The objects of an index: written, read, swept, and forged."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.home import open_home
from airflow_streaming.model.codec import encode, format_time
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.model.wire import decode
from airflow_streaming.services import fleet_index, fleet_writer
from airflow_streaming.services.fleet_index import (
    FOLDER,
    KEEP,
    clear,
    note_act,
    read_index,
    state_of,
)
from airflow_streaming.services.fleet_rows import CLOCKS_APART, FRESH, believed
from airflow_streaming.services.fleet_writer import (
    DROP_WITHIN,
    FIRST_AFTER,
    LONGEST_ROW,
    REST,
    SWEEP_EVERY,
    WRITE_EVERY,
    IndexWriter,
    writer_of,
)
from tests.patience import PATIENCE
from tests.unit.home.make import NOON
from tests.unit.services.test_fleet_rows import SECOND, a_row, an_owner


class Clock:
    def __init__(self) -> None:
        self.passed = 0.0

    def __call__(self) -> float:
        return self.passed

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.passed)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def writer(store: LocalStore, clock: Clock) -> IndexWriter:
    return IndexWriter(store, clock=clock, now=clock.now)


def lanes_in(store: LocalStore, *lanes: str) -> list[str]:
    # Of a date to come: the clocks of the tests move on from noon.
    now = NOON + timedelta(days=2)
    return sorted(row.lane for row in read_index(store, lanes, now).rows)


def put(store: LocalStore, name: str, told: Any) -> None:
    store.replace(
        f"{FOLDER}/{name}", told if isinstance(told, bytes) else json.dumps(told).encode()
    )


def an_object(*rows: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "fleet_index", "version": 1, "rows": [encode(row) for row in rows], **more}


def test_rows_are_written_after_the_first_looks_and_then_every_thirty_seconds(
    store: LocalStore, writer: IndexWriter, clock: Clock
) -> None:
    writer.note(a_row())
    writer.write_if_due()
    assert lanes_in(store, "orders") == []

    clock.passed = FIRST_AFTER
    writer.write_if_due()
    assert lanes_in(store, "orders") == ["orders"]

    writer.note(a_row("refunds"))
    clock.passed += WRITE_EVERY - 1
    writer.write_if_due()
    assert lanes_in(store, "orders", "refunds") == ["orders"]

    clock.passed += 1
    writer.write_if_due()
    assert lanes_in(store, "orders", "refunds") == ["orders", "refunds"]


def test_a_thread_does_not_wait_for_another_one_that_writes(
    store: LocalStore, writer: IndexWriter, clock: Clock
) -> None:
    writer.note(a_row())
    clock.passed = FIRST_AFTER
    with writer._write_lock:
        thread = threading.Thread(target=writer.write_if_due, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert store.names(FOLDER) == []


def written(writer: IndexWriter, clock: Clock) -> None:
    clock.passed += max(FIRST_AFTER, WRITE_EVERY)
    writer.write_if_due()


def test_a_row_that_is_dropped_or_old_is_written_no_more(
    store: LocalStore, writer: IndexWriter, clock: Clock
) -> None:
    for lane in ("orders", "refunds", "old"):
        writer.note(a_row(lane, FRESH if lane == "old" else SECOND))
    writer.drop("refunds")
    written(writer, clock)

    assert lanes_in(store, "orders", "refunds", "old") == ["orders"]


def test_ten_thousand_rows_are_several_objects_and_leave_none_behind(
    store: LocalStore, writer: IndexWriter, clock: Clock
) -> None:
    lanes = [f"s{number:05d}" for number in range(10_000)]
    for lane in lanes:
        writer.note(a_row(lane, -timedelta(seconds=60), reason="x" * 300))
    written(writer, clock)
    parts = store.names(FOLDER)

    assert len(parts) > 3
    assert lanes_in(store, *lanes) == lanes

    for lane in lanes[10:]:
        writer.drop(lane)
    written(writer, clock)
    assert [name.partition("-")[2] for name in store.names(FOLDER)] == ["1.json"]
    assert lanes_in(store, *lanes) == lanes[:10]


def test_no_row_leaves_no_object(store: LocalStore, writer: IndexWriter, clock: Clock) -> None:
    writer.note(a_row())
    written(writer, clock)
    writer.drop("orders")
    written(writer, clock)

    assert store.names(FOLDER) == []


def test_a_secret_in_a_reason_is_not_written(
    store: LocalStore, writer: IndexWriter, clock: Clock
) -> None:
    writer.note(a_row(reason="password=hunter2", remedy="token=hunter2"))
    written(writer, clock)

    [name] = store.names(FOLDER)
    assert b"hunter2" not in (store.read(f"{FOLDER}/{name}") or b"")


class Refusing(LocalStore):
    refuses = True

    def replace(self, path: str, data: bytes) -> None:
        if self.refuses:
            raise HomeUnavailable("read-only")
        super().replace(path, data)


def test_a_home_that_refuses_a_write_is_left_alone_for_a_while(
    tmp_path: Path, clock: Clock
) -> None:
    store = Refusing(str(tmp_path))
    writer = IndexWriter(store, clock=clock, now=clock.now)
    writer.note(a_row(age=-timedelta(seconds=REST + WRITE_EVERY)))
    written(writer, clock)
    store.refuses = False

    clock.passed += REST - 1
    writer.write_if_due()
    assert store.names(FOLDER) == []

    clock.passed += 1
    writer.write_if_due()
    assert len(store.names(FOLDER)) == 1


def test_objects_of_writers_that_are_gone_are_swept(
    store: LocalStore, writer: IndexWriter, clock: Clock, tmp_path: Path
) -> None:
    put(store, "gone.json", an_object(a_row(age=KEEP)))
    put(store, "alive.json", an_object(a_row(age=KEEP), a_row("b", SECOND)))
    put(store, "junk.json", b"\x00" * 100)
    put(store, "act-old.json", {**an_object(), "acts": {"old": format_time(NOON - KEEP)}})
    put(store, "act-new.json", {**an_object(), "acts": {"new": format_time(NOON)}})
    (tmp_path / FOLDER / "folder").mkdir()
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / FOLDER / "link").symlink_to(tmp_path / "elsewhere")
    writer.note(a_row())
    clock.passed = FIRST_AFTER
    writer.write_if_due()

    left = {name for name in store.names(FOLDER) if "link" not in name}
    assert {"alive.json", "act-new.json", "folder"} < left
    assert not {"gone.json", "junk.json", "act-old.json"} & left
    assert (tmp_path / "elsewhere").read_text() == "kept"
    assert {*lanes_in(store, "orders")} == {"orders"}

    put(store, "gone.json", an_object(a_row(age=KEEP)))
    written(writer, clock)
    assert "gone.json" in store.names(FOLDER)
    clock.passed += SWEEP_EVERY
    writer.write_if_due()
    assert "gone.json" not in store.names(FOLDER)


def test_objects_are_kept_and_swept_to_the_second(
    store: LocalStore, writer: IndexWriter, clock: Clock
) -> None:
    first = timedelta(seconds=FIRST_AFTER)
    put(store, "edge.json", an_object(a_row(age=KEEP - first)))
    writer.note(a_row())
    clock.passed = FIRST_AFTER
    writer.write_if_due()
    assert "edge.json" in store.names(FOLDER)

    writer.note(a_row(age=-timedelta(minutes=5)))
    clock.passed = FIRST_AFTER + SWEEP_EVERY - 1
    writer.write_if_due()
    assert "edge.json" in store.names(FOLDER)

    clock.passed += WRITE_EVERY
    writer._sweep_due = clock.passed
    writer.write_if_due()
    assert "edge.json" not in store.names(FOLDER)


HOSTILE: dict[str, Callable[[], Any]] = {
    "no JSON": lambda: b"{",
    "nested deep": lambda: b"[" * 100_000,
    "nested deep in a row": lambda: (
        b'{"kind": "fleet_index", "version": 1, "rows": ' + b"[" * 500_000 + b"}"
    ),
    "a list": lambda: [1],
    "another kind": lambda: {**an_object(a_row()), "kind": "status"},
    "another version": lambda: {**an_object(a_row()), "version": 2},
    "rows that are no list": lambda: {**an_object(), "rows": {"orders": {}}},
    "rows that are a number": lambda: {**an_object(), "rows": 5},
    "rows that are true": lambda: {**an_object(), "rows": True},
    "rows that are no objects": lambda: {**an_object(), "rows": [1, None, "x", [], True]},
    "a row without a lane": lambda: {**an_object(), "rows": [{"word": "healthy"}]},
    "a row that is malformed": lambda: {**an_object(), "rows": [{"lane": "orders"}]},
    "not a number": lambda: b'{"kind": "fleet_index", "version": 1, "rows": [NaN]}',
    "UTF-16": lambda: json.dumps(an_object(a_row())).encode("utf-16"),
    "larger than a record": lambda: b" " * (1024 * 1024 + 1),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_object_takes_nothing_from_the_others(store: LocalStore, case: str) -> None:
    data = HOSTILE[case]()
    (Path(store.uri) / FOLDER).mkdir(parents=True)
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    (Path(store.uri) / FOLDER / "hostile.json").write_bytes(raw)
    put(store, "ours.json", an_object(a_row("refunds")))

    assert lanes_in(store, "orders", "refunds") == ["refunds"]


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_object_stops_no_writer(
    store: LocalStore, writer: IndexWriter, clock: Clock, case: str
) -> None:
    data = HOSTILE[case]()
    (Path(store.uri) / FOLDER).mkdir(parents=True)
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    (Path(store.uri) / FOLDER / "hostile.json").write_bytes(raw)

    writer.note(a_row("refunds"))
    clock.passed += SWEEP_EVERY
    writer.write_if_due()

    assert lanes_in(store, "refunds") == ["refunds"]


def test_a_row_that_is_malformed_takes_nothing_from_its_object(store: LocalStore) -> None:
    told = an_object(a_row("refunds"))
    put(store, "mixed.json", {**told, "rows": [{"lane": "orders"}, *told["rows"]]})

    assert lanes_in(store, "orders", "refunds") == ["refunds"]


def test_an_index_that_cannot_be_listed_is_none(store: LocalStore, tmp_path: Path) -> None:
    assert read_index(store, ["orders"], NOON).rows == ()
    (tmp_path / "rows").mkdir()
    (tmp_path / FOLDER).symlink_to(tmp_path / "rows")
    (tmp_path / "rows" / "x.json").write_text(json.dumps(an_object(a_row())))

    assert read_index(store, ["orders"], NOON).rows == ()


def test_a_reader_reads_a_bounded_number_of_objects(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_index, "MOST_OBJECTS", 3)
    monkeypatch.setattr(fleet_index, "MOST_ROWS", 2)
    for number in range(9):
        put(store, f"{number}.json", an_object(*(a_row(f"s{number}.{n}") for n in range(5))))

    lanes = [f"s{number}.{n}" for number in range(9) for n in range(5)]
    assert len(read_index(store, lanes, NOON).rows) == 6


def test_an_act_of_a_user_makes_readers_look(store: LocalStore, tmp_path: Path) -> None:
    stream = open_home(str(tmp_path)).stream("orders")
    note_act(stream)
    assert store.names("") == []

    put(store, "rows.json", an_object(a_row(), a_row("orders.green"), a_row("refunds")))
    note_act(stream)

    lanes = ["orders", "orders.green", "refunds"]
    assert [*believed(read_index(store, lanes, NOON), lanes, NOON)] == ["refunds"]


def test_more_acts_than_a_reader_reads_make_it_look(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_index, "MOST_OBJECTS", 2)
    lanes = [f"s{number}" for number in range(4)]
    put(store, "rows.json", an_object(*map(a_row, [*lanes, "other"])))
    for lane in lanes:
        old = format_time(NOON - timedelta(days=1))
        put(store, f"act-{lane}.json", {**an_object(), "acts": {lane: old}})

    found = believed(read_index(store, [*lanes, "other"], NOON), [*lanes, "other"], NOON)

    assert [*found] == ["s0", "s1", "other"]


@pytest.mark.parametrize("acts", [{}, {"orders": 7}, {"orders": "soon"}, [], None, {"other": "x"}])
def test_an_act_that_cannot_be_read_makes_readers_look(store: LocalStore, acts: Any) -> None:
    put(store, "rows.json", an_object(a_row(), a_row("refunds")))
    put(store, "act-orders.json", {**an_object(), "acts": acts})

    lanes = ["orders", "refunds"]
    assert [*believed(read_index(store, lanes, NOON), lanes, NOON)] == ["refunds"]


def test_an_act_that_cannot_be_noted_is_no_error(tmp_path: Path) -> None:
    store = Refusing(str(tmp_path))
    store.refuses = False
    store.replace(f"{FOLDER}/x.json", b"{}")
    store.refuses = True
    stream = open_home(str(tmp_path)).stream("orders")
    stream.store = store

    note_act(stream)


def test_a_process_has_one_writer_for_a_home(store: LocalStore) -> None:
    assert writer_of(("/h", None), store) is writer_of(("/h", None), store)
    assert writer_of(("/h", None), store) is not writer_of(("/h", "conn"), store)


def test_a_dropped_row_leaves_the_home_within_seconds(
    store: LocalStore, writer: IndexWriter, clock: Clock
) -> None:
    writer.note(a_row())
    writer.note(a_row("refunds"))
    written(writer, clock)
    writer.drop("orders")
    clock.passed += DROP_WITHIN - 1
    writer.write_if_due()
    assert lanes_in(store, "orders", "refunds") == ["orders", "refunds"]

    clock.passed += 1
    writer.write_if_due()
    assert lanes_in(store, "orders", "refunds") == ["refunds"]


def test_a_dropped_row_does_not_shorten_the_rest_of_a_home_that_refuses(
    tmp_path: Path, clock: Clock
) -> None:
    store = Refusing(str(tmp_path))
    writer = IndexWriter(store, clock=clock, now=clock.now)
    writer.note(a_row(age=-timedelta(seconds=REST)))
    writer.note(a_row("refunds", age=-timedelta(seconds=REST)))
    written(writer, clock)
    store.refuses = False

    writer.drop("orders")
    clock.passed += 2 * DROP_WITHIN
    writer.write_if_due()

    assert store.names(FOLDER) == []


def test_a_row_too_long_for_its_place_takes_nothing_from_the_others(
    store: LocalStore, writer: IndexWriter, clock: Clock
) -> None:
    owner = replace(an_owner(), reason="x" * 1_100_000)
    writer.note(a_row(owner=an_owner()))
    writer.note(a_row(owner=owner))
    writer.note(a_row("refunds"))
    written(writer, clock)

    assert lanes_in(store, "orders", "refunds") == ["refunds"]


@pytest.mark.parametrize(("more", "objects"), [(0, 1), (1, 0)])
def test_the_longest_row_is_written(
    store: LocalStore, writer: IndexWriter, clock: Clock, more: int, objects: int
) -> None:
    short = len(json.dumps(encode(a_row(owner=replace(an_owner(), reason=""))), allow_nan=False))
    writer.note(a_row(owner=replace(an_owner(), reason="x" * (LONGEST_ROW - short + more))))
    written(writer, clock)

    assert len(store.names(FOLDER)) == objects


@pytest.mark.parametrize(("age", "objects"), [(FRESH, 1), (FRESH + SECOND, 0)])
def test_a_row_is_written_until_readers_look_for_themselves(
    store: LocalStore, writer: IndexWriter, age: timedelta, objects: int
) -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    writer._now = lambda: now
    writer.note(replace(a_row(), seen_at=now - age))
    writer._write()

    assert len(store.names(FOLDER)) == objects


class FullAfter(LocalStore):
    """A store that takes some objects, and then no more."""

    takes = 99

    def replace(self, path: str, data: bytes) -> None:
        if self.takes <= 0:
            raise HomeUnavailable("no space left")
        self.takes -= 1
        super().replace(path, data)


def test_a_write_that_fails_half_way_leaves_no_object_for_good(
    tmp_path: Path, clock: Clock
) -> None:
    store = FullAfter(str(tmp_path))
    writer = IndexWriter(store, clock=clock, now=clock.now)
    lanes = [f"s{number:05d}" for number in range(6_000)]
    for lane in lanes:
        writer.note(a_row(lane, -timedelta(seconds=REST + 60), reason="x" * 300))
    store.takes = 2
    written(writer, clock)
    assert len(store.names(FOLDER)) == 2

    store.takes = 99
    for lane in lanes[1:]:
        writer.drop(lane)
    clock.passed += REST
    writer.write_if_due()

    assert [name.partition("-")[2] for name in store.names(FOLDER)] == ["1.json"]


def test_objects_of_a_wrong_clock_are_swept(
    store: LocalStore, writer: IndexWriter, clock: Clock
) -> None:
    put(store, "ahead.json", an_object(a_row("a", -timedelta(days=3))))
    put(store, "act-a.json", {**an_object(), "acts": {"a": format_time(NOON + timedelta(days=3))}})
    put(store, "a-little-ahead.json", an_object(a_row("b", -timedelta(seconds=60))))
    writer.note(a_row())
    written(writer, clock)

    left = set(store.names(FOLDER))
    assert "a-little-ahead.json" in left
    assert not {"ahead.json", "act-a.json"} & left


def test_rows_that_are_dated_ahead_are_not_believed_when_their_time_comes(
    store: LocalStore,
) -> None:
    stock = [a_row(age=-timedelta(minutes=n), epoch=n) for n in range(100)]
    put(store, "stock.json", an_object(*stock))

    for minutes in (0, 1, 50):
        now = NOON + timedelta(minutes=minutes)
        assert believed(read_index(store, ["orders"], now), ["orders"], now) == {}


@pytest.mark.parametrize(("beyond", "rows"), [(timedelta(0), 1), (timedelta(microseconds=1), 0)])
def test_a_row_of_a_clock_that_is_as_far_ahead_as_clocks_may_be_is_read(
    store: LocalStore, beyond: timedelta, rows: int
) -> None:
    put(store, "ahead.json", an_object(a_row(age=-CLOCKS_APART - beyond)))

    assert len(read_index(store, ["orders"], NOON).rows) == rows


def test_each_lane_is_decoded_once_however_often_it_is_written(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []
    monkeypatch.setattr(
        fleet_index,
        "decode",
        lambda cls, row, where: decoded.append(row["lane"]) or decode(cls, row, where),
    )
    for number in range(3):
        rows = [a_row(age=(number + n) * SECOND, epoch=number) for n in range(1, 50)]
        put(store, f"{number}.json", an_object(*rows))

    [row] = read_index(store, ["orders"], NOON).rows

    assert (decoded, row.seen_at, row.epoch) == (["orders"], NOON - SECOND, 0)


def test_a_reader_parses_a_bounded_number_of_bytes(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        put(store, f"{number}.json", an_object(a_row(f"s{number}")))
    size = len(store.read(f"{FOLDER}/0.json") or b"")
    monkeypatch.setattr(fleet_index, "MOST_BYTES", 4 * size)

    assert lanes_in(store, *(f"s{number}" for number in range(9))) == ["s0", "s1", "s2", "s3"]


def test_the_writer_of_a_home_uses_the_newest_store(store: LocalStore, tmp_path: Path) -> None:
    renewed = LocalStore(str(tmp_path / "renewed"))
    writer = writer_of(("/renewed", None), store)
    writer.note(a_row(age=NOON - datetime.now(UTC)))
    writer._due = 0.0

    writer_of(("/renewed", None), renewed).write_if_due()

    assert store.names(FOLDER) == []
    assert len(renewed.names(FOLDER)) == 1


def test_a_process_has_a_bounded_number_of_writers(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_writer, "_writers", {})
    monkeypatch.setattr(fleet_writer, "_MOST_WRITERS", 2)
    made = [writer_of(number, store) for number in range(3)]

    assert [*fleet_writer._writers.values()] == made[1:]


STATES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "in order": ({"1.json": an_object(a_row(), a_row("b"))}, {"objects": 1, "rows": 2}),
    "nothing": ({}, {"objects": 0, "newest_age_s": None}),
    "malformed": (
        {"1.json": b"{", "2.json": an_object(a_row())},
        {"objects": 2, "malformed": 1, "rows": 1},
    ),
    "ahead": ({"1.json": an_object(a_row(age=-timedelta(hours=1)))}, {"ahead": 1}),
    "as far ahead as clocks may be": (
        {"1.json": an_object(a_row(age=-CLOCKS_APART))},
        {"ahead": 0},
    ),
    "an act is no row": (
        {"act-orders.json": {**an_object(), "acts": {"orders": format_time(NOON)}}},
        {"objects": 0, "rows": 0},
    ),
}


@pytest.mark.parametrize("case", STATES)
def test_the_state_of_an_index(store: LocalStore, case: str) -> None:
    objects, expected = STATES[case]
    for name, told in objects.items():
        put(store, name, told)

    state = state_of(store, NOON)

    assert {name: getattr(state, name) for name in expected} == expected
    if case == "in order":
        assert state.newest_age_s == 1


def test_an_index_is_cleared_and_its_writer_fills_it_again(
    store: LocalStore, writer: IndexWriter, clock: Clock, tmp_path: Path
) -> None:
    writer.note(a_row(age=-timedelta(minutes=1)))
    written(writer, clock)
    put(store, "junk.json", b"{")
    put(store, "act-orders.json", {**an_object(), "acts": {"orders": format_time(NOON)}})
    (tmp_path / FOLDER / "folder").mkdir()

    assert clear(store) == 2

    assert store.names(FOLDER) == ["act-orders.json", "folder"]
    clock.passed += WRITE_EVERY
    writer.write_if_due()
    assert lanes_in(store, "orders") == ["orders"]
