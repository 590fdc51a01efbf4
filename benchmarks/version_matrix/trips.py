"""
Trips: which Spark runs a checkpoint after which other.

A trip is written ``3.5>4.1>3.5``; a step with ``!`` is taken with Spark's check of state schemas
switched off, which is the remedy for schemas that differ in nullability alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from benchmarks.version_matrix.cells import VERSIONS, Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """
    A cell's checkpoint on its way from Spark to Spark.

    :param steps: Releases in their order, with ``!`` as above.
    """

    cell: Cell
    steps: tuple[str, ...]

    @property
    def run(self) -> str:
        """Name of the trip's last step, e.g. ``inner_join/hdfs/3.5>4.1!``."""
        return f"{self.cell.name}/{'>'.join(self.steps)}"

    @property
    def before(self) -> Self | None:
        """What must exist first."""
        return type(self)(cell=self.cell, steps=self.steps[:-1]) if self.steps[1:] else None

    @property
    def control(self) -> Self:
        """The same number of steps without another Spark."""
        return type(self)(cell=self.cell, steps=self.steps[:1] * len(self.steps))

    @property
    def version(self) -> str:
        """The release of the last step."""
        return self.steps[-1].rstrip("!")

    @property
    def checks_schemas(self) -> bool:
        """Tell whether the last step is taken with Spark's check of schemas."""
        return not self.steps[-1].endswith("!")

    def then(self, step: str) -> Self:
        """Return the trip with one more step."""
        return type(self)(cell=self.cell, steps=(*self.steps, step))

    def unchecked(self) -> Self:
        """Return the trip with its last step taken without the check."""
        return type(self)(cell=self.cell, steps=(*self.steps[:-1], self.version + "!"))


def first_steps(cells: Iterable[Cell]) -> list[Trip]:
    """Return the trips that begin, one for every release that can write the cell."""
    return [
        Trip(cell=cell, steps=(version,))
        for cell in cells
        for version in VERSIONS
        if cell.exists_in(version)
    ]


def next_steps(trips: Iterable[Trip]) -> Iterator[Trip]:
    """Return what comes after trips of one step: every release; after two: back to the first."""
    for trip in trips:
        versions = VERSIONS if len(trip.steps) == 1 else trip.steps[:1]
        yield from (trip.then(version) for version in versions)


def control_and_up(trips: Iterable[Trip]) -> list[Trip]:
    """Return those of the trips whose second step is not an older release than the first."""
    return [trip for trip in trips if trip.steps[1].rstrip("!") >= trip.steps[0]]
