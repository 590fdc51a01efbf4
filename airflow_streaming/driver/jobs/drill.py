"""
The driver of a drill: opens the state of scratch copies and runs one batch on them.

The rows of every store are counted. Counting loads the version of every partition into a separate
store, as a restarted query would; it does not write to the checkpoint.

It writes each finding at once, one event per line.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from airflow_streaming.driver.errors import log_to_stderr, logger
from airflow_streaming.driver.exit_status import ScriptState
from airflow_streaming.driver.jobs.caller import exit_process, leave_with_caller
from airflow_streaming.driver.jobs.scratch_patch import (
    Absent,
    Patches,
    QueryStart,
    Starter,
    commits_of,
    find_query,
    sentence_of,
)
from airflow_streaming.driver.monitoring.spark_query import QueryError, SparkQuery
from airflow_streaming.driver.script import error_of, run_program
from airflow_streaming.model.jobs.drill import (
    INPUT_GONE,
    AnsweredOrder,
    DrilledQuery,
    DrillEvent,
    DrillEventKind,
    DrillOrder,
)
from airflow_streaming.model.spark.failure_signs import is_input_gone
from airflow_streaming.model.spark.plan import is_of_spark
from airflow_streaming.model.wire import Record

_JOIN = "symmetricHashJoin"

SCRIPT_GRACE: Final = 20.0
"""Seconds that a script may run on after the last query of the backup was run."""
_MARGIN: Final = 10.0
"""Seconds after which this process ends itself, when it was not ended before."""


def leave_after(seconds: float, what: str) -> None:
    """
    End this process after some seconds, unless it has ended.

    The parent process ends it sooner, unless the parent was killed.

    :param what: The name of this process in the log.
    """

    def leave() -> None:
        logger.error("%s did not end within %.0f s.", what, seconds)
        exit_process(1)

    later(seconds, leave)


def answer_to_file(
    order: AnsweredOrder, answer_to: Callable[[], Record], what: str, *, margin: float = 0.0
) -> int:
    """
    Write the answer to an order, whole or not at all; return the exit code.

    :param what: The name of this process in the log.
    :param margin: Seconds after the order's deadline at which this process ends itself.
    """
    leave_after(order.seconds + margin, what)
    written = Path(f"{order.answer}.part")
    written.write_bytes(answer_to().to_bytes())
    written.replace(order.answer)
    return 0


def later(seconds: float, work: Callable[[], None]) -> threading.Timer:
    """Do something in so many seconds, unless the timer is canceled or the process ends."""
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()
    return timer


class Look(NamedTuple):
    """
    A read with the state reader.

    :param subject: The store, in words.
    :param options: The reader's options for it.
    """

    subject: str
    options: dict[str, str]


def looks_at(stores: list[dict[str, Any]]) -> list[Look]:
    """
    Return the questions that open all the state there is.

    :param stores: Rows of the ``state-metadata`` reader, one for each store.
    """
    looks: dict[str, Look] = {}
    for store in stores:
        operator, name = store["operatorId"], store["operatorName"]
        subject = f"operator {operator} ({name})"
        for what, options in _parts(store):
            look = Look(f"{subject}{what}", {"operatorId": str(operator), **options})
            looks[look.subject] = look
    return list(looks.values())


def _parts(store: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    if store["operatorName"] == _JOIN:
        # A side is kept in two stores, or in one for both sides; the reader joins them to rows.
        for side in ("left", "right"):
            yield f", {side} side", {"joinSide": side}
        return
    properties = json.loads(store.get("operatorProperties") or "{}")
    variables = properties.get("stateVariables") or []
    for variable in variables:
        name = str(variable.get("stateName", ""))
        # The reader does not accept names of Spark's own stores.
        if name and not is_of_spark(name):
            yield f", variable {name}", {"stateVarName": name}
    if variables and properties.get("timeMode", "NoTime") != "NoTime":
        yield ", timers", {"readRegisteredTimers": "true"}
    if not variables:
        yield "", {"storeName": store["stateStoreName"]}


def reader_session(session: Any, *, state_format: int) -> Any:
    """
    Return a session for the reader, independent of the script's settings.

    :param state_format: State checkpoint format. The reader uses the session's value, not the
        checkpoint's.
    """
    reader = session.newSession()
    reader.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", str(state_format))
    # Before 4.3 the coordinator of state stores exists only after the first access to the queries.
    reader._jsparkSession.streams()
    return reader


def read_stores(session: Any, checkpoint: str) -> list[dict[str, Any]]:
    rows = session.read.format("state-metadata").load(checkpoint).collect()
    return [row.asDict() for row in rows]


def count_rows(session: Any, checkpoint: str, batch: int, look: Look) -> int:
    """Open one store as it was after a batch, in every partition, and count its rows."""
    reader = session.read.format("statestore").option("batchId", str(batch))
    for key, value in look.options.items():
        reader = reader.option(key, value)
    return int(reader.load(checkpoint).count())


def run(arguments: Sequence[str]) -> int:
    """Execute the order and end the process."""
    log_to_stderr()
    order = DrillOrder.from_bytes(Path(arguments[0]).read_bytes())
    leave_with_caller(order.held, order.scratch)
    leave_after(order.seconds + _MARGIN, "The drill")
    Drill(order).run()
    return 0


class Drill:
    """Does one order."""

    def __init__(self, order: DrillOrder) -> None:
        self._order = order
        self._looked_at: set[str] = set()
        self._ran: set[str] = set()
        self._spark = ""

    def run(self) -> None:
        """Run the script if there is one, and open all state that it left unopened."""
        if self._order.application:
            self._run_script()
        for query in self._order.queries:
            if query.reads_state and query.folder not in self._looked_at:
                self._open_state(_session(), query)
        if not self._spark:
            self._greet(_session())
        self._tell(DrillEventKind.END)

    def _run_script(self) -> None:
        order = self._order
        Patches(self.rehearse).install()
        source = Path(order.source).read_bytes()
        end = run_program(order.application, source, order.arguments)
        if end.state is ScriptState.FAILED and end.error is not None:
            remedy = "" if end.error.diagnosis is None else end.error.diagnosis.remedy
            self._tell(DrillEventKind.SCRIPT_FAILED, text=sentence_of(end.error), remedy=remedy)

    def rehearse(self, start: QueryStart) -> Any:
        """Run one batch of a query that the script wants to start, and return the ended query."""
        query = find_query(self._order.queries, start, self._ran)
        if query is None:
            self._tell(
                DrillEventKind.NOT_IN_BACKUP, text=start.name or start.location or "without a name"
            )
            return Absent(start.name)
        if query.folder in self._ran:
            raise SystemExit(0)
        session = start.writer.session
        self._greet(session)
        if query.reads_state:
            self._open_state(session, query)
        self._ran.add(query.folder)
        ended = self._run_batch(start.writer, query)
        if len(self._ran) == len(self._order.queries):
            self._end_soon()
        return ended

    def _run_batch(self, starter: Starter, query: DrilledQuery) -> Any:
        for path in query.cut:
            (Path(query.copy) / path).unlink(missing_ok=True)
        before = commits_of(query.copy)
        self._tell(DrillEventKind.STARTED, query, batch=query.runs)
        try:
            started = starter.begin(
                query.copy, once=query.runs is not None, checks_schema=query.has_input
            )
            with contextlib.suppress(Exception):  # the failure is read below
                started.awaitTermination()
        except Exception as err:
            self._tell_failed(query, error_of(err), str(err))
            raise
        asked = SparkQuery(started._jsq)
        error = asked.error()
        committed = sorted(commits_of(query.copy) - before)
        if error is not None:
            self._tell_failed(query, error, str(started.exception()))
        elif committed:
            rows = _rows_of(asked, committed[0])
            self._tell(DrillEventKind.BATCH, query, batch=committed[0], rows=rows)
        else:
            self._tell(DrillEventKind.NO_BATCH, query)
        return started

    def _tell_failed(self, query: DrilledQuery, error: QueryError, text: str) -> None:
        sentence = sentence_of(error)
        gone = is_input_gone(f"{sentence} {text}")
        remedy = "" if error.diagnosis is None else error.diagnosis.remedy
        subject = INPUT_GONE if gone else ""
        self._tell(
            DrillEventKind.BATCH_FAILED, query, subject=subject, text=sentence, remedy=remedy
        )

    def _open_state(self, session: Any, query: DrilledQuery) -> None:
        self._looked_at.add(query.folder)
        self._greet(session)
        reader = reader_session(session, state_format=query.state_format)
        try:
            looks = looks_at(read_stores(reader, query.copy))
        except Exception as err:  # noqa: BLE001 - any failure is a result of the drill
            text = sentence_of(error_of(err))
            self._tell(DrillEventKind.STATE_FAILED, query, subject="its operators", text=text)
            return
        for look in looks:
            try:
                rows = count_rows(reader, query.copy, query.batch, look)
            except Exception as err:  # noqa: BLE001 - as above
                text = sentence_of(error_of(err))
                self._tell(DrillEventKind.STATE_FAILED, query, subject=look.subject, text=text)
            else:
                self._tell(DrillEventKind.STATE, query, subject=look.subject, rows=rows)

    def _greet(self, session: Any) -> None:
        if not self._spark:
            self._spark = str(session.version)
            self._tell(DrillEventKind.SPARK, text=self._spark)

    def _end_soon(self) -> None:
        def leave() -> None:
            logger.warning("The script runs on although its queries have ended; leaving it.")
            self._tell(DrillEventKind.END)
            exit_process(0)

        later(SCRIPT_GRACE, leave)

    def _tell(
        self,
        told: DrillEventKind,
        query: DrilledQuery | None = None,
        *,
        subject: str = "",
        text: str = "",
        batch: int | None = None,
        rows: int | None = None,
        remedy: str = "",
    ) -> None:
        event = DrillEvent(
            told=told,
            query="" if query is None else query.folder,
            subject=subject,
            text=text,
            batch=batch,
            rows=rows,
            remedy=remedy,
        )
        with Path(self._order.events).open("ab") as file:
            file.write(event.to_bytes())


def _rows_of(query: SparkQuery, batch: int) -> int:
    told = [p for p in query.progress(None) if p.get("batchId") == batch]
    return max((int(p.get("numInputRows") or 0) for p in told), default=0)


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.appName("airflow-streaming drill").getOrCreate()
