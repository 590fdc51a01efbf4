"""
The life of a driver: run the script, watch it, and end in order.

Three threads run beside the script's main thread: the heartbeat (calls the JVM, writes the status),
the watch (checks for reasons to end, never calls the JVM), and the shutdown thread, which stops the
queries once the end has begun. The script may end the process itself within its time limit; after
that, the process is ended even if threads hang.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NoReturn

from airflow_streaming.driver.checkpoint.checkpoint_claims import Claims
from airflow_streaming.driver.code.code_objects import set_own_places
from airflow_streaming.driver.errors import ErrorBoundary, log_to_stderr, logger
from airflow_streaming.driver.exit_status import (
    FAILED_CODE,
    REFUSED_CODE,
    RUNNING,
    ExitRecordWriter,
    RunEnd,
    ScriptEnd,
    ScriptState,
    ShutdownState,
    Stop,
    code_of,
    conclude,
    fenced,
    lease_lost,
    promoted,
    refused,
)
from airflow_streaming.driver.hadoop_store import HadoopStore, open_home
from airflow_streaming.driver.jvm import (
    JvmProcess,
    JvmView,
    active_context,
    die_with_jvm,
    is_under_jvm,
    run_as_child,
    set_properties,
    stop_spark,
)
from airflow_streaming.driver.launch_context import (
    DriverArgs,
    LaunchContext,
    check_newest,
    forget_properties,
    read_assignment,
    read_epoch,
    take_private_conf,
)
from airflow_streaming.driver.lease import LeaseKeeper, instant
from airflow_streaming.driver.monitoring.heartbeat import Report
from airflow_streaming.driver.monitoring.kafka_places import kafka_places
from airflow_streaming.driver.monitoring.output_files import APPENDER, OutputFiles, overwrites
from airflow_streaming.driver.monitoring.queries import Queries
from airflow_streaming.driver.output_places.batch_writes import BatchWrites
from airflow_streaming.driver.output_places.live_outputs import LiveOutputs
from airflow_streaming.driver.pausing.pause_watch import PauseWatch
from airflow_streaming.driver.pipeline.flow_watch import FlowWatch
from airflow_streaming.driver.pipeline.updates import PipelineUpdates
from airflow_streaming.driver.plan.keeping import PlanKeeper
from airflow_streaming.driver.resizing.resize_watch import ResizeWatch
from airflow_streaming.driver.script import has_script_threads, run_script
from airflow_streaming.driver.shutdown import (
    FENCED_CODE,
    Fence,
    HardExit,
    StopWatcher,
    bounded,
    signal_grace,
    stop_queries,
)
from airflow_streaming.driver.standby.barrier import OrderBook, barrier_of, install_patience
from airflow_streaming.driver.standby.promotion import PromotionBook, StandbyWatch, read_signs
from airflow_streaming.driver.start_guard import StartGuard
from airflow_streaming.driver.start_hook import Gate, StartHook
from airflow_streaming.exceptions import (
    DriverRefusal,
    FencedError,
    HomeUnavailable,
    RecordError,
    SpecError,
)
from airflow_streaming.model.lease import HeldLease, Instant
from airflow_streaming.model.names import Layout
from airflow_streaming.model.pipeline.program import is_pipeline
from airflow_streaming.model.records.epoch import Epoch, Exit
from airflow_streaming.model.spark.conf import DIES_WITH_JVM, LOG_BYTES
from airflow_streaming.model.spark.failures import hide
from airflow_streaming.model.spark.own_places import places_of
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.spark.secret_conf import secret_values
from airflow_streaming.model.storage import LocalStore, Store

SCRIPT_GRACE: Final = 10.0
"""Seconds that the script gets to end once its queries have ended."""
WANTED_SECONDS: Final = 5.0
"""Interval at which a hot standby checks that it is still needed."""
WANTED_SECONDS_AWAY: Final = 30.0
"""The same where the home is on an object store."""
_LOOK_SECONDS: Final = 0.2
_MARGIN: Final = 2.0
_LAST_BEAT: Final = 5.0
_LAST_MASK: Final = 2.0
_SPARK_STOP: Final = 10.0


class Driver:
    """Runs one assignment; an instance runs once."""

    def __init__(
        self, assignment: LaunchContext, store: Store, layout: Layout, began: Instant | None = None
    ) -> None:
        epoch, deployment = assignment.epoch, assignment.deployment
        set_own_places(places_of(deployment))
        self._assignment, self._epoch, self._store = assignment, epoch.number, store
        self._script = RUNNING
        self._queries, self._ending = Queries(), ShutdownState()
        self._jvm = JvmProcess()
        self._last_word = ExitRecordWriter(store, layout, epoch.number)
        # Of a hot standby, queries are the lane's, and are claimed once it is promoted.
        lane = Layout(epoch.serves) if epoch.serves else layout
        claims = self._claims = Claims(
            store, lane, deployment=deployment.number, epoch=epoch.number
        )
        self._leaving = HardExit(self._jvm, store_needs_jvm=not isinstance(store, LocalStore))
        fence = Fence(
            store,
            layout,
            epoch.number,
            leaving=self._leaving,
            last_word=lambda: self._last_word.say(fenced(self._epoch, datetime.now(UTC))),
        )
        self._fence = fence
        self._lease = self._lease_since(epoch, began or instant())
        self._wanted: StandbyWatch | None = None
        self._barrier = barrier_of(
            *(epoch, store, layout),
            ending=self._ending,
            fence=fence,
            orders=self._orders_of(epoch),
        )
        self._report = Report(
            assignment,
            store,
            queries=self._queries,
            claims=claims,
            ending=self._ending,
            jvm=JvmView(self._jvm),
            on_failure=self._ending.fail,
            barrier=self._barrier,
            on_written=None if self._lease is None else self._lease.renew,
        )
        self._watch = StopWatcher(
            store,
            layout,
            epoch.number,
            ending=self._ending,
            fence=fence,
            jvm=self._jvm,
            on_jvm_gone=self._end_without_jvm,
        )
        self._plans = PlanKeeper(store, lane, epoch.number, on_read=self._note_places)
        outputs = LiveOutputs(store, lane.root)
        self._guard = StartGuard(
            deployment.checkpoint,
            queries=self._queries,
            claims=claims,
            ending=self._ending,
            barrier=self._barrier,
            outputs=outputs,
        )
        self._pauses = PauseWatch(
            store,
            lane,
            queries=self._guard.started,
            is_ending=self._ending.begun.is_set,
            on_lost=self._end_held,
        )
        self._guard.pauses = self._report.pauses = self._pauses
        self._resizes = self._report.resizes = self._resizes_of(epoch, lane)
        self._start_hook = StartHook(
            guard=self._guard,
            gate=Gate(
                self._check_may_write,
                self._ending,
                self._queries,
                BatchWrites(outputs, self._plans.wrote, self._ending),
            ),
            fair_pools=deployment.fair_pools,
            ending=self._ending,
            plans=self._plans,
        )
        self._brought_down, self._finishing = threading.Event(), threading.Event()
        self._still_active: tuple[str, ...] = ()
        self._close_program: Callable[[], None] = lambda: None

    def run(self) -> int:
        """Run the script and its queries to their end and return the process's exit code."""
        self._report.begin()
        self._watch.begin()
        self._pauses.begin()
        if self._resizes is not None:
            self._resizes.begin()
        if self._lease is not None:
            self._lease.begin()
            self._lease.wait_until_held()
            # A task that takes over looks at this heartbeat once more after it has made its epoch.
            self._fence.check()
        if self._barrier is not None:
            self._barrier.begin()
        if self._wanted is not None:
            is_near = isinstance(self._store, LocalStore)
            self._wanted.begin(WANTED_SECONDS if is_near else WANTED_SECONDS_AWAY)
        for work in (self._bring_down, self._keep_deadline):
            threading.Thread(target=work, name="airflow-streaming-end", daemon=True).start()
        try:
            self._script = self._run_application()
            self._await_queries()
        except KeyboardInterrupt:
            self._ending.ask_stop(Stop(by="SIGINT", reason="Interrupted.", grace=signal_grace()))
        except DriverRefusal as err:
            self._ending.refuse(err)
        if self._ending.begun.is_set():
            self._brought_down.wait()
        return self._finish()

    def _run_application(self) -> ScriptEnd:
        if is_pipeline(self._assignment.deployment.application):
            updates = PipelineUpdates(
                self._assignment,
                ending=self._ending,
                check_may_write=self._check_may_write,
                wait_to_start=self._pauses.wait_to_start,
                watch_flows=self._watch_flows,
                waits=self._barrier is not None,
            )
            self._close_program = updates.close
            return updates.run()
        self._start_hook.install()
        if self._barrier is not None:
            install_patience(self._barrier)
        return run_script(self._assignment)

    def _watch_flows(self) -> FlowWatch:
        context = active_context()
        if context is None:
            raise DriverRefusal("The pipeline has no Spark context. Start the stream again.")
        gateway, hadoop = context._gateway, context._jsc.hadoopConfiguration()
        return FlowWatch(
            self._assignment.deployment.checkpoint,
            queries=self._queries,
            claims=self._claims,
            ending=self._ending,
            open_checkpoint=lambda location: HadoopStore(location, gateway, hadoop),
        )

    def _orders_of(self, standby: Epoch) -> OrderBook | None:
        """Return where a hot standby waits for its epoch; ``None`` for any other driver."""
        if not standby.serves:
            return None
        self._wanted = StandbyWatch(
            lambda: read_signs(self._store, Layout(standby.serves), standby.change),
            self._give_up_waiting,
            standby=standby,
        )
        return PromotionBook(self._store, standby, adopt=self._adopt)

    def _resizes_of(self, epoch: Epoch, lane: Layout) -> ResizeWatch | None:
        """Return the changes of the size; ``None`` where the number of executors is not managed."""
        if epoch.executors is None:
            return None
        return ResizeWatch(
            self._store,
            lane,
            epoch=epoch.number,
            executors=epoch.executors,
            queries=self._guard.started,
            is_paused=lambda: self._pauses.is_open,
            is_ending=self._ending.begun.is_set,
            check_may_write=self._check_may_write,
            on_lost=self._end_held,
        )

    def _note_places(self, plan: QueryPlan) -> None:
        self._queries.note_places(plan.query, kafka_places(plan))

    def _give_up_waiting(self, reason: str) -> None:
        self._ending.ask_stop(Stop(by="the standby itself", reason=reason, grace=0.0))

    def _adopt(self, epoch: Epoch, began: Instant) -> None:
        """Become the driver of an epoch, still at the barrier; a repetition does no harm."""
        if self._wanted is not None:
            self._wanted.close()
        standby, layout = self._assignment.epoch, Layout(epoch.stream)
        logger.info("Standby %d is the driver of epoch %d.", standby.number, epoch.number)
        # The fence first: whatever fails below, a newer epoch ends this driver.
        self._fence.move(layout, epoch.number)
        self._epoch = epoch.number
        _record(self._store, Layout(standby.stream), promoted(standby, epoch, datetime.now(UTC)))
        self._last_word.move(layout, epoch.number)
        self._watch.move(layout, epoch.number)
        self._claims.move(epoch.number)
        self._plans.move(epoch.number)
        self._lease = self._lease_since(epoch, began)
        self._report.move(
            replace(self._assignment, epoch=epoch),
            None if self._lease is None else self._lease.renew,
        )
        if self._lease is not None:
            self._lease.begin()
            self._lease.wait_until_held()
        self._fence.check()

    def _lease_since(self, epoch: Epoch, began: Instant) -> LeaseKeeper | None:
        seconds = epoch.lease_seconds
        if seconds is None:
            return None
        return LeaseKeeper(
            HeldLease(seconds=seconds, since=began),
            leaving=self._leaving,
            last_word=lambda: self._last_word.say(lease_lost(self._epoch, datetime.now(UTC))),
        )

    def _check_may_write(self) -> None:
        """Return if this driver may write, as far as can be seen; otherwise do not return."""
        if self._lease is not None:
            self._lease.check()
        self._fence.check()

    def _await_queries(self) -> None:
        """Wait until the shutdown has begun or every query has ended."""
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
        self._pauses.release()
        if self._resizes is not None:
            self._resizes.release()
        left = stop_queries(
            self._guard.started,
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

    def _end_held(self, reason: str) -> None:
        """End the driver, because one of its queries would wait for ever; its task starts another."""
        logger.error("%s Ending the driver.", reason)
        self._ending.fail()

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
        bounded(self._close_program, seconds=_SPARK_STOP)
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
            RunEnd(
                epoch=self._epoch,
                at=datetime.now(UTC),
                script=self._script,
                started=bool(self._queries.all()),
                stop=self._ending.stop,
                refusal=self._ending.refusal,
                failed_query=None if failed is None else failed.name,
                query_error=None if failed is None else failed.error,
                still_active=self._still_active,
                unbegun={
                    query.name: query.unbegun
                    for query in self._queries.all()
                    if query.unbegun is not None
                },
                jvm_gone=jvm_gone,
                cut_off=cut_off,
            )
        )


def _may_have_lost_jvm(script: ScriptEnd) -> bool:
    # py4j tells the death of the JVM as one of many network errors.
    name = "" if script.error is None else script.error.exception_class
    return name.startswith(("Py4J", "Connection"))


def run(arguments: Sequence[str]) -> int:
    """Run the driver that the command line names and return the exit code."""
    log_to_stderr()
    most = os.environ.pop(LOG_BYTES, "")
    if os.environ.pop(DIES_WITH_JVM, "") and not die_with_jvm():
        return _leave("This host cannot end the driver together with its JVM.", REFUSED_CODE)
    order, began = DriverArgs.parse(arguments), instant()
    forget_properties(order.properties_file)
    outputs = _outputs(int(most) if most.isdecimal() else None)
    outputs.begin()
    try:
        return _run(order, began)
    finally:
        bounded(outputs.look, seconds=_LAST_MASK)


def _outputs(most: int | None) -> OutputFiles:
    if not is_under_jvm():
        return OutputFiles([os.getpid()], most)
    jvm = os.getppid()
    if most is not None and overwrites(jvm):
        with ErrorBoundary().contained("Bounding the JVM's log"):
            run_as_child(APPENDER)
    return OutputFiles([jvm, os.getpid()], most)


def _run(order: DriverArgs, began: Instant) -> int:
    try:
        private = take_private_conf(os.environ)
        if private:
            set_properties(private)
        layout = Layout(order.stream)
        store = open_home(order.home)
        epoch = read_epoch(store, layout, order)
    except HomeUnavailable as err:
        return _leave(str(err), FAILED_CODE)
    except (DriverRefusal, RecordError, SpecError) as err:
        return _leave(str(err), REFUSED_CODE)
    now = datetime.now(UTC)
    try:
        check_newest(store, layout, epoch.number)
        lane = Layout(epoch.serves) if epoch.serves else layout
        assignment = read_assignment(store, lane, order, epoch)
        hide(secret_values(os.environ, all_of=assignment.deployment.env))
    except HomeUnavailable as err:
        return _leave(str(err), FAILED_CODE)
    except FencedError as err:
        _record(store, layout, fenced(epoch.number, now))
        return _leave(str(err), FENCED_CODE)
    except (DriverRefusal, RecordError) as err:
        _record(store, layout, refused(epoch.number, now, err))
        return _leave(str(err), REFUSED_CODE)
    return Driver(assignment, store, layout, began).run()


def _record(store: Store, layout: Layout, exit: Exit) -> None:
    ExitRecordWriter(store, layout, exit.epoch).say(exit)


def _leave(sentence: str, code: int) -> int:
    logger.error("%s", sentence)
    return code
