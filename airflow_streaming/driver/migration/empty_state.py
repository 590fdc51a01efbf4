"""
Empty state: a version without rows of every store of an operator.

Spark writes the state schema of an operator itself when it finds none, so an empty operator needs only its metadata and
one version of each store. Both providers keep an empty version in a form that does not depend on the columns.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.driver.migration.state_rows import singleton
from airflow_streaming.driver.migration.state_writers import (
    DEFAULT_STORE,
    HDFS_END,
    FileSystem,
    operator_metadata,
)
from airflow_streaming.model.jobs.migration import BEFORE, OperatorMigration

_ROCKSDB_METADATA: Final = b'v1\n{"sstFiles":[],"numKeys":0}'
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_PLAIN: Final = "metadata"
_VARIABLES: Final = "v2"
"""Folder of the metadata of an operator with state variables. It names the files of their schemas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A version of a store without rows, as a file of its provider."""

    suffix: str
    data: bytes


def write_empty(
    files: FileSystem, one: OperatorMigration, snapshot: Snapshot, *, version: int, partitions: int
) -> None:
    """Write the metadata of an operator, and a snapshot without rows of each of its stores."""
    path, metadata = _metadata(files, one, version - 1, partitions)
    files.write(f"state/{one.operator}/_metadata/{path}", metadata)
    for folder in _stores(metadata, one, partitions):
        files.write(f"{folder}/{version}{snapshot.suffix}", snapshot.data)


def other_files(files: FileSystem, one: OperatorMigration, snapshot: Snapshot) -> int:
    """Return how many files of an empty operator's stores are not empty snapshots."""
    found = [path for path in files.walk(f"state/{one.operator}") if "/_metadata/" not in path]
    return sum(files.read(path) != snapshot.data for path in found) if found else 1


def rocksdb_snapshot() -> Snapshot:
    """Return a RocksDB snapshot without files: Spark opens a new database."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("metadata", _EPOCH), _ROCKSDB_METADATA)
    return Snapshot(suffix=".zip", data=out.getvalue())


def hdfs_snapshot(session: Any, codec: str) -> Snapshot:
    """Return a snapshot of HDFS-backed state without rows, compressed by a codec of Spark."""
    jvm = session._jvm
    out = jvm.java.io.ByteArrayOutputStream()
    codecs = singleton(jvm, "org.apache.spark.io.CompressionCodec")
    spark_conf = session.sparkContext._jsc.sc().conf()
    stream = codecs.createCodec(spark_conf, codec).compressedOutputStream(out)
    stream.write(bytearray(HDFS_END))
    stream.close()
    return Snapshot(suffix=".snapshot", data=bytes(out.toByteArray()))


def _metadata(
    files: FileSystem, one: OperatorMigration, batch: int, partitions: int
) -> tuple[str, bytes]:
    """Return the path and content of an operator's metadata, where possible the content of the old operator."""
    old = f"{BEFORE}/state/{one.operator}/_metadata"
    if files.exists(f"{old}/{_PLAIN}"):
        data = files.read(f"{old}/{_PLAIN}")
        if _known(data)["operatorInfo"]["operatorName"] == one.name:
            return _PLAIN, data
    versions = [name for name in files.names(f"{old}/{_VARIABLES}") if name.isdigit()]
    if versions:
        newest = files.read(f"{old}/{_VARIABLES}/{max(versions, key=int)}")
        return f"{_VARIABLES}/{batch}", _without_variables(newest, one.time_mode)
    return _PLAIN, operator_metadata(one.operator, one.name, partitions)


def _without_variables(metadata: bytes, time_mode: str) -> bytes:
    """Return the metadata of ``transformWithState`` with its new time mode and without its variables."""
    known = _known(metadata)
    properties = {**json.loads(known["operatorPropertiesJson"]), "stateVariables": []}
    properties["timeMode"] = time_mode or properties["timeMode"]
    known["operatorPropertiesJson"] = json.dumps(properties, separators=(",", ":"))
    for store in known["stateStoreInfo"]:
        store["stateSchemaFilePaths"] = []
    return metadata.partition(b"\n")[0] + b"\n" + json.dumps(known, separators=(",", ":")).encode()


def _stores(metadata: bytes, one: OperatorMigration, partitions: int) -> Iterator[str]:
    """Yield the folder of each store."""
    names = [store["storeName"] for store in _known(metadata)["stateStoreInfo"]]
    for partition in range(partitions):
        for name in names:
            folder = f"state/{one.operator}/{partition}"
            yield folder if name == DEFAULT_STORE else f"{folder}/{name}"


def _known(metadata: bytes) -> Any:
    return json.loads(metadata.partition(b"\n")[2])
