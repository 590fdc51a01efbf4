"""The live output of a stream as its consumers see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Self

from airflow_streaming.model.names import Color, color_of

if TYPE_CHECKING:
    from airflow_streaming.model.records.cutover import LiveRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePeriod:
    """
    A time during which one lane was live.

    :param deployment: Number of the lane's deployment at the beginning of the period; before the first cutover,
        at its end.
    :param since: ``None`` for the time before the first cutover.
    """

    lane: str
    deployment: int
    output: str
    since: datetime | None
    until: datetime

    @property
    def color(self) -> Color:
        return color_of(self.lane)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOutput:
    """
    The live output of a stream, for its consumers.

    :param stream: The stream, which keeps its name whichever lane is live.
    :param deployment: Number of the lane's deployment.
    :param number: Number of the record that makes the lane live, which rises with every move of the
        stream; 0 before the first move.
    :param since: Time of the move; ``None`` before the first move, or while the move does not count yet.
    :param history: Earlier periods, oldest first; only with ``history=True``.
    :param places: Places that the lane's queries write by their newest plans, e.g. ``kafka orders-2 on a:9092``;
        empty where no plan names a place. ``live_together`` leaves them out.
    """

    stream: str
    lane: str
    deployment: int
    output: str
    number: int = 0
    since: datetime | None = None
    history: tuple[LivePeriod, ...] = ()
    places: tuple[str, ...] = ()

    @property
    def color(self) -> Color:
        return color_of(self.lane)

    @classmethod
    def of(cls, record: LiveRecord, since: datetime | None = None) -> Self:
        """Return the output that a record makes live, also before the record counts; pointers move to it."""
        return cls(
            stream=record.stream,
            lane=record.lane,
            deployment=record.deployment,
            output=record.output,
            number=record.number,
            since=since,
        )
