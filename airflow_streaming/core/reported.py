"""
Taking figures out of what Spark reports: every value is checked, and a wrong one counts as untold.

Reports come from another program, in several versions of it, with parts that third-party sources
fill in. A figure that cannot be read must cost that figure, never the batch's others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object of the report; an empty one when it is something else."""
    return value if isinstance(value, Mapping) else {}


def objects(value: Any) -> Sequence[Mapping[str, Any]]:
    """Return the objects in a list of the report."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def number(value: Any) -> float | None:
    """Return a finite number, also one that is written as text, as sources write their metrics."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if isfinite(found) else None


def amount(value: Any) -> float | None:
    """Return a number that is not negative."""
    found = number(value)
    return found if found is not None and found >= 0 else None


def whole(value: Any) -> int | None:
    """Return a count; ``None`` for a negative one, which is how Spark says that it has none."""
    found = amount(value)
    return None if found is None else int(found)


def numbers(values: Iterable[float | None]) -> list[float]:
    """Return those that were told."""
    return [value for value in values if value is not None]
