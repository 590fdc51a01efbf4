"""
A driver's own status: its heartbeat and the latest progress of every query.

Times in a status are the driver's own; they are compared with each other only, never with the clock
of the reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.epoch import Host
from airflow_streaming.model.spark.failure_signs import Hint, hints
from airflow_streaming.model.wire import Record

_LONGEST_LOSS: Final = 10 * 365 * 86_400.0
"""Seconds until which a loss counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLoss:
    """
    The first unread data that a source removes.

    :param at: When it does, by the driver's clock.
    :param measured_at: When the driver measured it last.
    :param share: Share of the retention that was left then, if known.
    """

    query: str
    source: str
    at: datetime
    measured_at: datetime
    share: float | None = None

    def is_near(self, now: datetime) -> bool:
        """Tell whether half of the time is over that was left when it was measured."""
        return now - self.measured_at >= (self.at - self.measured_at) / 2


class DriverState(StrEnum):
    """The driver's present activity."""

    STARTING = "starting"
    """The script has not started a query yet."""
    RUNNING = "running"
    STOPPING = "stopping"


class CheckpointOrigin(StrEnum):
    """Who chose a query's checkpoint location."""

    DEPLOYMENT = "deployment"
    SCRIPT = "script"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """
    A query as the driver sees it now.

    :param processing: A batch is in work (``isTriggerActive``).
    :param data_available: The source has data to read.
    :param batches: Batches committed in this epoch, as far as seen; of a continuous query the epochs that
        Spark has committed.
    :param progress: The latest batch's figures; ``None`` before the first.
    :param error: Message of the exception that ended it.
    :param processing_interval_s: Interval of its processing trigger, where it has one.
    :param epoch_interval_s: Seconds between the commits of a continuous query. Spark reports no batch and no
        figure of such a query. ``None`` for a query in batches.
    :param checkpoint_interval_s: Length of each batch of a query in real-time mode. It writes rows as they come
        and commits when the batch ends. ``None`` for another query.
    :param recent_durations_ms: Durations of its last 20 batches, the newest last.
    :param batch_for_s: How long that batch has been in work.
    :param quiet_for_s: How long that batch has had no sign of work: no task finished, and no CPU
        time used by active tasks or by the driver for it.
    :param committed_ago_s: Time since a batch was last seen committed, or since the start.
    :param active_tasks: Running tasks of the batch.
    :param ready_for_s: How long it has had data to read without a batch in work.
    :param refusal: Why no broker of a source or sink accepts a connection, while the query waits
        for one.
    :param refused_for_s: How long it has waited for them.
    :param batch_shift: Added to Spark's batch ids before a ``foreachBatch`` function sees them. All
        other figures name batches as Spark does.

    The durations are counted by the driver beat by beat with a monotonic clock, so that neither a
    moved clock nor a suspended driver makes them jump.
    """

    name: str
    id: str
    run_id: str
    checkpoint: str
    checkpoint_origin: CheckpointOrigin
    active: bool
    processing: bool = False
    data_available: bool = False
    message: str = ""
    batches: int = 0
    progress: BatchProgress | None = None
    error: str | None = None
    processing_interval_s: float | None = None
    recent_durations_ms: tuple[int, ...] = ()
    planned_batch: int | None = None
    batch_for_s: float | None = None
    quiet_for_s: float | None = None
    committed_ago_s: float | None = None
    active_tasks: int | None = None
    ready_for_s: float | None = None
    refusal: str = ""
    refused_for_s: float | None = None
    batch_shift: int = 0
    epoch_interval_s: float | None = None
    checkpoint_interval_s: float | None = None

    @property
    def is_continuous(self) -> bool:
        """Tell whether it runs without batches."""
        return self.epoch_interval_s is not None

    @property
    def is_real_time(self) -> bool:
        return self.checkpoint_interval_s is not None

    @property
    def is_reading(self) -> bool:
        """Tell whether it has work; a batch in real-time mode is always in work, and its last one tells."""
        if self.is_real_time and self.progress is not None:
            return self.progress.input_rows > 0
        return self.processing or self.data_available or self.is_continuous

    @property
    def waits_for_trigger(self) -> bool:
        """Tell whether it is past its initialization and between two batches."""
        return hints(self.message, Hint.WAITING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """
    The counts of progress reports handed to a sink.

    :param sink: Its name, e.g. ``kafka``.
    :param dropped: Reports dropped because the sink was slow or away.
    :param trouble: Its present error, if any.
    :param url: Where its figures can be fetched, if the driver serves them itself.
    """

    sink: str
    sent: int = 0
    dropped: int = 0
    trouble: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorStatus:
    """
    The executors of an application on a cluster, without the driver.

    :param wanted: How many the configuration asks for; ``None`` where it does not say. With dynamic
        allocation the least that it keeps.
    :param lost_last_hour: How many went in the last hour, as far as Spark remembers: it keeps the last
        100 (``spark.ui.retainedDeadExecutors``).
    :param failed_tasks: Tasks that have failed in this epoch.
    :param none_for_s: How long there has been none; ``None`` while there is one.
    :param gc_share: Share of the tasks' time in garbage collection since the look before; ``None`` without tasks.
    :param reason: Why the last one went, in the words of Spark and the cluster; empty when none did.
    """

    alive: int
    wanted: int | None = None
    lost_last_hour: int = 0
    failed_tasks: int = 0
    none_for_s: float | None = None
    reason: str = ""
    gc_share: float | None = None

    @property
    def missing(self) -> int:
        """Return how many fewer there are than wanted; 0 where that is not known."""
        return max(0, (self.wanted or 0) - self.alive)


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseStatus:
    """
    A pause as the driver carries it out.

    :param number: Number of the pause.
    :param is_held: No query has a batch in work, and none begins one.
    :param held_for_s: How long that has been so.
    :param left_s: Seconds until the driver lets the queries continue.
    :param waits_for: Queries with a batch in work.
    :param refusal: Why this driver cannot hold its queries, as a sentence; they continue.
    """

    number: int
    is_held: bool = False
    held_for_s: float = 0.0
    left_s: float = 0.0
    waits_for: tuple[str, ...] = ()
    refusal: str = ""


class Resizing(StrEnum):
    """What a driver makes of a change of its size."""

    WORKING = "working"
    """The change is not reached yet."""
    IN_PLACE = "in_place"
    """The driver has the new size, without a restart."""
    REFUSED = "refused"
    """The driver cannot change its size; a restart does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeChangeEnd(Record):
    """
    The driver's answer to a change of its size.

    :param epoch: The epoch of the driver.
    :param result: ``in_place`` or ``refused``.
    :param executors: Executors at that time.
    :param seconds: From the driver's first sight of the change to its answer.
    :param held_s: Seconds for which the queries were held between two batches.
    :param state_partitions: Loaded partitions of state, where Spark tells them; ``moved`` of them lose their executor
        and are loaded again.
    :param reason: A sentence: why not, or what is still missing.
    """

    KIND: ClassVar[str] = "size_change_end"

    number: int
    epoch: int
    result: Resizing
    executors: int
    seconds: float
    at: datetime
    held_s: float = 0.0
    state_partitions: int = 0
    moved: int = 0
    reason: str = ""

    @property
    def sentence(self) -> str:
        """Return the answer in words."""
        if self.result is not Resizing.IN_PLACE:
            return f"With a restart: {self.reason}"
        moved = (
            f", {self.moved} of {self.state_partitions} state partitions are loaded again"
            if self.moved
            else ""
        )
        text = f"Without a restart, in {duration_text(self.seconds)}{moved}."
        return f"{text} {self.reason}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeStatus:
    """
    The size of a driver that can change it, see ``driver.resizing``.

    :param executors: Executors that it has asked the cluster for.
    :param number: The newest change that it has seen; 0 before the first.
    :param state: What it makes of that change; ``None`` before the first.
    :param reason: Why it refuses, or what it waits for.
    :param working_for_s: How long the change has been in work, without the time in a pause.
    :param since: When this size was reached; ``None`` of the size at the start.
    """

    executors: int
    number: int = 0
    state: Resizing | None = None
    reason: str = ""
    working_for_s: float = 0.0
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Record):
    """
    The driver's heartbeat.

    :param beat: Rises by one with every write; an observer times how long it stands still.
    :param first_progress_at: When the first batch of this epoch was seen committed.
    :param standby: It waits at the barrier, see ``model.records.epoch``, until it is released.
    :param executors: ``None`` in local mode, and before the first read.
    :param pause: The pause that is open; ``None`` without one.
    :param size: ``None`` of a driver whose number of executors is not managed.
    """

    KIND: ClassVar[str] = "status"

    stream: str
    epoch: int
    token: str
    beat: int
    state: DriverState
    host: Host
    pid: int
    started_at: datetime
    at: datetime
    spark_version: str
    application_id: str | None = None
    ui_url: str | None = None
    first_progress_at: datetime | None = None
    queries: tuple[QueryStatus, ...] = ()
    sinks: tuple[SinkStatus, ...] = ()
    standby: bool = False
    executors: ExecutorStatus | None = None
    pause: PauseStatus | None = None
    size: SizeStatus | None = None

    @property
    def is_held(self) -> bool:
        """Tell whether a pause holds every query between two batches."""
        return self.pause is not None and self.pause.is_held

    @property
    def batches(self) -> int:
        """Return the batches committed in this epoch over all queries."""
        return sum(query.batches for query in self.queries)

    @property
    def loss(self) -> DataLoss | None:
        """Return the loss of unread data that comes first, as of this beat; ``None`` where no source tells."""
        found = [
            (source.loss_in_s, query.name, source)
            for query in self.queries
            for source in (query.progress.sources if query.progress else ())
            if source.loss_in_s is not None and source.loss_in_s <= _LONGEST_LOSS
        ]
        if not found:
            return None
        seconds, query, source = min(found, key=lambda one: one[0])
        at = self.at + timedelta(seconds=seconds)
        return DataLoss(
            query=query,
            source=source.source,
            at=at,
            measured_at=self.at,
            share=source.loss_share,
        )

    @property
    def progressed_for(self) -> timedelta:
        """Return how long the driver has been making progress, by its own clock."""
        if self.first_progress_at is None:
            return timedelta(0)
        return max(timedelta(0), self.at - self.first_progress_at)
