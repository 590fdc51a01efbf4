"""Stops that consumers of a stream wait out, and those that they do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_streaming.model.records.control import (
    Change,
    ChangeEnd,
    ChangeKind,
    ChangeOutcome,
    Desired,
    DesiredState,
)
from airflow_streaming.supervision.readiness.pause import AFTER_CHANGE, RESTORE_PATIENCE, pause_of
from tests.unit.supervision.builders import NOW, minutes

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Progress:
    """A change with stages, as far as a pause asks it."""

    owns_stream: bool = True
    is_late: bool = False
    rule: str = "change_left_alone"
    since: datetime = NOW
    patience: timedelta = HOUR

    def is_overdue(self, now: datetime) -> bool:
        return self.is_late

    def __str__(self) -> str:
        return "Upgrade 3 is stopping the driver."


def stopped(ago: timedelta) -> Desired:
    return Desired(number=4, state=DesiredState.STOPPED, by="ada", reason="x", at=NOW - ago)


def change(what: ChangeKind, ago: timedelta = minutes(5)) -> Change:
    return Change(
        number=3,
        stream="orders",
        what=what,
        replaced=1,
        deployment=2,
        checkpoint="/c",
        by="ada",
        reason="x",
        at=NOW - ago,
    )


def ended(ago: timedelta) -> ChangeEnd:
    return ChangeEnd(number=3, outcome=ChangeOutcome.DONE, by="ada", reason="x", at=NOW - ago)


RESTORE, UPGRADE = change(ChangeKind.RESTORE), change(ChangeKind.UPGRADE)
LONG = timedelta(days=2)


@pytest.mark.parametrize(
    ("ago", "told", "tolerance", "expected"),
    [
        (minutes(5), {}, None, ""),
        (minutes(5), {}, minutes(6), "The stop has lasted 5 min of 6 min."),
        (minutes(6), {}, minutes(6), ""),
        (LONG, {"change": RESTORE}, None, "Change 3 of the stream (restore) is in progress."),
        (LONG, {"change": change(ChangeKind.UNDO)}, None, "Change 3 of the stream (undo)"),
        (LONG, {"change": change(ChangeKind.RESTORE, RESTORE_PATIENCE + HOUR)}, None, ""),
        (LONG, {"change": UPGRADE}, None, ""),
        (LONG, {"change": UPGRADE, "progress": Progress()}, None, "Upgrade 3 is stopping"),
        (LONG, {"change": UPGRADE, "progress": Progress(is_late=True)}, None, ""),
        (LONG, {"change": change(ChangeKind.REMOVE), "progress": Progress()}, None, ""),
        (LONG, {"change": UPGRADE, "progress": Progress(owns_stream=False)}, None, ""),
        (
            LONG,
            {"change": RESTORE, "end": ended(minutes(5))},
            None,
            "The stop has lasted 5 min of 10",
        ),
        (
            LONG,
            {"change": RESTORE, "end": ended(minutes(5))},
            HOUR,
            "The stop has lasted 5 min of 1 h.",
        ),
        (LONG, {"change": RESTORE, "end": ended(AFTER_CHANGE)}, None, ""),
        (minutes(5), {"change": RESTORE, "end": ended(HOUR)}, None, ""),
    ],
    ids=[
        "no tolerance",
        "tolerated",
        "tolerated no longer",
        "restore",
        "undo",
        "restore that takes too long",
        "upgrade whose progress is unknown",
        "upgrade",
        "upgrade that nobody works on",
        "removal",
        "cutover before it takes the stream",
        "just after a restore",
        "just after a restore, with a tolerance",
        "long after a restore",
        "a later stop",
    ],
)
def test_a_pause_is_waited_out(
    ago: timedelta, told: dict[str, Any], tolerance: timedelta | None, expected: str
) -> None:
    pause = pause_of(
        stopped(ago), **{"change": None, "progress": None, "end": None, "now": NOW, **told}
    )

    reason = pause.tolerated(tolerance)

    assert reason.startswith(expected)
    assert bool(reason) == bool(expected)


@pytest.mark.parametrize(
    ("ago", "expected"),
    [
        (minutes(5), "The stop has lasted 5 min of 70 min."),
        (HOUR + AFTER_CHANGE - timedelta(microseconds=1), "The stop has lasted"),
        (HOUR + AFTER_CHANGE, ""),
    ],
)
def test_a_stop_with_an_end_is_waited_out_until_the_stream_has_had_time_to_start(
    ago: timedelta, expected: str
) -> None:
    stop = replace(stopped(ago), until=NOW - ago + HOUR)

    waits = pause_of(stop, change=None, progress=None, end=None, now=NOW).tolerated(None)

    assert waits.startswith(expected)
    assert bool(waits) is bool(expected)
