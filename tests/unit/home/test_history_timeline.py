from __future__ import annotations

import dataclasses
import json
import logging
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.control import Event, EventKind
from airflow_streaming.model.storage import LocalStore
from tests.unit.home.make import NOON, make_progress


def make_event(minutes: int = 0) -> Event:
    return Event(
        event=EventKind.LAUNCHED,
        at=NOON + timedelta(minutes=minutes),
        by="ada",
        message=f"after {minutes} minutes",
        epoch=1,
        facts={"pid": "4711"},
    )


def test_events_come_in_the_order_of_their_times(stream: StreamHome) -> None:
    for minutes in (5, -3, 0, 61):
        stream.add_event(make_event(minutes))

    assert stream.events() == [make_event(m) for m in (-3, 0, 5, 61)]


def test_a_time_of_another_zone_sorts_by_its_moment(stream: StreamHome) -> None:
    later = dataclasses.replace(
        make_event(1), at=(NOON + timedelta(minutes=1)).astimezone(timezone(timedelta(hours=-9)))
    )
    stream.add_event(later)
    stream.add_event(make_event(0))

    assert [event.message for event in stream.events()] == ["after 0 minutes", "after 1 minutes"]


def test_events_of_one_moment_are_all_kept(stream: StreamHome) -> None:
    for _ in range(20):
        stream.add_event(make_event())

    assert len(stream.events()) == 20


def test_the_last_events_are_those_asked_for(stream: StreamHome) -> None:
    for minutes in range(6):
        stream.add_event(make_event(minutes))

    assert stream.events(2) == [make_event(4), make_event(5)]


def test_an_event_of_a_date_to_come_does_not_stay_the_last_one(stream: StreamHome) -> None:
    ahead = dataclasses.replace(make_event(), at=datetime(2999, 1, 1, tzinfo=UTC))
    for event in (make_event(0), ahead, make_event(1)):
        stream.add_event(event)

    assert stream.events(1) == [make_event(1)]
    assert stream.events() == [ahead, make_event(0), make_event(1)]


def test_events_before_a_time_are_not_even_read(
    stream: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minutes in range(6):
        stream.add_event(make_event(minutes))
    read, store = [], stream.store
    monkeypatch.setattr(
        store, "read", lambda path: read.append(path) or LocalStore.read(store, path)
    )

    since = (NOON + timedelta(minutes=4)).astimezone(timezone(timedelta(hours=5)))
    assert stream.events(50, since) == [make_event(4), make_event(5)]
    assert len(read) == 2


def test_a_bad_event_is_left_out(stream: StreamHome) -> None:
    stream.add_event(make_event())
    stream.store.create("orders/events/20260301T120000.000001Z-0123abcd.json", b"{}")
    stream.store.create("orders/events/notes.txt", b"hello")

    assert stream.events() == [make_event()]


def test_a_timeline_that_cannot_be_written_is_logged_and_not_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(LocalStore):
        def create(self, path: str, data: bytes) -> None:
            raise HomeUnavailable("No space left on device.")

    with caplog.at_level(logging.WARNING):
        StreamHome(Full(str(tmp_path)), "orders").add_event(make_event())

    assert caplog.messages == [
        "The timeline of stream orders misses launched: No space left on device."
    ]


def lines(*batches: int) -> bytes:
    return b"".join(
        json.dumps(dataclasses.asdict(make_progress(batch))).encode() + b"\n" for batch in batches
    )


def write_chunk(stream: StreamHome, number: int, data: bytes) -> None:
    stream.store.create(f"orders/epochs/000017/progress/{number:06d}.jsonl", data)


def batches(found: list[BatchProgress]) -> list[int]:
    return [progress.batch_id for progress in found]


def test_progress_comes_oldest_first_over_all_chunks(stream: StreamHome) -> None:
    assert stream.read_progress(17) == []
    write_chunk(stream, 2, lines(3, 4))
    write_chunk(stream, 1, lines(0, 1, 2))

    assert batches(stream.read_progress(17)) == [0, 1, 2, 3, 4]
    assert stream.read_progress(17)[0] == make_progress(0)


def test_only_the_last_batches_asked_for_are_read(stream: StreamHome) -> None:
    write_chunk(stream, 1, b"not read at all")
    write_chunk(stream, 2, lines(0, 1, 2))
    write_chunk(stream, 3, lines(3, 4))

    assert batches(stream.read_progress(17, limit=3)) == [2, 3, 4]
    assert batches(stream.read_progress(17, limit=1)) == [4]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b'{"query": "rev', id="a line cut short"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"query": "revenue"}', id="missing fields"),
        pytest.param(
            lines(9).strip().replace(b'"batch_id": 9', b'"batch_id": "9"'), id="a wrong type"
        ),
        pytest.param(
            lines(9).strip().replace(b"revenue", b"x" * 20_000), id="a line that is too long"
        ),
        pytest.param(b"\xff\xff", id="no text"),
        pytest.param(lines(9).strip().replace(b"400.0", b"NaN"), id="not a number"),
    ],
)
def test_a_bad_line_is_skipped(stream: StreamHome, bad: bytes) -> None:
    write_chunk(stream, 1, lines(0) + bad + b"\n\n" + lines(1))

    assert batches(stream.read_progress(17)) == [0, 1]


def test_a_chunk_that_is_too_large_is_skipped(stream: StreamHome) -> None:
    write_chunk(stream, 1, lines(0))
    write_chunk(stream, 2, b"x" * (2 * 1024 * 1024))
    write_chunk(stream, 3, lines(1))

    assert batches(stream.read_progress(17)) == [0, 1]


def test_files_of_other_names_are_no_chunks(stream: StreamHome) -> None:
    write_chunk(stream, 1, lines(0))
    for name in ("000002.json", "x.jsonl", "000002.jsonl.bak"):
        stream.store.create(f"orders/epochs/000017/progress/{name}", lines(9))

    assert batches(stream.read_progress(17)) == [0]


def test_a_line_from_the_future_is_read_without_its_new_fields(stream: StreamHome) -> None:
    line = {**dataclasses.asdict(make_progress(0)), "from_the_future": {"x": 1}}
    write_chunk(stream, 1, json.dumps(line).encode())

    assert stream.read_progress(17) == [make_progress(0)]
