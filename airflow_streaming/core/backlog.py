"""
What a source still holds after a batch, from the source's part of a progress report.

Sources tell it in three ways, and most tell nothing. Those that work like Kafka report the newest
position of every partition beside the one where the batch ended. Some give metrics of their own.
The file source of open Spark reports neither; the driver counts its files instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from airflow_streaming.core.reported import amount, mapping, numbers

_RECORDS: Final = ("maxOffsetsBehindLatest",)
_BYTES: Final = ("numBytesOutstanding", "estimatedTotalBytesBehindLatest")
_FILES: Final = ("numFilesOutstanding",)

_MAX_TEXT: Final = 1_000_000
"""Characters of an offset that are parsed; Kafka needs about twenty for each partition."""


def backlog_records(source: Mapping[str, Any]) -> float | None:
    """
    Return the records after a batch's end.

    Taken from the newest and the end offset where both are positions of partitions, summed over
    the partitions, none of them below zero. A partition that the batch did not know counts from
    its beginning. Otherwise ``maxOffsetsBehindLatest``, which speaks of the partition that is
    furthest behind and so is the least that the backlog can be.
    """
    latest, end = positions(source.get("latestOffset")), positions(source.get("endOffset"))
    if latest is not None and end is not None:
        return sum(max(0.0, there - end.get(where, 0.0)) for where, there in latest.items())
    return _metric(source, _RECORDS)


def backlog_bytes(source: Mapping[str, Any]) -> float | None:
    """Return the bytes after a batch's end, where the source has a metric of them."""
    return _metric(source, _BYTES)


def backlog_files(source: Mapping[str, Any]) -> float | None:
    """Return the files after a batch's end, where the source has a metric of them."""
    return _metric(source, _FILES)


def positions(offset: Any) -> dict[tuple[str, str], float] | None:
    """
    Return the position of every partition in an offset like ``{"topic": {"0": 7}}``.

    ``None`` for anything else, such as the single number that other sources count by: it may be a
    time or the number of a log file.
    """
    topics = _parsed(offset)
    if not isinstance(topics, Mapping) or not topics:
        return None
    found: dict[tuple[str, str], float] = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, Mapping):
            return None
        for partition, position in partitions.items():
            known = None if isinstance(position, str) else amount(position)
            if known is None or not str(partition).isdecimal():
                return None
            found[str(topic), str(partition)] = known
    return found


def _parsed(offset: Any) -> Any:
    # Offsets of some sources arrive as text that holds JSON.
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset) if len(offset) <= _MAX_TEXT else None
    except (ValueError, RecursionError):
        return None


def _metric(source: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    metrics = mapping(source.get("metrics"))
    told = numbers(amount(metrics.get(name)) for name in names)
    return told[0] if told else None
