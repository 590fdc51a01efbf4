"""
Key order: in which order Spark keeps the columns that duplicates are dropped by.

Up to four columns it is the order in the code. From five on, Spark before 4.3 takes them out of
Scala's hash set: in another order for every choice of names, and, when two hashes begin alike, in
another one in Scala 2.12 (Spark 3.5) than in 2.13 (Spark 4). Then the state of the one means
nothing to the other: with columns of several types Spark refuses it, and with columns of one type
it drops no duplicates any more, without a word. Spark 4.3 keeps the order in the code, but only in
new checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from airflow_streaming.core.compatibility.stored import StoreSchema
from airflow_streaming.core.compatibility.version.release import Release

MOST_ORDERED: Final = 4
"""So many columns keep their order in every release: Scala's small sets have no hashes."""

PIN: Final = "spark.sql.dropDuplicates.deterministicKeyOrder.enabled"
SINCE: Final = "4.3"
"""The first Spark that knows the setting."""

_BITS: Final = 5
_WORD: Final = 0xFFFFFFFF


_DUPLICATES: Final = ("__dummy__", "expiresAtMicros")
"""All that the two kinds of deduplication keep beside the key."""


def keeps_duplicates(schema: StoreSchema) -> bool:
    """Tell by its columns whether a store is that of a deduplication; Spark 3.5 names none."""
    return len(schema.value) == 1 and schema.value[0].name in _DUPLICATES


class KeyOrder(StrEnum):
    """How the target orders the columns, beside how they lie in the state."""

    SAME = "same"
    DIFFERENT = "different"
    UNTOLD = "untold"
    """Even the order that is there cannot be computed from the names."""


def compare_order(
    stored: StoreSchema, start: Release, target: Release, *, by_code: bool, is_pinned: bool
) -> KeyOrder:
    """
    Tell whether another Spark keeps the columns of a deduplication in the same order.

    :param by_code: Whether the checkpoint was begun with the order of the code.
    :param is_pinned: Whether its plans still say so; an older Spark leaves that out.
    """
    names = [column.name for column in stored.key]
    if len(names) <= MOST_ORDERED or start.minor == target.minor:
        return KeyOrder.SAME
    if is_pinned and not target.is_before(SINCE):
        return KeyOrder.SAME
    if not by_code and hashed_order(names, start) != names:
        return KeyOrder.UNTOLD
    return KeyOrder.SAME if hashed_order(names, target) == names else KeyOrder.DIFFERENT


def hashed_order(names: Sequence[str], release: Release) -> list[str]:
    """
    Return names in the order of Scala's hash set.

    Spark 3 is taken to be built with Scala 2.12, as it is when it comes from PyPI.
    """
    return _ordered(list(names), 0, nested_last=not release.is_before("4.0"))


def _ordered(names: list[str], level: int, *, nested_last: bool) -> list[str]:
    if level > 32 // _BITS:
        return names
    slots: dict[int, list[str]] = {}
    for name in names:
        slot = (_hash(name) >> (_BITS * level)) & ((1 << _BITS) - 1)
        slots.setdefault(slot, []).append(name)
    groups = [slots[slot] for slot in sorted(slots)]
    if nested_last:
        groups.sort(key=lambda group: len(group) > 1)
    return [
        name
        for group in groups
        for name in (
            group if len(group) == 1 else _ordered(group, level + 1, nested_last=nested_last)
        )
    ]


def _hash(text: str) -> int:
    """Return Java's hash of a text, mixed as Scala mixes it."""
    value = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _WORD
    value = (value + (~(value << 9) & _WORD)) & _WORD
    value ^= value >> 14
    value = (value + (value << 4 & _WORD)) & _WORD
    return value ^ value >> 10
