"""
Settings of Spark that a run may change: numbers, sizes, times, switches and words of a list.

A setting that is missing here may name code, a path, an address or a class: jars, plugins, listeners,
catalogs, extensions, Java options, a Python, a pod template, a service account. The table is a positive
list, so a setting of a later Spark is refused until a row says why it may be typed.
Each value must match its kind as a whole, because Spark passes some of them on to a command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

_STATE: Final = "org.apache.spark.sql.execution.streaming.state"
_SQL: Final = "spark.sql."
_STREAMING: Final = "spark.sql.streaming."
_STORE: Final = "spark.sql.streaming.stateStore."
_ROCKSDB: Final = "spark.sql.streaming.stateStore.rocksdb."


class ValueKind(Enum):
    """Kinds of values, each with its pattern and how a message names it."""

    COUNT = (r"-?\d{1,12}", "a whole number")
    RATIO = (r"\d{1,6}(?:\.\d{1,6})?", "a number")
    SIZE = (r"-?\d{1,12} ?(?:[kmgtp]i?b?|b)?", "a size such as 4g")
    TIME = (r"\d{1,12} ?(?:us|ms|s|m|min|h|d)?", "a time such as 30s")
    SWITCH = (r"true|false", "true or false")
    QUANTITY = (r"\d{1,6}(?:\.\d{1,3})?m?", "a number of cores such as 2 or 500m")
    ZONE = (
        (
            r"[A-Za-z]{1,20}(?:\d{1,2}[A-Za-z]{1,4})?(?:[/_-][A-Za-z_]{1,20}){0,3}(?:[+-]\d{1,2})?"
            r"|(?:UTC|GMT)?[+-]\d\d?(?::\d\d)?"
        ),
        "a time zone such as Europe/Berlin",
    )

    def __init__(self, pattern: str, example: str) -> None:
        self.pattern = re.compile(pattern, re.ASCII | re.IGNORECASE)
        self.example = example


@dataclass(frozen=True, slots=True)
class PlainSettings:
    """
    Settings of one kind.

    :param why: Effect of the values, and the reason why they cannot be code or a place.
    :param words: The only values, where they are words.
    """

    keys: tuple[str, ...]
    kind: ValueKind | None
    why: str
    words: tuple[str, ...] = ()


def _under(prefix: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}{name}" for name in names)


_K = ValueKind
TABLE: Final[tuple[PlainSettings, ...]] = (
    PlainSettings(
        _under(
            "spark.",
            *("executor.instances", "executor.cores", "driver.cores", "cores.max", "task.cpus"),
            *("dynamicAllocation.minExecutors", "dynamicAllocation.maxExecutors"),
            *("dynamicAllocation.initialExecutors", "default.parallelism"),
        ),
        _K.COUNT,
        "How many executors, cores and partitions a stream takes.",
    ),
    PlainSettings(
        _under(
            "spark.kubernetes.",
            "executor.request.cores",
            "executor.limit.cores",
            "driver.request.cores",
            "driver.limit.cores",
        ),
        _K.QUANTITY,
        "Requests and limits of pods; a quantity of Kubernetes.",
    ),
    PlainSettings(
        _under(
            "spark.",
            *("executor.memory", "executor.memoryOverhead", "executor.pyspark.memory"),
            *("driver.memory", "driver.memoryOverhead", "driver.maxResultSize"),
            *("memory.offHeap.size", "reducer.maxSizeInFlight", "kryoserializer.buffer.max"),
        ),
        _K.SIZE,
        "Memory. Spark puts the heap behind -Xmx as one argument, so the whole value is matched.",
    ),
    PlainSettings(
        _under(
            "spark.",
            "memory.fraction",
            "memory.storageFraction",
            "executor.memoryOverheadFactor",
            "driver.memoryOverheadFactor",
            "kubernetes.memoryOverheadFactor",
        ),
        _K.RATIO,
        "Shares of the memory.",
    ),
    PlainSettings(
        _under(
            "spark.",
            *("dynamicAllocation.enabled", "dynamicAllocation.shuffleTracking.enabled"),
            *("memory.offHeap.enabled", "speculation", "decommission.enabled"),
            *("storage.decommission.enabled", "shuffle.compress", "shuffle.spill.compress"),
            *("broadcast.compress", "rdd.compress", "python.worker.reuse"),
        ),
        _K.SWITCH,
        "Switches of the scheduler, the shuffle and the memory.",
    ),
    PlainSettings(
        _under(
            "spark.",
            "task.maxFailures",
            "ui.retainedJobs",
            "ui.retainedStages",
            "ui.retainedTasks",
            "sql.ui.retainedExecutions",
            "stage.maxConsecutiveAttempts",
        ),
        _K.COUNT,
        "How often a task is tried, and how much Spark's own page keeps.",
    ),
    PlainSettings(
        _under(
            "spark.",
            *("network.timeout", "executor.heartbeatInterval", "locality.wait", "rpc.askTimeout"),
            *("dynamicAllocation.executorIdleTimeout", "dynamicAllocation.schedulerBacklogTimeout"),
            *(
                "dynamicAllocation.cachedExecutorIdleTimeout",
                "scheduler.maxRegisteredResourcesWaitingTime",
            ),
        ),
        _K.TIME,
        "How long Spark waits.",
    ),
    PlainSettings(("spark.scheduler.mode",), None, "How jobs share the cores.", ("FIFO", "FAIR")),
    PlainSettings(
        ("spark.log.level",),
        None,
        "How much a driver logs.",
        ("ALL", "DEBUG", "ERROR", "FATAL", "INFO", "OFF", "TRACE", "WARN"),
    ),
    PlainSettings(
        ("spark.serializer",),
        None,
        "Spark's own two classes; any other name loads a class.",
        _under("org.apache.spark.serializer.", "JavaSerializer", "KryoSerializer"),
    ),
    PlainSettings(
        ("spark.io.compression.codec", f"{_STORE}compression.codec"),
        None,
        "Spark's short names; any other name loads a class.",
        ("lz4", "lzf", "snappy", "zstd"),
    ),
    PlainSettings(
        _under(
            _SQL,
            *("shuffle.partitions", "adaptive.coalescePartitions.initialPartitionNum"),
            *("files.minPartitionNum", "files.maxRecordsPerFile", "maxPlanStringLength"),
            "execution.arrow.maxRecordsPerBatch",
        ),
        _K.COUNT,
        "How a batch is cut into partitions and files.",
    ),
    PlainSettings(
        _under(
            _SQL,
            *("adaptive.advisoryPartitionSizeInBytes", "autoBroadcastJoinThreshold"),
            *(
                "adaptive.autoBroadcastJoinThreshold",
                "files.maxPartitionBytes",
                "files.openCostInBytes",
            ),
        ),
        _K.SIZE,
        "Sizes by which a batch is planned.",
    ),
    PlainSettings((f"{_SQL}broadcastTimeout",), _K.TIME, "How long a join waits."),
    PlainSettings(
        _under(
            _SQL,
            *(
                "adaptive.enabled",
                "adaptive.coalescePartitions.enabled",
                "adaptive.skewJoin.enabled",
            ),
            *("ansi.enabled", "caseSensitive", "codegen.wholeStage", "join.preferSortMergeJoin"),
            *("execution.arrow.pyspark.enabled", "parquet.enableVectorizedReader"),
            *("parquet.filterPushdown", "orc.enableVectorizedReader", "orc.filterPushdown"),
            *("files.ignoreCorruptFiles", "files.ignoreMissingFiles"),
        ),
        _K.SWITCH,
        "How a plan is made and what its expressions mean; the gates judge what that changes.",
    ),
    PlainSettings(
        (f"{_SQL}session.timeZone",), _K.ZONE, "The zone of timestamps; Java looks it up by name."
    ),
    PlainSettings(
        (f"{_SQL}legacy.timeParserPolicy",),
        None,
        "How times are parsed.",
        ("CORRECTED", "EXCEPTION", "LEGACY"),
    ),
    PlainSettings(
        (f"{_SQL}storeAssignmentPolicy",),
        None,
        "Which casts an insert makes.",
        ("ANSI", "LEGACY", "STRICT"),
    ),
    PlainSettings(
        (f"{_SQL}timestampType",),
        None,
        "Meaning of TIMESTAMP.",
        ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    ),
    PlainSettings(
        (f"{_SQL}sources.partitionOverwriteMode",),
        None,
        "Extent of an overwrite.",
        ("dynamic", "static"),
    ),
    PlainSettings(
        (f"{_SQL}parquet.compression.codec", f"{_SQL}orc.compression.codec"),
        None,
        "Codecs of the file formats, by their short names.",
        ("gzip", "lz4", "none", "snappy", "uncompressed", "zlib", "zstd"),
    ),
    PlainSettings(
        _under(
            _STREAMING,
            *("minBatchesToRetain", "maxBatchesToRetainInMemory", "numRecentProgressUpdates"),
            *("stateStore.minDeltasForSnapshot", "stateStore.checkpointFormatVersion"),
            *("join.stateFormatVersion", "aggregation.stateFormatVersion"),
            *("flatMapGroupsWithState.stateFormatVersion", "fileSource.log.compactInterval"),
            *("fileSink.log.compactInterval", "stateStore.maxNumStateSchemaFiles"),
        ),
        _K.COUNT,
        "How much of a checkpoint is kept, and in which format.",
    ),
    PlainSettings(
        _under(
            _STREAMING,
            "pollingDelay",
            "stopTimeout",
            "noDataProgressEventInterval",
            "stateStore.maintenanceInterval",
            "stateStore.maintenanceShutdownTimeout",
        ),
        _K.TIME,
        "How often a query looks, and how long it may take to stop.",
    ),
    PlainSettings(
        _under(
            _STREAMING,
            *("metricsEnabled", "noDataMicroBatches.enabled", "stateStore.stateSchemaCheck"),
            *("unsupportedOperationCheck", "statefulOperator.checkCorrectness.enabled"),
            *(
                "stateStore.skipNullsForStreamStreamJoins.enabled",
                "checkpoint.fileChecksum.enabled",
            ),
        ),
        _K.SWITCH,
        "Checks and figures of queries; the gates judge a check that is off.",
    ),
    PlainSettings(
        (f"{_STREAMING}multipleWatermarkPolicy",),
        None,
        "Which of several watermarks counts.",
        ("max", "min"),
    ),
    PlainSettings(
        (f"{_STORE}providerClass",),
        None,
        "Spark's own state stores; any other name loads a class.",
        _under(f"{_STATE}.", "HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"),
    ),
    PlainSettings(
        _under(
            _ROCKSDB,
            *("blockSizeKB", "blockCacheSizeMB", "maxOpenFiles", "maxWriteBufferNumber"),
            *("writeBufferSizeMB", "maxMemoryUsageMB", "formatVersion", "lockAcquireTimeoutMs"),
        ),
        _K.COUNT,
        "Memory and files of RocksDB.",
    ),
    PlainSettings(
        _under(_ROCKSDB, "writeBufferCacheRatio", "highPriorityPoolRatio"),
        _K.RATIO,
        "Shares of RocksDB's cache.",
    ),
    PlainSettings(
        _under(
            _ROCKSDB,
            "changelogCheckpointing.enabled",
            "compactOnCommit",
            "boundedMemoryUsage",
            "trackTotalNumberOfRows",
            "resetStatsOnLoad",
            "allowFAllocate",
        ),
        _K.SWITCH,
        "Writes and counts of RocksDB.",
    ),
    PlainSettings(
        (f"{_ROCKSDB}compression",),
        None,
        "Codecs of RocksDB, by their short names.",
        ("lz4", "none", "snappy", "zstd"),
    ),
)
"""Each setting once."""
PLAIN: Final[Mapping[str, PlainSettings]] = {key: row for row in TABLE for key in row.keys}


def why_not_plain(key: str, value: str | None) -> str:
    """
    Return why a run may not give this value to a setting; empty when it may.

    :param value: As Spark reads it; ``None`` takes the setting out.
    """
    row = PLAIN.get(key)
    if row is None:
        return "its values can name code or a place, as far as is known"
    if value is None:
        return ""
    if row.kind is None:
        return "" if _is_word(value, row.words) else f"only {', '.join(row.words)} can be typed"
    return "" if row.kind.pattern.fullmatch(value) else f"only {row.kind.example} can be typed"


def _is_word(value: str, words: tuple[str, ...]) -> bool:
    # Spark takes short names in any case. The JVM loads another class by another spelling.
    short = {word.lower() for word in words if "." not in word}
    return value in words or (value.isascii() and value.lower() in short)
