"""
The life of a driver: run the script, keep watch, and end in one of the ways an exit record knows.

Three threads of our own stand beside the script's main thread: the heartbeat (asks the JVM, writes
the status), the watch (looks for reasons to end, never asks the JVM), and the one that brings the
queries down once the end has begun. None of them ends the process while the script can still do it
itself within its time; after that, the process is ended whatever hangs.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime
from typing import Final, NoReturn

from airflow_streaming.core.epoch import Exit
from airflow_streaming.core.names import Layout
from airflow_streaming.driver.admission import Admission
from airflow_streaming.driver.checkpoint import Claims
from airflow_streaming.driver.ending import Ending, Stop
from airflow_streaming.driver.faults import logger
from airflow_streaming.driver.fence import Fence
from airflow_streaming.driver.gate import Gate
from airflow_streaming.driver.intercept import Interception
from airflow_streaming.driver.jvm import JvmProcess, JvmView, stop_spark
from airflow_streaming.driver.last_word import LastWord
from airflow_streaming.driver.leaving import Leaving, bounded
from airflow_streaming.driver.order import Assignment
from airflow_streaming.driver.outcome import (
    RUNNING,
    End,
    ScriptEnd,
    ScriptState,
    code_of,
    conclude,
    fenced,
)
from airflow_streaming.driver.plan.keeping import PlanKeeper
from airflow_streaming.driver.queries import Queries
from airflow_streaming.driver.report import Report
from airflow_streaming.driver.script import has_script_threads, run_script
from airflow_streaming.driver.standby.barrier import barrier_of
from airflow_streaming.driver.standby.patience import install_patience
from airflow_streaming.driver.stopping import stop_queries
from airflow_streaming.driver.watch import Watch, signal_grace
from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.files.local import LocalStore
from airflow_streaming.files.store import Store

SCRIPT_GRACE: Final = 10.0
"""Seconds the script has to come to its end once its queries have ended."""

_LOOK_SECONDS: Final = 0.2
_MARGIN: Final = 2.0
_LAST_BEAT: Final = 5.0
_SPARK_STOP: Final = 10.0


class Driver:
    """Runs one assignment; an instance runs once."""

    def __init__(self, assignment: Assignment, store: Store, layout: Layout) -> None:
        epoch, deployment = assignment.epoch, assignment.deployment
        self._assignment, self._epoch = assignment, epoch.number
        self._script = RUNNING
        self._queries, self._ending = Queries(), Ending()
        self._jvm = JvmProcess()
        self._last_word = LastWord(store, layout.epoch(epoch.number, "exit.json"))
        claims = Claims(store, layout, deployment=deployment.number, epoch=epoch.number)
        self._leaving = Leaving(self._jvm, store_needs_jvm=not isinstance(store, LocalStore))
        fence = Fence(
            store,
            layout,
            epoch.number,
            leaving=self._leaving,
            last_word=lambda: self._last_word.say(fenced(epoch.number, datetime.now(UTC))),
        )
        self._barrier = barrier_of(epoch, store, layout, ending=self._ending, fence=fence)
        self._report = Report(
            assignment,
            store,
            queries=self._queries,
            claims=claims,
            ending=self._ending,
            jvm=JvmView(self._jvm),
            on_failure=self._ending.fail,
            barrier=self._barrier,
        )
        self._watch = Watch(
            store,
            layout,
            epoch.number,
            ending=self._ending,
            fence=fence,
            jvm=self._jvm,
            on_jvm_gone=self._end_without_jvm,
        )
        self._plans = PlanKeeper(store, layout, epoch.number)
        self._admission = Admission(
            deployment.checkpoint,
            queries=self._queries,
            claims=claims,
            ending=self._ending,
            barrier=self._barrier,
        )
        self._interception = Interception(
            admission=self._admission,
            gate=Gate(fence.check, self._ending, self._queries),
            fair_pools=deployment.fair_pools,
            ending=self._ending,
            plans=self._plans,
        )
        self._brought_down, self._finishing = threading.Event(), threading.Event()
        self._still_active: tuple[str, ...] = ()

    def run(self) -> int:
        """Run the script and its queries to their end and return the process's exit code."""
        self._report.begin()
        self._watch.begin()
        if self._barrier is not None:
            self._barrier.begin()
        for work in (self._bring_down, self._keep_deadline):
            threading.Thread(target=work, name="airflow-streaming-end", daemon=True).start()
        try:
            self._interception.install()
            if self._barrier is not None:
                install_patience(self._barrier)
            self._script = run_script(self._assignment)
            self._await_queries()
        except KeyboardInterrupt:
            self._ending.ask_stop(Stop(by="SIGINT", reason="Interrupted.", grace=signal_grace()))
        except DriverRefusal as err:
            self._ending.refuse(str(err))
        if self._ending.begun.is_set():
            self._brought_down.wait()
        return self._finish()

    def _await_queries(self) -> None:
        """Wait until the end has begun or every query has ended by itself."""
        if self._script.state is ScriptState.FAILED:
            if _may_have_lost_jvm(self._script) and self._jvm.is_gone_within(_MARGIN):
                self._end_without_jvm()
            self._report.beat()  # a query that failed explains the script's exception
            self._ending.fail()
            return
        self._report.beat()
        # Threads of the script may still start queries, as they may when Python runs it alone.
        while self._queries.any_active or has_script_threads():
            if self._ending.begun.wait(_LOOK_SECONDS):
                return

    def _bring_down(self) -> None:
        self._ending.begun.wait()
        left = stop_queries(
            self._admission.started,
            until=time.monotonic() + self._ending.grace,
            clock=time.monotonic,
            pause=time.sleep,
        )
        if left:
            self._cut_off()
        self._brought_down.set()
        if not self._finishing.wait(SCRIPT_GRACE):
            logger.warning("The script does not end although its queries have; leaving it.")
            os._exit(self._finish())

    def _keep_deadline(self) -> None:
        """End the process in time even if the JVM answers no question any more."""
        self._ending.begun.wait()
        if not self._brought_down.wait(self._ending.grace + _MARGIN):
            self._cut_off()

    def _cut_off(self) -> NoReturn:
        self._still_active = tuple(q.name for q in self._queries.all() if q.active)
        logger.error("Not stopped in time: %s. Ending at once.", ", ".join(self._still_active))
        self._end_at_once(self._conclude(cut_off=True))

    def _end_without_jvm(self) -> NoReturn:
        self._end_at_once(self._conclude(jvm_gone=True, cut_off=True))

    def _end_at_once(self, exit: Exit) -> NoReturn:
        self._leaving.at_once(
            lambda: self._last_word.say(exit), lambda: code_of(self._last_word.said or exit)
        )

    def _finish(self) -> int:
        self._finishing.set()
        bounded(self._plans.finish, seconds=_LAST_BEAT)
        bounded(self._report.close, seconds=_LAST_BEAT)
        exit = self._conclude()
        self._last_word.say(exit)
        bounded(stop_spark, seconds=_SPARK_STOP)
        code = code_of(self._last_word.said or exit)
        # Threads that the script left behind would keep the interpreter alive.
        leaving = threading.Timer(SCRIPT_GRACE, os._exit, (code,))
        leaving.daemon = True
        leaving.start()
        return code

    def _conclude(self, *, jvm_gone: bool = False, cut_off: bool = False) -> Exit:
        failed = self._queries.first_failed
        return conclude(
            End(
                epoch=self._epoch,
                at=datetime.now(UTC),
                script=self._script,
                started=bool(self._queries.all()),
                stop=self._ending.stop,
                refusal=self._ending.refusal,
                failed_query=None if failed is None else failed.name,
                query_error=None if failed is None else failed.error,
                still_active=self._still_active,
                jvm_gone=jvm_gone,
                cut_off=cut_off,
            )
        )


def _may_have_lost_jvm(script: ScriptEnd) -> bool:
    # py4j tells the death of the JVM as one of many network errors.
    name = "" if script.error is None else script.error.exception_class
    return name.startswith(("Py4J", "Connection"))
