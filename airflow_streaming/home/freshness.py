"""The freshness of a stream, as records that both lanes share."""

from __future__ import annotations

from dataclasses import replace

from airflow_streaming.home.control import Shared
from airflow_streaming.model.products.freshness import Timeline


class FreshnessRecords(Shared):
    """Read and record the timeline of a stream's late times."""

    def timeline(self) -> Timeline | None:
        """Return the newest timeline, if any."""
        return self._base()._newest(Timeline)

    def record_timeline(self, timeline: Timeline) -> bool:
        """Record a timeline as the next of its stream; tell whether no other task was first."""
        return self._base()._create(replace(timeline, number=timeline.number + 1))
