"""A chart's figures are read in few steps, and what cannot change is read once."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_streaming.driver.monitoring.history import CHUNK_SECONDS, History
from airflow_streaming.home import history
from airflow_streaming.home.byte_cache import ENTRY_BYTES
from airflow_streaming.home.history import HistoryReader, Part, PartCache, sparkline
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.codec import encode
from airflow_streaming.model.history import Bucket
from airflow_streaming.model.names import Layout, numbered
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.storage import LocalStore
from tests.unit.home.make import make_epoch

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class CountingStore(LocalStore):
    """A store that counts what it is asked."""

    asked = 0

    def read(self, path: str) -> bytes | None:
        self.asked += 1
        return super().read(path)

    def names(self, folder: str) -> list[str]:
        self.asked += 1
        return super().names(folder)


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(str(tmp_path))


def run_driver(
    store: LocalStore, epoch: int, begun: datetime, hours: float, *, summary: bool = True
) -> None:
    """Let a driver record one batch a minute; one of them, in the middle, takes a minute itself."""
    layout = Layout("orders")
    StreamHome(store, "orders").create_epoch(make_epoch(epoch, created_at=begun))
    written = History(store, layout.progress(epoch), layout.summary(epoch) if summary else "")
    for minute in range(int(hours * 60)):
        row = BatchProgress(
            query="revenue",
            batch_id=minute,
            at=(begun + timedelta(minutes=minute)).isoformat(),
            input_rows=60,
            input_rows_per_second=float(minute),
            processed_rows_per_second=2.0,
            duration_ms=60_000 if minute == int(hours * 30) else 1_000,
        )
        written.add([row], now=minute * 60.0)
        written.write(now=minute * 60.0)
    written.write(now=hours * 3600 + CHUNK_SECONDS, final=True)


def reader(store: LocalStore, cache: PartCache | None = None) -> HistoryReader:
    return HistoryReader(StreamHome(store, "orders"), cache or PartCache())


def span(begin: datetime, hours: float) -> tuple[float, float]:
    return begin.timestamp(), (begin + timedelta(hours=hours)).timestamp()


def test_a_day_is_read_in_few_requests_and_again_in_fewer(store: CountingStore) -> None:
    run_driver(store, 1, NOON, 24)
    cache = PartCache()
    store.asked = 0
    cold = reader(store, cache).read(*span(NOON, 24))
    first, store.asked = store.asked, 0
    warm = reader(store, cache).read(*span(NOON, 24))

    assert sum(bucket.rows for bucket in cold.buckets) == 24 * 60
    assert max(bucket.highs["duration_ms"] for bucket in cold.buckets) == 60_000
    assert sorted(cold.buckets, key=lambda b: b.end) == sorted(warm.buckets, key=lambda b: b.end)
    assert first <= 12
    assert store.asked <= 6


def test_an_hour_is_read_batch_by_batch(store: CountingStore) -> None:
    run_driver(store, 1, NOON, 3)
    found = reader(store).read(*span(NOON + timedelta(hours=2), 1))
    inside = [b for b in found.buckets if b.end >= (NOON + timedelta(hours=2)).timestamp()]
    assert {bucket.rows for bucket in found.buckets} == {1}
    assert len(inside) == 60


def test_a_range_over_a_restart_has_the_figures_of_both_drivers(store: CountingStore) -> None:
    run_driver(store, 1, NOON, 5)
    run_driver(store, 2, NOON + timedelta(hours=5), 5)
    found = reader(store).read(*span(NOON, 10))
    assert sum(bucket.rows for bucket in found.buckets) == 10 * 60


def test_a_killed_driver_loses_no_batch_that_a_chunk_has(store: CountingStore) -> None:
    run_driver(store, 1, NOON, 4)
    path = "orders/epochs/000001/summary/000001.jsonl"
    lines = (store.read(path) or b"").splitlines()[:-9]
    # Every line names the chunk up to which its file went when it was written.
    told = [json.loads(line) for line in lines]
    chunk = sum(one["rows"] for one in told) // 6
    cut = [json.dumps({**one, "chunk": chunk}) for one in told]
    store.replace(path, "\n".join(cut).encode())
    found = reader(store).read(*span(NOON, 4))
    assert sum(bucket.rows for bucket in found.buckets) == 4 * 60


def test_a_home_without_summaries_is_read_as_far_as_is_bounded(store: CountingStore) -> None:
    run_driver(store, 1, NOON, 24, summary=False)
    found = reader(store).read(*span(NOON, 24))
    assert found.is_cut
    assert 5 * 60 <= sum(bucket.rows for bucket in found.buckets) < 24 * 60


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xfe", b"[]\n{}\n", b'{"query": "q"}\n', b"{" * 5000, b'{"begin": NaN}\n'],
)
def test_a_summary_that_is_damaged_is_left_out(store: CountingStore, data: bytes) -> None:
    run_driver(store, 1, NOON, 2)
    for name in store.names("orders/epochs/000001/summary"):
        store.replace(f"orders/epochs/000001/summary/{name}", data)
    found = reader(store).read(*span(NOON, 2))
    assert sum(bucket.rows for bucket in found.buckets) == 2 * 60


def test_a_stream_that_never_ran_has_no_figures(store: CountingStore) -> None:
    assert reader(store).read(*span(NOON, 2)).buckets == ()
    assert reader(store).recent(NOON.timestamp()) == ()


def test_the_cache_is_bounded() -> None:
    cache = PartCache(most=3 * (30 + ENTRY_BYTES))
    for number in range(9):
        cache.put(str(number), Part((), 0, 30), 30)
    assert [n for n in range(9) if cache.get(str(n))] == [6, 7, 8]


def test_a_sparkline_adds_the_queries_up(store: CountingStore) -> None:
    run_driver(store, 1, NOON, 3)
    line = sparkline(
        reader(store).recent((NOON + timedelta(hours=3)).timestamp()), "processing_rate"
    )
    assert 25 <= len(line) <= 36
    assert set(line) == {2.0}


def one_batch(store: LocalStore, epoch: int, created: float, *ended: float, chunk: int = 1) -> None:
    """Record an epoch with batches that end at these minutes and take no time."""
    begun = NOON + timedelta(minutes=created)
    if epoch not in StreamHome(store, "orders").epoch_numbers():
        StreamHome(store, "orders").create_epoch(make_epoch(epoch, created_at=begun))
    rows = [
        BatchProgress(
            query="revenue",
            batch_id=int(minute),
            at=(NOON + timedelta(minutes=minute)).isoformat(),
            input_rows=1,
            input_rows_per_second=1.0,
            processed_rows_per_second=1.0,
            duration_ms=0,
        )
        for minute in ended
    ]
    data = "".join(json.dumps(encode(row)) + "\n" for row in rows)
    store.replace(f"{Layout('orders').progress(epoch)}/{numbered(chunk)}.jsonl", data.encode())


def minutes_of(buckets: tuple[Bucket, ...]) -> list[float]:
    return sorted((bucket.end - NOON.timestamp()) / 60 for bucket in buckets)


@pytest.mark.parametrize(("epochs", "is_cut"), [(2, False), (3, True)])
def test_as_many_epochs_are_read_as_the_bound_says(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch, epochs: int, is_cut: bool
) -> None:
    monkeypatch.setattr(history, "MOST_EPOCHS", 2)
    for epoch in range(1, epochs + 1):
        one_batch(store, epoch, epoch, epoch + 0.5)

    found = reader(store).read(*span(NOON, 1))

    assert found.is_cut is is_cut
    assert minutes_of(found.buckets) == [epochs - 0.5, epochs + 0.5]


@pytest.mark.parametrize(
    ("created", "ended", "minutes"),
    [
        pytest.param(0, 1, [1], id="created at the begin"),
        pytest.param(0.1, 1, [-10, 1], id="created later"),
        pytest.param(0.1, 0, [0], id="a batch at the begin"),
    ],
)
def test_no_epoch_before_the_begin_of_a_range_is_read(
    store: CountingStore, created: float, ended: float, minutes: list[float]
) -> None:
    one_batch(store, 1, -20, -10)
    one_batch(store, 2, created, ended)

    assert minutes_of(reader(store).read(*span(NOON, 1)).buckets) == minutes


@pytest.mark.parametrize(("now", "minutes"), [(60, [0, 60]), (60.1, [60]), (59.9, [0])])
def test_recent_figures_have_both_ends(
    store: CountingStore, now: float, minutes: list[float]
) -> None:
    one_batch(store, 1, 0, 0, 60)

    found = reader(store).recent(NOON.timestamp() + now * 60, 3600)

    assert minutes_of(found) == minutes


@pytest.mark.parametrize(("begin", "is_cut"), [(1, True), (2, False)])
def test_a_history_is_cut_where_its_oldest_file_begins_later(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch, begin: float, is_cut: bool
) -> None:
    monkeypatch.setattr(history, "MOST_FILES", 2)
    for chunk in (1, 2, 3):
        one_batch(store, 1, -5, chunk, chunk=chunk)

    found = reader(store).read(*span(NOON + timedelta(minutes=begin), 1))

    assert found.is_cut is is_cut
    assert minutes_of(found.buckets) == [2, 3]
