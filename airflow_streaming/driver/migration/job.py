"""
The driver that migrates the state of a copied checkpoint: an ordinary Spark application on one host.

The copy's old state moves into a folder in the copy. Every operator of the new query is written from there, read
back, and compared. The file ``metadata`` returns last. Spark 4.2 and newer refuse a checkpoint without it, so no
query starts on a copy whose migration was cut off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.errors import log_to_stderr, logger
from airflow_streaming.driver.jobs.drill import answer_to_file, reader_session
from airflow_streaming.driver.jobs.repartition import condition_of
from airflow_streaming.driver.jobs.scratch_patch import sentence_of
from airflow_streaming.driver.migration.empty_state import (
    hdfs_snapshot,
    other_files,
    rocksdb_snapshot,
    write_empty,
)
from airflow_streaming.driver.migration.proof import proved
from airflow_streaming.driver.migration.state_rows import by_place, read_state
from airflow_streaming.driver.migration.state_writers import (
    FileSystem,
    Written,
    write_hdfs,
    write_rocksdb,
)
from airflow_streaming.driver.script import error_of
from airflow_streaming.model.jobs.migration import (
    BEFORE,
    MARKER,
    Carry,
    MigrationAnswer,
    MigrationOrder,
    Move,
    OperatorMigration,
    OperatorProof,
    StateColumn,
)

METADATA: Final = "metadata"
_LOGS: Final = ("offsets", "commits")
_NUMBER: Final = re.compile(r'("operatorId":)\d+')


def run(arguments: Sequence[str]) -> int:
    """Execute the order and write the answer."""
    log_to_stderr()
    order = MigrationOrder.from_bytes(Path(arguments[0]).read_bytes())
    return answer_to_file(order, lambda: answer_to(order), "Migrating the state")


def answer_to(order: MigrationOrder) -> MigrationAnswer:
    from pyspark.sql import SparkSession

    return answered(SparkSession.builder.getOrCreate(), order)


def answered(session: Any, order: MigrationOrder) -> MigrationAnswer:
    """Migrate the copy; an error and a broken invariant leave it without the file that Spark needs."""
    try:
        return Migration(reader_session(session, state_format=1), order).run()
    except Exception as err:  # noqa: BLE001 - whatever went wrong is the answer
        logger.exception("The state of %s was not migrated.", order.checkpoint)
        return MigrationAnswer(condition=condition_of(err), failed=sentence_of(error_of(err)))


class Migration:
    """Executes one order."""

    def __init__(self, session: Any, order: MigrationOrder) -> None:
        self._session, self._order = session, order
        self._files = FileSystem(session, order.checkpoint)
        self._before = f"{order.checkpoint}/{BEFORE}"
        self._schemas = {schema.operator: schema for schema in order.schemas}
        self._empty = (
            rocksdb_snapshot() if order.is_rocksdb else hdfs_snapshot(session, order.codec)
        )
        # Rows must stay in the partition that the shuffle gave them.
        session.conf.set("spark.sql.adaptive.enabled", "false")

    def run(self) -> MigrationAnswer:
        """Write every operator, prove it, and make the copy usable where the proof is clean."""
        self._put_aside()
        # Operators that are carried whole leave the old state last, because others may be read from it.
        counts = {one.operator: self._rows_before(one) for one in self._order.operators}
        for one in self._order.operators:
            if one.carry is Carry.EMPTY:
                self._write_empty(one)
            elif one.carry is Carry.COLUMNS:
                self._write(one)
        proofs = [self._proof(one, counts[one.operator]) for one in self._order.operators]
        for one in self._order.operators:
            if one.carry is Carry.WHOLE:
                self._carry_whole(one)
        answer = MigrationAnswer(proofs=tuple(proofs))
        if answer.is_clean:
            self._files.move(f"{BEFORE}/{METADATA}", METADATA)
            # First: without the marker no later run takes the copy for an unfinished one.
            self._files.remove(MARKER)
            self._files.remove(BEFORE)
        return answer

    def _put_aside(self) -> None:
        files = self._files
        for name in (METADATA, "state"):
            if files.exists(name):
                files.move(name, f"{BEFORE}/{name}")
        for log in _LOGS:
            for name in files.names(log):
                if not name.startswith("."):
                    files.copy(f"{log}/{name}", f"{BEFORE}/{log}/{name}")
        files.folder("state")

    def _rows_before(self, one: OperatorMigration) -> int:
        if one.source is None or one.carry is Carry.WHOLE:
            return 0
        return int(self._old(one).count())

    def _old(self, one: OperatorMigration) -> Any:
        assert one.source is not None  # noqa: S101 - only an empty operator has no source
        return by_place(read_state(self._session, self._before, self._order.batch, one.source))

    def _write_empty(self, one: OperatorMigration) -> None:
        order = self._order
        write_empty(
            *(self._files, one, self._empty),
            version=order.batch + 1,
            partitions=order.partitions,
        )

    def _write(self, one: OperatorMigration) -> None:
        order, schema = self._order, self._schemas[one.operator]
        rows = placed(made(self._old(one), one, schema.key, schema.value), order.partitions)
        written = Written(
            operator=one.operator, name=one.name, key=schema.key, value=schema.value, rows=rows
        )
        if order.is_rocksdb:
            write_rocksdb(
                *(self._session, self._files, written),
                batch=order.batch,
                partitions=order.partitions,
            )
        else:
            write_hdfs(
                *(self._session, self._files, written),
                version=order.batch + 1,
                partitions=order.partitions,
                codec=order.codec,
                scratch=Path(order.scratch) / f"operator-{one.operator}",
            )

    def _proof(self, one: OperatorMigration, before: int) -> OperatorProof:
        if one.carry is Carry.WHOLE:
            return OperatorProof(operator=one.operator, before=None, after=None)
        if one.carry is Carry.EMPTY:
            others = other_files(self._files, one, self._empty)
            problem = f"{others} files of an empty operator are not empty; expected 0."
            problems = (problem,) if others else ()
            return OperatorProof(operator=one.operator, before=0, after=0, problems=problems)
        now = by_place(
            read_state(self._session, self._order.checkpoint, self._order.batch, one.operator)
        )
        partitions = self._order.partitions
        return proved(one, self._old(one), now, before=before, partitions=partitions)

    def _carry_whole(self, one: OperatorMigration) -> None:
        files, old, new = self._files, f"{BEFORE}/state/{one.source}", f"state/{one.operator}"
        files.move(old, new)
        metadata = f"{new}/_metadata/metadata"
        if one.source != one.operator and files.exists(metadata):
            text = _NUMBER.sub(rf"\g<1>{one.operator}", files.read(metadata).decode())
            files.remove(metadata)
            files.remove(f"{new}/_metadata/.metadata.crc")
            files.write(metadata, text.encode())


def made(old: Any, one: OperatorMigration, key: str, value: str) -> Any:
    """Return the new ``key`` and ``value`` of every old row, with the types of the new schemas."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    rows = old.select(*_made(one.key, "key"), *_made(one.value, "value"))
    if one.is_merged:
        keys = [f"k{place}" for place in range(len(one.key))]
        merged = [_merged(column, f"v{place}") for place, column in enumerate(one.value)]
        rows = rows.groupBy(*keys).agg(*merged)

    def struct_of(columns: Sequence[StateColumn], letter: str, schema: str) -> Any:
        fields = F.struct(*(F.col(f"{letter}{place}") for place in range(len(columns))))
        return fields.cast(StructType.fromJson(json.loads(schema)))

    return rows.select(
        struct_of(one.key, "k", key).alias("key"), struct_of(one.value, "v", value).alias("value")
    )


def placed(rows: Any, partitions: int) -> Any:
    """Return rows in the state partitions in which a query looks for their keys."""
    from pyspark.sql import functions as F

    keys = [F.col("key").getField(field.name) for field in rows.schema["key"].dataType]
    return rows.repartition(partitions, *keys)


def _made(columns: Sequence[StateColumn], side: str) -> Iterator[Any]:
    from pyspark.sql import functions as F

    for place, column in enumerate(columns):
        if column.source is None:
            made = F.expr(str(column.initial))
        else:
            made = F.col(f"{side}.{side[0]}{column.source}")
        wider = made if column.move not in (Move.WIDEN, Move.ADD) else made.cast(column.type)
        yield wider.alias(f"{side[0]}{place}")


def _merged(column: StateColumn, name: str) -> Any:
    from pyspark.sql import functions as F

    if column.merge is None:
        return F.first(name).alias(name)
    merged = getattr(F, column.merge.value)(name)
    return merged.cast(column.type).alias(name)
