"""
Announcements of a stream's complete windows, as records.

``windows/3600s/000007.json`` is a claim: one try of a task is about to announce these windows.
``000007.end.json`` says whether Airflow has its events. ``window_requests/3600s/000002.json`` is a user's request
to announce a range once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.wire import JsonValue, Record

KEY_FORMAT: Final = "%Y-%m-%dT%H:%M:%S"
"""Partition keys: the begin of the window in UTC. The default ``input_format`` of Airflow's temporal mappers."""


def window_key(start: datetime) -> str:
    """Return the partition key of the window that begins then."""
    return start.strftime(KEY_FORMAT)


def series_name(interval: timedelta, query: str | None = None) -> str:
    """Return the name of a series, e.g. ``3600s`` or ``revenue.3600s``."""
    seconds = f"{interval.total_seconds():g}s"
    return f"{query}.{seconds}" if query else seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedWindow:
    """
    A complete window of event time, for the ``content`` function.

    :param output: Output of the stream's live deployment.
    """

    stream: str
    start: datetime
    end: datetime
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedWindow(JsonValue):
    """A window and the number of its announcement: 1, then one more for each correction."""

    WHAT: ClassVar[str] = "announced window"

    start: datetime
    revision: int = 1

    @property
    def key(self) -> str:
        return window_key(self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesState(JsonValue):
    """
    The announced windows of a series.

    :param since: Begin of its first window.
    :param until: End of its newest window; every window in between is announced.
    :param revisions: Newest revision of windows that were corrected, or lie before ``since``, by key.
    :param contents: What the author's function returned for the newest windows, by key.
    :param requests: Number of the newest request that is done.
    :param requested_until: How far the request after it is done.
    """

    WHAT: ClassVar[str] = "state of a series"

    since: datetime
    until: datetime
    revisions: Mapping[str, int] = field(default_factory=dict)
    contents: Mapping[str, str] = field(default_factory=dict)
    requests: int = 0
    requested_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowClaim(Record):
    """
    The windows that a try of a task announces.

    :param windows: In the order of their events; none in the record that begins a series.
    :param state: The state of the series when they are announced.
    :param base: Number of the announced claim that this one continues; 0 for none.
    :param receipts: Name of the asset that has an event for each claim that became events; ``receipts_uri`` is its URI.
    :param dag_id: The task, its run and ``ti_id``, the task instance, which a retry replaces.
    """

    KIND: ClassVar[str] = "window_claim"

    series: str
    number: int
    windows: tuple[AnnouncedWindow, ...]
    state: SeriesState
    base: int
    receipts: str
    receipts_uri: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    ti_id: str
    by: str
    at: datetime


class ClaimOutcome(StrEnum):
    """Whether Airflow has the events of a claim."""

    ANNOUNCED = "announced"
    ABANDONED = "abandoned"
    """Its try ended without success; the windows are due again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowClaimEnd(Record):
    """The outcome of a claim, recorded by a later run."""

    KIND: ClassVar[str] = "window_claim_end"

    series: str
    number: int
    outcome: ClaimOutcome
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRequest(Record):
    """A user's request to announce the complete windows of a range once more."""

    KIND: ClassVar[str] = "window_request"

    series: str
    number: int
    start: datetime
    end: datetime
    by: str
    reason: str
    at: datetime

    def __str__(self) -> str:
        length = duration_text(self.end - self.start)
        return f"{window_key(self.start)} to {window_key(self.end)} ({length})"
