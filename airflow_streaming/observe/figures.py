"""
Progress history → findings: the figures of one epoch, read as they come and held against rules.

A driver rewrites the chunk in progress at most every ten seconds, so it is read no more often, and
only its new lines are parsed. A fresh reader begins as far back as the rules look, so that nothing
is forgotten when a triggerer dies: by time, since a chunk may cover five minutes or one.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.progress import BatchProgress
from airflow_streaming.core.rules.rule import Finding
from airflow_streaming.core.rules.rulebook import RuleBook
from airflow_streaming.core.status import Status
from airflow_streaming.home.home import StreamHome

READ_EVERY: Final = 10.0
"""Seconds; the history does not change more often."""

LONGEST_LOOK_BACK: Final = timedelta(hours=2)
"""How far back an open incident makes a fresh reader look. What stays between the bounds of a rule
for longer than this may be told as over a little early."""

_MARGIN: Final = timedelta(minutes=5)
"""The batch that was in work at the edge."""


class Figures:
    """
    The figures of one epoch.

    :param home: The stream's records.
    :param rules: Held against the figures.
    :param incident_age: Age of the oldest incident that is open: a rule that fires clears by
        another bound than one that does not, so its course has to be known from there.
    """

    def __init__(
        self,
        home: StreamHome,
        epoch: int,
        rules: HealthRules,
        *,
        incident_age: timedelta = timedelta(0),
    ) -> None:
        self._home, self.epoch = home, epoch
        self._book = RuleBook(rules.rules)
        self._look_back = max(_longest(rules), min(incident_age, LONGEST_LOOK_BACK)) + _MARGIN
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
        if self._chunk is None:
            self._read_back(chunks)
            return
        for number in chunks:
            if number >= self._chunk:
                skip = self._lines if number == self._chunk else 0
                rows, lines = self._home.progress_rows(self.epoch, number, skip=skip)
                self._learn(rows)
                self._chunk, self._lines = number, lines

    def _read_back(self, chunks: list[int]) -> None:
        found: list[list[BatchProgress]] = []
        newest: datetime | None = None
        for number in reversed(chunks):
            rows, lines = self._home.progress_rows(self.epoch, number)
            if self._chunk is None:
                self._chunk, self._lines = number, lines
            found.append(rows)
            times = [at for row in rows if (at := _begun(row)) is not None]
            newest = newest or max(times, default=None)
            if newest is not None and times and newest - min(times) > self._look_back:
                break
        for rows in reversed(found):
            self._learn(rows)

    def _learn(self, rows: Iterable[BatchProgress]) -> None:
        for row in rows:
            self._book.learn(row)
            self._newest[row.query] = row.batch_id


def _begun(row: BatchProgress) -> datetime | None:
    with contextlib.suppress(ValueError):
        at = datetime.fromisoformat(row.at)
        return at if at.tzinfo is not None else None
    return None


def _longest(rules: HealthRules) -> timedelta:
    return max(
        (rule.sustained_for + rule.mean_over + rule.clear_for for rule in rules.rules),
        default=timedelta(0),
    )
