"""
Makes checkpoints of many small files, such as Spark's HDFS-backed state store writes them.

The logs are what Spark 3.5 writes, and each delta is a whole stream of LZ4 blocks of random bytes,
which nothing can compress further: what a backup tool saves, it saves by its own means. Only the
rows inside the state are none, so Spark could not load it.
"""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Final

SMALLEST, LARGEST = 64, 4096
"""Bytes of a delta, as the facts of small state files have them."""

_RAW_BLOCK: Final = 0x15
_FRAME: Final = struct.Struct("<8sBIII")
_CONF: Final = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming"
    ".state.HDFSBackedStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.formatVersion": "5",
    "spark.sql.streaming.statefulOperator.useStrictDistribution": "true",
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "2",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.sql.streaming.aggregation.stateFormatVersion": "2",
    "spark.sql.streaming.join.stateFormatVersion": "2",
    "spark.sql.streaming.stateStore.compression.codec": "lz4",
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "true",
}


def make_checkpoint(folder: Path, *, partitions: int, versions: int, seed: int = 1) -> int:
    """
    Make a sound checkpoint whose next batch needs every delta.

    :return: The number of its files; about ``partitions * versions``.
    """
    chance = random.Random(seed)
    conf = {**_CONF, "spark.sql.shuffle.partitions": str(partitions)}
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"6f1c2a52-0000-4000-8000-000000000001"}')
    for batch in range(versions):
        about = {"batchWatermarkMs": 0, "batchTimestampMs": 1_795_218_000_000 + batch, "conf": conf}
        plan = f"v1\n{json.dumps(about)}\n{batch * 100}"
        (folder / "offsets" / str(batch)).write_text(plan)
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    for partition in range(partitions):
        store = folder / "state" / "0" / str(partition)
        store.mkdir(parents=True)
        for version in range(1, versions + 1):
            (store / f"{version}.delta").write_bytes(_delta(chance))
    schema = folder / "state" / "0" / "0" / "_metadata" / "schema"
    schema.parent.mkdir()
    schema.write_bytes(_schema())
    return partitions * versions + 2 * versions + 2


def change(folder: Path, share: float, *, seed: int = 2) -> int:
    """Write a share of the deltas anew, as other bytes; return how many bytes that are."""
    chance = random.Random(seed)
    deltas = sorted((folder / "state").rglob("*.delta"))
    written = 0
    for path in chance.sample(deltas, round(len(deltas) * share)):
        data = _delta(chance)
        path.unlink()
        path.write_bytes(data)
        written += len(data)
    return written


def _delta(chance: random.Random) -> bytes:
    body = chance.randbytes(chance.randint(SMALLEST, LARGEST) - 2 * _FRAME.size)
    if not body:
        body = b"\0"
    block = _FRAME.pack(b"LZ4Block", _RAW_BLOCK, len(body), len(body), 0)
    return block + body + _FRAME.pack(b"LZ4Block", _RAW_BLOCK, 0, 0, 0)


def _schema() -> bytes:
    field = {"name": "k", "type": "long", "nullable": True, "metadata": {}}
    text = json.dumps({"type": "struct", "fields": [field]}).encode()
    struct_ = struct.pack(">i", 1) + struct.pack(">H", len(text)) + text
    return struct.pack(">H", 2) + b"v2" + struct_ + struct_
