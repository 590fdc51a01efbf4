"""
Announce complete windows exactly once: settle the last claim, then claim the due windows.

A task emits its events at its success, in Airflow's own transaction. So no task can record its own
announcement. The next task reads it from Airflow, and records it. See ADR 33.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import check_folder_name
from airflow_streaming.model.products.windows import (
    ClaimOutcome,
    SeriesState,
    WindowClaim,
    WindowRequest,
)
from airflow_streaming.supervision.readiness.closed_windows import (
    DueWindows,
    SeriesTerms,
    begun,
    closed_windows,
)


class AnnouncingTask(Protocol):
    """The task that announces, and what Airflow knows of earlier ones."""

    def may_succeed(self, claim: WindowClaim) -> bool:
        """Tell whether the try that made a claim may still end as a success."""

    def has_events(self, claim: WindowClaim) -> bool:
        """Tell whether Airflow has the events of a claim."""

    def signed(self, claim: WindowClaim) -> WindowClaim:
        """Return a claim with the names of this task, its run and its try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """
    A series whose last claim is settled.

    :param state: ``None`` before the series begins.
    :param number: Number of the newest claim.
    :param base: Number of the newest announced claim.
    :param held_by: The claim of another run that may still announce its windows.
    """

    state: SeriesState | None = None
    number: int = 0
    base: int = 0
    held_by: WindowClaim | None = None


class WindowAnnouncer:
    """
    Announces the windows of one series.

    :param terms: How its windows are cut.
    """

    def __init__(
        self, home: StreamHome, series: str, terms: SeriesTerms, task: AnnouncingTask, *, by: str
    ) -> None:
        self._home, self.series, self.terms = home, check_folder_name(series), terms
        self._task, self._by = task, by
        self.seen_requests = 0

    def settle(self) -> Settled:
        """
        Return the state of the series; record the outcome of its last claim before.

        :raises RecordError: the claim that the last one continues is lost.
        """
        claim = self._home.newest_window_claim(self.series)
        if claim is None:
            return Settled()
        end = self._home.window_claim_end(self.series, claim.number)
        if end is None:
            # The order matters: events that are absent now, of a try that was over before, never come.
            if claim.windows and self._task.may_succeed(claim):
                return Settled(held_by=claim, number=claim.number)
            done = not claim.windows or self._task.has_events(claim)
            outcome = ClaimOutcome.ANNOUNCED if done else ClaimOutcome.ABANDONED
            end = self._home.end_window_claim(claim, outcome, by=self._by, now=datetime.now(UTC))
        if end.outcome is ClaimOutcome.ANNOUNCED:
            return Settled(state=claim.state, number=claim.number, base=claim.number)
        state = self._state_of(claim.base) if claim.base else None
        return Settled(state=state, number=claim.number, base=claim.base)

    def begin(self, settled: Settled, until: datetime) -> None:
        """Record with which window a series begins, unless another task does."""
        self.claim(settled, DueWindows(windows=(), state=begun(self.terms, until)))

    def due(self, state: SeriesState, until: datetime, contents: Mapping[str, str]) -> DueWindows:
        """Return the windows that are due."""
        requests = self._home.window_requests(self.series, after=state.requests)
        self.seen_requests = max((one.number for one in requests), default=state.requests)
        return closed_windows(state, until, self.terms, requests=requests, contents=contents)

    def claim(self, settled: Settled, due: DueWindows) -> WindowClaim | None:
        """Claim windows for this task; return ``None`` when another task was first."""
        claim = self._claim(settled, due)
        return claim if self._home.claim_windows(claim) else None

    def _claim(self, settled: Settled, due: DueWindows) -> WindowClaim:
        unsigned = WindowClaim(
            series=self.series,
            number=settled.number + 1,
            windows=due.windows,
            state=due.state,
            base=settled.base,
            receipts="",
            receipts_uri="",
            dag_id="",
            run_id="",
            task_id="",
            map_index=-1,
            ti_id="",
            by=self._by,
            at=datetime.now(UTC),
        )
        return self._task.signed(unsigned)

    def _state_of(self, number: int) -> SeriesState:
        found = self._home.window_claim(self.series, number)
        if found is None:
            raise RecordError(
                f"Claim {number} of the windows {self.series!r} of stream {self._home.name!r} is lost, and a "
                "later claim continues it. Restore the original file."
            )
        return found.state


def request_windows(
    home: StreamHome, series: str, start: datetime, end: datetime, *, by: str, reason: str
) -> WindowRequest:
    """
    Request that the complete windows of a range are announced again.

    :raises SpecError: the range is empty, or the stream has no such series.
    """
    known = home.window_series()
    if series not in known:
        raise SpecError(
            f"Stream {home.name!r} has no windows {series!r}; its series: {', '.join(known) or 'none'}. Name "
            "one of them, or run the DAG that announces the windows first."
        )
    if start >= end:
        raise SpecError(
            f"The range of windows {series!r} of stream {home.name!r} ends at {end}, not after its begin "
            f"{start}. Give a later end."
        )
    return home.request_windows(series, start, end, by=by, reason=reason, now=datetime.now(UTC))
