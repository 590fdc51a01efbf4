"""
The measured size of a state: its bytes, the partitions they want, and the room that heaps have for them.

The doctor holds the measured state against the executors' heaps, and the sizing advice its bytes
against the state partitions. How large a planned state becomes: `dags/efficiency/README.md`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.spark.conf import executors_wanted

STATE_PER_PARTITION: Final = 1024**3
"""Bytes of state above which one partition takes long to load and to snapshot."""
_SST: Final = "rocksdbSstFileSize"
_RESERVED: Final = 300 * 1024**2
_USER_SHARE: Final = 0.4
"""Spark's memory of an executor: 300 MiB are kept back, and of the rest 40 % are not its own. State in
the heap lies there."""

_MEMORY: Final = re.compile(r"(?P<digits>[0-9]{1,15})(?P<unit>[kmgt]?)(?P<bytes>b?)")
_UNITS: Final = "bkmgt"


def partitions_for(state: float) -> int:
    """Return the fewest partitions of which none is too large."""
    return max(1, math.ceil(state / STATE_PER_PARTITION))


def state_memory(heap: int) -> int:
    """Return the bytes of an executor's heap in which state can lie."""
    return max(0, math.floor((heap - _RESERVED) * _USER_SHARE))


def stored_bytes(batch: BatchProgress) -> int:
    """
    Return the bytes of a query's state from a batch's report.

    RocksDB's memory is its cache and buffers, not the size of a larger state. Its files give the
    size, from the first snapshot on.
    """
    return max(batch.state_bytes or 0, int(batch.state_metrics.get(_SST, 0)))


def heaps(conf: Mapping[str, str]) -> tuple[int, int] | None:
    """Return a configuration's executors and the bytes of each heap; ``None`` where it has none."""
    is_local = conf.get("spark.master", "").startswith("local")
    key = "spark.driver.memory" if is_local else "spark.executor.memory"
    count, each = 1 if is_local else executors_wanted(conf), _size(conf.get(key, "1g"))
    return None if count is None or each is None else (count, each)


def _size(text: str) -> int | None:
    """Return bytes as Spark reads a memory size; mebibytes without a unit."""
    found = _MEMORY.fullmatch(text.strip().lower())
    if found is None:
        return None
    unit = found["unit"] or found["bytes"] or "m"
    return int(found["digits"]) << 10 * _UNITS.index(unit)
