"""
The cases of the kill program: state stores, sinks and the moment of the kill; pure.

A micro-batch writes its parts one after the other: the source's log, its plan, the state of each partition,
the data files of a file sink, the sink's log, and the commit. A kill after one of them leaves that part and
all before it as the batch wrote them, and the rest as the batch before has left it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_STORE: Final = "spark.sql.streaming.stateStore."
_ROCKSDB: Final = {
    _STORE
    + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
}
_CHANGELOG: Final = {**_ROCKSDB, _STORE + "rocksdb.changelogCheckpointing.enabled": "true"}
_FORMAT_2: Final = {_STORE + "checkpointFormatVersion": "2"}
STORES: Final[Mapping[str, Mapping[str, str]]] = {
    "HDFS, format 1": {},
    "RocksDB, format 1": _ROCKSDB,
    "RocksDB with changelog, format 1": _CHANGELOG,
    "RocksDB, format 2": {**_ROCKSDB, **_FORMAT_2},
    "RocksDB with changelog, format 2": {**_CHANGELOG, **_FORMAT_2},
}
"""Configuration of each state store. Spark refuses format 2 on the HDFS-backed store."""
SINKS: Final = (
    "file",
    "file without state",
    "foreachBatch",
    "foreachBatch that skips",
    "memory",
    "topic",
    "iceberg",
)
VERSIONS: Final = ("3.5", "4.0", "4.1", "4.2", "4.3")
ICEBERG_SPARK: Final = "3.5"
"""The only release that the connector's jar is made for."""


class Kill(StrEnum):
    """After which write the driver is killed."""

    SOURCE = "source log"
    PLAN = "offsets"
    HALF_STATE = "state of one partition"
    STATE = "state of all partitions"
    DATA = "data files of the sink"
    SINK = "sink"
    COMMIT = "commit"


class Part(StrEnum):
    """What a batch writes, in its order."""

    SOURCE = "source"
    PLAN = "plan"
    FIRST_STATE = "first state"
    OTHER_STATE = "other state"
    DATA = "data"
    SINK = "sink"
    COMMIT = "commit"


_WRITTEN: Final[Mapping[Kill, int]] = dict(zip(Kill, range(1, len(Kill) + 1), strict=True))


def written(kill: Kill) -> frozenset[Part]:
    """Return the parts that the killed batch has written."""
    return frozenset(list(Part)[: _WRITTEN[kill]])


class Result(StrEnum):
    """What became of a query that was killed."""

    EXACT = "exact"
    REPEATED = "repeated"
    """It continues, and rows of the killed batch are in the output twice."""
    WRONG = "wrong"
    """It continues, and rows are missing or there without reason."""
    DEAD = "dead"
    """It fails at every start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    One killed batch.

    :param batch: Its number: 0 has no commit before it.
    """

    store: str
    sink: str
    kill: Kill
    batch: int

    @property
    def is_sink_ahead(self) -> bool:
        """Tell whether the sink has the batch and no commit says so."""
        return self.kill is Kill.SINK

    @property
    def is_format_2(self) -> bool:
        """Tell whether state files have ids that the commit names."""
        return self.store.endswith("format 2")


def stores_of(sink: str, version: str) -> Iterator[str]:
    """Return the state stores that a sink is tried with on a release."""
    if sink == "file without state":
        yield "HDFS, format 1"
        return
    for store in STORES:
        if not (version.startswith("3.") and store.endswith("format 2")):
            yield store


def sinks_of(version: str, *, with_iceberg: bool) -> Iterator[str]:
    """Return the sinks that a release has: Python sinks came with Spark 4.0."""
    for sink in SINKS:
        if sink == "topic" and version.startswith("3."):
            continue
        if sink != "iceberg" or with_iceberg:
            yield sink


def kills_of(sink: str) -> Iterator[Kill]:
    """Return the moments that differ for a sink: only a file sink has data files before its log."""
    for kill in Kill:
        if kill is Kill.DATA and not sink.startswith("file"):
            continue
        if kill in (Kill.HALF_STATE, Kill.STATE) and sink == "file without state":
            continue
        yield kill


def result_of(expected: list[int], keys: list[int] | None) -> Result:
    """Return what the keys of an output say."""
    if keys is None:
        return Result.DEAD
    if keys == expected:
        return Result.EXACT
    return Result.REPEATED if sorted(set(keys)) == expected else Result.WRONG


CHECKED_SINCE: Final = "4.1"
"""From here on Spark checks that a function of ``foreachBatch`` has written the state of all partitions."""


def expected_result(case: Case, version: str) -> Result:
    """
    Return what Spark makes of a case, as measured on 3.5 to 4.3.

    A sink that passes over a batch which it has does not execute it, so no task tells the new state's ids.
    """
    if not case.is_sink_ahead:
        return Result.EXACT
    if case.sink == "topic":
        return Result.REPEATED
    is_checked = case.sink == "foreachBatch that skips" and version >= CHECKED_SINCE
    skips = case.sink in ("file", "foreachBatch that skips")
    return Result.DEAD if is_checked or (skips and case.is_format_2) else Result.EXACT
