"""
The history of a stream's figures: points in time, folded into buckets that keep the extremes.

A bucket keeps the minimum, the maximum and the last value of every figure, so a chart of a day
shows the one batch that took a minute. Buckets fold into larger ones without loss of that. The
driver writes one bucket of some minutes for each query beside the full history of its batches; a
chart of a day reads those, a chart of an hour the batches themselves.

Reading a line never raises: an unreadable figure is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, Self

from airflow_streaming.model.progress import BatchProgress, mapping, number

MAX_FIGURES: Final = 200
"""Figures of a bucket that are kept."""
_MAX_NAME: Final = 120
_OF_BATCH: Final = (
    ("input_rate", "input_rows_per_second"),
    ("processing_rate", "processed_rows_per_second"),
    ("input_rows", "input_rows"),
    ("duration_ms", "duration_ms"),
    ("watermark_delay_s", "watermark_delay_s"),
    ("state_rows", "state_rows"),
    ("state_bytes", "state_bytes"),
    ("state_commit_ms", "state_commit_ms"),
    ("dropped_rows", "dropped_rows"),
    ("cache_miss_share", "cache_miss_share"),
    ("executors", "executors"),
)
_OF_SOURCE: Final = ("backlog_records", "backlog_bytes", "backlog_files", "loss_in_s")


def figures_of(row: BatchProgress) -> dict[str, float]:
    """
    Return every figure of a batch under one name, without unreported ones.

    Names with a point have a variable part: ``phase.addBatch``, ``backlog_records.0`` (by position
    of the source), ``state.rocksdbGetCount``, ``observed.<name>.<column>``.
    """
    return dict(islice(_named(row), MAX_FIGURES))


def _named(row: BatchProgress) -> Iterator[tuple[str, float]]:
    for name, attribute in _OF_BATCH:
        value = getattr(row, attribute)
        if value is not None:
            yield name, float(value)
    for position, source in enumerate(row.sources):
        for attribute in _OF_SOURCE:
            value = getattr(source, attribute)
            if value is not None:
                yield f"{attribute}.{position}", float(value)
    for prefix, values in (
        ("phase", row.phases_ms),
        ("state", row.state_metrics),
        ("observed", row.observed),
    ):
        for name, value in values.items():
            yield f"{prefix}.{name}"[:_MAX_NAME], float(value)


def ended_at(row: BatchProgress) -> float | None:
    """Return when a batch ended, by the driver's clock, in Unix time; ``None`` if unknown."""
    try:
        begun = datetime.fromisoformat(row.at)
        begun = begun if begun.tzinfo is not None else begun.replace(tzinfo=UTC)
        return begun.timestamp() + row.duration_ms / 1000
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """
    The figures of a query over some time.

    :param begin: End of the first batch in it, in Unix time by the driver's clock.
    :param end: End of the last one.
    :param rows: How many batches it covers.
    :param lows: The least value of each figure; ``highs`` the greatest, ``lasts`` the newest one.
    """

    query: str
    begin: float
    end: float
    rows: int
    lows: Mapping[str, float] = field(default_factory=dict)
    highs: Mapping[str, float] = field(default_factory=dict)
    lasts: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, row: BatchProgress) -> Self | None:
        """Return a bucket of one batch; ``None`` for a batch without a time."""
        at = ended_at(row)
        if at is None:
            return None
        told = figures_of(row)
        return cls(query=row.query, begin=at, end=at, rows=1, lows=told, highs=told, lasts=told)

    def joined(self, later: Bucket) -> Bucket:
        """Return both in one, where the other is the later."""
        lows, highs = dict(self.lows), dict(self.highs)
        for name, value in later.lows.items():
            lows[name] = min(lows.get(name, value), value)
        for name, value in later.highs.items():
            highs[name] = max(highs.get(name, value), value)
        return Bucket(
            query=self.query,
            begin=min(self.begin, later.begin),
            end=max(self.end, later.end),
            rows=self.rows + later.rows,
            lows=lows,
            highs=highs,
            lasts={**self.lasts, **later.lasts},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the bucket as JSON; a figure that never changed is one number."""
        values: dict[str, Any] = {}
        for name, last in self.lasts.items():
            three = [_rounded(value) for value in (self.lows[name], self.highs[name], last)]
            values[name] = three[0] if len(set(three)) == 1 else three
        return {
            "query": self.query,
            "begin": round(self.begin, 3),
            "end": round(self.end, 3),
            "rows": self.rows,
            "figures": values,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self | None:
        """Read a bucket; ``None`` when it does not say of what and when it is."""
        query, begin, end = data.get("query"), number(data.get("begin")), number(data.get("end"))
        if not isinstance(query, str) or begin is None or end is None:
            return None
        lows: dict[str, float] = {}
        highs: dict[str, float] = {}
        lasts: dict[str, float] = {}
        for name, told in islice(mapping(data.get("figures")).items(), MAX_FIGURES):
            three = told if isinstance(told, list) else [told] * 3
            found = [value for value in map(number, three) if value is not None]
            if len(found) == len(three) == 3:
                lows[name[:_MAX_NAME]], highs[name[:_MAX_NAME]], lasts[name[:_MAX_NAME]] = found
        return cls(
            query=query[:_MAX_NAME],
            begin=begin,
            end=end,
            rows=int(number(data.get("rows")) or 1),
            lows=lows,
            highs=highs,
            lasts=lasts,
        )


def _rounded(value: float) -> float:
    # A chart has no use for more digits, and they are most of a line.
    return float(f"{value:.6g}")


def fold(rows: Iterable[BatchProgress]) -> list[Bucket]:
    """Return one bucket of some batches for each query, in the order in which they are met."""
    found: dict[str, Bucket] = {}
    for row in rows:
        bucket = Bucket.of(row)
        if bucket is not None:
            known = found.get(row.query)
            found[row.query] = bucket if known is None else known.joined(bucket)
    return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """
    The figures of one query over a range, in buckets of equal length.

    :param at: Unix time of the last batch of every bucket that has any, rising.
    :param lows: By figure, as long as ``at``; ``None`` where a bucket lacks it.
    """

    query: str
    at: Sequence[float]
    lows: Mapping[str, Sequence[float | None]]
    highs: Mapping[str, Sequence[float | None]]
    lasts: Mapping[str, Sequence[float | None]]

    def to_dict(self) -> dict[str, Any]:
        """Return the series as JSON; a figure whose buckets all hold one value has no extremes."""
        figures: dict[str, Any] = {}
        for name, lasts in self.lasts.items():
            shorts = [*map(_short, lasts)]
            values: dict[str, Any] = {"last": shorts}
            if lasts != self.lows[name] or lasts != self.highs[name]:
                # A bucket of one batch holds one value three times, and it is rounded once.
                for key, column in (("min", self.lows[name]), ("max", self.highs[name])):
                    three = zip(column, lasts, shorts, strict=True)
                    values[key] = [last if v is value else _short(v) for v, value, last in three]
            figures[name] = values
        return {"query": self.query, "at": [round(at, 1) for at in self.at], "figures": figures}


def _short(value: float | None) -> float | int | None:
    if value is None:
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() else short


def _all(name: str) -> bool:
    return True


def downsample(
    buckets: Iterable[Bucket],
    *,
    begin: float,
    end: float,
    count: int,
    wants: Callable[[str], bool] = _all,
) -> list[Series]:
    """
    Return the figures of every query over a range, in at most ``count`` buckets each.

    Points outside the range are left out, from any clock.

    :param count: At least 1.
    :param wants: Tells by its name whether a figure is needed.
    """
    length = (end - begin) / max(1, count)
    by_query: dict[str, dict[int, list[Bucket]]] = {}
    for bucket in sorted(buckets, key=lambda one: one.end):
        if not begin <= bucket.end <= end or length <= 0:
            continue
        slot = min(int((bucket.end - begin) / length), count - 1)
        by_query.setdefault(bucket.query, {}).setdefault(slot, []).append(bucket)
    # The buckets came in the order of time, and so did their slots.
    return [_series(query, [*slots.values()], wants) for query, slots in by_query.items()]


def _series(query: str, slots: Sequence[list[Bucket]], wants: Callable[[str], bool]) -> Series:
    names: dict[str, None] = {}
    for slot in slots:
        for bucket in slot:
            names.update(dict.fromkeys(bucket.lasts))
    lows: dict[str, list[float | None]] = {}
    highs: dict[str, list[float | None]] = {}
    lasts: dict[str, list[float | None]] = {}
    for name in [*filter(wants, names)][:MAX_FIGURES]:
        three = [_extremes(slot, name) for slot in slots]
        lows[name], highs[name], lasts[name] = map(list, zip(*three, strict=True))
    return Series(
        query=query, at=[slot[-1].end for slot in slots], lows=lows, highs=highs, lasts=lasts
    )


def _extremes(slot: Sequence[Bucket], name: str) -> tuple[float | None, float | None, float | None]:
    """Return the least, the greatest and the newest value of a figure in buckets that follow."""
    low = high = last = None
    for bucket in slot:
        value = bucket.lasts.get(name)
        if value is None:
            continue
        least, most = bucket.lows[name], bucket.highs[name]
        low = least if low is None or least < low else low
        high = most if high is None or most > high else high
        last = value
    return low, high, last
