"""
Which bundles of earlier backups a new backup refers to, and which files it writes again.

Referring to all bundles would write least. But every backup leaves a small bundle, so after a
thousand of them a restore would open a thousand packs for a few files each, and a pack with one
needed file could never be collected. So a bundle is dropped when little of it is used, and the
number of small remainders is limited; their files are written again, together, in one bundle.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MIN_USED: Final = 0.25
"""Less than this part of a pack in use: write it anew."""
SCRAP: Final = 1024 * 1024
"""With fewer bytes in use than this, a bundle is a small remainder."""
MAX_SCRAPS: Final = 60
"""With the new ones, a backup has some 64 small bundles at most."""
MAX_RANGES: Final = 40_000
"""A range takes 12 bytes of the manifest at most, which may have 1 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """
    The part of an earlier bundle that a new backup could use.

    :param used: Bytes of the members in its pack that the new backup has too, with their headers.
    :param packed: Bytes of all members in its pack.
    :param ranges: Number of contiguous runs of used members.
    """

    index: str
    used: int
    packed: int
    ranges: int


def worth_referring(uses: Iterable[Use]) -> frozenset[str]:
    """Return the indexes of the bundles that a new backup refers to."""
    mostly_used = [use for use in uses if use.used and use.used >= MIN_USED * use.packed]
    scraps = sorted((use for use in mostly_used if use.used < SCRAP), key=_rank)
    large = [use for use in mostly_used if use.used >= SCRAP]
    kept: set[str] = set()
    ranges = 0
    for use in sorted([*large, *scraps[:MAX_SCRAPS]], key=_fragmentation):
        ranges += use.ranges
        if ranges <= MAX_RANGES:
            kept.add(use.index)
    return frozenset(kept)


def _rank(use: Use) -> tuple[int, str]:
    return -use.used, use.index


def _fragmentation(use: Use) -> tuple[float, str]:
    return use.ranges / use.used, use.index
