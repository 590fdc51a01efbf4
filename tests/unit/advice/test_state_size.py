from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.advice.profile import StateStore
from airflow_streaming.advice.state_size import (
    StateShape,
    executors_for,
    heaps,
    partitions_for,
    row_bytes,
    state_memory,
    state_size,
    stored_bytes,
)
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.progress import BatchProgress

MIB, GIB = 1024**2, 1024**3


@pytest.mark.parametrize(
    ("columns", "texts", "expected"),
    [(1, (), 16), (2, (), 24), (1, (16,), 32), (1, (17,), 40), (64, (), 520), (65, (), 536)],
)
def test_bytes_of_a_row(columns: int, texts: tuple[int, ...], expected: int) -> None:
    assert row_bytes(columns, texts) == expected


def shape(**changes: Any) -> StateShape:
    asked: dict[str, Any] = {
        "keys": 1_000_000,
        "key_bytes": 32,
        "value_bytes": 24,
        "partitions": 8,
        "changed": 1000,
    }
    return StateShape(**{**asked, **changes})


def test_the_heap_store_needs_memory_and_rocksdb_needs_disk() -> None:
    heap, disk = state_size(shape(store=StateStore.HDFS)), state_size(shape())

    assert heap.state == disk.state == 56_000_000
    assert heap.partition == disk.partition == 7_000_000
    assert (heap.memory, heap.disk) == (372_000_000, 0)
    assert (disk.memory, disk.disk) == (8 * 72 * MIB, 84_000_000)
    assert heap.checkpoint == disk.checkpoint == 56_000_000 + 1000 * 56 * 100


@pytest.mark.parametrize(
    ("keys", "text", "columns", "memory", "shared", "files"),
    [
        (20_000, 16, 2, 7_326_184, 4_261_696, 227_896),
        (20_000, 64, 2, 8_344_552, 4_081_008, 228_091),
        (20_000, 16, 9, 9_123_504, 5_105_560, 268_059),
        (60_000, 16, 2, 25_349_080, 14_868_224, 672_813),
    ],
)
def test_it_holds_for_what_spark_4_3_reported(
    keys: int, text: int, columns: int, memory: int, shared: int, files: int
) -> None:
    """
    Counts by a key of text in one partition: ``memoryUsedBytes`` of the heap store after a batch that
    changed all keys and after one that changed a twentieth, and ``rocksdbSstFileSize``.
    """
    asked = {"keys": keys, "key_bytes": row_bytes(1, (text,)), "value_bytes": row_bytes(columns)}
    heap, disk = state_size(shape(store=StateStore.HDFS, **asked)), state_size(shape(**asked))

    assert heap.memory == pytest.approx(memory, rel=0.15)
    assert heap.memory > shared
    assert disk.disk > files


def test_memory_of_rocksdb_does_not_grow_with_the_keys() -> None:
    assert state_size(shape(keys=10**9)).memory == state_size(shape(keys=0)).memory


@pytest.mark.parametrize(
    ("store", "keys", "heap", "cores", "expected"),
    [
        pytest.param(StateStore.HDFS, 10**6, 4 * GIB, 4, 2, id="partitions decide"),
        pytest.param(StateStore.HDFS, 10**8, 4 * GIB, 4, 24, id="memory decides"),
        pytest.param(StateStore.ROCKSDB, 10**9, 4 * GIB, 4, 2, id="RocksDB"),
        pytest.param(StateStore.HDFS, 0, 4 * GIB, 100, 1, id="at least one"),
    ],
)
def test_executors_by_memory_and_by_partitions(
    store: StateStore, keys: int, heap: int, cores: int, expected: int
) -> None:
    size = state_size(shape(store=store, keys=keys))

    assert executors_for(size, 8, heap=heap, cores=cores) == expected


@pytest.mark.parametrize(("heap", "cores"), [(300 * MIB, 4), (4 * GIB, 0)])
def test_an_executor_that_holds_no_state_is_refused(heap: int, cores: int) -> None:
    with pytest.raises(SpecError):
        executors_for(state_size(shape()), 8, heap=heap, cores=cores)


@pytest.mark.parametrize("change", [{"keys": -1}, {"partitions": 0}, {"changed": -1}])
def test_what_is_no_state_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(SpecError):
        shape(**change)


@pytest.mark.parametrize(("state", "expected"), [(0, 1), (GIB, 1), (GIB + 1, 2), (10 * GIB, 10)])
def test_no_partition_is_too_large(state: int, expected: int) -> None:
    assert partitions_for(state) == expected


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({"spark.master": "local[4]"}, (1, GIB)),
        ({"spark.master": "local[4]", "spark.driver.memory": "2g"}, (1, 2 * GIB)),
        ({"spark.master": "yarn", "spark.executor.memory": "512"}, (2, 512 * MIB)),
        ({"spark.executor.instances": "3", "spark.executor.memory": "4096MB"}, (3, 4 * GIB)),
        ({"spark.executor.instances": "3", "spark.executor.memory": "1024b"}, (3, 1024)),
        ({"spark.executor.instances": "3", "spark.executor.memory": "a lot"}, None),
        ({"spark.master": "spark://host:7077"}, None),
    ],
)
def test_heaps_of_a_configuration(conf: dict[str, str], expected: Any) -> None:
    assert heaps(conf) == expected


def test_spark_takes_its_part_of_a_heap_first() -> None:
    assert state_memory(300 * MIB + 1000) == 400
    assert state_memory(GIB // 8) == 0


@pytest.mark.parametrize(
    ("memory", "files", "expected"),
    [
        (500, {}, 500),
        (500, {"rocksdbSstFileSize": 9000.0}, 9000),
        (500, {"rocksdbSstFileSize": 0.0}, 500),
        (None, {}, 0),
    ],
)
def test_the_files_of_rocksdb_tell_what_its_memory_does_not(
    memory: int | None, files: dict[str, float], expected: int
) -> None:
    batch = BatchProgress(
        query="q",
        batch_id=1,
        at="",
        input_rows=1,
        input_rows_per_second=None,
        processed_rows_per_second=None,
        duration_ms=1,
        state_bytes=memory,
        state_metrics=files,
    )
    assert stored_bytes(batch) == expected
