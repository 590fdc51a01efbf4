"""
Watch one stream and resume its task when there is something to do.

It looks and never acts, with two exceptions: ``on_kill`` passes on a user's request (see ADR 7), and a row of the
stream is left for readers of the fleet (see ADR 31). No decision reads such a row.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming import telemetry
from airflow_streaming.exceptions import RecordError, StreamingError
from airflow_streaming.home.live_lane import SELDOM, LiveLaneCache, live_lane
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.records.restart_decision import RestartDecision
from airflow_streaming.supervision.decide import Action, ReconcileInput, Step, decide
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.supervision.restart import Progress, failures_in_a_row
from airflow_streaming.triggers.home import HomeTrigger, autoscale_from

if TYPE_CHECKING:
    from airflow_streaming.services.fleet_writer import IndexWriter

RELOOK: Final = timedelta(minutes=5)
"""
Interval at which a worker looks at a blocked stream again; the worker may see more than we can.
"""
REDELIVER: Final = timedelta(minutes=3)
"""When a task is resumed for an undelivered alert; a mail server is usually back by then."""
CLOCKS_APART: Final = timedelta(minutes=1)
"""How long a task that says that a restart is not due is believed, where this clock says that it
is. Without it a clock that goes ahead of the worker's would wake the task all the wait long."""
ASK_AIRFLOW_EVERY: Final = timedelta(seconds=50)
"""
Interval between queries of Airflow for another queued run of the dag, give or take a fifth; looks
at the home cost Airflow nothing, this costs its database a query.
"""
ROW_EVERY: Final = 20.0
"""Seconds between two rows for the readers of a fleet; see ``services.fleet_rows``."""
USER_MARKED: Final = frozenset({"failed", "success"})
_Failures = tuple[
    tuple[int, RestartDecision | None], tuple[RestartDecision, ...], tuple[Progress, ...]
]
_running_kills: Final[set[asyncio.Task[None]]] = set()
"""Airflow 3.3 cancels ``on_kill`` about a second after it began, so the work is kept alive here."""


class StreamTrigger(HomeTrigger):
    """
    Wakes the task that keeps a stream alive when the next step is an action.

    :param watched: The epoch that the task watches; ``mark`` is its mark, which another home in the
        place of the stream's home does not have.
    :param run_started_at: Start of the dag run, ISO 8601.
    :param rollover_seconds: Age of the dag run at which the task ends; ``None`` for never.
    :param blocked: The task could not execute the step, and need not be woken for it at once.
    :param unable_to: The action that it could not do.
    :param undelivered: An alert could not be delivered; a worker tries again after a while.
    :param due_in_seconds: How long a restart must wait by the clock of the task; ``None`` without a
        decided restart.
    :param until_parked: Fire as well when the stream is down and needs no action.
    :param keeps: The lane that the task keeps alive; it is woken when another one has become live.
        Default: the lane with the stream's name; with ``until_parked``, any live lane.
    :param autoscale: ``Autoscale`` as JSON; the task is woken when the stream's size is to change.
    :param labels: Tags for the metrics.
    :param standby: The stream has a hot standby, and the task is woken to start it.
    """

    counts_verdicts = True
    asks_every = SELDOM

    def __init__(
        self,
        *,
        watched: int | None = None,
        mark: str = "",
        run_started_at: str | None = None,
        rollover_seconds: float | None = None,
        blocked: bool = False,
        unable_to: str = Action.BLOCKED.value,
        undelivered: bool = False,
        due_in_seconds: float | None = None,
        until_parked: bool = False,
        keeps: str | None = None,
        standby: bool = False,
        autoscale: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.until_parked = until_parked
        self.follows = not until_parked
        self.keeps = keeps
        self.standby = standby
        self.autoscale = autoscale
        self.watched, self.mark = watched, mark
        self.run_started_at = run_started_at
        self.rollover_seconds = rollover_seconds
        self.blocked, self.unable_to, self.undelivered = blocked, unable_to, undelivered
        self.due_in_seconds = due_in_seconds
        self._shown: Step | None = None
        self._started = time.monotonic()
        # Not at once: a triggerer that takes over a thousand triggers would ask for all together.
        self._ask_again_at = self._started + ASK_AIRFLOW_EVERY.total_seconds() * random.random()  # noqa: S311 - spreads
        self._question: asyncio.Task[None] | None = None
        self._successor_waits = False
        self._failures: _Failures | None = None
        self._counted: int | None = None
        self._index: IndexWriter | None = None
        self._row_due = self._started

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {
            **kwargs,
            "watched": self.watched,
            "mark": self.mark,
            "run_started_at": self.run_started_at,
            "rollover_seconds": self.rollover_seconds,
            "blocked": self.blocked,
            "unable_to": self.unable_to,
            "undelivered": self.undelivered,
            "due_in_seconds": self.due_in_seconds,
            "until_parked": self.until_parked,
            "keeps": self.keeps,
            "standby": self.standby,
            "autoscale": self.autoscale,
            "labels": self.labels,
        }

    def lane(self, live: LiveLaneCache) -> str:
        # Not the live one: the look itself finds the live lane, and the task acts on it.
        return self.keeps or self.stream if self.follows else live()

    def look(self, observer: Observer) -> dict[str, Any] | None:
        rollover = self.rollover_seconds
        situation = observer.situation(
            watched=self.watched,
            mark=self.mark,
            run_started_at=datetime.fromisoformat(self.run_started_at)
            if self.run_started_at
            else None,
            rollover_after=None if rollover is None else timedelta(seconds=rollover),
            successor_waits=self._successor_waits,
            tells=not self.until_parked,
            wants_standby=self.standby,
            autoscale=autoscale_from(self.autoscale),
        )
        self._count_failures(situation)
        self._note_row(situation)
        step = decide(situation)
        if not self._needs_a_worker(step) and not self._has_to_deliver():
            if step.action is not Action.WATCH and step != self._shown:
                self.log.info("Stream %r: %s. %s", self.stream, step.action, step.reason)
            self._shown = step
            return None
        if self._index is not None:
            # The task acts now, so the row is no longer true.
            self._index.drop(self.watched_lane or self.keeps or self.stream)
        # The task looks again and logs its findings in the same log.
        return self._event(step.action.value, step.reason, observer.memory())

    def _count_failures(self, s: ReconcileInput) -> None:
        """Export the failures in a row; the records are read when the epoch or its decision is new."""
        if s.seen is None or self._live is None or self.until_parked:
            return
        number = s.seen.epoch.number
        if self._failures is None or self._failures[0] != (number, s.decision):
            from airflow_streaming.services.status_reader import read_failures  # not at dag parse

            home = self._live.home(self.watched_lane or self.keeps or self.stream)
            try:
                self._failures = (number, s.decision), *read_failures(home, number)
            except RecordError as err:
                # A figure is not worth the look: a damaged record of an earlier epoch is the page's to show.
                self.log.warning("The failures in a row are not counted: %s", err)
                self._failures = (number, s.decision), (), ()
        _, decisions, progress = self._failures
        now = (s.seen.status,) if s.seen.status is not None and s.decision is None else ()
        count = failures_in_a_row(decisions, (*progress, *now), s.policy)
        if count != self._counted:
            self._counted = count
            telemetry.gauge("failures_in_a_row", count, **self._tags, lane=self.watched_lane)

    def _note_row(self, s: ReconcileInput) -> None:
        """Leave a row of the stream for readers of the fleet, every ``ROW_EVERY`` seconds."""
        now = time.monotonic()
        if self._index is not None:
            self._index.write_if_due()
        if self.until_parked or self._live is None or now < self._row_due:
            return
        self._row_due = now + ROW_EVERY
        from airflow_streaming.services.fleet_writer import (
            row_of_look,
            writer_of,
        )  # not at dag parse

        if self._index is None:
            self._index = writer_of((self.home, self.home_conn_id), self._live.base.store)
        lane = self.watched_lane or self.keeps or self.stream
        _, decisions, progress = self._failures or (0, (), ())
        try:
            row = row_of_look(self._live.home(lane), s, decisions, progress)
        except (StreamingError, ValueError) as err:
            # A figure is not worth the look. Readers look at the stream themselves, and name the record.
            self.log.debug("No row is left for readers of the fleet: %s", err)
            row = None
        if row is None:
            self._index.drop(lane)
            return
        self._index.note(row)
        self._index.write_if_due()

    def damaged(self, reason: str) -> dict[str, Any] | None:
        return self._event("look", reason, None)

    def _event(self, action: str, reason: str, memory: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "action": action,
            "reason": reason,
            "watched": self.watched,
            "mark": self.mark,
            "successor_waits": self._successor_waits,
            "lane": self.watched_lane or self.keeps,
            "memory": memory,
        }

    async def ask_airflow(self) -> None:
        # A dag that follows itself has one active run, so a run that a user triggers (to apply an
        # edited stream, say) would wait for the rollover of this one.
        ti, now = self.task_instance, time.monotonic()
        # A task that waits for a stop finishes it; only the keep-alive task makes way.
        if ti is None or self.until_parked or now < self._ask_again_at:
            return
        every = ASK_AIRFLOW_EVERY.total_seconds()
        self._ask_again_at = now + every * random.uniform(0.8, 1.2)  # noqa: S311 - spreads
        # Beside the looks, so that an Airflow that is slow to answer delays none; one at a time.
        if self._question is None or self._question.done():
            self._question = asyncio.create_task(self._count_queued_runs(ti.dag_id))

    async def _count_queued_runs(self, dag_id: str) -> None:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
        from asgiref.sync import sync_to_async

        count = sync_to_async(RuntimeTaskInstance.get_dr_count)
        try:
            self._successor_waits = await count(dag_id, states=["queued"]) > 0
        except Exception as err:  # noqa: BLE001 - watching continues whatever Airflow's error is
            self.log.warning("Cannot read from Airflow whether another run is queued: %s", err)

    def _has_to_deliver(self) -> bool:
        return self.undelivered and self._waits_for(REDELIVER)

    def _needs_a_worker(self, step: Step) -> bool:
        if step.is_passive:
            return step.action is Action.PARK and self.until_parked
        if step.cause is LaunchCause.RESTART:
            return self._waits_for(min(timedelta(seconds=self.due_in_seconds or 0), CLOCKS_APART))
        if not self.blocked or step.action.value != self.unable_to:
            return True
        return self._waits_for(RELOOK)

    def _waits_for(self, duration: timedelta) -> bool:
        return time.monotonic() - self._started >= duration.total_seconds()

    async def on_kill(self) -> None:
        """Stop the stream if a user marked the task failed or successful."""
        await _keep_alive(self._stop_if_marked())

    async def _stop_if_marked(self) -> None:
        state = await self._task_state()
        # Airflow calls this for reassignment and clearing as well; those leave the stream running.
        if state not in USER_MARKED:
            self.log.info("The task is %s; stream %r is left running.", state, self.stream)
            return
        self.log.info("The task was marked %s; stopping stream %r.", state, self.stream)
        await asyncio.to_thread(self._request_stop, f"The task was marked {state} by hand.")

    async def _task_state(self) -> str | None:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
        from asgiref.sync import sync_to_async

        ti = self.task_instance
        if ti is None:
            return None
        states = await sync_to_async(RuntimeTaskInstance.get_task_states)(
            dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id], map_index=ti.map_index
        )
        return next(iter(states.get(ti.run_id, {}).values()), None)

    def _request_stop(self, reason: str) -> None:
        from airflow_streaming.services.streams import stop  # not at dag parse

        homes = self._home()
        home = homes.stream(live_lane(homes, self.stream))
        stop(home, by=f"Airflow task of {self.stream}", reason=reason)


async def _keep_alive(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    _running_kills.add(task)
    task.add_done_callback(_running_kills.discard)
    await asyncio.shield(task)
