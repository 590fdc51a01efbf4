"""
Progress history → findings: the figures of one epoch, read as they come and held against rules.

A driver rewrites the chunk in progress at most every ten seconds, so it is read no more often, and
only its new lines are parsed. A fresh reader begins as far back as the rules look, so that nothing
is forgotten when a triggerer dies.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Final

from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.rules.rule import Finding
from airflow_streaming.core.rules.rulebook import RuleBook
from airflow_streaming.core.status import Status
from airflow_streaming.home.home import StreamHome

READ_EVERY: Final = 10.0
"""Seconds; the history does not change more often."""

_CHUNK: Final = timedelta(minutes=5)
"""Longest time that one chunk covers (``driver.history``)."""


class Figures:
    """
    The figures of one epoch.

    :param home: The stream's records.
    :param rules: Held against the figures.
    """

    def __init__(self, home: StreamHome, epoch: int, rules: HealthRules) -> None:
        self._home, self.epoch = home, epoch
        self._book = RuleBook(rules.rules)
        self._look_back = _chunks_back(rules)
        self._read_at = -math.inf
        self._newest: dict[str, int] = {}
        self._chunk: int | None = None
        self._lines = 0

    def findings(self, status: Status, clock: float) -> tuple[Finding, ...]:
        """
        Return what the rules say now.

        :param clock: Monotonic seconds.
        :raises HomeUnavailable: the history could not be read.
        """
        # A heartbeat tells a batch before the history does, so one look may not be enough.
        if clock - self._read_at >= READ_EVERY and self._is_behind(status):
            self._read()
            self._read_at = clock
        return self._book.findings(status)

    def _is_behind(self, status: Status) -> bool:
        return any(
            query.progress is not None
            and self._newest.get(query.name, -1) < query.progress.batch_id
            for query in status.queries
        )

    def _read(self) -> None:
        chunks = self._home.progress_chunks(self.epoch)
        fresh = [n for n in chunks if self._chunk is None or n >= self._chunk]
        for number in fresh[-self._look_back :]:
            skip = self._lines if number == self._chunk else 0
            rows, self._lines = self._home.progress_rows(self.epoch, number, skip=skip)
            self._chunk = number
            for row in rows:
                self._book.learn(row)
                self._newest[row.query] = row.batch_id


def _chunks_back(rules: HealthRules) -> int:
    longest = max(
        (rule.sustained_for + rule.mean_over + rule.clear_for for rule in rules.rules),
        default=timedelta(0),
    )
    # One more for the chunk in progress, and one for the batch that was in work at the edge.
    return math.ceil(longest / _CHUNK) + 2
