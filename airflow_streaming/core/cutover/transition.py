"""Transition: one step of a cutover, created once; their numbers are its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState
from airflow_streaming.core.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition(Record):
    """
    One step of a cutover.

    The record of number 4 is created exclusively beside the change of the stream that leads the
    cutover, so of two who saw two events after step 3 only one is heard; the other looks again.

    :param change: Number of the cutover's change in the leading stream.
    :param number: From 1, without gaps.
    :param reason: Why, in words.
    :param facts: What later steps need and people ask for: epochs, positions, verdicts, seconds.
    """

    KIND: ClassVar[str] = "cutover_transition"

    change: int
    number: int
    before: CutoverState
    event: CutoverEvent
    after: CutoverState
    reason: str
    at: datetime
    by: str
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def makes_live(self) -> bool:
        """Tell whether another lane is the live one from this step on."""
        is_back = self.event is CutoverEvent.UNDONE and self.before is CutoverState.ROLLING_BACK
        return is_back or self.event is CutoverEvent.SWITCHED


def state_of(history: Sequence[Transition]) -> CutoverState:
    """Return where a cutover is; one without a step is only planned."""
    return history[-1].after if history else CutoverState.PLANNED
