"""
One rehearsed query: started on its copy, watched batch by batch, and ended at a bound.

A bound ends the query as ``stop`` would, never by an error, because the script may ask the query
how it ended. A batch beyond the bound is held at its door until Spark knows that it is to stop.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from airflow_streaming.core.checkpoint.drill import INPUT_GONE, DrilledQuery
from airflow_streaming.core.checkpoint.drill_judge import is_input_gone
from airflow_streaming.core.progress import BatchProgress
from airflow_streaming.core.rehearsal.order import Bounds, Ending, RehearsalEvent, Seen
from airflow_streaming.driver.drill.absent import Absent
from airflow_streaming.driver.drill.outcome import commits_of, sentence_of
from airflow_streaming.driver.drill.patch import Starter
from airflow_streaming.driver.query import QueryError, SparkQuery
from airflow_streaming.driver.rehearsal.rows import columns_of, count_and_sample
from airflow_streaming.driver.script import error_of
from airflow_streaming.driver.tracked import has_run_a_batch

_POLL: Final = 0.2
_STOPPING: Final = 30.0
"""Seconds for Spark to end a query that is told to."""

Tell = Callable[[RehearsalEvent], None]


class Run:
    """
    Runs one query.

    :param query: Its copy.
    :param deadline: When it is ended, by the monotonic clock.
    :param tell: Is told every event at once.
    """

    def __init__(self, query: DrilledQuery, bounds: Bounds, deadline: float, tell: Tell) -> None:
        self._query, self._bounds, self._deadline, self._tell = query, bounds, deadline, tell
        self._rows: dict[int, int] = {}
        self._sampled = 0
        self._told = -1
        self._error: QueryError | None = None
        self._enough, self._stopping = threading.Event(), threading.Event()

    def go(self, starter: Starter) -> Any:
        """
        Run the query to its end or a bound, and return it; it has ended.

        Spark cannot always tell the interrupt of a stop from a failure, for example while it waits
        for a broadcast. The script is then given a query that has ended well.
        """
        query = self._query
        for path in query.cut:
            (Path(query.copy) / path).unlink(missing_ok=True)
        before = commits_of(query.copy)
        for name in starter.left_out:
            self._say(Seen.NOT_CALLED, text=name)
        try:
            columns = columns_of(starter.rows)
            once = self._bounds.replay_only and query.runs is not None
            started = starter.begin(
                query.copy, once=once, checks_schema=query.has_input, take=self._take
            )
        except Exception as err:
            self._say_failed(error_of(err), str(err))
            raise
        self._say(Seen.STARTED, columns=columns)
        asked = SparkQuery(started._jsq)
        ending = self._watch(asked)
        error = self._why(asked)
        is_failed = error is not None and not self._stopping.is_set()
        if error is not None and is_failed:
            self._say_failed(error, str(started.exception()))
            ending = Ending.FAILED
        self._say(Seen.ENDED, ending=ending, rows=len(commits_of(query.copy) - before))
        return started if error is None or is_failed else Absent(started.name)

    def _take(self, rows: Any, batch: int) -> None:
        # Spark calls this for every batch, in a thread of its own.
        if self._is_enough():
            self._enough.set()
            self._stopping.wait(_STOPPING)
            return
        try:
            count, sample = count_and_sample(rows, self._bounds.sample - self._sampled)
        except Exception as err:
            if self._stopping.is_set():
                return
            # What Spark makes of it has lost the cause among its own frames.
            self._error = error_of(err)
            raise
        self._rows[batch] = count
        if sample:
            self._sampled += len(sample)
            self._say(Seen.SAMPLE, batch=batch, sample=tuple(sample))

    def _is_enough(self) -> bool:
        if self._bounds.until_caught_up and not self._bounds.replay_only:
            return False
        return len(self._rows) >= self._bounds.batches

    def _watch(self, asked: SparkQuery) -> Ending:
        ending = Ending.CAUGHT_UP
        while asked.is_active():
            self._tell_fresh(asked)
            if self._enough.wait(_POLL) or time.monotonic() >= self._deadline:
                ending = Ending.ENOUGH_BATCHES if self._enough.is_set() else Ending.OUT_OF_TIME
                self._stop(asked)
                break
        self._tell_fresh(asked)
        is_once = self._bounds.replay_only and self._query.runs is not None
        return Ending.ENOUGH_BATCHES if is_once and ending is Ending.CAUGHT_UP else ending

    def _stop(self, asked: SparkQuery) -> None:
        def stop() -> None:
            with contextlib.suppress(Exception):  # it may have ended by itself meanwhile
                asked.stop()

        stopper = threading.Thread(target=stop, daemon=True)
        stopper.start()
        until = time.monotonic() + _STOPPING
        while asked.is_active() and time.monotonic() < until:
            time.sleep(_POLL / 4)
        # Only now may a batch that waits at the door go on: Spark takes its end for the stop's.
        self._stopping.set()
        stopper.join(_STOPPING)

    def _tell_fresh(self, asked: SparkQuery) -> None:
        for report in asked.progress(None):
            figures = BatchProgress.from_spark(self._query.folder, report)
            batch = figures.batch_id
            # A batch that was let through at the door has rows that nobody counted.
            if batch > self._told and batch in self._rows and has_run_a_batch(report):
                self._told = batch
                self._say(Seen.BATCH, batch=batch, rows=self._rows[batch], figures=figures)

    def _why(self, asked: SparkQuery) -> QueryError | None:
        error = asked.error()
        return None if error is None else self._error or error

    def _say_failed(self, error: QueryError, text: str) -> None:
        sentence = sentence_of(error)
        self._say(
            Seen.FAILED,
            text=sentence,
            subject=INPUT_GONE if _is_gone(f"{sentence} {text}") else "",
            remedy="" if error.diagnosis is None else error.diagnosis.remedy,
            batch=max(self._rows, default=None),
        )

    def _say(self, seen: Seen, **said: Any) -> None:
        self._tell(RehearsalEvent(seen=seen, query=self._query.folder, **said))


def _is_gone(text: str) -> bool:
    # The file source's own word for a script that reads another folder than the checkpoint did.
    return is_input_gone(text) and "Wrong basePath" not in text
