"""
Values of a rehearsal: its driver's order, the driver's events, and the limits.

A rehearsal proves a fact that plans cannot show: Spark loads the state and continues from it. It
runs for a bounded time, a bounded number of batches, and on a bounded part of this host.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.jobs.drill import DrilledQuery
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.spark.plan import SinkPlan
from airflow_streaming.model.wire import Record

MAX_SAMPLE = 20
"""Rows: a report is for people, and lies where many can read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """
    The limits of a rehearsal.

    :param batches: Batches after which each query is ended.
    :param until_caught_up: Continue beyond them, until the query has read all data that the sources
        held at its start.
    :param replay_only: The quick form: if a batch is uncommitted, or can be made so, run exactly
        that one.
    :param seconds: Time for all queries together, without the start of Spark; a query that is
        running then is ended, which is not a failure.
    :param records_per_batch: Most records of one batch that a Kafka source reads, and
        ``files_per_batch`` most files. A smaller limit that the script sets stays.
    :param fails_on_loss: Input that is gone fails a query, also where the script lets a Kafka source skip it.
    :param sample: Sampled rows of output of each query; 0 for none.
    :param cores: Threads of the small Spark; ``memory_mb`` is the heap of its JVM.
    """

    batches: int = 5
    until_caught_up: bool = False
    replay_only: bool = False
    seconds: float = 600.0
    records_per_batch: int = 100_000
    files_per_batch: int = 100
    fails_on_loss: bool = False
    sample: int = 20
    cores: int = 2
    memory_mb: int = 1024

    def __post_init__(self) -> None:
        least = min(
            self.batches, self.records_per_batch, self.files_per_batch, self.cores, self.memory_mb
        )
        is_timed = math.isfinite(self.seconds) and self.seconds > 0
        if least < 1 or not is_timed or not 0 <= self.sample <= MAX_SAMPLE:
            raise ValueError(
                "The bounds of a rehearsal must be positive, and the sample between 0 and "
                f"{MAX_SAMPLE} rows."
            )


QUICK = Bounds(batches=1, replay_only=True, seconds=180.0)
"""A replayed batch: does the state load, and does the new code accept it?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalOrder(Record):
    """
    The order to the driver of a rehearsal.

    :param seconds: After this the process ends by its own clock.
    :param scratch: Folder of the rehearsal, which it removes when the ordering process is gone.
    :param source: Where the bytes of the script lie; ``application`` is its path to its author.
    :param compares: Tell the rows of every batch and the state at the end as bags, and show none.
    """

    KIND: ClassVar[str] = "rehearsal-order"

    events: str
    seconds: float
    bounds: Bounds
    queries: tuple[DrilledQuery, ...]
    application: str
    source: str
    scratch: str
    held: str
    arguments: tuple[str, ...] = ()
    compares: bool = False


class Seen(StrEnum):
    """The kind of an event of a rehearsal."""

    SPARK = "spark"
    """The session is there; the text is Spark's version."""
    NEW_QUERY = "new_query"
    """The script starts a query that the checkpoints do not have; it begins on an empty one."""
    SINK = "sink"
    """The sink that the script chose; the subject names topics of it that the brokers do not have, separated by commas."""
    STARTED = "started"
    """Spark has started the query; the columns are of its output."""
    BATCH = "batch"
    """A batch was committed in the copy; the figures are from its progress."""
    ROWS = "rows"
    """The output of a batch, as a bag; only where two versions are compared."""
    STATE = "state"
    """The state in a store at the end, as a bag; the subject names the store."""
    STATE_UNREAD = "state_unread"
    SAMPLE = "sample"
    ENDED = "ended"
    """The query reached a bound, named by ``ending``; ``rows`` is how many batches it committed."""
    FAILED = "failed"
    NOT_CALLED = "not_called"
    """A function that the script gave to its sink was not called; the text names it."""
    SCRIPT_FAILED = "script_failed"
    END = "end"


class Ending(StrEnum):
    """How a rehearsed query ended."""

    CAUGHT_UP = "caught_up"
    """All that its sources held when it began has been read."""
    ENOUGH_BATCHES = "enough_batches"
    OUT_OF_TIME = "out_of_time"
    FAILED = "failed"
    NOT_STARTED = "not_started"
    """The script did not start it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalEvent(Record):
    """
    An event of a rehearsal, one line of the driver's file.

    :param query: The query's name, or the folder of its checkpoint.
    :param text: An error in one line, or another remark.
    :param subject: ``input`` for a batch that failed because its input is gone.
    :param rows: Rows that would have been written; see ``Seen.ENDED`` for its other meaning.
    :param sample: Rows of output, values as text, secrets masked.
    :param digest: Of the rows, in any order.
    :param sink: The sink that the script chose; ``output_mode`` its mode.
    """

    KIND: ClassVar[str] = "rehearsal-event"

    seen: Seen
    query: str = ""
    text: str = ""
    subject: str = ""
    batch: int | None = None
    rows: int | None = None
    figures: BatchProgress | None = None
    columns: tuple[Column, ...] = ()
    sample: tuple[Mapping[str, str], ...] = ()
    ending: Ending | None = None
    remedy: str = ""
    digest: str = ""
    sink: SinkPlan | None = None
    output_mode: str = ""


def read_told(data: bytes) -> list[RehearsalEvent]:
    """Return the events of a driver; a last line that is not whole is left out."""
    found = []
    for line in data.split(b"\n")[:-1]:
        try:
            found.append(RehearsalEvent.from_bytes(line))
        except RecordError:
            break
    return found
