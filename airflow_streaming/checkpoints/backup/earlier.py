"""
Contents of earlier backups, for a new backup to refer to.

Only the newest backups and the leftovers of a killed run are read: files of older backups were
purged from the checkpoint long ago.

Untrusted objects are left out and written again under the same name, which repairs them: objects
that are missing, of another size, about to be collected, or damaged by the newest verification of
their level.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.backup.index import from_ranges, stamp_digest, to_ranges
from airflow_streaming.checkpoints.backup.records import (
    Backup,
    Bundle,
    Member,
    Said,
    UnreadableVerification,
    Verification,
)
from airflow_streaming.checkpoints.backup.reuse import Use, worth_referring
from airflow_streaming.checkpoints.vault.backup_trust import BackupTrust, standing
from airflow_streaming.checkpoints.vault.holds import DoomedObjects
from airflow_streaming.checkpoints.vault.layout import (
    ObjectKind,
    file_path,
    folder,
    index_path,
    object_name,
    pack_path,
)
from airflow_streaming.checkpoints.vault.manifests import stored_sizes
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import BackupDamaged, RecordError
from airflow_streaming.model.arguments.choices import Level
from airflow_streaming.model.spark.listing import FileStat
from airflow_streaming.storage.blobs import Stored

_HEADER: Final = 512

NEWEST: Final = 3
"""Backups that are referred to; a checkpoint has little that only older ones have."""
MAX_LEFT_OVER: Final = 64
"""Bundles of killed runs that are looked into, the newest first."""
DAMAGED: Final = "damaged_objects"
"""Fact of a verification: the number of damaged objects."""
NAMED: Final = "damaged"
"""Fact of a verification: the paths of those objects, parted by spaces, the first of them."""
MAX_NAMED: Final = 500
"""Paths that are named; of a backup with more damage nothing at all is trusted."""

_FORGIVEN: Final = (BackupTrust.VERIFIED, BackupTrust.UNVERIFIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierBundle:
    """
    A bundle in the store.

    :param numbers: Its reusable members, in order.
    :param is_checked: They belong to the newest backup, whose checkpoints were sound.
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


class EarlierBackups:
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
        Path and digest of the members of the newest backup, which were all sound.

        Leftovers of a killed or refused backup were not checked.
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


def known_to(store: BackupStore, stream: str) -> EarlierBackups:
    """Return what earlier backups of a stream hold."""
    listed = store.listed(stream)
    checks = store.at_once(lambda one: _damage(store.verifications(one.id, stream)), listed)
    doomed = DoomedObjects(store.blobs, stream).doomed()
    avoided = doomed.union(*(damage.named for damage in checks))
    for one, damage in zip(listed, checks, strict=True):
        if damage.is_more and one.backup is not None:
            avoided = avoided.union(_all_of(store, one.backup))
    backups = [one.backup for one in listed if one.backup is not None]
    look = _Look(store, stream, avoided, backups[-NEWEST:])
    return EarlierBackups(stream, [*look.referred(), *look.left_over()], avoided)


class _Look:
    def __init__(
        self,
        store: BackupStore,
        stream: str,
        avoided: frozenset[str],
        newest: Sequence[Backup],
    ) -> None:
        self._store, self._stream, self._avoided = store, stream, avoided
        self._sizes = stored_sizes(store.blobs, stream)
        self._newest = newest[::-1]
        self._seen: set[str] = set()

    def referred(self) -> Iterator[EarlierBundle]:
        for age, backup in enumerate(self._newest):
            for use in backup.bundles:
                bundle = self._bundle(use.index, use.index_size)
                if bundle is not None and _can_choose(use.chosen, bundle):
                    yield EarlierBundle(
                        index=use.index,
                        index_size=use.index_size,
                        bundle=bundle,
                        numbers=from_ranges(use.chosen, len(bundle.members)),
                        is_checked=age == 0,
                    )

    def left_over(self) -> Iterator[EarlierBundle]:
        for index, size in self._indexes_since_newest():
            bundle = self._bundle(index, size)
            if bundle is not None:
                numbers = range(len(bundle.members))
                yield EarlierBundle(index=index, index_size=size, bundle=bundle, numbers=numbers)

    def _bundle(self, index: str, size: int) -> Bundle | None:
        """Return a new bundle if it is complete."""
        path = index_path(self._stream, index)
        if index in self._seen or path in self._avoided or self._sizes.get(path) != size:
            return None
        self._seen.add(index)
        try:
            bundle = self._store.bundle(self._stream, index)
        except (BackupDamaged, RecordError):
            return None
        return bundle if self._has_pack(bundle) else None

    def _has_pack(self, bundle: Bundle) -> bool:
        if not bundle.pack:
            return True
        path = pack_path(self._stream, bundle.pack)
        return path not in self._avoided and self._sizes.get(path) == bundle.pack_size

    def _indexes_since_newest(self) -> list[tuple[str, int]]:
        entries = self._store.blobs.entries(folder(self._stream, "packs"))
        manifests = self._store.blobs.entries(folder(self._stream, "backups"))
        since = max((one.modified for one in manifests if one.modified is not None), default=None)
        later = [
            one
            for one in entries
            if since is None or (one.modified is not None and one.modified >= since)
        ]
        later.sort(key=lambda one: (str(one.modified or ""), one.name), reverse=True)
        return list(_indexes(self._stream, later[: 2 * MAX_LEFT_OVER]))[:MAX_LEFT_OVER]


class _Damage(NamedTuple):
    """
    Objects of one backup that verifications found damaged and no later one found whole.

    :param is_more: The list is incomplete.
    """

    named: frozenset[str] = frozenset()
    is_more: bool = False


def _damage(verifications: Iterable[Said]) -> _Damage:
    found = _Damage()
    before: list[Said] = []
    for verification in verifications:
        before.append(verification)
        if isinstance(verification, UnreadableVerification):
            # It may have found anything, so nothing of this backup is referred to.
            found = _Damage(found.named, is_more=True)
            continue
        if standing(before) in _FORGIVEN or _has_read_all(verification):
            found = _Damage()
        named = verification.facts.get(NAMED, "").split()
        count = verification.facts.get(DAMAGED, "0")
        found = _Damage(found.named.union(named), found.is_more or count != str(len(named)))
    return found


def _all_of(store: BackupStore, backup: Backup) -> set[str]:
    found: set[str] = set()
    for use in backup.bundles:
        found.add(index_path(backup.stream, use.index))
        # An index that cannot be read is not referred to, nor what only it lists.
        with contextlib.suppress(BackupDamaged, RecordError):
            found.update(store.needed(replace(backup, bundles=(use,))))
    return found


def _has_read_all(verification: Verification) -> bool:
    """Tell whether every byte was read and was right, though a drill may have failed after that."""
    return verification.level is not Level.QUICK and verification.facts.get(DAMAGED) == "0"


def _indexes(stream: str, entries: Iterable[Stored]) -> Iterator[tuple[str, int]]:
    for one in entries:
        name = object_name(f"{folder(stream, 'packs')}/{one.name}")
        if name is not None and name.sort is ObjectKind.INDEX and not one.is_folder:
            yield name.sha256, one.size


def _can_choose(chosen: str, bundle: Bundle) -> bool:
    try:
        from_ranges(chosen, len(bundle.members))
    except RecordError:
        return False
    return True
