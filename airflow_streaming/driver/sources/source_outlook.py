"""
When the sources of a query remove data that it has not read.

``spark.airflowStreaming.keptFor`` declares how long a source keeps its data, where the source itself does not tell:
``/data/in=7d, s3a://bucket/events=12h``, each a part of the source's description and a time. Brokers tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from airflow_streaming.driver.errors import ErrorBoundary
from airflow_streaming.driver.sources.file_backlog import (
    Waiting,
    is_file_source,
    sources_of,
)
from airflow_streaming.driver.sources.kafka_retention import Broker, LogOutlook, broker_of
from airflow_streaming.driver.sources.table_files import table_outlook
from airflow_streaming.model.products.retention import (
    KEPT_FOR,
    LossGap,
    Outlook,
    kept_for,
    parse_kept_for,
    unknown,
)
from airflow_streaming.model.progress import SourceProgress, positions
from airflow_streaming.model.spark.failures import mask_hidden

T = TypeVar("T")


class SourceOutlooks:
    """
    The outlooks of the Kafka topics and tables of one query, which remembers earlier looks.

    :param jsq: The Java ``StreamingQuery``.
    :param clock: The present time, in seconds since 1970.
    :param brokers: Gives the brokers of a Java source, if it has any.
    """

    def __init__(
        self,
        jsq: Any,
        clock: Callable[[], float] = time.time,
        brokers: Callable[[Any], Broker | None] = broker_of,
    ) -> None:
        self._jsq, self._clock, self._broker_of = jsq, clock, brokers
        self._faults = ErrorBoundary()
        self._logs: dict[str, LogOutlook] = {}

    def look(self, ends: Mapping[str, Any]) -> dict[str, Outlook]:
        """
        Ask every broker, read every table's metadata, and return the outlooks by the source's description.

        :param ends: End offsets of the latest batch, by the source's description.
        """
        found: dict[str, Outlook] = {}
        for description, source in sources_of(self._jsq):
            # A broker without an answer must not hide the answers of other sources.
            outlook: Outlook | None = unknown(LossGap.FAILED)
            with self._faults.contained(f"Asking what {mask_hidden(description)[:200]} keeps"):
                outlook = self._of(description, source, ends.get(description))
            if outlook is not None:
                found[description] = outlook
        return found

    def _of(self, description: str, source: Any, end: Any) -> Outlook | None:
        broker = self._broker_of(source)
        if broker is None:
            return table_outlook(description, source, end, now=self._clock())
        at = positions(end)
        if at is None:
            return unknown(LossGap.NO_POSITION)
        committed = {part: int(position) for part, position in at.items()}
        log = self._logs.setdefault(description, LogOutlook())
        return log.look(broker, committed, now=self._clock())

    def kept_for(self) -> tuple[tuple[str, float], ...]:
        """Return the declared retention of sources."""
        return parse_kept_for(str(self._jsq.sparkSession().conf().get(KEPT_FOR, "")))


def with_outlook(
    source: SourceProgress,
    outlooks: Mapping[str, Outlook],
    waiting: Mapping[str, Waiting],
    declared: tuple[tuple[str, float], ...],
    now: float,
) -> SourceProgress:
    """Return a source's figures with the time until it removes unread data."""
    found = _of(source, outlooks)
    if found is None and is_file_source(source):
        files = _of(source, waiting)
        found = files.outlook(kept_for(source.source, declared), now) if files else None
    if found is None:
        return source
    return replace(
        source,
        loss_in_s=found.seconds_left(now),
        kept_for_s=found.kept_for,
        read_until=None if found.read_until is None else _text(found.read_until),
        loss_gap="" if found.gap is None else found.gap.value,
    )


def _of(source: SourceProgress, found: Mapping[str, T]) -> T | None:
    # The description in the figures is cut.
    mine = [one for description, one in found.items() if description.startswith(source.source)]
    return mine[0] if len(mine) == 1 else None


def _text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
