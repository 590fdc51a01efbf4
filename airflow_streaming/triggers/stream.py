"""
Watch one stream and wake its task when something has to be done.

A trigger looks and never acts: it may run twice, anywhere, and be cut off without notice. It holds
no state but its kwargs; what it learns by listening it hands over in the event. The one exception
is ``on_kill``, which passes on a person's word (see ADR 7).
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.epoch import StopRequest
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.readiness import ReadinessState, assess
from airflow_streaming.core.restart import RestartPolicy
from airflow_streaming.core.steering import Action, Step, decide
from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.observer import Observer

HOLD: Final = timedelta(seconds=15)
"""
Least age of a deferral before an event. Airflow 3.3 fails a task whose trigger fires before the
scheduler has seen its worker end: measured with 3 s, gone with 12 s.
"""

RELOOK: Final = timedelta(minutes=5)
"""How often a blocked stream is shown to a worker again; the worker may see what we cannot."""

ASK_AIRFLOW_EVERY: Final = timedelta(seconds=15)
"""How often Airflow is asked whether another run of the dag is queued; looks at the home cost
Airflow nothing, this costs its database a query."""

USER_MARKED: Final = frozenset({"failed", "success"})

_running_kills: Final[set[asyncio.Task[None]]] = set()
"""Airflow 3.3 cancels ``on_kill`` about a second after it began, so the work is kept alive here."""


class HomeTrigger(BaseTrigger):
    """
    Looks at one stream again and again until there is something to tell.

    :param home: The home's URI.
    :param stream: The stream's name.
    :param home_conn_id: Connection with credentials for the home.
    :param deferred_at: When the task deferred, ISO 8601.
    :param poll_seconds: Time between two looks.
    """

    def __init__(
        self,
        *,
        home: str,
        stream: str,
        home_conn_id: str | None = None,
        deferred_at: str,
        poll_seconds: float = 5.0,
        **unknown: Any,  # a row written by a newer release must still load
    ) -> None:
        super().__init__()
        self.home = home
        self.stream = stream
        self.home_conn_id = home_conn_id
        self.deferred_at = deferred_at
        self.poll_seconds = poll_seconds
        self._trouble: str | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "home": self.home,
                "stream": self.stream,
                "home_conn_id": self.home_conn_id,
                "deferred_at": self.deferred_at,
                "poll_seconds": self.poll_seconds,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        hold_until = time.monotonic() + self._hold()
        look: Callable[[], dict[str, Any] | None] | None = None
        while True:
            try:
                await self.ask_airflow()
                look = look or partial(self.look, await asyncio.to_thread(self._observer))
                payload = await asyncio.to_thread(look)
                self._say(None)
            except (HomeUnavailable, RecordError) as err:
                # Not being able to look says nothing of the stream.
                self._say(f"Cannot look at stream {self.stream!r}: {err}")
                payload = None
            hold = hold_until - time.monotonic()
            if payload is not None and hold <= 0:
                yield TriggerEvent(payload)
                return
            pause = self.poll_seconds * random.uniform(0.9, 1.1)  # noqa: S311 - only spreads looks
            await asyncio.sleep(hold if payload is not None else pause)

    async def ask_airflow(self) -> None:
        """Learn what only Airflow knows, before a look."""

    @abstractmethod
    def look(self, observer: Observer) -> dict[str, Any] | None:
        """Look once; return the event's payload, or ``None`` to go on looking."""

    @abstractmethod
    def rules(self) -> tuple[HealthRules, RestartPolicy]:
        """Return what the observer judges by."""

    def _open(self) -> StreamHome:
        hook = StreamHomeHook(self.home, self.home_conn_id, looks_only=True)
        return hook.get_conn().stream(self.stream)

    def _observer(self) -> Observer:
        rules, policy = self.rules()
        return Observer(self._open(), LocalLauncher(), rules=rules, policy=policy)

    def _hold(self) -> float:
        age = datetime.now(UTC) - datetime.fromisoformat(self.deferred_at)
        return min(HOLD, max(timedelta(0), HOLD - age)).total_seconds()

    def _say(self, trouble: str | None) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self.log.warning("%s", trouble or f"Stream {self.stream!r} can be looked at again.")


class StreamTrigger(HomeTrigger):
    """
    Wakes the task that keeps a stream alive when the next step is an act.

    :param watched: The epoch that the task watches.
    :param run_started_at: Start of the dag run, ISO 8601.
    :param rollover_seconds: Age of the dag run at which the task ends; ``None`` for never.
    :param rules: ``HealthRules`` as seconds by field.
    :param half_open_seconds: See ``RestartPolicy.half_open_after``.
    :param blocked: The task knows that the driver cannot be proved dead.
    :param until_parked: Fire as well when the stream is down and nothing is to be done.
    """

    def __init__(
        self,
        *,
        watched: int | None = None,
        run_started_at: str | None = None,
        rollover_seconds: float | None = None,
        rules: dict[str, float] | None = None,
        half_open_seconds: float | None = None,
        blocked: bool = False,
        until_parked: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.until_parked = until_parked
        self.watched = watched
        self.run_started_at = run_started_at
        self.rollover_seconds = rollover_seconds
        self.rule_seconds = dict(rules or {})
        self.half_open_seconds = half_open_seconds
        self.blocked = blocked
        self._reason: str | None = None
        self._started = time.monotonic()
        self._ask_again_at = self._started
        self._successor_waits = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {
            **kwargs,
            "watched": self.watched,
            "run_started_at": self.run_started_at,
            "rollover_seconds": self.rollover_seconds,
            "rules": self.rule_seconds,
            "half_open_seconds": self.half_open_seconds,
            "blocked": self.blocked,
            "until_parked": self.until_parked,
        }

    def rules(self) -> tuple[HealthRules, RestartPolicy]:
        rules = {name: timedelta(seconds=value) for name, value in self.rule_seconds.items()}
        half_open = self.half_open_seconds
        return HealthRules(**rules), RestartPolicy(
            half_open_after=None if half_open is None else timedelta(seconds=half_open)
        )

    def look(self, observer: Observer) -> dict[str, Any] | None:
        rollover = self.rollover_seconds
        situation = observer.situation(
            watched=self.watched,
            run_started_at=datetime.fromisoformat(self.run_started_at)
            if self.run_started_at
            else None,
            rollover_after=None if rollover is None else timedelta(seconds=rollover),
            successor_waits=self._successor_waits,
        )
        step = decide(situation)
        if step.action is not Action.WATCH and step.reason != self._reason:
            self.log.info("Stream %r: %s. %s", self.stream, step.action, step.reason)
        self._reason = step.reason
        if not self._needs_a_worker(step):
            return None
        return {
            "action": step.action.value,
            "reason": step.reason,
            "watched": self.watched,
            "successor_waits": self._successor_waits,
            "memory": observer.memory(),
        }

    async def ask_airflow(self) -> None:
        # A dag that follows itself has one active run, so a run that a person triggers (to apply an
        # edited stream, say) would wait for the rollover of this one.
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
        from asgiref.sync import sync_to_async

        ti, now = self.task_instance, time.monotonic()
        # Whoever waits for a stop sees it through; only the task that keeps the stream makes way.
        if ti is None or self.until_parked or now < self._ask_again_at:
            return
        self._ask_again_at = now + ASK_AIRFLOW_EVERY.total_seconds()
        count = sync_to_async(RuntimeTaskInstance.get_dr_count)
        try:
            self._successor_waits = await count(ti.dag_id, states=["queued"]) > 0
        except Exception as err:  # noqa: BLE001 - watching goes on whatever Airflow's trouble is
            self.log.warning("Airflow did not say whether another run is queued: %s", err)

    def _needs_a_worker(self, step: Step) -> bool:
        if step.is_passive:
            return step.action is Action.PARK and self.until_parked
        if step.action is not Action.BLOCKED or not self.blocked:
            return True
        return time.monotonic() - self._started >= RELOOK.total_seconds()

    async def on_kill(self) -> None:
        """Stop the stream if a person marked the task failed or successful by hand."""
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
        home, by, now = self._open(), f"Airflow task of {self.stream}", datetime.now(UTC)
        home.want(DesiredState.STOPPED, by=by, reason=reason, now=now)
        epoch = home.newest_epoch()
        if epoch is not None:
            home.request_stop(
                StopRequest(
                    epoch=epoch.number, by=by, reason=reason, grace_seconds=60.0, requested_at=now
                )
            )


class StreamHealthTrigger(HomeTrigger):
    """
    Fires when a stream has been healthy for a time, or will not be by itself.

    :param healthy_for_seconds: How long it has to have made progress.
    :param rules: ``HealthRules`` as seconds by field.
    """

    def __init__(
        self,
        *,
        healthy_for_seconds: float = 0.0,
        rules: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.healthy_for_seconds = healthy_for_seconds
        self.rule_seconds = dict(rules or {})

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {
            **kwargs,
            "healthy_for_seconds": self.healthy_for_seconds,
            "rules": self.rule_seconds,
        }

    def rules(self) -> tuple[HealthRules, RestartPolicy]:
        rules = {name: timedelta(seconds=value) for name, value in self.rule_seconds.items()}
        return HealthRules(**rules), RestartPolicy()

    def look(self, observer: Observer) -> dict[str, Any] | None:
        readiness = assess(observer.situation(), timedelta(seconds=self.healthy_for_seconds))
        if readiness.state is ReadinessState.WAITING:
            return None
        return {"state": readiness.state.value, "reason": readiness.reason}


def seconds_of(rules: HealthRules) -> dict[str, float]:
    """Return the rules as trigger kwargs."""
    return {
        "hang_after": rules.hang_after.total_seconds(),
        "busy_hang_after": rules.busy_hang_after.total_seconds(),
        "startup_timeout": rules.startup_timeout.total_seconds(),
    }


async def _keep_alive(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    _running_kills.add(task)
    task.add_done_callback(_running_kills.discard)
    await asyncio.shield(task)
