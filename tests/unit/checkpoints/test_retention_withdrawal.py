"""A backup that lost an object to retention is withdrawn, and no other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from airflow_streaming.checkpoints.vault.layout import manifest_path
from airflow_streaming.checkpoints.vault.retention import Retained
from airflow_streaming.checkpoints.vault.store import BackupStore
from tests.unit.checkpoints.remembered import Call, RememberedBlobs
from tests.unit.checkpoints.retaining import (
    WANTED,
    Killed,
    Taking,
    due,
    kept,
    lost,
    objects,
    retain,
    settle,
)


class Unpublished:
    """A backup whose objects are all sent and were seen, and whose manifest is not created yet."""

    def __init__(self, blobs: RememberedBlobs) -> None:
        other = blobs.copy()
        self.id = Taking(BackupStore(other), WANTED).finish().id
        self._path = manifest_path("orders", self.id)
        self._manifest = other.objects.pop(self._path)
        blobs.objects.update(other.objects)
        self._blobs = blobs

    def create_and_die(self) -> None:
        """Create the manifest as somebody does who is killed before looking again."""
        self._blobs.objects[self._path] = self._manifest


def retain_until_killed(
    blobs: RememberedBlobs, act: Callable[[], None], deletion: int, more: int
) -> tuple[int, Retained | None]:
    """
    Act before the given deletion of an object, and be killed some durable steps later.

    :return: How many objects were about to be deleted, and what was done unless it was killed.
    """
    deletions, steps = 0, -1

    def meanwhile(call: Call) -> None:
        nonlocal deletions, steps
        is_object = "/packs/" in call.path or "/files/" in call.path
        if call.name == "delete" and is_object and not call.is_done:
            deletions += 1
            if deletions == deletion:
                steps = 0
                act()
        steps += steps >= 0 and call.is_durable
        if steps > more:
            raise Killed

    blobs.hook = meanwhile
    done = None
    with contextlib.suppress(Killed):
        done = retain(blobs)
    blobs.hook = lambda call: None
    return deletions, done


def test_a_backup_killed_before_its_second_look_is_withdrawn_by_the_run_that_deletes() -> None:
    beginning, deletion, withdrawn = due(), 1, 0
    while True:
        blobs = beginning.copy()
        backup = Unpublished(blobs)
        deletions, done = retain_until_killed(blobs, backup.create_and_die, deletion, 10**6)
        if deletions < deletion:
            break
        assert lost(blobs) == set()
        assert done is not None
        withdrawn += any(f"Withdrew backup {backup.id} of orders" in one for one in done.problems)
        settle(blobs)
        assert lost(blobs) == set()
        deletion += 1

    assert withdrawn == deletion - 1 > 0


def test_a_backup_is_withdrawn_by_the_next_run_when_the_one_that_deleted_was_killed_too() -> None:
    beginning, more, done = due(), 0, None
    while done is None:
        blobs = beginning.copy()
        _, done = retain_until_killed(blobs, Unpublished(blobs).create_and_die, 1, more)
        settle(blobs)
        assert lost(blobs) == set()
        assert objects(blobs) == kept(blobs)
        more += 1

    assert more > 4


def test_a_backup_that_lost_an_object_to_somebody_else_is_never_withdrawn() -> None:
    blobs = due()
    (*_, newest) = BackupStore(blobs).backups("orders")
    blobs.delete(min(BackupStore(blobs).needed(newest)))

    done = retain(blobs)

    assert newest.id in {one.id for one in BackupStore(blobs).listed("orders")}
    assert not any("withdrawn" in one for one in done.problems)
