"""A task's log says how far long work is, and not too often."""

from __future__ import annotations

from typing import Any

from airflow_streaming.checkpoints.progress import Phase, ProgressNow
from airflow_streaming.operators.common.base import ProgressLogger


class Told:
    """A log that is remembered, and a clock that is set."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.seconds = 100.0

    def info(self, text: str, /, *values: Any) -> None:
        self.lines.append(text % values)


def test_it_says_something_every_ten_seconds_and_nothing_in_between() -> None:
    told = Told()
    narrator = ProgressLogger(told, lambda: told.seconds)
    for number in range(1, 26):
        told.seconds += 1
        narrator(ProgressNow(phase=Phase.COPY, subject="revenue", files=number, of=25, size=10**6))

    assert told.lines == [
        "copy of revenue: 10 of 25 files, 1.0 MB",
        "copy of revenue: 20 of 25 files, 1.0 MB",
    ]


def test_it_says_how_much_was_read() -> None:
    told = Told()
    narrator = ProgressLogger(told, lambda: told.seconds)
    told.seconds += 11

    narrator.read(5 * 10**6, 10**7)
    narrator(ProgressNow(phase=Phase.WRITE, files=3))

    assert told.lines == ["read: 5.0 of 10.0 MB"]


def test_what_is_not_counted_in_files_has_no_size() -> None:
    told = Told()
    narrator = ProgressLogger(told, lambda: told.seconds)
    told.seconds += 11

    narrator(ProgressNow(phase=Phase.COMPARE, files=0, of=2, unit="streams"))

    assert told.lines == ["compare: 0 of 2 streams"]
