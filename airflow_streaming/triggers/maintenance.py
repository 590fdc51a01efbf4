"""Wake the task that opened a maintenance window when the stream stands still, or cannot."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow_streaming.supervision.maintenance import WindowState, judge_window
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.triggers.home import HomeTrigger


class MaintenanceTrigger(HomeTrigger):
    """
    Looks until a window is no longer waited for.

    :param window: Its number.
    :param window_lane: The lane whose driver follows it.
    """

    def __init__(self, *, window: int = 0, window_lane: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.window, self.window_lane = window, window_lane

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path, kwargs = super().serialize()
        return path, {**kwargs, "window": self.window, "window_lane": self.window_lane}

    def look(self, observer: Observer) -> dict[str, Any] | None:
        records = self._home().stream(self.window_lane)
        window, end = records.maintenance(self.window), records.maintenance_end(self.window)
        seen = observer.situation(asks_change=False).seen
        standing = judge_window(window, end, seen, datetime.now(UTC))
        if standing.state is WindowState.WAITING:
            return None
        return {"window": self.window, "lane": self.window_lane, "reason": standing.reason}
