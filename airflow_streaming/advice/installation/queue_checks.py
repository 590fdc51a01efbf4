"""
Judge the queues among which streams are shared.

Airflow does not record which queues a triggerer serves. The rows that triggers leave in a home show it: in a queue
without a triggerer no stream has a row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from airflow_streaming.advice.installation.check_line import CheckOutcome, Line
from airflow_streaming.model.fleet.trigger_queues import TriggerQueues

_SERVED: Final = "a triggerer for each queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenQueue:
    """
    The streams of a home that have this queue.

    :param watched: Streams whose triggers have left a row within 75 s.
    :param unwatched: A stream without a row that should run; empty where none was found.
    """

    name: str
    streams: int = 0
    watched: int = 0
    unwatched: str = ""


def queue_setting_line(queues: TriggerQueues, *, enabled: bool) -> Line:
    """Judge the settings of Airflow and of the provider."""
    if queues.names:
        return Line.of(
            "triggerer queues",
            CheckOutcome.PROBLEM,
            not enabled,
            seen=", ".join(queues.names) + ("" if enabled else "; Airflow's are not enabled"),
            expected="[triggerer] queues_enabled beside [streaming] trigger_queues",
            step="Set [triggerer] queues_enabled = True for workers and triggerers. Until then streams are not shared.",
        )
    return Line.of(
        "triggerer queues",
        CheckOutcome.WARNING,
        enabled,
        seen="enabled" if enabled else "not enabled",
        expected="a triggerer for the queue of every stream's task",
        step="Start a triggerer with --queues for each of these queues, or share the streams by [streaming] "
        "trigger_queues.",
    )


def queue_lines(home: str, queues: Collection[SeenQueue]) -> Iterator[Line]:
    """Judge each queue of a home by the rows of its streams."""
    for one in queues:
        check, seen = f"home {home}: queue {one.name}", f"{one.watched} of {one.streams} watched"
        if one.watched or one.unwatched:
            yield Line.of(
                check,
                CheckOutcome.PROBLEM,
                not one.watched,
                seen=f"{seen}; {one.unwatched!r} should be" if one.unwatched else seen,
                expected=_SERVED,
                step=f"Start a triggerer: airflow triggerer --queues {one.name}",
            )
        else:
            yield Line(
                check=check,
                outcome=CheckOutcome.NOTE,
                seen=f"{seen}; none should be",
                expected=_SERVED,
            )
