"""Distance: how much green has still to read to stand where blue stands."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from airflow_streaming.core.checkpoint.report import SourceType
from airflow_streaming.core.cutover.absorbing import news_of
from airflow_streaming.core.cutover.position import SourcePoint, paired
from airflow_streaming.core.cutover.query_view import QueryView


class Distance(NamedTuple):
    """Files and Kafka records; sources of other sorts are not counted."""

    files: int = 0
    records: int = 0


def distance(green: QueryView, blue: QueryView) -> Distance:
    """Return how much blue has read and green has not."""
    if blue.committed is None or green.committed is None:
        return Distance()
    ahead, behind = news_of(green, blue, blue.committed), green.position
    if len(ahead.sources) != len(behind.sources):
        return Distance()
    pairs = paired(behind.sources, ahead.sources)
    return Distance(
        files=sum(len(theirs.files - mine.files) for mine, theirs in pairs),
        records=sum(_records(mine, theirs) for mine, theirs in pairs),
    )


def _records(mine: SourcePoint, theirs: SourcePoint) -> int:
    if theirs.source is not SourceType.KAFKA:
        return 0
    known: dict[str, Any] = json.loads(mine.offset) if mine.has_read else {}
    return sum(
        max(0, end - known.get(topic, {}).get(partition, 0))
        for topic, partitions in json.loads(theirs.offset).items()
        for partition, end in partitions.items()
    )
