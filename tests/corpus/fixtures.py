"""Reading the failures that were provoked, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_streaming.model.spark.failure_signs import FailureKind

FAILURES: Final = Path(__file__).parent / "failures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """
    One failure that a real Spark told.

    :param expected: What a person calls it, decided before it was provoked.
    """

    scenario: str
    spark: str
    expected: FailureKind
    exception_class: str
    condition: str | None
    conditions: tuple[str, ...]
    text: str

    @property
    def id(self) -> str:
        """Return e.g. ``4.3 state_gone``."""
        return f"{self.spark.rpartition('.')[0]} {self.scenario}"


def read_fixtures() -> Iterator[Fixture]:
    """Return all provoked failures, by version and scenario."""
    for path in sorted(FAILURES.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            told = json.loads(line)
            yield Fixture(
                scenario=told["scenario"],
                spark=told["spark"],
                expected=FailureKind(told["expected"]),
                exception_class=told["exception_class"],
                condition=told["condition"],
                conditions=tuple(told["conditions"]),
                text=told["text"],
            )
