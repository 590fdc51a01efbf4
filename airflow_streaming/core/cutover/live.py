"""
Live: which lane of a stream consumers read.

A record says that from one step of a cutover on a lane is the live one. It counts as soon as that
step is recorded, so that one exclusive create moves every stream of a cutover at once; until then,
and for ever when another step was taken in its place, the record before it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from airflow_streaming.core.cutover.table import CutoverEvent
from airflow_streaming.core.cutover.transition import Transition
from airflow_streaming.core.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRecord(Record):
    """
    A lane that becomes live with a step of a cutover; ``live/000004.json``.

    :param stream: The stream.
    :param lane: Name of the lane.
    :param deployment: Number of its deployment at that time.
    :param output: What it writes.
    :param leader: The stream that leads the cutover.
    :param change: Number of the cutover's change there.
    :param step: Number of the transition with which this counts.
    :param event: The event that has to be in it.
    """

    KIND: ClassVar[str] = "live"

    number: int
    stream: str
    lane: str
    deployment: int
    output: str
    leader: str
    change: int
    step: int
    event: CutoverEvent
    at: datetime
    by: str


Step = Callable[[str, int, int], Transition | None]
"""Returns a step by leading stream, change and number; ``None`` when it was not taken yet."""


def effective(records: Sequence[LiveRecord], step: Step) -> LiveRecord | None:
    """
    Return the record that counts.

    :param records: Of one stream, oldest first.
    """
    for record in reversed(records):
        taken = step(record.leader, record.change, record.step)
        if taken is not None and taken.event is record.event:
            return record
    return None
