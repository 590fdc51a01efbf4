"""
Buffers: what an aggregate keeps in state, by the names that Spark gives its columns.

``sum(v)`` keeps ``sum``, ``avg(v)`` keeps ``sum`` and ``count``. The names are not compared by
Spark, and tell a sum from a maximum. Of what is summed up they tell only the type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_FUNCTION: Final = re.compile(r"(\w+)\(")
_BUFFERS: Final = {
    "sum": ("sum",),
    "try_sum": ("sum",),
    "count": ("count",),
    "avg": ("sum", "count"),
    "mean": ("sum", "count"),
    "max": ("max",),
    "min": ("min",),
    "first": ("first", "valueSet"),
    "last": ("last", "valueSet"),
    "first_value": ("first", "valueSet"),
    "last_value": ("last", "valueSet"),
    "collect_set": ("buf",),
    "collect_list": ("buf",),
    "stddev": ("n", "avg", "m2"),
    "stddev_samp": ("n", "avg", "m2"),
    "stddev_pop": ("n", "avg", "m2"),
    "variance": ("n", "avg", "m2"),
    "var_samp": ("n", "avg", "m2"),
    "variance_samp": ("n", "avg", "m2"),
    "variance_pop": ("n", "avg", "m2"),
    "var_pop": ("n", "avg", "m2"),
}
_OPTIONAL: Final = frozenset({"isEmpty"})
"""A decimal sum keeps it besides, where overflow gives null."""


def buffers_of(values: Sequence[str]) -> list[str] | None:
    """Return the names of the columns that aggregates keep; ``None`` when one is not known."""
    found: list[str] = []
    for value in values:
        match = _FUNCTION.match(value)
        names = _BUFFERS.get(match[1].lower()) if match else None
        if names is None or " FILTER " in value:
            return None
        found += names
    return found


def without_optional(names: Sequence[str]) -> list[str]:
    """Return the names of stored columns without those that only some Sparks keep."""
    return [name for name in names if name not in _OPTIONAL]
