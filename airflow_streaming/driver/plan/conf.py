"""Which configuration a plan tells, by the Spark that knows it: asking for an unknown key is slow."""

from __future__ import annotations

import contextlib
from typing import Any, Final

from airflow_streaming.core.conf import SparkVersion, parse_spark_version, redact

_STREAMING: Final = "spark.sql.streaming."
_KEYS: Final[tuple[tuple[tuple[int, int], tuple[str, ...]], ...]] = (
    (
        (3, 5),
        (
            "spark.sql.shuffle.partitions",
            "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan",
            "spark.sql.session.timeZone",
            "spark.sql.ansi.enabled",
            f"{_STREAMING}stateStore.providerClass",
            f"{_STREAMING}multipleWatermarkPolicy",
            f"{_STREAMING}flatMapGroupsWithState.stateFormatVersion",
            f"{_STREAMING}aggregation.stateFormatVersion",
            f"{_STREAMING}join.stateFormatVersion",
            f"{_STREAMING}stateStore.compression.codec",
            f"{_STREAMING}stateStore.rocksdb.formatVersion",
            f"{_STREAMING}statefulOperator.useStrictDistribution",
            f"{_STREAMING}stateStore.stateSchemaCheck",
        ),
    ),
    (
        (4, 0),
        (
            f"{_STREAMING}stateStore.encodingFormat",
            f"{_STREAMING}stateStore.checkpointFormatVersion",
        ),
    ),
    (
        (4, 2),
        (
            f"{_STREAMING}stateStore.rocksdb.mergeOperatorVersion",
            f"{_STREAMING}stateStore.rowChecksum.enabled",
            f"{_STREAMING}queryEvolution.enableSourceEvolution",
            f"{_STREAMING}offsetLog.formatVersion",
            "spark.sql.function.protobufExtensions.enabled",
        ),
    ),
    (
        (4, 3),
        (
            f"{_STREAMING}statefulOperator.alwaysNullableOutput.enabled",
            "spark.sql.dropDuplicates.deterministicKeyOrder.enabled",
        ),
    ),
)
_UNREGISTERED: Final = f"{_STREAMING}stateStore.rocksdb.changelogCheckpointing.enabled"
"""The state store reads it by itself; without a value Spark does not know it."""


def keys_of(version: SparkVersion) -> tuple[str, ...]:
    """Return the keys that a Spark version knows."""
    return tuple(key for since, keys in _KEYS if version[:2] >= since for key in keys)


def read_conf(session: Any) -> dict[str, str]:
    """Return the session's values, defaults included; what cannot be read is left out."""
    conf, found = session._jsparkSession.conf(), {}
    for key in keys_of(parse_spark_version(str(session.version))):
        with contextlib.suppress(Exception):  # a vendor's Spark may have dropped it
            found[key] = str(conf.get(key))
    with contextlib.suppress(Exception):
        found[_UNREGISTERED] = str(conf.get(_UNREGISTERED, "false"))
    return redact(found)
