"""
A profile: what streams in production should run with, as a value with a few knobs.

``core/profile/settings.py`` turns it into Spark settings for one Spark version, and
``core/profile/resolution.py`` lays the stream's own configuration over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.exceptions import SpecError

_PROVIDERS: Final = "org.apache.spark.sql.execution.streaming.state"
_LONGEST: Final = timedelta(days=1)


class StateStore(StrEnum):
    """Where a stateful query keeps its state while it runs."""

    ROCKSDB = "rocksdb"
    """On local disk, with a cache; for state of any size."""
    HDFS = "hdfs"
    """In the executors' heap, Spark's default; faster while the state fits."""

    @property
    def provider(self) -> str:
        """Return the name of its class in Spark."""
        name = {StateStore.ROCKSDB: "RocksDB", StateStore.HDFS: "HDFSBacked"}[self]
        return f"{_PROVIDERS}.{name}StateStoreProvider"


def is_rocksdb(provider: str) -> bool:
    """Tell whether a provider class keeps its state in RocksDB."""
    return provider.rpartition(".")[2] == "RocksDBStateStoreProvider"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """
    Recommended configuration, to be taken by a stream and overridden key by key.

    :param name: What it is called where its values are shown.
    :param cores: Cores that all executors of the stream have together.
    :param partitions_per_core: Shuffle partitions, and so state stores per operator, for each core.
        They cannot be changed later, so give 2 to a stream whose cores may be doubled one day.
    :param state_store: Where state is kept.
    :param maintenance_interval: Time between two rounds that upload snapshots and delete old files.
    :param batches_to_retain: Batches whose files a checkpoint keeps.
    :param progress_updates: Progress reports that the driver keeps in memory for each query.
    :param stop_timeout: How long Spark waits for a query that was asked to stop, before it says so.
    :param fair_scheduling: Let the queries of one application share its cores fairly.
    :raises SpecError: a knob is out of its range.
    """

    name: str
    cores: int
    partitions_per_core: int = 1
    state_store: StateStore = StateStore.ROCKSDB
    maintenance_interval: timedelta = timedelta(seconds=60)
    batches_to_retain: int = 100
    progress_updates: int = 500
    stop_timeout: timedelta = timedelta(seconds=60)
    fair_scheduling: bool = True

    def __post_init__(self) -> None:
        self._check("cores", self.cores, 1, 100_000)
        self._check("partitions_per_core", self.partitions_per_core, 1, 16)
        self._check("batches_to_retain", self.batches_to_retain, 2, 1_000_000)
        self._check("progress_updates", self.progress_updates, 1, 100_000)
        for name in ("maintenance_interval", "stop_timeout"):
            if not timedelta(seconds=1) <= getattr(self, name) <= _LONGEST:
                raise SpecError(f"{name} of profile {self.name!r} must be from 1 s to one day.")

    def _check(self, name: str, value: int, least: int, most: int) -> None:
        if type(value) is not int or not least <= value <= most:
            raise SpecError(
                f"{name} of profile {self.name!r} must be a whole number from {least:,} to "
                f"{most:,}, found {value!r}."
            )

    @property
    def shuffle_partitions(self) -> int:
        """Return the number of partitions for the cores."""
        return self.cores * self.partitions_per_core


def production(
    *,
    cores: int,
    partitions_per_core: int = 1,
    state_store: StateStore = StateStore.ROCKSDB,
    batches_to_retain: int = 100,
    fair_scheduling: bool = True,
) -> Profile:
    """
    Return the profile for streams in production; ``Profile`` explains the knobs and has more.

    :raises SpecError: a knob is out of its range.
    """
    return Profile(
        name="production",
        cores=cores,
        partitions_per_core=partitions_per_core,
        state_store=StateStore(state_store),
        batches_to_retain=batches_to_retain,
        fair_scheduling=fair_scheduling,
    )
