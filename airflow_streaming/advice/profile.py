"""The production profile: recommended configuration of a stream, as a dag's author gives it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import (
    Range,
    check_values,
    checked,
    named_fields,
    of_named,
)

_PROVIDERS: Final = "org.apache.spark.sql.execution.streaming.state"
_Interval = Annotated[timedelta, Range(least=timedelta(seconds=1), most=timedelta(days=1))]


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


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """
    Recommended configuration for a stream, which overrides it key by key.

    :param name: Its name beside its values.
    :param cores: Cores that all executors of the stream have together.
    :param partitions_per_core: Shuffle partitions, and so state stores per operator, for each core.
        They cannot be changed later, so give 2 to a stream whose cores may be doubled one day.
    :param state_store: Where state is kept.
    :param checkpoint_format: State checkpoint format of new checkpoints, 1 or 2. By default 2 only
        where drivers have recorded that every stateful query writes to a sink that accepts a batch
        again, as Kafka; else 1.
    :param maintenance_interval: Interval between two rounds that upload snapshots and delete old
        files.
    :param batches_to_retain: Batches whose files a checkpoint keeps.
    :param progress_updates: Progress reports that the driver keeps in memory for each query.
    :param stop_timeout: How long Spark waits for a query to stop, before it reports a timeout.
    :param fair_scheduling: Let the queries of one application share its cores fairly.
    """

    name: str
    cores: Annotated[int, Range(least=1, most=100_000)]
    partitions_per_core: Annotated[int, Range(least=1, most=16)] = 1
    state_store: StateStore = StateStore.ROCKSDB
    checkpoint_format: Annotated[int, Range(least=1, most=2)] | None = None
    maintenance_interval: _Interval = timedelta(seconds=60)
    batches_to_retain: Annotated[int, Range(least=2, most=1_000_000)] = 100
    progress_updates: Annotated[int, Range(least=1, most=100_000)] = 500
    stop_timeout: _Interval = timedelta(seconds=60)
    fair_scheduling: bool = True

    def __post_init__(self) -> None:
        check_values(self, of=of_named("profile", self.name))

    @property
    def shuffle_partitions(self) -> int:
        """Return the number of partitions for the cores."""
        return self.cores * self.partitions_per_core


@checked
def production(
    *,
    cores: int,
    partitions_per_core: int = 1,
    state_store: StateStore | str = StateStore.ROCKSDB,
    checkpoint_format: int | None = None,
    batches_to_retain: int = 100,
    fair_scheduling: bool = True,
) -> Profile:
    """
    Return the profile for streams in production; ``Profile`` explains its options and has more.

    :raises SpecError: a knob is out of its range.
    """
    return Profile(
        name="production",
        cores=cores,
        partitions_per_core=partitions_per_core,
        state_store=_store_named(state_store),
        checkpoint_format=checkpoint_format,
        batches_to_retain=batches_to_retain,
        fair_scheduling=fair_scheduling,
    )


def _store_named(name: str) -> StateStore:
    try:
        return StateStore(name)
    except ValueError as err:
        raise SpecError(f"state_store is {name!r:.80}; give {', '.join(StateStore)}.") from err
