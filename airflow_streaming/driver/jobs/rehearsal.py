"""
The driver of a rehearsal: the user's script on copies of checkpoints.

The caller holds a lock on a file of the folder; the system releases it when the caller ends,
however it ends. A pid is not enough, because pids are reused.

The rows of a batch are computed once and kept: a second action would run every stateful operator a
second time. Samples are text, cut and with secrets masked.

A bound ends the query as ``stop`` does, never by an error, because the script may read how the
query ended. A batch beyond the bound waits until Spark has received the stop.

Queries run one after the other, each inside its own ``start``; the remaining queries share the
remaining time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.errors import log_to_stderr, logger
from airflow_streaming.driver.exit_status import ScriptState
from airflow_streaming.driver.jobs.caller import exit_process, leave_with_caller
from airflow_streaming.driver.jobs.chosen_sink import SinkRefused
from airflow_streaming.driver.jobs.drill import later, leave_after
from airflow_streaming.driver.jobs.rehearsal_bags import SteppedRun, bag_of, state_events
from airflow_streaming.driver.jobs.scratch_patch import (
    Absent,
    Patches,
    QueryStart,
    SourceRules,
    Starter,
    commits_of,
    find_query,
    sentence_of,
)
from airflow_streaming.driver.monitoring.spark_query import QueryError, SparkQuery, has_run_a_batch
from airflow_streaming.driver.script import error_of, run_program
from airflow_streaming.model.jobs.drill import INPUT_GONE, DrilledQuery
from airflow_streaming.model.jobs.rehearsal import (
    Bounds,
    Ending,
    RehearsalEvent,
    RehearsalOrder,
    Seen,
)
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.spark.failure_signs import Hint, hints, is_input_gone
from airflow_streaming.model.spark.failures import mask_secrets
from airflow_streaming.model.spark.secrets import REDACTED, is_secret_name

_MOST_COLUMNS: Final = 40
_MOST_TEXT: Final = 100
_MOST_TYPE: Final = 500

_POLL: Final = 0.2
_STOPPING: Final = 30.0
"""Seconds for Spark to stop a query."""
Tell = Callable[[RehearsalEvent], None]

SCRIPT_GRACE: Final = 10.0
"""Seconds that a script may run on after the last query of the checkpoints has ended."""
_MOST_NEW: Final = 20
"""Maximum number of new queries; a script that exceeds it starts them in an endless loop."""


def columns_of(rows: Any) -> tuple[Column, ...]:
    """Return the columns of a data frame."""
    return tuple(
        Column(name=f.name, type=f.dataType.simpleString()[:_MOST_TYPE], nullable=bool(f.nullable))
        for f in rows.schema.fields
    )


def count_and_sample(rows: Any, most: int) -> tuple[int, list[dict[str, str]]]:
    """
    Compute the rows of a batch and return how many there are, and the first of them as text.

    :param most: Rows to show; a sample that cannot be taken is left out.
    """
    kept = rows.persist()
    try:
        count = int(kept.count())
        return count, _sample(kept, most) if count and most > 0 else []
    finally:
        kept.unpersist()


def _sample(kept: Any, most: int) -> list[dict[str, str]]:
    try:
        # By name of column alone, two columns of one name would be one.
        names = list(kept.columns)
        return [shown(zip(names, row, strict=True)) for row in kept.take(most)]
    except Exception as err:  # noqa: BLE001 - some types of Spark have no value in Python
        logger.warning("No sample could be taken: %s", err)
        return []


def shown(row: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return the first columns of a row as text for a sample."""
    found: dict[str, str] = {}
    for name, value in list(row)[:_MOST_COLUMNS]:
        found[name] = REDACTED if is_secret_name(name) else _text(value)
    return found


def _text(value: Any) -> str:
    if value is None:
        return ""
    whole = str(value.asDict(True)) if hasattr(value, "asDict") else str(value)
    # Cut twice: masking a text of megabytes would take its time.
    masked = mask_secrets(whole[: 20 * _MOST_TEXT])
    return masked if len(masked) <= _MOST_TEXT else f"{masked[: _MOST_TEXT - 1]}…"


class Run:
    """
    Runs one query.

    :param deadline: When it is ended, by the monotonic clock.
    :param tell: Called with every event at once.
    :param compares: As of ``RehearsalOrder``.
    """

    def __init__(
        self,
        query: DrilledQuery,
        bounds: Bounds,
        deadline: float,
        tell: Tell,
        *,
        compares: bool = False,
    ) -> None:
        self._query, self._bounds, self._deadline, self._tell = query, bounds, deadline, tell
        self._compares = compares
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
        elif self._compares and self._rows:
            # A batch that was let through when there were enough has written no state.
            counted = self._rows.keys() & commits_of(query.copy)
            for event in state_events(starter.session, query, max(counted, default=-1)):
                self._tell(event)
        self._say(Seen.ENDED, ending=ending, rows=len(commits_of(query.copy) - before))
        return started if error is None or is_failed else Absent(started.name)

    def _take(self, rows: Any, batch: int) -> None:
        # Spark calls this for every batch, in a thread of its own.
        if self._is_enough():
            self._enough.set()
            self._stopping.wait(_STOPPING)
            return
        try:
            count, sample, digest = self._computed(rows)
        except Exception as err:
            if self._stopping.is_set():
                return
            # Spark's own version of the error hides the cause among its frames.
            self._error = error_of(err)
            raise
        self._rows[batch] = count
        if self._compares:
            self._say(Seen.ROWS, batch=batch, rows=count, digest=digest)
        if sample:
            self._sampled += len(sample)
            self._say(Seen.SAMPLE, batch=batch, sample=tuple(sample))

    def _computed(self, rows: Any) -> tuple[int, list[dict[str, str]], str]:
        if self._compares:
            count, digest = bag_of(rows)
            return count, [], digest
        return *count_and_sample(rows, self._bounds.sample - self._sampled), ""

    def _is_enough(self) -> bool:
        if self._bounds.until_caught_up and not self._bounds.replay_only:
            return False
        return len(self._rows) >= self._bounds.batches

    def _watch(self, query: SparkQuery) -> Ending:
        ending = Ending.CAUGHT_UP
        while query.is_active():
            self._tell_fresh(query)
            if self._enough.wait(_POLL) or time.monotonic() >= self._deadline:
                ending = Ending.ENOUGH_BATCHES if self._enough.is_set() else Ending.OUT_OF_TIME
                self._stop(query)
                break
        self._tell_fresh(query)
        is_once = self._bounds.replay_only and self._query.runs is not None
        return Ending.ENOUGH_BATCHES if is_once and ending is Ending.CAUGHT_UP else ending

    def _stop(self, query: SparkQuery) -> None:
        def stop() -> None:
            with contextlib.suppress(Exception):  # it may have ended meanwhile
                query.stop()

        stopper = threading.Thread(target=stop, daemon=True)
        stopper.start()
        until = time.monotonic() + _STOPPING
        while query.is_active() and time.monotonic() < until:
            time.sleep(_POLL / 4)
        # Only now may a waiting batch continue: Spark takes its end for the stop's.
        self._stopping.set()
        stopper.join(_STOPPING)

    def _tell_fresh(self, query: SparkQuery) -> None:
        for report in query.progress(None):
            figures = BatchProgress.from_spark(self._query.folder, report)
            batch = figures.batch_id
            # A batch that was let through has rows that were not counted.
            if batch > self._told and batch in self._rows and has_run_a_batch(report):
                self._told = batch
                self._say(Seen.BATCH, batch=batch, rows=self._rows[batch], figures=figures)

    def _why(self, query: SparkQuery) -> QueryError | None:
        error = query.error()
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
    # A script that reads another folder than the checkpoint did has its input.
    return is_input_gone(text) and not hints(text, Hint.OTHER_FOLDER)


def run(arguments: Sequence[str]) -> int:
    """Execute the order and end the process."""
    log_to_stderr()
    order = RehearsalOrder.from_bytes(Path(arguments[0]).read_bytes())
    leave_with_caller(order.held, order.scratch)
    leave_after(order.seconds, "The rehearsal")
    Rehearsal(order).run()
    return 0


class Rehearsal:
    """Does one order."""

    def __init__(self, order: RehearsalOrder) -> None:
        self._order = order
        self._ran: set[str] = set()
        self._new: dict[str, DrilledQuery] = {}
        self._deadline = time.monotonic() + order.bounds.seconds
        self._spark = ""
        self._leaving: threading.Timer | None = None
        self._telling = threading.Lock()

    def run(self) -> None:
        """Run the script; its queries run inside it."""
        order, bounds = self._order, self._order.bounds
        limits = {
            "maxFilesPerTrigger": bounds.files_per_batch,
            "maxOffsetsPerTrigger": bounds.records_per_batch,
        }
        rules = SourceRules(limits, fails_on_loss=bounds.fails_on_loss)
        Patches(self.rehearse, rules).install()
        end = run_program(order.application, Path(order.source).read_bytes(), order.arguments)
        self._stay()
        if end.state is ScriptState.FAILED and end.error is not None:
            remedy = "" if end.error.diagnosis is None else end.error.diagnosis.remedy
            text = sentence_of(end.error)
            self._tell(RehearsalEvent(seen=Seen.SCRIPT_FAILED, text=text, remedy=remedy))
        self._tell(RehearsalEvent(seen=Seen.END))

    def rehearse(self, start: QueryStart) -> Any:
        """Run a query that the script wants to start to a bound, and return the ended query."""
        self._stay()
        self._greet(start.writer.session)
        query = find_query(self._order.queries, start, self._ran) or self._new_query(start)
        if query.folder in self._ran:
            # The script starts its queries in an endless loop; more runs would show nothing new.
            raise SystemExit(0)
        left = len({q.folder for q in self._order.queries} - self._ran) or 1
        self._ran.add(query.folder)
        now = time.monotonic()
        deadline = now + max(0.0, self._deadline - now) / left
        run = (
            SteppedRun(query, deadline, self._tell)
            if query.steps
            else Run(
                query,
                self._order.bounds,
                deadline,
                self._tell,
                compares=self._order.compares,
            )
        )
        self._check_sink(query.folder, start.writer)
        ended = run.go(start.writer)
        if {q.folder for q in self._order.queries} <= self._ran:
            self._leave_soon()
        return ended

    def _check_sink(self, query: str, starter: Starter) -> None:
        """
        Report the sink that the script chose.

        :raises SinkRefused: Spark would refuse it; the script gets that where it would get Spark's error.
        """
        chosen = starter.sink()
        if chosen is None:
            return
        self._tell(
            RehearsalEvent(
                seen=Seen.SINK,
                query=query,
                sink=chosen.sink,
                output_mode=chosen.output_mode,
                subject=", ".join(chosen.missing_topics),
            )
        )
        if chosen.refusal:
            sentence = f"Spark refuses the sink. {chosen.refusal.rstrip('.')}."
            self._tell(
                RehearsalEvent(
                    seen=Seen.FAILED,
                    query=query,
                    text=sentence,
                    remedy="Change the sink as Spark's sentence says.",
                )
            )
            raise SinkRefused(sentence)

    def _new_query(self, start: QueryStart) -> DrilledQuery:
        name = start.name or start.location or f"unnamed query {len(self._new) + 1}"
        known = self._new.get(name)
        if known is not None:
            return known
        if len(self._new) >= _MOST_NEW:
            raise SystemExit(0)
        copy = Path(self._order.scratch) / "new" / str(len(self._new))
        query = DrilledQuery(folder=name, checkpoint="", copy=str(copy), batch=-1)
        self._new[name] = query
        self._tell(RehearsalEvent(seen=Seen.NEW_QUERY, query=name))
        return query

    def _greet(self, session: Any) -> None:
        if not self._spark:
            self._spark = str(session.version)
            self._tell(RehearsalEvent(seen=Seen.SPARK, text=self._spark))

    def _stay(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()

    def _leave_soon(self) -> None:
        def leave() -> None:
            logger.warning("The script runs on although its queries have ended; leaving it.")
            self._tell(RehearsalEvent(seen=Seen.END))
            exit_process(0)

        self._leaving = later(SCRIPT_GRACE, leave)

    def _tell(self, event: RehearsalEvent) -> None:
        # Batches are reported by threads of their own.
        with self._telling, Path(self._order.events).open("ab") as file:
            file.write(event.to_bytes())
