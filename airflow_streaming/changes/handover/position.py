"""
Positions of queries of the same sources, and which of two is ahead.

Each query numbers its input in its own way: the log of a file source counts from the query's own
first batch. Common to both is the input itself: files by their path, Kafka records by topic,
partition and offset. So positions are compared by that, and are unknown for other sources.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoints.read.report import SourceType
from airflow_streaming.model.progress import is_at_least

COUNTING: Final = frozenset({SourceType.NUMBER, SourceType.RATE_MICRO_BATCH})
"""Sources that count from their own first start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePoint:
    """
    The position in one source.

    :param name: Its number in the plan, from 0, or its name where the log has names.
    :param source: The type of source, by the offset's form.
    :param offset: Spark's text; ``-`` before the first.
    :param files: Of a file source: the paths of all files read, in its log's spelling.
    :param origin: Of a source that counts from its own first start, such as ``rate``: the
        checkpoint's record of that start. Sources of different origin cannot be compared.
    """

    name: str
    source: SourceType
    offset: str
    files: frozenset[str] = frozenset()
    origin: bytes = b""

    @property
    def has_read(self) -> bool:
        """Tell whether anything was read."""
        if self.source is SourceType.FILE:
            return bool(self.files)
        return self.source is not SourceType.NOT_STARTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """
    How far a query is.

    :param batch: The batch after which it stands there; ``None`` before the first.
    :param watermark_ms: The watermark with which that batch has emitted and evicted, in
        milliseconds since 1970; 0 for none.
    :param sources: In plan order.
    """

    batch: int | None
    watermark_ms: int = 0
    sources: tuple[SourcePoint, ...] = ()


def covers(ahead: Position, behind: Position) -> bool | None:
    """
    Return whether a query has read and emitted all input of another query.

    :return: ``None`` if unknown: the sources differ, or are of an unknown type.
    """
    if behind.batch is None:
        return True
    read = ahead.batch is not None and covers_sources(ahead.sources, behind.sources)
    return read and ahead.watermark_ms >= behind.watermark_ms


def covers_sources(ahead: Sequence[SourcePoint], behind: Sequence[SourcePoint]) -> bool | None:
    """Return whether a query has read all input of another query, regardless of watermarks."""
    if len(ahead) != len(behind):
        return None
    answers = [_covers(mine, other) for mine, other in paired(ahead, behind)]
    return None if None in answers else all(answers)


def is_level(one: Position, other: Position) -> bool:
    """Tell whether two queries stand at the same place, with the same watermark."""
    return covers(one, other) is True and covers(other, one) is True


def paired(
    ours: Sequence[SourcePoint], theirs: Sequence[SourcePoint]
) -> list[tuple[SourcePoint, SourcePoint]]:
    """Return the sources that belong together: by name where the names are the same, else in order."""
    by_name = {point.name: point for point in theirs}
    if by_name.keys() == {point.name for point in ours}:
        return [(point, by_name[point.name]) for point in ours]
    return list(zip(ours, theirs, strict=True))


def _covers(ahead: SourcePoint, behind: SourcePoint) -> bool | None:
    if not behind.has_read:
        return True
    if not ahead.has_read:
        return False
    if ahead.source is not behind.source:
        return None
    if ahead.source is SourceType.FILE:
        return behind.files <= ahead.files
    if ahead.source in COUNTING:
        return _counts_on(ahead, behind)
    if ahead.source is SourceType.KAFKA:
        return is_at_least(ahead.offset, behind.offset)
    return True if ahead.offset == behind.offset else None


def _counts_on(ahead: SourcePoint, behind: SourcePoint) -> bool | None:
    if not ahead.origin or ahead.origin != behind.origin:
        return None
    if ahead.source is SourceType.NUMBER:
        return is_at_least(ahead.offset, behind.offset)
    mine, other = (json.loads(point.offset)["offset"] for point in (ahead, behind))
    return bool(mine >= other)
