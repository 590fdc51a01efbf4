"""
Known issues of Airflow that concern streams, by version.

A row is taken out only when a release of Airflow without the issue has been tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

NEWEST_TRIED: Final = (3, 3, 2)
"""Newest release of Airflow with which these rows were tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowIssue:
    """
    Issue of Airflow.

    :param numbers: Of issues and pull requests of apache/airflow.
    :param since: First release that has it.
    :param effect: Consequence for a stream.
    :param answer: Countermeasure of this package or of the user.
    """

    numbers: tuple[int, ...]
    since: tuple[int, int, int]
    effect: str
    answer: str

    @property
    def name(self) -> str:
        """Return the numbers as text."""
        return ", ".join(f"#{number}" for number in self.numbers)


ISSUES: Final = (
    AirflowIssue(
        numbers=(71580, 72716),
        since=(3, 0, 0),
        effect="a task fails when its trigger fires within seconds after the deferral",
        answer="Nothing to do: triggers hold their events for 15 s, and retries adopt the driver.",
    ),
    AirflowIssue(
        numbers=(73454,),
        since=(3, 3, 0),
        effect="on_kill of a trigger also runs when another triggerer takes the trigger over",
        answer="Nothing to do: the trigger reads the state of its task before it records a stop.",
    ),
    AirflowIssue(
        numbers=(73135,),
        since=(3, 3, 0),
        effect="a trigger that reads the state store of its task waits for ever",
        answer="Nothing to do: triggers keep no state there. Do not use it in triggers of your own.",
    ),
)


def version_of(text: str) -> tuple[int, int, int] | None:
    """Parse a version; return ``None`` for another text."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def issues_of(version: tuple[int, int, int]) -> Iterator[AirflowIssue]:
    yield from (issue for issue in ISSUES if issue.since <= version)
