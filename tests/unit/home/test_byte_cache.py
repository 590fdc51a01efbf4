"""What a process keeps of homes is bounded by bytes, however many streams write however much."""

from __future__ import annotations

import logging
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home import cached
from airflow_streaming.home.byte_cache import ENTRY_BYTES, ByteCache
from airflow_streaming.home.cached import MOST_BYTES, CachedStream
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.alert import Alert, AlertKind
from airflow_streaming.model.records.control import Event, EventKind
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.model.wire import MAX_NOTE_BYTES
from tests.unit.home.make import NOON, make_deployment, make_epoch

MIB = 1024 * 1024


def an_alert(number: int = 1, reason: str = "Slow.", stream: str = "orders") -> Alert:
    return Alert(
        number=number,
        stream=stream,
        alert=AlertKind.UNHEALTHY,
        key="slow",
        epoch=1,
        at=NOON,
        by="test",
        reason=reason,
    )


def alerts_of(store: LocalStore, stream: str, count: int, size: int) -> None:
    """Let the script of a stream write alerts."""
    for number in range(1, count + 1):
        alert = an_alert(number, "x" * size, stream)
        data = alert.to_bytes() if size < MAX_NOTE_BYTES // 2 else too_large(alert)
        store.create(Layout(stream).place(Alert, number=number), data)


def too_large(alert: Alert) -> bytes:
    small = replace(alert, reason="REASON").to_bytes()
    return small.replace(b"REASON", alert.reason.encode())


@pytest.mark.parametrize(
    "size",
    [900_000, pytest.param(30_000, marks=pytest.mark.nightly("The cache keeps all 400 alerts."))],
)
def test_the_alerts_of_a_stream_take_little_memory(tmp_path: Path, size: int) -> None:
    store = LocalStore(str(tmp_path))
    alerts_of(store, "orders", 400, size)
    watched = CachedStream(store, "orders")
    logging.disable()  # pytest keeps what is logged, and with an error all of its frames
    tracemalloc.start()
    try:
        for _ in range(2):
            watched.alerts()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        logging.disable(logging.NOTSET)

    assert kept < 4 * MIB


def test_all_streams_of_a_process_share_one_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared: ByteCache[Alert] = ByteCache(2 * MOST_BYTES)
    monkeypatch.setattr(cached, "_RECORDS", shared)
    store = LocalStore(str(tmp_path))
    watched = []
    for stream in ("orders", "payments", "clicks", "views"):
        alerts_of(store, stream, 60, 20_000)
        watched.append(CachedStream(store, stream))
        assert len(watched[-1].alerts()) == 60

    assert MOST_BYTES < shared.size <= 2 * MOST_BYTES
    for one in watched:
        one.forget()
    assert shared.size == 0


def test_a_record_that_was_put_out_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "_RECORDS", ByteCache(10))
    store = LocalStore(str(tmp_path))
    StreamHome(store, "orders").create_epoch(make_epoch())
    watched = CachedStream(store, "orders")

    assert watched.epoch(1) == watched.epoch(1) == make_epoch()


def test_the_least_recently_used_value_goes_first() -> None:
    cache: ByteCache[int] = ByteCache(2 * (100 + ENTRY_BYTES))
    cache.put("a", 1, 100)
    cache.put("b", 2, 100)
    assert cache.get("a") == 1
    cache.put("c", 3, 100)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]

    cache.put("a", 4, 50)
    assert (cache.get("a"), cache.size) == (4, 150 + 2 * ENTRY_BYTES)
    cache.put("a", 5, 10_000)
    assert (cache.get("a"), cache.size) == (None, 100 + ENTRY_BYTES)
    cache.drop("c")
    cache.drop("no such")
    assert cache.size == 0


def test_a_note_beyond_its_size_is_not_read(stream: StreamHome) -> None:
    stream.store.create("orders/alerts/000001.json", too_large(an_alert(1, "x" * MAX_NOTE_BYTES)))
    stream.store.create("orders/alerts/000002.json", an_alert(2).to_bytes())

    assert stream.alerts() == (an_alert(2),)
    with pytest.raises(RecordError, match="the limit is 65536"):
        Event.from_bytes(b" " * (MAX_NOTE_BYTES + 1))


@pytest.mark.parametrize("text", ["x" * 200_000, "\N{SNOWMAN}" * 50_000, '"' * 100_000])
def test_a_note_with_a_long_text_is_recorded_in_part(stream: StreamHome, text: str) -> None:
    stream.add_event(Event(event=EventKind.DEPLOYED, at=NOON, by="test", message=text))
    added = stream.add_alert(replace(an_alert(), reason=text, facts={text: text}))

    assert added is not None
    assert stream.alerts() == (added,)
    (event,) = stream.events()
    assert text.startswith(event.message)
    assert len(event.message) > 1000
    assert (added.key, added.by, added.stream) == ("slow", "test", "orders")


def test_a_note_that_fits_is_recorded_as_it_is(stream: StreamHome) -> None:
    alert = replace(an_alert(), reason="x" * 50_000, facts={"a": "b"})

    assert stream.add_alert(alert) == alert


def test_other_records_keep_their_size(stream: StreamHome) -> None:
    deployment = make_deployment(conf={"spark.key": "x" * 500_000})

    assert type(deployment).from_bytes(deployment.to_bytes()) == deployment
