"""
Rows of streams as their triggers saw them, and which of them a reader believes. Pure.

A home of thousands of streams takes long to look at. Triggers look at each stream anyway, so they leave rows for
`list`, `top` and the fleet page. A row is a figure and no record: nothing is decided on it. It is believed as long
as a heartbeat is, and never for another stream, another owner or a date to come.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import isfinite
from typing import ClassVar, Final

from airflow_streaming.model.names import MAX_NUMBER, base_of
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.owner import Owner
from airflow_streaming.model.texts import printable
from airflow_streaming.supervision.stream_status import Level, Standing, StreamStanding

FRESH: Final = timedelta(seconds=75)
"""Rows are made every 20 s and written every 30 s; one write may be late."""
CLOCKS_APART: Final = timedelta(seconds=10)
"""A row of a later date comes from a wrong clock, or from a forger."""
MOST_TEXT: Final = 2_000
"""Characters of a text in a row."""
_WORDS: Final = frozenset({*map(str, Standing), *map(str, VerdictState)})


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """
    A row of one lane, made from a look of its trigger.

    :param word: A verdict's state or a ``Standing``.
    :param since: When the standing began, where a record says so.
    :param owner: The newest record of its owner; ``None`` without one.
    :param heartbeat_at: Time of the driver's last heartbeat, by the driver's clock.
    :param backlog: Unread data of all sources, by unit.
    """

    lane: str
    seen_at: datetime
    word: str
    level: Level
    reason: str
    remedy: str = ""
    since: datetime | None = None
    is_live: bool = True
    desired: DesiredState = DesiredState.RUNNING
    circuit_is_open: bool = False
    deployment: int | None = None
    epoch: int | None = None
    incidents: int = 0
    failures_in_a_row: int = 0
    restarts_24h: int | None = None
    spark: str = ""
    launcher: str = ""
    heartbeat_at: datetime | None = None
    queries: int = 0
    input_rate: float | None = None
    processing_rate: float | None = None
    batch_ms: float | None = None
    backlog: Mapping[str, float | None] = field(default_factory=dict)
    watermark_delay_s: float | None = None
    state_rows: int | None = None
    owner: Owner | None = None
    runtime: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()

    TEXTS: ClassVar[tuple[str, ...]] = ("reason", "remedy", "spark", "launcher", "runtime")

    def __post_init__(self) -> None:
        if self.word not in _WORDS:
            raise ValueError(f"{self.word!r:.80} is not a state of a stream.")
        numbers = (
            self.deployment,
            self.epoch,
            self.incidents,
            self.failures_in_a_row,
            self.queries,
        )
        if any(number is not None and not 0 <= number <= MAX_NUMBER for number in numbers):
            raise ValueError(f"A number of {self.lane!r:.80} is impossible.")
        if not all(map(isfinite, filter(None, self._amounts()))):
            raise ValueError(f"A figure of {self.lane!r:.80} is not finite.")
        if self.owner is not None and self.owner.stream != base_of(self.lane):
            raise ValueError(f"The owner of {self.lane!r:.80} is recorded for another stream.")
        for name in self.TEXTS:
            object.__setattr__(self, name, printable(getattr(self, name)[:MOST_TEXT]))

    def _amounts(self) -> tuple[float | None, ...]:
        figures = (self.input_rate, self.processing_rate, self.batch_ms, self.watermark_delay_s)
        return (*figures, self.state_rows, *self.backlog.values())

    @property
    def standing(self) -> StreamStanding:
        """Return where the stream stood."""
        return StreamStanding(
            word=self.word,
            level=self.level,
            reason=self.reason,
            since=self.since,
            remedy=self.remedy,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetIndex:
    """
    All rows of a home, and the acts of users that rows may not show yet.

    :param acts: Time of the last act, by lane; ``None`` where it is unknown.
    """

    rows: tuple[FleetRow, ...] = ()
    acts: Mapping[str, datetime | None] = field(default_factory=dict)


def believed(index: FleetIndex, lanes: Collection[str], now: datetime) -> dict[str, FleetRow]:
    """
    Return the rows to show, by lane; a reader looks at the other lanes itself.

    :param lanes: Folders that the home has.
    """
    known, found = frozenset(lanes), dict[str, FleetRow]()
    for row in sorted(index.rows, key=lambda row: row.seen_at):
        is_fresh = -CLOCKS_APART <= now - row.seen_at <= FRESH
        if row.lane in known and is_fresh and not _is_overtaken(index, row):
            found[row.lane] = row
    return found


def _is_overtaken(index: FleetIndex, row: FleetRow) -> bool:
    if row.lane not in index.acts:
        return False
    acted = index.acts[row.lane]
    return acted is None or row.seen_at - acted <= CLOCKS_APART
