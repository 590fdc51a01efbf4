"""Fire when a stream has completed another window, or a user requests windows again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.hooks.snapshot import SnapshotReader, open_looker
from airflow_streaming.model.codec import parse_time
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.supervision.readiness.closed_windows import committed_until
from airflow_streaming.triggers.polling import SubjectTrigger

if TYPE_CHECKING:
    from airflow_streaming.home.home import StreamHome

LONGEST: Final = timedelta(days=1)
"""A deferral ends after this; ``airflow db clean`` removes tasks that are deferred for weeks."""


class WindowsTrigger(SubjectTrigger):
    """
    Fires when a window of a series may be complete, or a request has come.

    A stopped stream does not end the wait: it may complete the window later.

    :param until: Event time that the committed output must reach, ISO 8601; ``None``: fire at once.
    :param requests: Number of the newest request that was seen.
    :param query: The query that counts; default: all of them.
    """

    def __init__(
        self,
        *,
        series: str,
        until: str | None,
        requests: int = 0,
        query: str | None = None,
        deferred_at: str,
        poll_seconds: float = 15.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(deferred_at=deferred_at, poll_seconds=poll_seconds, **kwargs)
        self.series, self.until, self.requests, self.query = series, until, requests, query
        self._looker: SnapshotReader | None = None
        self._records: StreamHome | None = None
        self._silence = ""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {
            **kwargs,
            "series": self.series,
            "until": self.until,
            "requests": self.requests,
            "query": self.query,
            "deferred_at": self.deferred_at,
        }

    def look_once(self) -> tuple[dict[str, Any] | None, VerdictState | None]:
        if self.until is None:
            return {"action": "look"}, None
        try:
            looker, records = self._opened()
        except SpecError as err:
            return {"action": "fail", "reason": str(err)}, None
        if records.window_requests(self.series, after=self.requests):
            return {"action": "look"}, None
        snapshot = looker.snapshot()
        found = committed_until(snapshot, self.query, now=datetime.now(UTC))
        self._warn(found.reason)
        state = snapshot.verdict.state
        if found.until is not None and found.until >= parse_time(self.until, "until"):
            return {"action": "look"}, state
        return ({"action": "renew"} if self._is_old() else None), state

    def lose_sight(self) -> None:
        if self._looker is not None:
            self._looker.lose_sight()

    def _opened(self) -> tuple[SnapshotReader, StreamHome]:
        if self._looker is None or self._records is None:
            subject = self.subject
            hook = StreamHomeHook(subject.home or "", subject.home_conn_id, looks_only=True)
            self._records = hook.get_conn().stream(subject.stream or "")
            self._looker = open_looker(subject)
        return self._looker, self._records

    def _is_old(self) -> bool:
        return datetime.now(UTC) - parse_time(self.deferred_at or "", "deferred_at") > LONGEST

    def _warn(self, silence: str) -> None:
        if silence and silence != self._silence:
            self.log.info("%s", silence)
        self._silence = silence
