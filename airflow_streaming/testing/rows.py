"""Comparing rows: every row counts, and how often it is there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Row = Mapping[str, Any]

EXAMPLES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """
    How found rows differ from expected ones; false when they do not.

    :param expected: Number of rows expected.
    :param found: Number of rows found.
    :param lost: Expected and not found.
    :param doubled: Found more often than expected.
    :param wrong: Found and not expected at all.
    :param examples: A few of them, each as JSON with a mark before it: ``-`` for a lost row, ``+``
        for one too many.
    """

    expected: int
    found: int
    lost: int
    doubled: int
    wrong: int
    examples: Sequence[str] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.wrong)


def compare_rows(
    found: Iterable[Row], expected: Iterable[Row], columns: Sequence[str] | None = None
) -> Difference:
    """
    Compare two sets of rows without regard to their order; a doubled row is a difference.

    :param columns: Compare these only; default: all.
    """
    there, wanted = _counted(found, columns), _counted(expected, columns)
    lost, surplus = wanted - there, there - wanted
    doubled = sum(count for row, count in surplus.items() if row in wanted)
    return Difference(
        expected=wanted.total(),
        found=there.total(),
        lost=lost.total(),
        doubled=doubled,
        wrong=surplus.total() - doubled,
        examples=[*(f"- {row}" for row in lost), *(f"+ {row}" for row in surplus)][:EXAMPLES],
    )


def _counted(rows: Iterable[Row], columns: Sequence[str] | None) -> Counter[str]:
    return Counter(
        json.dumps(
            {name: row[name] for name in columns} if columns is not None else dict(row),
            sort_keys=True,
            default=str,
        )
        for row in rows
    )
