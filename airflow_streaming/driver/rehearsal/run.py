"""
The driver of a rehearsal: the user's script on copies of checkpoints, for a bounded while.

It is an ordinary Spark application on this host, started by ``upgrade.rehearsal`` with one
argument, the file of its order. Queries run one after the other, each inside its own ``start``; the
time is shared out among those that are left. Whatever it finds out it writes down at once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from airflow_streaming.core.checkpoint.drill import DrilledQuery
from airflow_streaming.core.rehearsal.order import RehearsalEvent, RehearsalOrder, Seen
from airflow_streaming.driver.drill.clock import later, leave_after
from airflow_streaming.driver.drill.match import find_query
from airflow_streaming.driver.drill.outcome import sentence_of
from airflow_streaming.driver.drill.patch import Asked, Patches
from airflow_streaming.driver.drill.reader import SourceRules
from airflow_streaming.driver.faults import log_to_stderr, logger
from airflow_streaming.driver.outcome import ScriptState
from airflow_streaming.driver.rehearsal.caller import leave_with_caller
from airflow_streaming.driver.rehearsal.running import Run
from airflow_streaming.driver.script import run_program

SCRIPT_GRACE: Final = 10.0
"""Seconds a script may go on after the last query of the checkpoints has ended."""

_MOST_NEW: Final = 20
"""New queries of one script; one that starts more starts them over and over."""


def run(arguments: Sequence[str]) -> int:
    """Do what the order says and end the process."""
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
        Patches(self.rehearse, SourceRules(limits)).install()
        end = run_program(order.application, Path(order.source).read_bytes(), order.arguments)
        self._stay()
        if end.state is ScriptState.FAILED and end.error is not None:
            remedy = "" if end.error.diagnosis is None else end.error.diagnosis.remedy
            text = sentence_of(end.error)
            self._tell(RehearsalEvent(seen=Seen.SCRIPT_FAILED, text=text, remedy=remedy))
        self._tell(RehearsalEvent(seen=Seen.END))

    def rehearse(self, asked: Asked) -> Any:
        """Run a query that the script wants to start to a bound, and return the ended query."""
        self._stay()
        self._greet(asked.writer.session)
        query = find_query(self._order.queries, asked, self._ran) or self._new_query(asked)
        if query.folder in self._ran:
            # The script starts its queries over and over; it has shown what it does.
            raise SystemExit(0)
        left = len({q.folder for q in self._order.queries} - self._ran) or 1
        self._ran.add(query.folder)
        now = time.monotonic()
        deadline = now + max(0.0, self._deadline - now) / left
        ended = Run(query, self._order.bounds, deadline, self._tell).go(asked.writer)
        if {q.folder for q in self._order.queries} <= self._ran:
            self._leave_soon()
        return ended

    def _new_query(self, asked: Asked) -> DrilledQuery:
        name = asked.name or asked.location or f"unnamed query {len(self._new) + 1}"
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
            logger.warning("The script goes on although its queries have ended; leaving it.")
            self._tell(RehearsalEvent(seen=Seen.END))
            os._exit(0)

        self._leaving = later(SCRIPT_GRACE, leave)

    def _tell(self, event: RehearsalEvent) -> None:
        # Batches are told of by threads of their own.
        with self._telling, Path(self._order.events).open("ab") as file:
            file.write(event.to_bytes())
