"""The announced windows of a stream, as records that both lanes share."""

from __future__ import annotations

from datetime import datetime

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.control import Shared
from airflow_streaming.home.folder import APPEND_TRIES
from airflow_streaming.model.names import is_path_part
from airflow_streaming.model.products.windows import (
    ClaimOutcome,
    WindowClaim,
    WindowClaimEnd,
    WindowRequest,
)
from airflow_streaming.model.wire import Record


class Windows(Shared):
    """Read and record the claims and requests of a stream's window series."""

    def window_series(self) -> list[str]:
        """Return the names of the stream's series, sorted."""
        base = self._base()
        return sorted(filter(is_path_part, base.store.names(base._layout.folder("windows"))))

    def newest_window_claim(self, series: str) -> WindowClaim | None:
        """Return the newest claim of a series, settled or not."""
        numbers = self._base()._numbers(self._series_folder(WindowClaim, series))
        return self.window_claim(series, numbers[-1]) if numbers else None

    def window_claim(self, series: str, number: int) -> WindowClaim | None:
        return self._base()._get(WindowClaim, series=series, number=number)

    def claim_windows(self, claim: WindowClaim) -> bool:
        """
        Record a claim; tell whether it is the newest of its series.

        A pruned number is free again. A task that had read an old newest claim, and slept since, may take it.
        """
        base = self._base()
        if not base._create(claim):
            return False
        return base._numbers(self._series_folder(WindowClaim, claim.series))[-1:] == [claim.number]

    def window_claim_end(self, series: str, number: int) -> WindowClaimEnd | None:
        """Return the outcome of a claim, ``None`` while it is not settled."""
        return self._base()._get(WindowClaimEnd, series=series, number=number)

    def end_window_claim(
        self, claim: WindowClaim, outcome: ClaimOutcome, *, by: str, now: datetime
    ) -> WindowClaimEnd:
        """Record the outcome of a claim; return the outcome that was recorded first."""
        end = WindowClaimEnd(
            series=claim.series, number=claim.number, outcome=outcome, by=by, at=now
        )
        return self._base()._put(end)

    def window_requests(self, series: str, after: int = 0) -> list[WindowRequest]:
        """Return the requests of a series with a greater number, oldest first."""
        base, folder = self._base(), self._series_folder(WindowRequest, series)
        numbers = base._numbers(folder)
        found = (
            base._get(WindowRequest, series=series, number=one) for one in numbers if one > after
        )
        return [one for one in found if one is not None]

    def request_windows(
        self, series: str, start: datetime, end: datetime, *, by: str, reason: str, now: datetime
    ) -> WindowRequest:
        """Record a request for the windows of a range."""
        base, folder = self._base(), self._series_folder(WindowRequest, series)
        for _ in range(APPEND_TRIES):
            request = WindowRequest(
                series=series,
                number=max(base._numbers(folder), default=0) + 1,
                start=start,
                end=end,
                by=by,
                reason=reason,
                at=now,
            )
            if base._create(request):
                return request
        raise HomeUnavailable(
            f"No request could be added to {base._shown(folder)}: {APPEND_TRIES} times another one was "
            "there first. Check that the store lists its newest files."
        )

    def _series_folder(self, kind: type[Record], series: str) -> str:
        place = self._base()._layout.place(kind, series=series, number=1)
        return place.rpartition("/")[0]
