"""
Findings of the rules on an epoch's figures, from its history.

A driver rewrites the current chunk at most every ten seconds, so it is read no more often, and only
its new lines are parsed. A fresh reader starts as far back as the rules look, so that no state is
lost when a triggerer dies: by time, since a chunk may cover five minutes or one. An earlier finding
is known from its incident: a firing rule clears by another bound than it fires, and its figures may
have been between the two for days.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.health_rules import Finding, HealthRules
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.status import Status
from airflow_streaming.supervision.rules.rulebook import RuleBook

READ_EVERY: Final = 10.0
"""Seconds; the history does not change more often."""
_MARGIN: Final = timedelta(minutes=5)
"""The batch that was in work at the edge."""


class Figures:
    """
    The figures of one epoch.

    :param rules: Held against the figures.
    :param incidents: When each open incident of the epoch was recorded, by its key.
    """

    def __init__(
        self,
        home: StreamHome,
        epoch: int,
        rules: HealthRules,
        *,
        incidents: Mapping[str, datetime] | None = None,
    ) -> None:
        self._home, self.epoch = home, epoch
        self._asked, self._rules, self._incidents = rules, rules.rules, incidents or {}
        self._book = RuleBook(self._rules)
        self._look_back = _longest(rules) + _MARGIN
        self._read_at = -math.inf
        self._newest: dict[str, int] = {}
        self._chunk: int | None = None
        self._lines = 0

    def are_of(self, epoch: int, rules: HealthRules) -> bool:
        """Tell whether these are the figures of an epoch, held against the same rules."""
        return (self.epoch, self._asked) == (epoch, rules)

    def findings(self, status: Status, clock: float) -> tuple[Finding, ...]:
        """
        Return the present findings.

        :param clock: Monotonic seconds.
        :raises HomeUnavailable: The history could not be read.
        """
        # A heartbeat tells a batch before the history does, so one look may not be enough.
        if clock - self._read_at >= READ_EVERY and self._is_behind(status):
            self._read(status)
            self._read_at = clock
        return self._book.findings(status)

    def _is_behind(self, status: Status) -> bool:
        return any(
            query.progress is not None
            and self._newest.get(query.name, -1) < query.progress.batch_id
            for query in status.queries
        )

    def _read(self, status: Status) -> None:
        chunks = self._home.progress_chunks(self.epoch)
        if self._chunk is None:
            self._read_back(chunks, status)
            return
        for number in chunks:
            if number >= self._chunk:
                skip = self._lines if number == self._chunk else 0
                rows, lines = self._home.progress_rows(self.epoch, number, skip=skip)
                self._learn(rows)
                self._chunk, self._lines = number, lines

    def _read_back(self, chunks: list[int], status: Status) -> None:
        found: list[list[BatchProgress]] = []
        newest = oldest = None
        number = 1
        for number in reversed(chunks):
            rows, lines = self._home.progress_rows(self.epoch, number)
            if self._chunk is None:
                self._chunk, self._lines = number, lines
            found.append(rows)
            if times := [at for row in rows if (at := _begun(row)) is not None]:
                newest, oldest = newest or max(times), min(times)
                if newest - oldest > self._look_back:
                    break
        if oldest is not None and number > 1:
            firing = {key: at for key, at in self._incidents.items() if at < oldest}
            self._book = RuleBook(self._rules, firing=firing)
        # Rows of a query that the book has not met wait for it, and only so many of them can.
        self._book.meet(status)
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
