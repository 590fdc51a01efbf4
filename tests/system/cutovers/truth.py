"""Compare what consumers saw, and what lies in an output, with what has to be there, row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.system.cutovers.shop import Key, Row

MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    How rows differ from the right ones.

    :param rows: How many there are to be judged: all up to the newest window that was seen.
    :param lost: Rows that are not there.
    :param doubled: Rows that are there more than once, each time too many counted.
    :param wrong: Rows whose figures are not right, or that should not be there at all.
    :param examples: Some of them by name.
    """

    rows: int
    lost: int
    doubled: int
    wrong: int
    examples: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Tell whether every row is there once and right."""
        return self.rows > 0 and not (self.lost or self.doubled or self.wrong)

    def __add__(self, other: Verdict) -> Verdict:
        """Return what two verdicts count together."""
        return Verdict(
            rows=self.rows + other.rows,
            lost=self.lost + other.lost,
            doubled=self.doubled + other.doubled,
            wrong=self.wrong + other.wrong,
            examples=self.examples + other.examples,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        told = {"rows": self.rows, "lost": self.lost, "doubled": self.doubled, "wrong": self.wrong}
        return told | ({"examples": list(self.examples)} if self.examples else {})


def judge(
    times: Mapping[Key, int], rows: Mapping[Key, Row], right: Mapping[Key, Row], *, since: int = 0
) -> Verdict:
    """
    Judge rows against the right ones.

    :param times: How often each was seen.
    :param rows: Their figures.
    :param right: All right ones; those newer than the newest that was seen are not due yet.
    :param since: Start of the first window that counts.
    """
    newest = max((key[0] for key in times), default=-1)
    due = {key: row for key, row in right.items() if since <= key[0] <= newest}
    seen = {key: row for key, row in rows.items() if key[0] >= since}
    lost = sorted(due.keys() - seen.keys())
    doubled = {key: times[key] - 1 for key in seen if times[key] > 1}
    wrong = sorted(key for key, row in seen.items() if not _is_right(row, due.get(key)))
    return Verdict(
        rows=len(due),
        lost=len(lost),
        doubled=sum(doubled.values()),
        wrong=len(wrong),
        examples=(
            *(f"lost {key}" for key in lost[:MOST_NAMED]),
            *(f"doubled {key}" for key in sorted(doubled)[:MOST_NAMED]),
            *(f"wrong {key}: {rows[key]} for {right.get(key)}" for key in wrong[:MOST_NAMED]),
        ),
    )


def _is_right(row: Row, right: Row | None) -> bool:
    if right is None or (row.n, row.total) != (right.n, right.total):
        return False
    return row.most in (None, right.most)


def judge_rows(found: Iterable[tuple[Key, Row]], right: Mapping[Key, Row]) -> Verdict:
    """Judge all rows of an output."""
    times, rows = Counter[Key](), dict[Key, Row]()
    for key, row in found:
        times[key] += 1
        rows[key] = row
    return judge(times, rows, right)
