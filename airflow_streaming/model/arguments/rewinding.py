"""The function with which an author takes batches back out of a sink, and its argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from airflow_streaming.model.arguments.calls import Called


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewinding:
    """
    A request to an author's function: take every batch after ``batch`` back out of a sink.

    It may be called several times for the same change and must be idempotent.

    :param batch: The newest batch that stays; the query continues with ``batch + 1``. -1 without
        one.
    :param newest: The newest batch that the sink may have received; ``None`` if unknown.
    :param sink: As in ``SinkPlan``; ``target`` likewise.
    """

    stream: str
    query: str
    change: int
    batch: int
    newest: int | None
    sink: str
    target: str


AuthorsRewind = Annotated[Callable[[Rewinding], None], Called(("a Rewinding",))]
