"""
Rows, state and planned batches of a run, for a comparison of two versions.

A bag is a number of rows and a digest that does not depend on their order: the sums of two hashes
of every row. A row is hashed as the text of its columns. Floats are cut to ten digits, because
their sums depend on the order of rows.

Spark runs a planned, uncommitted batch with exactly the planned offsets. So the plans of one run
are passed to the other run, one at a time. The watermark of a plan is taken from the run's own
previous commit, as Spark itself does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.jobs.drill import looks_at, read_stores, reader_session
from airflow_streaming.driver.jobs.scratch_patch import Starter, commits_of, sentence_of
from airflow_streaming.driver.monitoring.spark_query import SparkQuery, has_run_a_batch
from airflow_streaming.driver.script import error_of
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.jobs.drill import DrilledQuery
from airflow_streaming.model.jobs.rehearsal import Ending, RehearsalEvent, Seen
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.spark.logs import parse_commit_log

Tell = Callable[[RehearsalEvent], None]
_POLL: Final = 0.1
_NULL: Final = "\x00"
_WATERMARK: Final = "batchWatermarkMs"
_NOT_STATE: Final = "partition_id"
"""A column of the state reader: the row's partition, which is not part of the state."""


def bag_of(rows: Any) -> tuple[int, str]:
    """Compute rows by one action, and return how many there are and their digest."""
    from pyspark.sql import functions as F

    named = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))
    texts = [_text_of(name, kind) for name, kind in named.dtypes]
    sums = [
        F.sum(F.xxhash64(F.lit(seed), *texts).cast("decimal(38,0)")).alias(f"h{seed}")
        for seed in (1, 2)
    ]
    count, *hashes = named.agg(F.count(F.lit(1)), *sums).collect()[0]
    return int(count), ":".join(str(one or 0) for one in hashes)


def _text_of(name: str, kind: str) -> Any:
    from pyspark.sql import functions as F

    column = F.col(name)
    text = F.format_string("%.9e", column) if kind in ("float", "double") else column.cast("string")
    return F.when(column.isNull(), F.lit(_NULL)).otherwise(text)


def state_events(session: Any, query: DrilledQuery, batch: int) -> Iterator[RehearsalEvent]:
    """
    Yield the state after a batch: an event for each store, or why it cannot be read.

    A query without state yields nothing.
    """
    if not (Path(query.copy) / "state").is_dir():
        return
    try:
        reader = reader_session(session, state_format=_state_format(query.copy, batch))
        for look in looks_at(read_stores(reader, query.copy)):
            asked = reader.read.format("statestore").option("batchId", str(batch))
            rows = asked.options(**look.options).load(query.copy).drop(_NOT_STATE)
            count, digest = bag_of(rows)
            yield RehearsalEvent(
                seen=Seen.STATE,
                query=query.folder,
                subject=look.subject,
                batch=batch,
                rows=count,
                digest=digest,
            )
    except Exception as err:  # noqa: BLE001 - Spark 3.5 has no reader; any error is reported
        text = sentence_of(error_of(err))
        yield RehearsalEvent(seen=Seen.STATE_UNREAD, query=query.folder, text=text)


def _state_format(copy: str, batch: int) -> int:
    try:
        commit = parse_commit_log((Path(copy) / "commits" / str(batch)).read_bytes())
    except (OSError, RecordError):
        return 1
    return 2 if commit.state_ids else 1


def put_plan(query: DrilledQuery, batch: int) -> bool:
    """Plan a batch on a copy as another run has planned it; tell whether it reads something."""
    copy, plans = Path(query.copy), Path(query.plans)
    data = with_watermark((plans / str(batch)).read_bytes(), _watermark_after(copy, batch - 1))
    for path in (copy / "offsets" / str(batch), copy / "offsets" / f".{batch}.crc"):
        path.unlink(missing_ok=True)
    (copy / "offsets" / str(batch)).write_bytes(data)
    before = plans / str(batch - 1)
    return not before.exists() or _sources(before.read_bytes()) != _sources(data)


def with_watermark(plan: bytes, watermark: int) -> bytes:
    """Return a plan of the offset log with another watermark; unchanged where it tells none."""
    lines = plan.decode().split("\n")
    about = json.loads(lines[1]) if len(lines) > 1 else {}
    if not isinstance(about, dict) or _WATERMARK not in about:
        return plan
    about[_WATERMARK] = watermark
    lines[1] = json.dumps(about, separators=(",", ":"))
    return "\n".join(lines).encode()


def _sources(plan: bytes) -> list[str]:
    return plan.decode().rstrip("\n").split("\n")[2:]


def _watermark_after(copy: Path, batch: int) -> int:
    try:
        commit = parse_commit_log((copy / "commits" / str(batch)).read_bytes())
    except FileNotFoundError:
        return 0
    return commit.watermark_ms or 0


class SteppedRun:
    """
    Runs the batches of a query that another run has planned, one start of the query for each.

    :param query: Its copy, with ``steps`` and ``plans``.
    :param deadline: When it is ended, by the monotonic clock.
    """

    def __init__(self, query: DrilledQuery, deadline: float, tell: Tell) -> None:
        self._query, self._deadline, self._tell = query, deadline, tell

    def go(self, starter: Starter) -> Any:
        """
        Run all batches, report their output and the state left, and return the ended query.

        :raises Exception: Spark rejects the query.
        """
        query = self._query
        for path in query.cut:
            (Path(query.copy) / path).unlink(missing_ok=True)
        started: Any = None
        ending = Ending.ENOUGH_BATCHES
        for batch in query.steps:
            reads = put_plan(query, batch)
            try:
                started = starter.begin(query.copy, once=True, checks_schema=reads, take=self._take)
            except Exception as err:
                self._say(Seen.FAILED, text=sentence_of(error_of(err)), batch=batch)
                raise
            self._say(Seen.STARTED, batch=batch)
            ending = self._await(SparkQuery(started._jsq), batch)
            if ending is not Ending.ENOUGH_BATCHES:
                break
        else:
            for event in state_events(starter.session, query, query.steps[-1]):
                self._tell(event)
        self._say(Seen.ENDED, ending=ending, rows=len(commits_of(query.copy)))
        return started

    def _take(self, rows: Any, batch: int) -> None:
        count, digest = bag_of(rows)
        self._say(Seen.ROWS, batch=batch, rows=count, digest=digest)

    def _await(self, query: SparkQuery, batch: int) -> Ending:
        while query.is_active():
            if time.monotonic() >= self._deadline:
                query.stop()
                return Ending.OUT_OF_TIME
            time.sleep(_POLL)
        error = query.error()
        if error is not None:
            self._say(Seen.FAILED, text=sentence_of(error), batch=batch)
            return Ending.FAILED
        for report in query.progress(None):
            figures = BatchProgress.from_spark(self._query.folder, report)
            if figures.batch_id == batch and has_run_a_batch(report):
                self._say(Seen.BATCH, batch=batch, figures=figures)
        return Ending.ENOUGH_BATCHES

    def _say(self, seen: Seen, **said: Any) -> None:
        self._tell(RehearsalEvent(seen=seen, query=self._query.folder, **said))
