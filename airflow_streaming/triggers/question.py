"""
Wake the task that has asked a user, when the user answers and when something else has settled it.

Airflow resumes a deferred task when its question is answered. The triggers add the home: a command
from a terminal, a page or another run, and a change that ended or was overtaken. They only read, in
the home and in Airflow.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_streaming.changes.answers import Running, Settled, command_settled, start_settled
from airflow_streaming.home.cached import CachedStream
from airflow_streaming.home.home import Home
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.records.cutover_table import CutoverCommand
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.triggers.home import HomeTrigger
from airflow_streaming.triggers.polling import hold_left

SETTLED: Final = "settled"
"""Key of an event whose question was settled elsewhere; its value is a ``Settled`` as a mapping."""
TIMED_OUT: Final = "timedout"
"""Key of an event whose question was not answered in time."""
log: Final = logging.getLogger(__name__)


class AnswerTrigger(BaseTrigger):
    """
    Look once whether a question was answered.

    The event has the form of Airflow's own; it is empty without an answer.

    Only the triggerer may read answers: a worker can ask, and by asking it drops the answer.

    :param ti_id: The task instance that has asked.
    :param deferred_at: When the task deferred, ISO 8601; ``None`` for an event at once.
    """

    def __init__(self, *, ti_id: str, deferred_at: str | None = None) -> None:
        super().__init__()
        self.ti_id, self.deferred_at = ti_id, deferred_at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kwargs = {"ti_id": self.ti_id, "deferred_at": self.deferred_at}
        return f"{type(self).__module__}.{type(self).__qualname__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(hold_left(self.deferred_at))
        yield TriggerEvent(await answer_to(self.ti_id))


async def answer_to(ti_id: str) -> dict[str, Any]:
    """Return the answer that Airflow has recorded for a task instance; empty without one."""
    from asgiref.sync import sync_to_async

    return await sync_to_async(_answer)(ti_id)


def _answer(ti_id: str) -> dict[str, Any]:
    from airflow.sdk.execution_time.hitl import get_hitl_detail_content_detail

    try:
        found = get_hitl_detail_content_detail(ti_id=UUID(ti_id))
    except Exception as err:  # noqa: BLE001
        # A try that died early has asked nothing, which Airflow answers with an error. Whatever
        # the error is, asking the user again is right.
        log.warning("The answer to task instance %s cannot be read: %s", ti_id, err)
        return {}
    if not (found.response_received and found.chosen_options):
        return {}
    user = found.responded_by_user
    return {
        "chosen_options": list(found.chosen_options),
        "params_input": found.params_input or {},
        "responded_at": found.responded_at,
        "responded_by_user": None if user is None else {"id": user.id, "name": user.name},
        TIMED_OUT: user is None,
    }


class QuestionTrigger(HomeTrigger):
    """
    Fires when a question was answered, was settled elsewhere, or has timed out.

    An answer that comes before Airflow has recorded the deferral resumes nothing, so the trigger
    reads the answer as well.

    :param ti_id: The task instance that has asked.
    :param until: When silence is the answer, ISO 8601; ``None`` for never.
    """

    def __init__(self, *, ti_id: str = "", until: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ti_id, self.until = ti_id, until
        self._answer: dict[str, Any] = {}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {**kwargs, "ti_id": self.ti_id, "until": self.until}

    @abstractmethod
    def settled(self, home: Home) -> Settled | None:
        """Read the home, in a thread; return how the question was settled, if it was."""

    async def ask_airflow(self) -> None:
        self._answer = await answer_to(self.ti_id)

    def look_once(self) -> tuple[dict[str, Any] | None, VerdictState | None]:
        if self._answer:
            return self._answer, None
        settled = self.settled(self._home())
        if settled is not None:
            return {SETTLED: asdict(settled)}, None
        return self._silence(), None

    def _silence(self) -> dict[str, Any] | None:
        is_over = self.until is not None and datetime.now(UTC) >= datetime.fromisoformat(self.until)
        return {TIMED_OUT: True} if is_over else None

    def lose_sight(self) -> None:
        """Do nothing: no look depends on an earlier one."""

    def damaged(self, reason: str) -> dict[str, Any] | None:
        # The task that works on the change fails with the cause; the question stays open for its time.
        return self._silence()

    def look(self, observer: Observer) -> dict[str, Any] | None:
        """Return nothing: questions need no look at a driver."""
        return None


class StartQuestionTrigger(QuestionTrigger):
    """
    Waits for the answer whether a change may start.

    :param asked: By stream, its live lane and deployment when the report was made.
    """

    def __init__(self, *, asked: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asked = {stream: Running(*was) for stream, was in (asked or {}).items()}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {**kwargs, "asked": {name: list(was) for name, was in self.asked.items()}}

    def settled(self, home: Home) -> Settled | None:
        return start_settled(self.asked, {stream: running(home, stream) for stream in self.asked})


def running(home: Home, stream: str) -> Running:
    """Return the lane of a stream that is live, and its newest deployment."""
    lane = live_lane(home, stream)
    deployment = home.stream(lane).newest_deployment()
    return Running(lane, None if deployment is None else deployment.number)


class CommandQuestionTrigger(QuestionTrigger):
    """
    Waits for the command that a cutover needs from a user.

    :param change: Number of the cutover, in the home of the stream that leads.
    :param command: The command that a yes gives.
    """

    def __init__(self, *, change: int = 0, command: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.change, self.command = change, command
        self._records: CachedStream | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {**kwargs, "change": self.change, "command": self.command}

    def settled(self, home: Home) -> Settled | None:
        if self._records is None:
            self._records = CachedStream(home.store, self.stream)
        history = self._records.steps(self.change)
        end = self._records.change_end(self.change)
        return command_settled(CutoverCommand(self.command), history, end)
