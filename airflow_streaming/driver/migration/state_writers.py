"""
Writers of one operator's state: its metadata, its schema, and a version of every partition.

RocksDB state is written by Spark's own ``StateRewriter``. It cannot write HDFS-backed state (Spark 4.3 refuses
to begin a store of that provider empty), whose snapshots are plain: lengths and bytes, compressed as a stream.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.migration.state_rows import row_bytes, singleton

HDFS_END: Final = struct.pack(">i", -1)
_CHUNK: Final = 65_535 // 3
"""Characters of a chunk of a schema; Java writes at most 65,535 bytes in one text."""
_STAGE: Final = "_stage"
DEFAULT_STORE: Final = "default"
_RECORD: Final = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """
    State that is written.

    :param rows: ``key`` and ``value``, straight from a shuffle into the state partitions.
    :param key: Spark's JSON of the key's schema; ``value`` likewise.
    """

    operator: int
    name: str
    key: str
    value: str
    rows: Any


class FileSystem:
    """A folder on a Hadoop file system."""

    def __init__(self, session: Any, root: str) -> None:
        self.root = root
        self._jvm = session._jvm
        self._conf = session._jsparkSession.sessionState().newHadoopConf()
        self._files = self.path("").getFileSystem(self._conf)

    def path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{path}" if path else self.root)

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self.path(path)))

    def names(self, path: str) -> list[str]:
        entries = self._files.listStatus(self.path(path)) if self.exists(path) else ()
        return [str(entry.getPath().getName()) for entry in entries]

    def walk(self, path: str) -> list[str]:
        """Return every file below a folder, hidden ones left out, by its path from the root."""
        found: list[str] = []
        for name in self.names(path):
            inside = f"{path}/{name}"
            if self._files.getFileStatus(self.path(inside)).isDirectory():
                found += self.walk(inside)
            elif not name.startswith("."):
                found.append(inside)
        return found

    def folder(self, path: str) -> None:
        self._files.mkdirs(self.path(path))

    def move(self, path: str, to: str) -> None:
        """
        Rename a file or folder.

        :raises OSError: it was not renamed.
        """
        target = self.path(to)
        self._files.mkdirs(target.getParent())
        if not self._files.rename(self.path(path), target):
            raise OSError(f"{self.root}/{path} could not be renamed to {to}.")

    def remove(self, path: str) -> None:
        self._files.delete(self.path(path), True)

    def copy(self, path: str, to: str) -> None:
        tools = self._jvm.org.apache.hadoop.fs.FileUtil
        tools.copy(self._files, self.path(path), self._files, self.path(to), False, self._conf)

    def read(self, path: str) -> bytes:
        stream = self._files.open(self.path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: str, data: bytes) -> None:
        stream = self._files.create(self.path(path), False)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def compress(self, file: Path, to: str, codec: Any) -> None:
        """Write a file of this host through a compression codec of Spark."""
        stream = self._jvm.java.io.FileInputStream(str(file))
        try:
            out = codec.compressedOutputStream(self._files.create(self.path(to), False))
            try:
                self._jvm.org.apache.commons.io.IOUtils.copyLarge(stream, out)
            finally:
                out.close()
        finally:
            stream.close()


def operator_metadata(operator: int, name: str, partitions: int) -> bytes:
    """Return the metadata of an operator with one store."""
    store = {"storeName": DEFAULT_STORE, "numColsPrefixKey": 0, "numPartitions": partitions}
    known = {
        "operatorInfo": {"operatorId": operator, "operatorName": name},
        "stateStoreInfo": [store],
    }
    return b"v1\n" + json.dumps(known, separators=(",", ":")).encode()


def schema_file(key: str, value: str) -> bytes:
    """Return a state schema file of version 2, as Java's ``DataOutputStream`` writes it."""
    return _java_text("v2") + b"".join(_chunks(text) for text in (key, value))


def _chunks(text: str) -> bytes:
    parts = [text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK)]
    return struct.pack(">i", len(parts)) + b"".join(map(_java_text, parts))


def _java_text(text: str) -> bytes:
    data = text.encode("ascii")  # the JSON escapes every other letter
    return struct.pack(">H", len(data)) + data


def write_description(
    files: FileSystem, written: Written, partitions: int, under: str = ""
) -> None:
    """Write the metadata and the schema of an operator."""
    folder = f"{under}state/{written.operator}"
    metadata = operator_metadata(written.operator, written.name, partitions)
    files.write(f"{folder}/_metadata/metadata", metadata)
    files.write(f"{folder}/0/_metadata/schema", schema_file(written.key, written.value))


def write_hdfs(
    session: Any,
    files: FileSystem,
    written: Written,
    *,
    version: int,
    partitions: int,
    codec: str,
    scratch: Path,
) -> None:
    """Write a snapshot of every partition."""
    write_description(files, written, partitions)
    scratch.mkdir()
    records = written.rows.select(_record(session).alias(_RECORD))
    records.rdd.mapPartitionsWithIndex(_saving(str(scratch))).count()
    spark_conf = session.sparkContext._jsc.sc().conf()
    codecs = singleton(session._jvm, "org.apache.spark.io.CompressionCodec")
    for partition in range(partitions):
        to = f"state/{written.operator}/{partition}/{version}.snapshot"
        files.compress(scratch / str(partition), to, codecs.createCodec(spark_conf, codec))
        (scratch / str(partition)).unlink()


def _record(session: Any) -> Any:
    from pyspark.sql import functions as F

    def with_length(column: str) -> list[Any]:
        data = row_bytes(session, F.col(column))
        return [F.unhex(F.lpad(F.hex(F.octet_length(data)), 8, "0")), data]

    return F.concat(*with_length("key"), *with_length("value"))


def _saving(folder: str) -> Callable[[int, Iterator[Any]], Iterator[Any]]:
    """Return a function that writes the records of a partition into a file named by its number."""

    def save(partition: int, rows: Iterator[Any]) -> Iterator[Any]:
        with open(f"{folder}/{partition}", "wb") as file:  # noqa: PTH123 - on a worker
            file.writelines(row[0] for row in rows)
            file.write(b"\xff\xff\xff\xff")
        return iter(())

    return save


def write_rocksdb(
    session: Any, files: FileSystem, written: Written, *, batch: int, partitions: int
) -> None:
    """
    Write every partition by Spark's ``StateRewriter``.

    It rewrites every operator of a checkpoint, so each operator is written in a checkpoint of its own first.
    """
    stage = f"{_STAGE}/{written.operator}"
    for log in ("offsets", "commits"):
        files.copy(f"{log}/{batch}", f"{stage}/{log}/{batch}")
    write_description(files, written, partitions, under=f"{stage}/")
    jvm = session._jvm
    rewriter = jvm.org.apache.spark.sql.execution.streaming.state.StateRewriter(
        session._jsparkSession,
        batch,
        batch,
        files.path(stage).toString(),
        session._jsparkSession.sessionState().newHadoopConf(),
        jvm.scala.Some(files.path(stage).toString()),
        jvm.scala.Some(_replacing(session, written)),
        jvm.scala.Option.empty(),
    )
    rewriter.run()
    files.move(f"{stage}/state/{written.operator}", f"state/{written.operator}")
    files.remove(_STAGE)


def _replacing(session: Any, written: Written) -> Any:
    """Return a function of Scala that puts the written rows in the place of the rows that Spark has read."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(session.sparkContext._gateway)

    class Replacing:
        def apply(self, read: Any) -> Any:
            rows = _four_columns(session, written)
            return session._jsparkSession.internalCreateDataFrame(
                rows._jdf.queryExecution().toRdd(), read.schema(), False
            )

        class Java:
            implements: Final = ["scala.Function1"]

    return Replacing()


def _four_columns(session: Any, written: Written) -> Any:
    from pyspark.sql import functions as F

    return written.rows.select(
        "key",
        row_bytes(session, F.col("key")),
        row_bytes(session, F.col("value")),
        F.lit(DEFAULT_STORE),
    )
