"""Wake the task that opened a pause when the stream stands still, or cannot."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow_streaming.supervision.batch_pause import PauseState, judge_pause
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.triggers.home import HomeTrigger


class BatchPauseTrigger(HomeTrigger):
    """
    Looks until a pause is no longer waited for.

    :param pause: Its number.
    :param paused_lane: The lane whose driver follows it.
    """

    def __init__(self, *, pause: int = 0, paused_lane: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pause, self.paused_lane = pause, paused_lane

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {**kwargs, "pause": self.pause, "paused_lane": self.paused_lane}

    def look(self, observer: Observer) -> dict[str, Any] | None:
        records = self._home().stream(self.paused_lane)
        pause, end = records.batch_pause(self.pause), records.batch_pause_end(self.pause)
        seen = observer.situation(asks_change=False).seen
        standing = judge_pause(pause, end, seen, datetime.now(UTC))
        if standing.state is PauseState.WAITING:
            return None
        return {"pause": self.pause, "lane": self.paused_lane, "reason": standing.reason}
