"""The table of acts and killed parts: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

HEAD = ("act", "killed part", "seconds", "outcome", "expected", "found", "lost", "doubled", "wrong")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """
    Rows of the output beside those of a batch run over the same files.

    :param wrong: Rows that the batch run does not have at all.
    """

    expected: int
    found: int
    lost: int = 0
    doubled: int = 0
    wrong: int = 0

    @classmethod
    def of(cls, compared: Mapping[str, Any]) -> Self:
        """Return the counts of a comparison."""
        return cls(**{name: compared[name] for name in cls.__slots__})

    @property
    def are_exact(self) -> bool:
        """Tell that each expected row is there once, and no other; a comparison without rows proves nothing."""
        return bool(self.expected) and not (self.lost or self.doubled or self.wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    Cell of the table: an act in whose middle a part was killed.

    :param part: ``none`` where nothing was killed.
    :param seconds: From the begin of the act to its end.
    :param failure: Why the act did not come to its end; empty when it did.
    :param drivers: The most drivers of one stream at once, since the deployment began.
    :param rows: Counted after the act; ``None`` where no stream runs or they could not be counted.
    """

    act: str
    part: str
    seconds: float
    failure: str = ""
    drivers: int = 0
    rows: Rows | None = None

    @property
    def verdict(self) -> str:
        """Say how the act ended."""
        if self.failure:
            return f"failed: {self.failure}"
        return "done" if self.drivers <= 1 else f"{self.drivers} drivers at once"


def holds(outcome: Outcome) -> bool:
    """Tell whether the act came to its end, with one driver, and no row lost, doubled or wrong."""
    is_exact = outcome.rows is None or outcome.rows.are_exact
    return not outcome.failure and outcome.drivers <= 1 and is_exact


def markdown(outcomes: Iterable[Outcome]) -> str:
    """Return a table with a row for each cell."""
    lines: list[Sequence[str]] = [HEAD, ["---"] * len(HEAD)]
    lines += [
        [one.act, one.part, f"{one.seconds:.0f}", one.verdict, *_counts(one)] for one in outcomes
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _counts(outcome: Outcome) -> list[str]:
    if outcome.rows is None:
        return ["-"] * len(Rows.__slots__)
    return [f"{value:,}" for value in asdict(outcome.rows).values()]
