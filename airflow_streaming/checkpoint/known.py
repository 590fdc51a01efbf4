"""
Finds out what a new backup may refer to: bundles of the newest backups, and of killed runs.

What cannot be trusted is left out, and is then written anew under the same name, which repairs it:
objects that are missing, of another size or about to be collected, and those that a verification
of any of the stream's backups found damaged and no verification as deep has found whole since.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from airflow_streaming.checkpoint.blobs import Stored
from airflow_streaming.checkpoint.doomed import DoomedObjects
from airflow_streaming.checkpoint.earlier import Earlier, EarlierBundle
from airflow_streaming.checkpoint.layout import Sort, folder, index_path, object_name, pack_path
from airflow_streaming.checkpoint.publishing import stored_sizes
from airflow_streaming.core.checkpoint.backup import Backup, Bundle, Level, Verification
from airflow_streaming.core.checkpoint.ranges import from_ranges
from airflow_streaming.core.checkpoint.standing import Standing, standing
from airflow_streaming.exceptions import BackupDamaged, RecordError

if TYPE_CHECKING:
    from airflow_streaming.checkpoint.store import BackupStore

NEWEST: Final = 3
"""Backups that are referred to; a checkpoint has little that only older ones have."""

MAX_LEFT_OVER: Final = 64
"""Bundles of killed runs that are looked into, the newest first."""

DAMAGED: Final = "damaged_objects"
"""Fact of a verification: how many objects of the store were not what was written."""

NAMED: Final = "damaged"
"""Fact of a verification: the paths of those objects, parted by spaces, the first of them."""

MAX_NAMED: Final = 500
"""Paths that are named; of a backup with more damage nothing at all is trusted."""


def known_to(store: BackupStore, stream: str) -> Earlier:
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
    return Earlier(stream, [*look.referred(), *look.left_over()], avoided)


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
        """Return a bundle that was not looked at before, when it is all there."""
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
    What the verifications of one backup found damaged, as far as it still counts.

    :param is_more: There is more than was named.
    """

    named: frozenset[str] = frozenset()
    is_more: bool = False


def _damage(said: Iterable[Verification]) -> _Damage:
    found, before = _Damage(), []
    for verification in said:
        before.append(verification)
        if standing(before) is not Standing.DAMAGED or _has_read_all(verification):
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
        if name is not None and name.sort is Sort.INDEX and not one.is_folder:
            yield name.sha256, one.size


def _can_choose(chosen: str, bundle: Bundle) -> bool:
    try:
        from_ranges(chosen, len(bundle.members))
    except RecordError:
        return False
    return True
