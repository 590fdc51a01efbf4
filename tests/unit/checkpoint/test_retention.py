"""Old backups go, their objects later, and no listed backup ever loses one of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

import pytest

from airflow_streaming.checkpoint.doomed import DoomedObjects
from airflow_streaming.checkpoint.layout import manifest_path
from airflow_streaming.checkpoint.retention import Retained, apply_retention
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.core.checkpoint.backup import Backup, Level, Member, Origin, Verification
from airflow_streaming.core.checkpoint.retention import RetentionPolicy
from airflow_streaming.exceptions import CheckpointBusy
from tests.unit.checkpoint.remembered import NOON, Call, RememberedBlobs

LAST: Final = RetentionPolicy(keep_last=1)
LEFT: Final = {"q/state/0/0/9.zip": b"stored alone"}
HOUR: Final = timedelta(hours=1)


class Killed(BaseException):
    """The process is gone."""


def files(*names: str) -> Mapping[str, bytes]:
    return {name: f"content of {name}".encode() for name in names}


class Taking:
    """A backup that is being taken, step by step."""

    def __init__(self, store: BackupStore, content: Mapping[str, bytes]) -> None:
        self._store, self._content = store, content
        self._hold = store.hold("orders", "backup", store.new_id(NOON))
        self._hold.__enter__()
        self._writer = store.writer("orders")
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
            queries=(),
            bundles=uses,
            files=len(members),
            size=sum(member.size for member in members),
        )


def take(blobs: RememberedBlobs, content: Mapping[str, bytes]) -> Backup:
    blobs.wait(HOUR)
    return Taking(BackupStore(blobs), content).finish()


def say(store: BackupStore, backup: Backup, *problems: str) -> None:
    found = Verification(
        backup=backup.id,
        level=Level.FULL,
        verified_at=backup.begun_at,
        by="test",
        problems=problems,
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


def test_manifests_go_at_once_and_what_nothing_refers_to_an_hour_later() -> None:
    blobs = history()
    before = objects(blobs)

    first = retain(blobs)
    assert (len(first.removed), first.deleted) == (2, 0)
    assert objects(blobs) == before
    blobs.wait(HOUR)
    second = retain(blobs)

    (left,) = BackupStore(blobs).backups("orders")
    assert objects(blobs) == set(BackupStore(blobs).needed(left))
    assert (second.deleted, second.waiting) == (first.doomed, 0)
    assert second.deleted_size > 0
    assert DoomedObjects(blobs, "orders").lying() == []


def test_nothing_is_deleted_before_the_grace_is_over_by_the_stores_clock() -> None:
    blobs = history()
    retain(blobs)
    before = objects(blobs)

    blobs.wait(HOUR - timedelta(seconds=1))
    early = retain(blobs, clock=lambda: NOON + timedelta(days=9999))

    assert (early.deleted, early.waiting) == (0, len(before) - len(before & kept(blobs)))
    assert objects(blobs) == before


def kept(blobs: RememberedBlobs) -> set[str]:
    return set(BackupStore(blobs).referenced("orders"))


def test_a_dry_run_says_what_would_go_and_writes_nothing() -> None:
    blobs = history()
    before = dict(blobs.objects)

    planned = retain(blobs, dry_run=True)

    assert blobs.objects == before
    assert planned.removed == retain(blobs).removed


@pytest.mark.parametrize(
    "hours", [pytest.param(10**6, id="ahead"), pytest.param(-(10**4), id="back")]
)
def test_a_clock_that_jumps_removes_no_backup_by_its_age(hours: int) -> None:
    blobs = history()
    policy = RetentionPolicy(keep_for=timedelta(hours=24))

    blobs.wait(timedelta(hours=hours))
    done = retain(blobs, policy=policy)

    assert done.removed == ()
    assert lost(blobs) == set()


def test_a_backup_that_is_read_now_is_left_and_goes_when_it_is_not() -> None:
    blobs = history()
    oldest, middle, _ = BackupStore(blobs).backups("orders")

    with BackupStore(blobs).hold("orders", "restore", middle.id):
        held = retain(blobs)
    free = retain(blobs)

    assert (held.removed, held.held) == ((oldest.id,), (middle.id,))
    assert free.removed == (middle.id,)


def test_objects_stay_while_somebody_is_at_work_who_was_when_they_were_doomed() -> None:
    blobs = history()
    store = BackupStore(blobs)
    with store.hold("orders", "restore", store.backups("orders")[2].id):
        retain(blobs)
        before = objects(blobs)
        blobs.wait(HOUR)
        beat(blobs, 9)
        waiting = retain(blobs)
    blobs.wait(HOUR)
    done = retain(blobs)

    assert (waiting.deleted, waiting.waiting) == (0, done.deleted)
    assert before - objects(blobs)


def beat(blobs: RememberedBlobs, beats: int) -> None:
    """Write the newest hold anew, as its holder does every half minute."""
    (*_, path) = sorted(
        (path for path in blobs.objects if "/holds/" in path), key=lambda p: blobs.objects[p][1]
    )
    data = blobs.objects[path][0].replace(b'"beats": 1', b'"beats": %d' % beats)
    blobs.objects[path] = data, blobs.now


def test_a_hold_whose_holder_was_killed_delays_nothing() -> None:
    blobs = history()
    dead = BackupStore(blobs).hold("orders", "verify")
    dead.__enter__()
    path = max(blobs.objects, key=lambda p: ("/holds/" in p, blobs.objects[p][1]))

    blobs.wait(HOUR)
    assert len(retain(blobs).removed) == 2
    blobs.wait(HOUR)
    assert retain(blobs).deleted > 0
    blobs.wait(timedelta(days=1))
    retain(blobs)

    assert path not in blobs.objects
    dead.__exit__(None, None, None)


def test_nothing_is_doomed_while_a_backup_is_being_taken() -> None:
    blobs = history()
    taking = Taking(BackupStore(blobs), files("q/offsets/2", "q/offsets/7"))

    meanwhile = retain(blobs)
    taking.finish()

    assert meanwhile.doomed == 0
    assert "A backup is being taken" in meanwhile.problems[0]
    assert lost(blobs) == set()


def test_an_unreadable_manifest_stops_the_collection_and_says_so() -> None:
    blobs = history()
    retain(blobs)
    take(blobs, files("q/offsets/5"))
    (path, *_) = [path for path in blobs.objects if "/backups/" in path]
    blobs.objects[path] = b"{}", blobs.now
    before = objects(blobs)

    done = retain(blobs)

    assert objects(blobs) == before
    assert done.deleted == 0
    assert "needs is unknown" in done.problems[0]


@pytest.mark.parametrize("suffix", ["", ".bystanders"])
def test_a_doomed_record_that_was_damaged_is_made_anew(suffix: str) -> None:
    blobs = history()
    retain(blobs)
    (record,) = DoomedObjects(blobs, "orders").lying()
    blobs.objects[f"orders/doomed/{record.id}{suffix}.json"] = b"?", blobs.now
    for _ in range(3):
        blobs.wait(HOUR)
        retain(blobs)

    assert objects(blobs) == kept(blobs)


def test_a_doomed_record_cannot_delete_what_is_another_streams() -> None:
    blobs = history()
    other = f"clicks/files/{'0' * 64}"
    blobs.objects[other] = b"theirs", blobs.now
    record = DoomedObjects(blobs, "orders").add([other], by="somebody", at=blobs.now)

    for _ in range(3):
        blobs.wait(HOUR)
        retain(blobs)

    assert other in blobs.objects
    assert record.id not in {lying.id for lying in DoomedObjects(blobs, "orders").lying()}


def test_unfinished_files_of_killed_writers_are_swept_when_they_are_a_day_old() -> None:
    blobs = history()
    old, young = (f"orders/packs/.{'p' * 8}.{digit * 32}.tmp" for digit in "01")
    blobs.objects[old] = b"half", blobs.now - timedelta(days=1, seconds=1)
    blobs.objects[young] = b"half", blobs.now - HOUR

    retain(blobs)

    assert old not in blobs.objects
    assert young in blobs.objects


def settle(blobs: RememberedBlobs, runs: int = 4) -> None:
    """Let runs of retention follow each other; after four there is nothing left to do."""
    for _ in range(runs):
        blobs.wait(2 * HOUR)
        retain(blobs)


def durable_steps(start: RememberedBlobs, act: Callable[[RememberedBlobs], object]) -> int:
    blobs, steps = start.copy(), 0

    def count(call: Call) -> None:
        nonlocal steps
        steps += call.is_durable

    blobs.hook = count
    act(blobs)
    return steps


def kill_at(blobs: RememberedBlobs, step: int, act: Callable[[RememberedBlobs], object]) -> None:
    steps = 0

    def die(call: Call) -> None:
        nonlocal steps
        steps += call.is_durable
        if steps > step:
            raise Killed

    blobs.hook = die
    with pytest.raises(Killed):
        act(blobs)
    blobs.hook = lambda call: None


def due() -> RememberedBlobs:
    """Return a store whose doomed objects are due, with one more backup to be removed."""
    blobs = history()
    retain(blobs)
    take(blobs, files("q/offsets/7"))
    blobs.wait(2 * HOUR)
    return blobs


@pytest.mark.parametrize("start", [history, due])
def test_killed_at_any_durable_step_it_loses_nothing_and_the_next_runs_finish(
    start: Callable[[], RememberedBlobs],
) -> None:
    beginning = start()
    steps = durable_steps(beginning, retain)
    undisturbed = beginning.copy()
    retain(undisturbed)
    settle(undisturbed)

    assert steps > 10
    for step in range(steps):
        blobs = beginning.copy()
        kill_at(blobs, step, retain)
        assert lost(blobs) == set()
        settle(blobs)
        assert left(blobs) == left(undisturbed)


def left(blobs: RememberedBlobs) -> set[str]:
    return {path for path in blobs.objects if path != "clock.json"}


def interleave(
    blobs: RememberedBlobs,
    step: int,
    act: Callable[[RememberedBlobs], object],
    other: Callable[[], object],
) -> bool:
    """Run an act, and another one whole before its given call; tell whether it got that far."""
    calls = -1

    def meanwhile(call: Call) -> None:
        nonlocal calls
        calls += 1
        if calls == step:
            blobs.hook = lambda call: None
            other()

    blobs.hook = meanwhile
    act(blobs)
    blobs.hook = lambda call: None
    return calls >= step


# What the killed backup has left, what the removed ones had, and what is new. The large file is
# stored under the same name again, which is that of a doomed object.
WANTED: Final = {**files("q/offsets/99", "q/offsets/0", "q/offsets/55"), **LEFT}


@pytest.mark.parametrize("start", [history, due])
@pytest.mark.parametrize("when", ["begun before", "begun then"])
def test_a_backup_at_any_moment_of_a_run_is_whole_or_was_withdrawn(
    start: Callable[[], RememberedBlobs], when: str
) -> None:
    beginning, published, step = start(), 0, 0
    while True:
        blobs = beginning.copy()
        taking = [Taking(BackupStore(blobs), WANTED)] if when == "begun before" else []
        done: list[Backup] = []

        def finish(
            blobs: RememberedBlobs = blobs,
            taking: Iterable[Taking] = taking,
            done: list[Backup] = done,
        ) -> None:
            for one in taking or [Taking(BackupStore(blobs), WANTED)]:
                done.extend(publish(one))

        if not interleave(blobs, step, retain, finish):
            break
        assert lost(blobs) == set()
        settle(blobs, 2)
        assert lost(blobs) == set()
        assert {backup.id for backup in done} <= {b.id for b in BackupStore(blobs).backups()}
        published += len(done)
        step += 1

    assert step > 20
    assert published > 0


@pytest.mark.parametrize("start", [history, due])
def test_a_run_at_any_moment_of_a_backup_leaves_it_whole_or_has_it_withdrawn(
    start: Callable[[], RememberedBlobs],
) -> None:
    beginning, step = start(), 0

    def back_up(blobs: RememberedBlobs) -> list[Backup]:
        return publish(Taking(BackupStore(blobs), WANTED))

    while True:
        blobs = beginning.copy()
        if not interleave(blobs, step, back_up, lambda blobs=blobs: retain(blobs)):  # type: ignore[misc]
            break
        assert lost(blobs) == set()
        settle(blobs, 2)
        assert lost(blobs) == set()
        step += 1

    assert step > 20


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
        withdrawn += any(f"{backup.id} of orders was withdrawn" in one for one in done.problems)
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


def publish(taking: Taking) -> list[Backup]:
    try:
        return [taking.finish()]
    except CheckpointBusy:
        return []


def test_progress_says_how_far_it_is() -> None:
    blobs, heard = history(), []
    retain(blobs, progress=heard.append)

    assert [(one.subject, one.files, one.of) for one in heard] == [
        ("backups", 1, 2),
        ("backups", 2, 2),
    ]
