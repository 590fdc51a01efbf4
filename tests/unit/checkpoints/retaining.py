"""A store with a history of backups, and what a run of retention leaves of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import pytest

from airflow_streaming.checkpoints.backup.bundles import writer_of
from airflow_streaming.checkpoints.backup.records import Backup, Member, QueryBackup, Verification
from airflow_streaming.checkpoints.vault.retention import Retained, apply_retention
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.model.arguments.choices import Level, Origin
from airflow_streaming.model.arguments.keeping import RetentionPolicy
from tests.unit.checkpoints.remembered import NOON, Call, RememberedBlobs

LAST: Final = RetentionPolicy(keep_last=1)
LEFT: Final = {"q/state/0/0/9.zip": b"stored alone"}
HOUR: Final = timedelta(hours=1)


class Killed(BaseException):
    """The process is gone."""


def files(*names: str) -> Mapping[str, bytes]:
    return {name: f"content of {name}".encode() for name in names}


class Taking:
    """A backup that is being taken, step by step."""

    def __init__(
        self, store: BackupStore, content: Mapping[str, bytes], checkpoints: Sequence[str] = ()
    ) -> None:
        self._store, self._content, self._checkpoints = store, content, checkpoints
        self._hold = store.hold("orders", "backup", store.new_id(NOON))
        self._hold.__enter__()
        self._writer = writer_of(store, "orders")
        self._writer.expect(())
        self.now = store.blobs.now  # type: ignore[attr-defined]

    def finish(self) -> Backup:
        try:
            with self._writer as writer:
                members = [self._add(path, data) for path, data in self._content.items()]
                uses = writer.close(members)
            backup = self._described(uses, members)
            self._store.publish(backup)
        finally:
            self._hold.__exit__(None, None, None)
        return backup

    def _add(self, path: str, data: bytes) -> Member:
        is_large = path.endswith(".zip")
        return self._writer.add_large(path, [data]) if is_large else self._writer.add(path, data)

    def _described(self, uses: Any, members: Any) -> Backup:
        return Backup(
            id=self._store.new_id(self.now),
            stream="orders",
            begun_at=self.now,
            finished_at=self.now,
            origin=Origin.SCHEDULED,
            by="test",
            queries=tuple(map(_query, self._checkpoints)),
            bundles=uses,
            files=len(members),
            size=sum(member.size for member in members),
        )


def take(
    blobs: RememberedBlobs, content: Mapping[str, bytes], checkpoints: Sequence[str] = ()
) -> Backup:
    blobs.wait(HOUR)
    return Taking(BackupStore(blobs), content, checkpoints).finish()


def _query(checkpoint: str) -> QueryBackup:
    return QueryBackup(folder="q", checkpoint=checkpoint, query_id="q-1", batch=1, planned=1)


def say(store: BackupStore, backup: Backup, *problems: str) -> None:
    found = Verification(
        backup=backup.id,
        level=Level.FULL,
        verified_at=backup.begun_at,
        by="test",
        problems=problems,
        manifest=store.manifest_digest(backup.id, "orders"),
    )
    store.record(found, "orders")


def retain(blobs: RememberedBlobs, **changes: Any) -> Retained:
    asked: dict[str, Any] = {"policy": LAST, "by": "test", "clock": lambda: blobs.now}
    return apply_retention(BackupStore(blobs), "orders", **{**asked, **changes})


def objects(blobs: RememberedBlobs) -> set[str]:
    return {stored.path for stored in BackupStore(blobs).objects("orders")}


def lost(blobs: RememberedBlobs) -> set[str]:
    """Return the objects that a listed backup needs and that are gone."""
    store = BackupStore(blobs)
    needed = {path for backup in store.backups("orders") for path in store.needed(backup)}
    return needed - objects(blobs)


def history() -> RememberedBlobs:
    """Return a store with three backups that share a file, and what a killed backup has left."""
    blobs = RememberedBlobs()
    shared = {"q/state/0/0/1.zip": b"stored alone and shared"}
    backups = [take(blobs, {**shared, **files(f"q/offsets/{n}")}) for n in range(3)]
    say(BackupStore(blobs), backups[0])
    say(BackupStore(blobs), backups[2])
    leave_a_killed_backup(blobs, {**files("q/offsets/99"), **LEFT})
    return blobs


def leave_a_killed_backup(blobs: RememberedBlobs, content: Mapping[str, bytes]) -> None:
    def die(call: Call) -> None:
        if call.name == "delete" or (call.name == "create" and "/backups/" in call.path):
            raise Killed

    blobs.hook = die
    with pytest.raises(Killed):
        take(blobs, content)
    blobs.hook = lambda call: None
    # Its hold stops beating. A process that is gone has no threads either.
    blobs.wait(HOUR)


def kept(blobs: RememberedBlobs) -> set[str]:
    return set(BackupStore(blobs).referenced("orders"))


def settle(blobs: RememberedBlobs, runs: int = 4) -> None:
    """Let runs of retention follow each other; after four there is nothing left to do."""
    for _ in range(runs):
        blobs.wait(2 * HOUR)
        retain(blobs)


def due() -> RememberedBlobs:
    """Return a store whose doomed objects are due, with one more backup to be removed."""
    blobs = history()
    retain(blobs)
    take(blobs, files("q/offsets/7"))
    blobs.wait(2 * HOUR)
    return blobs


# What the killed backup has left, what the removed ones had, and what is new. The large file is
# stored under the same name again, which is that of a doomed object.
WANTED: Final = {**files("q/offsets/99", "q/offsets/0", "q/offsets/55"), **LEFT}
