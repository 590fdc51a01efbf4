"""
What earlier backups hold of a stream, for a new one to refer to.

Only what the newest backups use is known, and what a killed run left behind: an older backup's
files were purged from the checkpoint long ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoint.layout import file_path
from airflow_streaming.core.checkpoint.backup import Bundle, Member
from airflow_streaming.core.checkpoint.index import stamp_digest
from airflow_streaming.core.checkpoint.listing import FileStat
from airflow_streaming.core.checkpoint.ranges import to_ranges
from airflow_streaming.core.checkpoint.worth import Use, worth_referring

_HEADER: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierBundle:
    """
    A bundle that lies in the store.

    :param numbers: The members of it that are of interest, rising.
    :param is_checked: They are of the newest backup, whose checkpoints were found sound.
    """

    index: str
    index_size: int
    bundle: Bundle
    numbers: Sequence[int]
    is_checked: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a member lies: its bundle's index, and its number in it."""

    index: str
    number: int
    member: Member


class Earlier:
    """
    Members of earlier bundles by their path.

    :param bundles: The preferred ones first.
    :param avoided: Paths of objects that are about to be collected.
    """

    def __init__(
        self,
        stream: str,
        bundles: Iterable[EarlierBundle] = (),
        avoided: frozenset[str] = frozenset(),
    ) -> None:
        self.sizes: dict[str, int] = {}
        self.checked: set[tuple[str, str]] = set()
        """
        Path and digest of the members of the newest backup, all of which were found sound.

        What a killed or refused backup left in the store was not.
        """
        self._packed: dict[str, int] = {}
        self._places: dict[str, Place] = {}
        # The few paths that several bundles have, each with another content.
        self._hidden: dict[str, list[Place]] = {}
        self._worthy: frozenset[str] | None = None
        for one in bundles:
            self.sizes[one.index] = one.index_size
            self._packed[one.index] = sum(_cost(member) for member in one.bundle.members)
            for number in one.numbers:
                member = one.bundle.members[number]
                if one.is_checked:
                    self.checked.add((member.path, member.sha256))
                if not (member.is_alone and file_path(stream, member.sha256) in avoided):
                    self._note(Place(one.index, number, member))

    def expect(self, files: Iterable[tuple[str, FileStat]]) -> None:
        """Find out which bundles are worth referring to, if a backup had these files."""
        used: dict[str, list[int]] = {}
        cost: dict[str, int] = {}
        for path, stat in files:
            place = next((p for p in self._at(path) if _may_be(p.member, stat)), None)
            if place is None:
                continue
            used.setdefault(place.index, []).append(place.number)
            cost[place.index] = cost.get(place.index, 0) + _cost(place.member)
        self._worthy = worth_referring(self._uses(used, cost))

    def unread(self, path: str, size: int, stamp: str) -> Place | None:
        """Return where a file lies that was not written since, by its size and stamp."""
        for place in self._at(path) if stamp else ():
            if place.member.size == size and place.member.stamp == stamp_digest(stamp):
                return place
        return None

    def same(self, path: str, sha256: str) -> Place | None:
        """Return where a content lies under the same path."""
        return next((place for place in self._at(path) if place.member.sha256 == sha256), None)

    def is_worthy(self, place: Place) -> bool:
        """Tell whether the member's bundle is worth referring to."""
        return self._worthy is None or place.index in self._worthy

    def _note(self, place: Place) -> None:
        if self._places.setdefault(place.member.path, place) is not place:
            self._hidden.setdefault(place.member.path, []).append(place)

    def _at(self, path: str) -> Sequence[Place]:
        place = self._places.get(path)
        return () if place is None else (place, *self._hidden.get(path, ()))

    def _uses(self, used: Mapping[str, list[int]], cost: Mapping[str, int]) -> Iterable[Use]:
        for index, numbers in used.items():
            yield Use(
                index=index,
                used=cost[index],
                packed=self._packed[index],
                ranges=to_ranges(numbers).count(",") + 1,
            )


def _cost(member: Member) -> int:
    return 0 if member.is_alone else member.size + _HEADER


def _may_be(member: Member, stat: FileStat) -> bool:
    if member.size != stat.size:
        return False
    return not (stat.stamp and member.stamp) or member.stamp == stamp_digest(stat.stamp)
