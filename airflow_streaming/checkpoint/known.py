"""
Finds out what a new backup may refer to: bundles of the newest backups, and of killed runs.

What cannot be trusted is left out, and is then written anew under the same name, which repairs it:
bundles whose objects are missing, of another size or about to be collected, and all of a backup
whose last verification found damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from airflow_streaming.checkpoint.blobs import Stored
from airflow_streaming.checkpoint.doomed import DoomedObjects
from airflow_streaming.checkpoint.earlier import Earlier, EarlierBundle
from airflow_streaming.checkpoint.layout import Sort, folder, index_path, object_name, pack_path
from airflow_streaming.checkpoint.publishing import stored_sizes
from airflow_streaming.core.checkpoint.backup import Backup, Bundle
from airflow_streaming.core.checkpoint.ranges import from_ranges
from airflow_streaming.exceptions import BackupDamaged, RecordError

if TYPE_CHECKING:
    from airflow_streaming.checkpoint.store import BackupStore

NEWEST: Final = 3
"""Backups that are referred to; a checkpoint has little that only older ones have."""

MAX_LEFT_OVER: Final = 64
"""Bundles of killed runs that are looked into, the newest first."""

DAMAGED: Final = "damaged_objects"
"""Fact of a verification: how many objects of the store were not what was written."""


def known_to(store: BackupStore, stream: str) -> Earlier:
    """Return what earlier backups of a stream hold."""
    avoided = DoomedObjects(store.blobs, stream).doomed()
    look = _Look(store, stream, avoided)
    return Earlier(stream, [*look.referred(), *look.left_over()], avoided)


class _Look:
    def __init__(self, store: BackupStore, stream: str, avoided: frozenset[str]) -> None:
        self._store, self._stream, self._avoided = store, stream, avoided
        self._sizes = stored_sizes(store.blobs, stream)
        self._newest = store.backups(stream)[-NEWEST:][::-1]
        distrusted = filter(self._is_damaged, self._newest)
        self._seen = {use.index for backup in distrusted for use in backup.bundles}

    def referred(self) -> Iterator[EarlierBundle]:
        for backup in self._newest:
            for use in backup.bundles:
                bundle = self._bundle(use.index, use.index_size)
                if bundle is not None and _can_choose(use.chosen, bundle):
                    yield EarlierBundle(
                        index=use.index,
                        index_size=use.index_size,
                        bundle=bundle,
                        numbers=from_ranges(use.chosen, len(bundle.members)),
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

    def _is_damaged(self, backup: Backup) -> bool:
        said = self._store.verifications(backup.id, self._stream)
        return bool(said) and said[-1].facts.get(DAMAGED, "0") != "0"


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
