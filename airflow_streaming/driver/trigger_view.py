"""
A query's processing trigger, as the JVM knows it: its interval, and its run in work.

Spark's public interface tells that a trigger is active but not which one: a query that looks for
data all the time would seem to be in one endless batch. The start of the trigger's run tells looks
apart. It is kept in a place that has moved: 3.5 has it in the query itself, 4.x in a context.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from airflow_streaming.driver.work import TriggerRun

_START_3_5: Final = (
    "org$apache$spark$sql$execution$streaming$ProgressReporter$$currentTriggerStartTimestamp"
)


class TriggerView:
    """
    The trigger of one query.

    :param jsq: The Java ``StreamingQuery``.
    """

    def __init__(self, jsq: Any) -> None:
        self._jsq = jsq
        self._stream: Any = None
        self._has_context = True

    def interval(self) -> float | None:
        """Return the seconds between its runs; ``None`` for a trigger without an interval."""
        trigger = self._execution().trigger()
        # A continuous trigger has an interval too: that of its checkpoints, while it never rests.
        if str(trigger.getClass().getSimpleName()) != "ProcessingTimeTrigger":
            return None
        seconds = int(trigger.intervalMs()) / 1000
        return seconds if seconds > 0 else None

    def run(self) -> TriggerRun:
        """Return the run in work, or the last one; without figures where Spark does not tell."""
        stream = self._execution()
        if self._has_context:
            with contextlib.suppress(Exception):
                context = stream.getLatestExecutionContext()
                return TriggerRun(
                    batch=_told(context.batchId()),
                    started=_told(context.currentTriggerStartTimestamp()),
                )
            self._has_context = False
        with contextlib.suppress(Exception):
            started = _told(getattr(stream, _START_3_5)())
            return TriggerRun(batch=_told(stream.currentBatchId()), started=started)
        return TriggerRun()

    def _execution(self) -> Any:
        if self._stream is None:
            # What pyspark holds is a wrapper in every release so far; a bare query is as good.
            wrapped = self._jsq
            with contextlib.suppress(Exception):
                wrapped = self._jsq.streamingQuery()
            self._stream = wrapped
        return self._stream


def _told(number: Any) -> int | None:
    return int(number) if int(number) >= 0 else None
