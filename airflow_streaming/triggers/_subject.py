"""Look at the stream that is named by a ``Subject``: one of ours, or anybody's by its checkpoint."""

from __future__ import annotations

from typing import Any

from airflow_streaming.core.subject import Subject
from airflow_streaming.triggers._polling import PollingTrigger


class SubjectTrigger(PollingTrigger):
    """
    Looks at one stream, whoever launched it.

    The parameters ``stream``, ``home`` and ``home_conn_id``, or else ``checkpoint``, ``endpoint``
    and ``conn_id``, are those of ``Subject``.

    :param poll_seconds: Time between two looks.
    :param deferred_at: When the task deferred, ISO 8601; ``None`` where no task waits.
    """

    def __init__(
        self,
        *,
        stream: str | None = None,
        home: str | None = None,
        home_conn_id: str | None = None,
        checkpoint: str | None = None,
        endpoint: str | None = None,
        conn_id: str | None = None,
        poll_seconds: float,
        deferred_at: str | None = None,
        **unknown: Any,  # a row written by a newer release must still load
    ) -> None:
        self.subject = Subject(
            stream=stream,
            home=home,
            home_conn_id=home_conn_id,
            checkpoint=checkpoint,
            endpoint=endpoint,
            conn_id=conn_id,
        )
        super().__init__(
            place=self.subject.place,
            who=self.subject.who,
            tag=self.subject.name,
            deferred_at=deferred_at,
            poll_seconds=poll_seconds,
            lane=self.subject.lane,
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {**self.subject.to_dict(), "poll_seconds": self.poll_seconds},
        )
