"""
State size: keys x bytes x versions, and what that asks of memory, disk and executors.

One formula for what is planned, measured or advised: the doctor holds the measured state against
the executors' heaps with it, and the sizing advice its bytes against the state partitions.

The figures are of Spark's own encoding (unsafe rows: eight bytes a column, eight for every 64
columns' nulls, texts rounded up to eight). What the heap store needs beside the rows, objects and
the nodes of its maps, was measured on 4.3.0; ``tests/unit/advice/test_state_size.py`` has the figures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.advice.profile import StateStore
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.spark.conf import executors_wanted

STATE_PER_PARTITION: Final = 1024**3
"""Bytes of state above which one partition takes long to load and to snapshot."""
HEAP_ROW_BYTES: Final = 130
"""Bytes beside key and value of one row of the heap store: 105 to 170 were measured."""
HEAP_VERSIONS: Final = 2
"""Versions that the heap store keeps (``spark.sql.streaming.maxBatchesToRetainInMemory``). They share
the rows that did not change; the formula takes none for shared."""
ROCKSDB_PARTITION_BYTES: Final = 72 * 1024**2
"""Memory that RocksDB may take for one partition: a block cache of 8 MiB, a write buffer of 64 MiB."""
DISK_SHARE: Final = 1.5
"""Local disk that RocksDB takes, by its state: files that wait for their compaction."""
_SST: Final = "rocksdbSstFileSize"
_WORD: Final = 8
_RESERVED: Final = 300 * 1024**2
_USER_SHARE: Final = 0.4
"""Spark's memory of an executor: 300 MiB are kept back, and of the rest 40 % are not its own. State in
the heap lies there."""


def row_bytes(columns: int, texts: Sequence[int] = ()) -> int:
    """
    Return the bytes of a key or a value as Spark encodes it.

    :param columns: How many columns it has, those of text included.
    :param texts: Bytes of each column of text.
    """
    nulls = math.ceil(columns / 64) * _WORD
    return nulls + columns * _WORD + sum(math.ceil(size / _WORD) * _WORD for size in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateShape:
    """
    The state of one query, as it is planned.

    :param keys: Keys alive between two watermarks, not those ever seen.
    :param key_bytes: Bytes of a key, see ``row_bytes``.
    :param value_bytes: The same of a value.
    :param partitions: Shuffle partitions.
    :param changed: Keys that one batch changes.
    :param retained: Batches that the checkpoint can go back (``minBatchesToRetain``).
    """

    keys: int
    key_bytes: int
    value_bytes: int
    partitions: int
    store: StateStore = StateStore.ROCKSDB
    changed: int = 0
    retained: int = 100

    def __post_init__(self) -> None:
        """
        Refuse what is no state.

        :raises SpecError: a negative number, or no partition.
        """
        least = min(self.keys, self.key_bytes, self.value_bytes, self.changed, self.retained)
        if least < 0 or self.partitions < 1:
            raise SpecError(f"{self} has a negative number, or no partition.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSize:
    """
    What a state needs, in bytes over all executors.

    :param state: Keys and values, once, as they are before RocksDB and the checkpoint compress them.
    :param partition: The same of one partition.
    :param memory: Of the executors, beside what the computation takes.
    :param disk: Of the executors' local disks.
    :param checkpoint: Of the checkpoint: the state once, and what each retained batch changed.
    """

    state: int
    partition: int
    memory: int
    disk: int
    checkpoint: int


def state_size(shape: StateShape) -> StateSize:
    """Return what a planned state needs."""
    row = shape.key_bytes + shape.value_bytes
    state = shape.keys * row
    is_heap = shape.store is StateStore.HDFS
    heap = shape.keys * (row + HEAP_ROW_BYTES) * HEAP_VERSIONS
    return StateSize(
        state=state,
        partition=math.ceil(state / shape.partitions),
        memory=heap if is_heap else shape.partitions * ROCKSDB_PARTITION_BYTES,
        disk=0 if is_heap else math.ceil(state * DISK_SHARE),
        checkpoint=state + shape.changed * row * shape.retained,
    )


def partitions_for(state: float) -> int:
    """Return the fewest partitions of which none is too large."""
    return max(1, math.ceil(state / STATE_PER_PARTITION))


def state_memory(heap: int) -> int:
    """Return the bytes of an executor's heap in which state can lie."""
    return max(0, math.floor((heap - _RESERVED) * _USER_SHARE))


def executors_for(size: StateSize, partitions: int, *, heap: int, cores: int) -> int:
    """
    Return the executors that a state needs: by its memory, and a core for each partition.

    :param heap: Bytes of one executor's heap.
    :param cores: Of one executor.
    :raises SpecError: no state fits a heap of that size, or there is no core.
    """
    room = state_memory(heap)
    if room < 1 or cores < 1:
        raise SpecError(f"An executor with {heap} bytes of heap and {cores} cores holds no state.")
    return max(1, math.ceil(size.memory / room), math.ceil(partitions / cores))


def stored_bytes(batch: BatchProgress) -> int:
    """
    Return the bytes of a query's state by what a batch reports.

    RocksDB's memory is its cache and its buffers, and so says nothing of a state that is larger; its
    files do, from the first snapshot on.
    """
    return max(batch.state_bytes or 0, int(batch.state_metrics.get(_SST, 0)))


def heaps(conf: Mapping[str, str]) -> tuple[int, int] | None:
    """Return a configuration's executors and the bytes of each heap; ``None`` where it has none."""
    is_local = conf.get("spark.master", "").startswith("local")
    key = "spark.driver.memory" if is_local else "spark.executor.memory"
    count, each = 1 if is_local else executors_wanted(conf), _size(conf.get(key, "1g"))
    return None if count is None or each is None else (count, each)


_MEMORY: Final = re.compile(r"(?P<digits>[0-9]{1,15})(?P<unit>[kmgt]?)(?P<bytes>b?)")
_UNITS: Final = "bkmgt"


def _size(text: str) -> int | None:
    """Return bytes as Spark reads a memory size; mebibytes without a unit."""
    found = _MEMORY.fullmatch(text.strip().lower())
    if found is None:
        return None
    unit = found["unit"] or found["bytes"] or "m"
    return int(found["digits"]) << 10 * _UNITS.index(unit)
