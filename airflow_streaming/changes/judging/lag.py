"""
How far each query of green is behind blue: in input, in event time, and for how long at its present speed.

Positions are compared where both lanes report a position for each partition, as Kafka does. For other sources blue's
backlog is subtracted from green's. Times of a driver are compared with times of the same driver only; watermarks
come from the data, so those of both lanes can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.changes.judging.soak import Backlog, backlog_of, batches_of
from airflow_streaming.model.durations import duration_text, number_text
from airflow_streaming.model.progress import BatchProgress, moment, positions, watermark_at
from airflow_streaming.model.status import Status

_SPEED_BATCHES: Final = 20
"""Newest batches of green over which its speed is a mean: it must follow a change of load within minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLag:
    """
    The distance of a query of green to blue.

    :param batches: Batches that it has committed.
    :param behind: Input that blue has read and green has not; ``None`` where it is not known.
    :param left: Its own backlog, which includes input that blue has not read either.
    :param event_time_s: Seconds by which its watermark is behind blue's; ``None`` where one of them has none.
    :param closing: By how much its backlog shrinks in a second; negative while it grows.
    :param in_blue: Blue has a query of this name.
    """

    query: str
    batches: int = 0
    behind: Backlog | None = None
    left: Backlog | None = None
    event_time_s: float | None = None
    closing: float | None = None
    in_blue: bool = True

    @property
    def is_level(self) -> bool:
        """Tell whether it is proved to have read as much as blue."""
        return self.behind is not None and self.behind.amount <= 0 and not self.event_time_s

    @property
    def level_in_s(self) -> float | None:
        """Return the seconds until it is level at its present speed; ``None`` where it comes no nearer."""
        known = self.behind if self.in_blue else self.left
        if known is None or self.closing is None or known.amount <= 0 or self.closing <= 0:
            return None
        # A speed of the backlog's unit only: positions are compared in records.
        same = self.left is not None and self.left.unit == known.unit
        return known.amount / self.closing if same else None

    def text(self) -> str:
        """Return the distance for people, without a full stop."""
        return f"query {self.query!r}: {', '.join(self._parts())}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "batches": self.batches,
            "behind": _amount(self.behind),
            "left": _amount(self.left),
            "event_time_s": self.event_time_s,
            "level_in_s": self.level_in_s,
            "text": ", ".join(self._parts()),
        }

    def _parts(self) -> Iterator[str]:
        if not self.batches:
            yield "its driver has committed no batch yet"
            return
        if self.is_level:
            yield "level with blue"
        elif self.behind is not None:
            yield f"{_text(self.behind)} behind blue"
        elif not self.in_blue:
            yield "blue has no query of this name"
        elif self.event_time_s is None and self.left is None:
            yield "distance not known, because its sources report no backlog"
        if self.event_time_s:
            yield f"{duration_text(self.event_time_s)} of event time behind blue"
        if self.left is not None and self.left != self.behind:
            yield f"{_text(self.left)} left to read"
        yield from self._speed()

    def _speed(self) -> Iterator[str]:
        seconds, waits = self.level_in_s, self.behind if self.in_blue else self.left
        if seconds is not None:
            yield f"level in about {duration_text(seconds)} at its present speed"
        elif (
            waits is not None and waits.amount > 0 and self.closing is not None and self.closing < 0
        ):
            yield f"not catching up: its backlog grows by {number_text(-self.closing)} {waits.unit} a second"


def lags_of(
    green: Status | None, blue: Status | None, batches: Sequence[BatchProgress] = ()
) -> tuple[QueryLag, ...]:
    """
    Return the distance of each query of green; empty before its driver reports one.

    :param batches: Progress of the newest batches of green's epoch, over all queries, oldest first.
    """
    theirs = {query.name: query for query in (() if blue is None else blue.queries)}
    found = []
    for query in () if green is None else green.queries:
        other = theirs.get(query.name)
        mine, blues = query.progress, None if other is None else other.progress
        found.append(
            QueryLag(
                query=query.name,
                batches=query.batches,
                behind=_behind(mine, blues),
                left=None if mine is None else backlog_of(mine),
                event_time_s=_event_time(mine, blues),
                closing=_closing(batches_of(query, batches)[-_SPEED_BATCHES:]),
                in_blue=other is not None,
            )
        )
    return tuple(found)


def _behind(mine: BatchProgress | None, blues: BatchProgress | None) -> Backlog | None:
    if mine is None or blues is None:
        return None
    if (records := _positions_behind(mine, blues)) is not None:
        return Backlog(unit="records", amount=records)
    left, theirs = backlog_of(mine), backlog_of(blues)
    if left is None or theirs is None or left.unit != theirs.unit:
        return None
    return Backlog(unit=left.unit, amount=max(0.0, left.amount - theirs.amount))


def _positions_behind(mine: BatchProgress, blues: BatchProgress) -> float | None:
    """Return the records between the positions of both; ``None`` where a source has none, or lacks a partition."""
    if not mine.sources or len(mine.sources) != len(blues.sources):
        return None
    total = 0.0
    for here, there in zip(mine.sources, blues.sources, strict=True):
        ours, theirs = positions(here.end_offset), positions(there.end_offset)
        if ours is None or theirs is None or not theirs.keys() <= ours.keys():
            return None
        total += sum(max(0.0, position - ours[key]) for key, position in theirs.items())
    return total


def _event_time(mine: BatchProgress | None, blues: BatchProgress | None) -> float | None:
    ours, theirs = (None if one is None else watermark_at(one.watermark) for one in (mine, blues))
    if ours is None or theirs is None:
        return None
    return max(0.0, (theirs - ours).total_seconds())


def _closing(batches: Sequence[BatchProgress]) -> float | None:
    """Return by how much the backlog shrinks in a second, over some batches of one query."""
    known = [
        (at, left)
        for batch in batches
        if (at := moment(batch.at)) is not None and (left := backlog_of(batch)) is not None
    ]
    if len(known) < 2 or known[0][1].unit != known[-1][1].unit:
        return None
    (begun, first), (ended, last) = known[0], known[-1]
    seconds = (ended - begun).total_seconds()
    return (first.amount - last.amount) / seconds if seconds > 0 else None


def _amount(backlog: Backlog | None) -> dict[str, Any] | None:
    return None if backlog is None else {"unit": backlog.unit, "amount": backlog.amount}


def _text(backlog: Backlog) -> str:
    unit = backlog.unit.removesuffix("s") if backlog.amount == 1 else backlog.unit
    return f"{backlog.amount:,.0f} {unit}"
