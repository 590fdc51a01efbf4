"""
Source offsets as Spark writes them: which of two is further.

Kafka and sources that follow it write a position for each partition of each topic, files a number
of their log, others a plain number. Anything else cannot be ordered, and that is said.
"""

from __future__ import annotations

import json
from typing import Any


def is_at_least(mine: str, other: str) -> bool | None:
    """Tell whether an offset is as far as another of the same source; ``None`` when unknown."""
    if mine == other:
        return True
    try:
        one, two = json.loads(mine), json.loads(other)
    except (ValueError, RecursionError):
        return None
    return _at_least(one, two)


def _at_least(mine: Any, other: Any) -> bool | None:
    if _is_number(mine) and _is_number(other):
        return bool(mine >= other)
    if not isinstance(mine, dict) or not isinstance(other, dict):
        return None
    # A partition that only one of them knows was added or removed; its position is as good as 0.
    answers = [
        _at_least(mine.get(key, _nothing(other.get(key))), other.get(key, _nothing(mine.get(key))))
        for key in mine.keys() | other.keys()
    ]
    if None in answers:
        return None
    return all(answers)


def _nothing(like: Any) -> Any:
    return {} if isinstance(like, dict) else 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
