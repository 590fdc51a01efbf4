"""What modeled queries write: sinks that know batch ids, and the law that nobody writes beside another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tests.system.cutovers.model.sea import Out

if TYPE_CHECKING:
    from tests.system.cutovers.model.driver import ModelDriver

Row = tuple[Out, int]


class Sinks:
    """
    The outputs, by their place.

    :param has_log: A batch whose id is not above the newest is passed over, as by Spark's file sink;
        else one whose very id is there.
    """

    def __init__(self, *, has_log: bool) -> None:
        self._has_log = has_log
        self._batches: dict[str, dict[int, tuple[Row, ...]]] = {}

    def write(self, place: str, batch: int, rows: Sequence[Row]) -> None:
        """Write a batch, unless its id was seen."""
        batches = self._batches.setdefault(place, {})
        is_known = batch <= max(batches, default=-1) if self._has_log else batch in batches
        if not is_known:
            batches[batch] = tuple(rows)

    def batches(self, place: str) -> Mapping[int, tuple[Row, ...]]:
        """Return what an output holds, by batch."""
        return self._batches.get(place, {})

    def rows(self, place: str) -> Counter[Row]:
        """Return how often each row is in an output."""
        return Counter(row for rows in self.batches(place).values() for row in rows)


class Law:
    """At most one living driver writes a checkpoint or a sink."""

    def __init__(self) -> None:
        self._writers: dict[str, ModelDriver] = {}
        self.offenses: list[str] = []

    def enter(self, driver: ModelDriver, *places: str) -> None:
        """Note that a driver begins to write to some places."""
        for place in places:
            other = self._writers.get(place)
            if other is not None and other is not driver and not other.gone:
                self.offenses.append(
                    f"{driver.epoch.stream} epoch {driver.epoch.number} writes {place} beside "
                    f"{other.epoch.stream} epoch {other.epoch.number}"
                )
            self._writers[place] = driver


class Reader:
    """A consumer that follows the live pointer and reads every batch of it once."""

    def __init__(self) -> None:
        self.seen: Counter[Row] = Counter()
        self._place, self._read, self._cursor = "", set[int](), -1

    def look(self, place: str, batches: Mapping[int, tuple[Row, ...]]) -> None:
        """Read what is new; in another output, only what is newer than all that was read."""
        if place != self._place:
            self._place, self._read = place, set()
            self._cursor = max((row[0][0] for row in self.seen), default=-1)
        for batch in sorted(set(batches) - self._read):
            self._read.add(batch)
            self.seen.update(row for row in batches[batch] if row[0][0] > self._cursor)
