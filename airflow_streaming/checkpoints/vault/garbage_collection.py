"""
Collect unreferenced objects in two steps, in different runs.

The first step writes a *doomed* record of unreferenced objects, and then the list of running
holders. The second step runs later: at least the grace period later by the store's clock, and after
all listed holders ended. It marks the record as going, reads the manifests again and deletes the
objects that are still unreferenced. Before it removes the record, it withdraws backups that were
created meanwhile and name a deleted object: their publisher may have been killed before it noticed.
``checkpoint.doomed`` explains why no backup can lose an object.

Leftovers of killed backups are unreferenced objects like others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.progress import Phase, Progress, ProgressNow
from airflow_streaming.checkpoints.vault.holds import (
    MOST_OBJECTS,
    ActiveHolders,
    DoomedObjects,
    GcCandidate,
    GcEntry,
    Held,
)
from airflow_streaming.checkpoints.vault.layout import index_path
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import BackupDamaged, RecordError
from airflow_streaming.storage.blobs import is_unfinished

GRACE: Final = timedelta(hours=1)
"""How long objects stay listed as doomed before they may be deleted."""
SILENT: Final = timedelta(minutes=10)
"""Holds are rewritten every 30 s; an older hold belongs to a killed process."""
FORGOTTEN: Final = timedelta(days=1)
"""Records of holds, and unfinished files, that were not written for so long are swept."""
_FOLDERS: Final = ("backups", "packs", "files", "holds", "doomed")
"""Folders in which a killed writer may leave an unfinished file."""


class Collected(NamedTuple):
    """
    The result of a collection.

    :param objects: Number of objects deleted; ``size`` is their bytes.
    :param waiting: Number of doomed objects inside the grace period.
    :param problems: Reasons why objects were left.
    """

    objects: int = 0
    size: int = 0
    waiting: int = 0
    problems: tuple[str, ...] = ()

    def plus(self, other: Collected) -> Collected:
        """Return both together."""
        return Collected(
            objects=self.objects + other.objects,
            size=self.size + other.size,
            waiting=self.waiting + other.waiting,
            problems=self.problems + other.problems,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageCollector:
    """
    A collection run for one stream.

    :param now: The time of day, for the records.
    :param stored: The time by the store's clock, or ``None`` if unknown. Then the run deletes no
        objects and treats every hold as live.
    """

    store: BackupStore
    stream: str
    by: str
    now: datetime
    stored: datetime | None
    progress: Progress

    @property
    def records(self) -> DoomedObjects:
        """The stream's doomed records."""
        return DoomedObjects(self.store.blobs, self.stream)

    def living(self) -> list[Held]:
        """Return the holds of those who are at work now."""
        holds = self.store.holds(self.stream)
        return [held for held in holds if not self._is_silent(held, SILENT)]

    def collect(self, grace: timedelta) -> Collected:
        """Delete what earlier runs doomed, as far as its time has come."""
        total = Collected()
        for lying in self.records.lying():
            if not lying.has_objects:
                continue
            total = total.plus(self._collect_one(lying, grace))
        return total

    def doom(self) -> tuple[int, str]:
        """
        List unreferenced objects for a later run.

        :returns: The number of objects, and the reason for zero.
        """
        # In this order: an object seen here was either written by a process whose hold is still
        # there, or the manifest that refers to it is.
        objects = self.store.objects(self.stream)
        if any(is_writing(held) for held in self.living()):
            return 0, "A backup is being taken, so nothing was listed for deletion this time."
        try:
            used = self.store.referenced(self.stream) | self.records.doomed()
        except (BackupDamaged, RecordError) as err:
            return 0, f"Nothing was listed for deletion: {err}"
        unused = [stored.path for stored in objects if stored.path not in used]
        for start in range(0, len(unused), MOST_OBJECTS):
            part = unused[start : start + MOST_OBJECTS]
            self._watch(self.records.add(part, by=self.by, at=self.now).id, self._beats())
        return len(unused), ""

    def sweep(self) -> None:
        """Delete obsolete records: parts of removed entries and leftovers of killed writers."""
        for lying in self.records.lying():
            if not lying.has_objects:
                self.records.forget(lying.id)
        self._sweep_checks()
        for held in self.store.holds(self.stream):
            if self._is_silent(held, FORGOTTEN):
                self.store.blobs.delete(f"{self.stream}/holds/{held.id}.json")
        for name in _FOLDERS:
            self._sweep_unfinished(f"{self.stream}/{name}")

    def _sweep_checks(self) -> None:
        blobs, folder = self.store.blobs, f"{self.stream}/checks"
        # In this order, because a backup is listed before it can be checked.
        checked = [stored.name for stored in blobs.entries(folder) if stored.is_folder]
        known = {listed.id for listed in self.store.listed(self.stream)}
        for backup_id in sorted(set(checked) - known):
            for stored in blobs.entries(f"{folder}/{backup_id}"):
                blobs.delete(f"{folder}/{backup_id}/{stored.name}")

    def _sweep_unfinished(self, folder: str) -> None:
        for stored in self.store.blobs.entries(folder):
            is_old = self._is_older(stored.modified, FORGOTTEN)
            if is_old and is_unfinished(stored.name) and not stored.is_folder:
                self.store.blobs.delete(f"{folder}/{stored.name}")

    def _collect_one(self, lying: GcEntry, grace: timedelta) -> Collected:
        try:
            record = self.records.read(lying.id)
            if record is None:
                return Collected()
            if not self._is_due(lying, grace):
                return Collected(waiting=len(record.objects))
        except RecordError as err:
            # The next run lists these objects again.
            self.records.forget(lying.id)
            return Collected(problems=(str(err),))
        withdrawn: tuple[str, ...] = ()
        try:
            if lying.is_going:
                # The run that was killed deleted, and may not have looked for such backups.
                withdrawn = self._withdraw(self._missing(record))
            return self._delete(record).plus(Collected(problems=withdrawn))
        except (BackupDamaged, RecordError) as err:
            return Collected(problems=(*withdrawn, f"Nothing was deleted: {err}"))

    def _delete(self, record: GcCandidate) -> Collected:
        # A manifest that cannot be read is better found before the mark, which stays.
        self.store.referenced(self.stream)
        # From here on no backup is published that needs one of them; see ``checkpoint.doomed``.
        self.records.mark(record.id, by=self.by, at=self.now)
        used = self.store.referenced(self.stream)
        # The record was read from the store, so it may not touch other streams' objects.
        sizes = {stored.path: stored.size for stored in self.store.objects(self.stream)}
        unused = [path for path in record.objects if path in sizes and path not in used]
        for done, path in enumerate(unused, start=1):
            self.store.delete_object(path)
            self._tell("objects", done, len(unused))
        done_so_far = Collected(objects=len(unused), size=sum(sizes[path] for path in unused))
        try:
            withdrawn = self._withdraw(frozenset(unused))
        except (BackupDamaged, RecordError) as err:
            return done_so_far._replace(problems=(str(err),))
        self.records.forget(record.id)
        return done_so_far._replace(problems=withdrawn)

    def _missing(self, record: GcCandidate) -> frozenset[str]:
        there = {stored.path for stored in self.store.objects(self.stream)}
        return frozenset(record.objects) - there

    def _withdraw(self, deleted: frozenset[str]) -> tuple[str, ...]:
        told = []
        for listed in self.store.listed(self.stream) if deleted else ():
            if listed.backup is None:
                raise BackupDamaged(
                    f"Backup {listed.id} may refer to deleted objects: {listed.problem} Verify "
                    "the backup; delete it if it is damaged."
                )
            if self._names_any(listed.backup, deleted):
                self.store.delete_backup(listed.id, self.stream)
                told.append(
                    f"Withdrew backup {listed.id} of {self.stream}: its process was stopped while "
                    "publishing, and the backup refers to deleted objects. Take a new backup."
                )
        return tuple(told)

    def _names_any(self, backup: Backup, deleted: frozenset[str]) -> bool:
        # Indexes first: without its index, the members of a bundle are unknown.
        indexes = {index_path(self.stream, use.index) for use in backup.bundles}
        return not (deleted.isdisjoint(indexes) and deleted.isdisjoint(self.store.needed(backup)))

    def _is_due(self, lying: GcEntry, grace: timedelta) -> bool:
        bystanders = self.records.bystanders(lying.id) if lying.has_bystanders else None
        if bystanders is None:
            # The run that made the record was killed before it had looked around.
            self._watch(lying.id, self._beats())
            return False
        if self.stored is None or lying.watched is None or self.stored - lying.watched < grace:
            return False
        at_work = dict(self._still_at_work(bystanders))
        if at_work:
            self._watch(lying.id, at_work)
        return not at_work

    def _still_at_work(self, bystanders: ActiveHolders) -> Iterator[tuple[str, int]]:
        for held in self.store.holds(self.stream):
            before = bystanders.beats.get(held.id)
            if before is not None and (before != _beats(held) or not self._is_silent(held, SILENT)):
                yield held.id, _beats(held)

    def _watch(self, doomed_id: str, beats: dict[str, int]) -> None:
        self.records.watch(ActiveHolders(doomed=doomed_id, beats=beats))

    def _beats(self) -> dict[str, int]:
        return {held.id: _beats(held) for held in self.store.holds(self.stream)}

    def _is_silent(self, held: Held, limit: timedelta) -> bool:
        return self._is_older(held.beaten, limit)

    def _is_older(self, moment: datetime | None, limit: timedelta) -> bool:
        if moment is None or self.stored is None:
            return False
        return self.stored - moment > limit

    def _tell(self, subject: str, done: int, total: int) -> None:
        self.progress(ProgressNow(phase=Phase.REMOVE, subject=subject, files=done, of=total))


def _beats(held: Held) -> int:
    return held.hold.beats if held.hold is not None else 0


def is_writing(held: Held) -> bool:
    return held.hold is not None and held.hold.what.startswith("backup")
