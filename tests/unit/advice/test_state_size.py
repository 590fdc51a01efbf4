from __future__ import annotations

import math
from typing import Any

import pytest

from airflow_streaming.advice.state_size import heaps, partitions_for, state_memory, stored_bytes
from airflow_streaming.model.progress import BatchProgress

MIB, GIB = 1024**2, 1024**3


def row_bytes(columns: int, texts: tuple[int, ...] = ()) -> int:
    """Return the bytes of a key or a value as `dags/efficiency/README.md` counts them."""
    nulls = math.ceil(columns / 64) * 8
    return nulls + columns * 8 + sum(math.ceil(size / 8) * 8 for size in texts)


@pytest.mark.parametrize(
    ("columns", "texts", "expected"),
    [(1, (), 16), (2, (), 24), (1, (16,), 32), (1, (17,), 40), (64, (), 520), (65, (), 536)],
)
def test_bytes_of_a_row(columns: int, texts: tuple[int, ...], expected: int) -> None:
    assert row_bytes(columns, texts) == expected


@pytest.mark.parametrize(
    ("keys", "text", "columns", "memory", "shared", "files"),
    [
        (20_000, 16, 2, 7_326_184, 4_261_696, 227_896),
        (20_000, 64, 2, 8_344_552, 4_081_008, 228_091),
        (20_000, 16, 9, 9_123_504, 5_105_560, 268_059),
        (60_000, 16, 2, 25_349_080, 14_868_224, 672_813),
    ],
)
def test_the_formula_of_the_page_holds_for_what_spark_4_3_reported(
    keys: int, text: int, columns: int, memory: int, shared: int, files: int
) -> None:
    """
    Counts by a key of text in one partition: ``memoryUsedBytes`` of the heap store after a batch that
    changed all keys and after one that changed a twentieth, and ``rocksdbSstFileSize``.
    """
    row = row_bytes(1, (text,)) + row_bytes(columns)
    heap = keys * (row + 130) * 2

    assert heap == pytest.approx(memory, rel=0.15)
    assert heap > shared
    assert keys * row * 1.5 > files


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
