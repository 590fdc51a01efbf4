"""The trigger that reads the answer which a person has given to an earlier try of a task."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any, Final
from uuid import UUID

from airflow.triggers.base import BaseTrigger, TriggerEvent

log: Final = logging.getLogger(__name__)


class AnswerTrigger(BaseTrigger):
    """
    Look once whether a question was answered.

    The event holds the answer as Airflow's own does, and nothing where there is none.

    Only the triggerer may read answers: a worker can ask, and by asking it drops what was answered.

    :param ti_id: The task instance that has asked.
    """

    def __init__(self, *, ti_id: str) -> None:
        super().__init__()
        self.ti_id = ti_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (f"{type(self).__module__}.{type(self).__qualname__}", {"ti_id": self.ti_id})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from asgiref.sync import sync_to_async

        yield TriggerEvent(await sync_to_async(self._answer)())

    def _answer(self) -> dict[str, Any]:
        from airflow.sdk.execution_time.hitl import get_hitl_detail_content_detail

        try:
            found = get_hitl_detail_content_detail(ti_id=UUID(self.ti_id))
        except Exception:
            # A try that died early has asked nothing, which Airflow answers with an error. Whatever
            # it is: asking a person again is always right.
            log.exception("No earlier answer could be read.")
            return {}
        if not (found.response_received and found.chosen_options):
            return {}
        user = found.responded_by_user
        return {
            "chosen_options": list(found.chosen_options),
            "params_input": found.params_input or {},
            "responded_at": found.responded_at,
            "responded_by_user": None if user is None else {"id": user.id, "name": user.name},
            "timedout": user is None,
        }
