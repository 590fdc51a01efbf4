"""Cells: which shape of query is tried on which state store, and from which Spark on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

VERSIONS: Final = ("3.5", "4.0", "4.1", "4.2", "4.3")

_STORE: Final = "spark.sql.streaming.stateStore."
_ROCKSDB: Final = {
    _STORE + "providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
_CHANGELOG: Final = {**_ROCKSDB, _STORE + "rocksdb.changelogCheckpointing.enabled": "true"}

STORES: Final[Mapping[str, Mapping[str, str]]] = {
    "none": {},
    "hdfs": {},
    "rocksdb": _ROCKSDB,
    "rocksdb_changelog": _CHANGELOG,
    "format_2": {**_CHANGELOG, _STORE + "checkpointFormatVersion": "2"},
}
"""Settings of each state store; ``format_2`` is RocksDB with changelogs in checkpoint format 2."""

SCHEMA_CHECK_OFF: Final[Mapping[str, str]] = {_STORE + "stateSchemaCheck": "false"}

_STATELESS: Final = ("stateless", "stateless_file_sink", "python_source")
_STATEFUL: Final = (
    "window_aggregate",
    "aggregate_update",
    "aggregate_objects",
    "deduplicate",
    "deduplicate_wide",
    "deduplicate_watermark",
    "deduplicate_within_watermark",
    "inner_join",
    "left_outer_join",
    "full_outer_join",
    "left_semi_join",
    "deduplicate_aggregate",
    "session_window",
    "groups_with_state",
)
# One store is enough where only the sink, the mode or a chain differs.
_ONE_STORE: Final = (
    "right_outer_join",
    "deduplicate_alike",
    "window_aggregate_file_sink",
    "aggregate_complete",
    "join_aggregate",
    "union_aggregate",
    "aggregate_aggregate",
    "limit",
)
_ALL_STORES: Final = (
    "aggregate_update",
    "deduplicate_within_watermark",
    "inner_join",
    "session_window",
)
_ON_ROCKSDB: Final = ("transform_with_state", "transform_with_state_list")
_ON_ROCKSDB_ALONE: Final = ("transform_with_state_timers", "transform_with_state_ttl")
_SINCE_4: Final = ("python_source", *_ON_ROCKSDB, *_ON_ROCKSDB_ALONE)
_CORE_SHAPES: Final = ("aggregate_update", "inner_join")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One shape on one store."""

    shape: str
    store: str

    @property
    def name(self) -> str:
        return f"{self.shape}/{self.store}"

    @property
    def is_core(self) -> bool:
        """Tell whether it is measured first: every shape on one store, some on the others."""
        return self.store in ("none", "hdfs") or self.shape in _CORE_SHAPES

    def exists_in(self, version: str) -> bool:
        """Tell whether a release can write it at all."""
        is_new = self.store == "format_2" or self.shape in _SINCE_4
        return version != "3.5" or not is_new


def all_cells() -> Iterator[Cell]:
    """Return every cell."""
    for shape in _STATELESS:
        yield Cell(shape=shape, store="none")
    for shape in _STATEFUL:
        yield Cell(shape=shape, store="hdfs")
        yield Cell(shape=shape, store="rocksdb_changelog")
    for shape in _ONE_STORE:
        yield Cell(shape=shape, store="hdfs")
    for store in ("rocksdb", "format_2"):
        for shape in _ALL_STORES:
            yield Cell(shape=shape, store=store)
    for shape in _ON_ROCKSDB:
        for store in ("rocksdb", "format_2"):
            yield Cell(shape=shape, store=store)
    for shape in _ON_ROCKSDB_ALONE:
        yield Cell(shape=shape, store="rocksdb")
