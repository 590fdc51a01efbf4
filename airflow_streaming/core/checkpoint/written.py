"""
Which Spark can have written a checkpoint, told by what only newer ones write.

This is a lower bound and never a guess: a newer Spark writes the older forms as well, and a setting
that was taken back into a maintenance release counts from there on. Sources of the table: the
settings that the released jars of 3.5, 4.0, 4.1, 4.2 and 4.3 pin, ``ConfigEntry.version`` for older
ones, and Spark's own changes for formats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

_SQL: Final = "spark.sql."
_STREAMING: Final = "spark.sql.streaming."

PINNED_SINCE: Final[Mapping[str, str]] = {
    _STREAMING + "stateStore.providerClass": "2.3",
    _STREAMING + "multipleWatermarkPolicy": "2.4",
    _STREAMING + "flatMapGroupsWithState.stateFormatVersion": "2.4",
    _STREAMING + "aggregation.stateFormatVersion": "2.4",
    _STREAMING + "join.stateFormatVersion": "3.0",
    _STREAMING + "stateStore.compression.codec": "3.1",
    _STREAMING + "stateStore.rocksdb.formatVersion": "3.2",
    # SPARK-38204 came with 3.3 and was taken back into 3.2.2.
    _STREAMING + "statefulOperator.useStrictDistribution": "3.2",
    # It calls itself one of 4.0, and 3.5.9 pins it; SPARK-51172 gave it this name.
    _SQL + "optimizer.pruneFiltersCanPruneStreamingSubplan": "3.5",
    _STREAMING + "stateStore.encodingFormat": "4.0",
    _STREAMING + "stateStore.rocksdb.mergeOperatorVersion": "4.2",
    # Both call themselves settings of 4.1, but 4.1.4 does not know them.
    _STREAMING + "stateStore.rowChecksum.enabled": "4.2",
    _STREAMING + "queryEvolution.enableSourceEvolution": "4.2",
    _SQL + "function.protobufExtensions.enabled": "4.2",
    _STREAMING + "statefulOperator.alwaysNullableOutput.enabled": "4.3",
    _SQL + "dropDuplicates.deterministicKeyOrder.enabled": "4.3",
}
"""Settings that Spark pins in the offset log, and the first release that does."""

# The first logs that are text are those of 2.1. Commit log 3 is SPARK-56971, in 4.2 and 4.3.
_OFFSET_LOG: Final = {1: "2.1", 2: "4.2"}
_COMMIT_LOG: Final = {1: "2.1", 2: "4.0", 3: "4.2"}
_OPERATOR_METADATA: Final = {1: "4.0", 2: "4.0"}
# SPARK-27237; SPARK-35602 made it version 2 in 3.2 and may have been taken back.
_STATE_SCHEMA: Final = {1: "3.1", 2: "3.1", 3: "4.0"}


def spark_at_least(
    conf: Mapping[str, str] | None,
    *,
    offset_log: int | None = None,
    commit_log: int | None = None,
    operator_metadata: int | None = None,
    state_schema: int | None = None,
) -> str | None:
    """
    Return the oldest Spark that can have written a checkpoint, e.g. ``4.0``.

    :param conf: Configuration pinned in the newest plan; ``None`` when there is no plan.
    :param offset_log: Version of the newest offset log; ``commit_log`` of the newest commit log.
    :param operator_metadata: The highest version of an operator's metadata.
    :param state_schema: The highest version of a state schema.
    :return: ``None`` when nothing is known of the checkpoint.
    """
    versions = (
        (_OFFSET_LOG, offset_log),
        (_COMMIT_LOG, commit_log),
        (_OPERATOR_METADATA, operator_metadata),
        (_STATE_SCHEMA, state_schema),
    )
    bounds = [since[version] for since, version in versions if version in since]
    bounds += _of_settings(conf or {})
    return max(bounds, key=_order, default=None)


def _of_settings(conf: Mapping[str, str]) -> Iterator[str]:
    return (PINNED_SINCE[key] for key in conf if key in PINNED_SINCE)


def _order(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
