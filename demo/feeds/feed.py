"""
A feed: rows of one shape, cut into files, with the flaws of real events.

The same seed gives the same bytes on any machine. Flaws come in four kinds, each with a share of its
own: a row that is late but still counts, one that is hopelessly late, one that is sent twice, and a
line that is not JSON. A row sent twice comes again in the next file, whole.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

START: Final = datetime(2026, 1, 5, tzinfo=UTC)

Row = dict[str, Any]
Shape = Callable[[random.Random, datetime, int], Row]
"""Makes a row from chance, its time, and its number in the feed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaws:
    """
    What share of the rows has which flaw.

    :param late: Share of rows whose event time is earlier by up to ``late_by``.
    :param hopeless: Share of rows whose event time is earlier by a whole day.
    :param doubled: Share of rows that come a second time.
    :param broken: Lines without meaning, as a share of the rows.
    """

    late: float = 0.03
    late_by: timedelta = timedelta(minutes=50)
    hopeless: float = 0.0
    doubled: float = 0.02
    broken: float = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """
    Files of JSON lines, one after another.

    :param shape: Makes a row.
    :param rows: Rows of a file.
    :param span: Event time that one file covers.
    :param flaws: Which share of them has flaws.
    :param time: Column of the event time, ISO 8601 in UTC.
    """

    shape: Shape
    rows: int = 40
    span: timedelta = timedelta(minutes=30)
    flaws: Flaws = field(default_factory=Flaws)
    time: str = "ts"

    def lines(self, number: int, seed: int = 7) -> list[str]:
        """Return the lines of a file; the first is number 0."""
        chance = random.Random(f"{seed}/{number}/lines")
        rows = self._fresh(number, seed)
        if number:
            rows += [row for row in self._fresh(number - 1, seed) if self._is_doubled(row, seed)]
        lines = [json.dumps(row) for row in rows]
        lines += ["{broken" for _ in rows if chance.random() < self.flaws.broken]
        chance.shuffle(lines)
        return lines

    def files(self, count: int, seed: int = 7) -> Iterator[tuple[str, str]]:
        """Yield names and contents of so many files."""
        for number in range(count):
            yield f"{number:06}.json", "\n".join(self.lines(number, seed)) + "\n"

    def _fresh(self, number: int, seed: int) -> list[Row]:
        chance = random.Random(f"{seed}/{number}")
        begin = START + number * self.span
        rows = []
        for place in range(self.rows):
            at = begin + self.span * (place + chance.random()) / self.rows
            row = self.shape(chance, at, number * self.rows + place)
            row[self.time] = f"{self._sent_at(chance, at, number):%Y-%m-%dT%H:%M:%S.000Z}"
            rows.append(row)
        return rows

    def _sent_at(self, chance: random.Random, at: datetime, number: int) -> datetime:
        draw, by = chance.random(), chance.random()
        if draw < self.flaws.late and number:
            return at - self.flaws.late_by * by
        # Not among the first: nothing is late before there is a watermark.
        if draw > 1 - self.flaws.hopeless and number > 3:
            return at - timedelta(days=1)
        return at

    def _is_doubled(self, row: Row, seed: int) -> bool:
        return random.Random(f"{seed}/{row['id']}/doubled").random() < self.flaws.doubled


def parsed(lines: list[str]) -> list[Row]:
    """Return the rows of lines that are whole; a test counts on these."""
    return [json.loads(line) for line in lines if line.endswith("}")]
