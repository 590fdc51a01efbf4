"""Lines that the check of an installation prints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckOutcome(StrEnum):
    """Result of one check."""

    PROBLEM = "problem"
    """Streams cannot start, or run without being watched."""
    WARNING = "warning"
    """Streams run; something is slow, scarce or only works in some setups."""
    UNKNOWN = "unknown"
    """The fact could not be found out."""
    NOTE = "note"
    """Nothing to do."""
    OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """
    Answer of a check.

    :param check: Its name, such as ``home`` or ``runtime spark-4.3``.
    :param next: The next step; empty where there is nothing to do.
    """

    check: str
    outcome: CheckOutcome
    seen: str
    expected: str = ""
    next: str = ""

    @classmethod
    def of(
        cls, check: str, bad: CheckOutcome, fails: bool, *, seen: str, expected: str, step: str
    ) -> Line:
        """Return a line that is of outcome ``bad`` when it fails, else ok and without a next step."""
        return cls(
            check=check,
            outcome=bad if fails else CheckOutcome.OK,
            seen=seen,
            expected=expected,
            next=step if fails else "",
        )
