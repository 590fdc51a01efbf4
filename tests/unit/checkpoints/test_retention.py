"""Old backups go, their objects later, and no listed backup ever loses one of its own."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_streaming.checkpoints.backup.records import Backup, Verification
from airflow_streaming.checkpoints.vault.holds import ActiveHolders, DoomedObjects
from airflow_streaming.checkpoints.vault.layout import check_path, index_path
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.arguments.choices import Level
from airflow_streaming.model.arguments.keeping import RetentionPolicy
from tests.unit.checkpoints.remembered import NOON, RememberedBlobs
from tests.unit.checkpoints.retaining import (
    HOUR,
    Taking,
    files,
    history,
    kept,
    lost,
    objects,
    retain,
    say,
    take,
)


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
    assert "are unknown" in done.problems[0]


def test_a_record_under_the_name_of_another_dooms_nothing() -> None:
    blobs = history()
    retain(blobs)
    records = DoomedObjects(blobs, "orders")
    (own,) = records.lying()
    empty = records.add([], by="test", at=blobs.now).id
    folder = "orders/doomed"
    blobs.objects[f"{folder}/{empty}.json"] = blobs.objects[f"{folder}/{own.id}.json"]
    blobs.objects[f"{folder}/{own.id}.bystanders.json"] = (
        ActiveHolders(doomed=empty, beats={}).to_bytes(),
        blobs.now,
    )

    for read in (records.read, records.bystanders):
        with pytest.raises(RecordError, match=rf"{own.id}.*{empty}|{empty}.*{own.id}"):
            read(empty if read == records.read else own.id)


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


def test_progress_says_how_far_it_is() -> None:
    blobs, heard = history(), []
    retain(blobs, progress=heard.append)
    blobs.wait(HOUR)
    gone = retain(blobs, progress=heard.append).deleted

    assert [(one.subject, one.files, one.of) for one in heard] == [
        ("backups", 1, 2),
        ("backups", 2, 2),
        *(("objects", number, gone) for number in range(1, gone + 1)),
    ]
    assert gone > 1


def without_index(blobs: RememberedBlobs, backup: Backup) -> None:
    """Take away the newest index of a backup: its manifest stays, and names what is gone."""
    paths = [index_path("orders", use.index) for use in backup.bundles]
    newest = max(paths, key=lambda path: blobs.objects[path][1])
    del blobs.objects[newest]


def test_backups_without_their_objects_push_out_none_that_can_be_restored() -> None:
    blobs = RememberedBlobs()
    good = [take(blobs, files(f"q/offsets/{n}")) for n in range(3)]
    bad = [take(blobs, files(f"q/offsets/{n}")) for n in range(7, 10)]
    for backup in bad:
        without_index(blobs, backup)

    done = retain(blobs, policy=RetentionPolicy(keep_last=2))

    listed = {backup.id for backup in BackupStore(blobs).backups("orders")}
    assert {backup.id for backup in good[1:]} <= listed
    # A damaged one stays as long as it would if it were whole: an engineer may look at it.
    assert done.removed == (good[0].id, bad[0].id)
    assert len(done.problems) >= 3


def test_a_dry_run_looks_at_what_it_would_keep_as_well() -> None:
    blobs = RememberedBlobs()
    good = take(blobs, files("q/offsets/1"))
    without_index(blobs, take(blobs, files("q/offsets/2")))
    before = dict(blobs.objects)

    assert retain(blobs, dry_run=True).removed == ()
    assert blobs.objects == before
    assert good.id in {backup.id for backup in BackupStore(blobs).backups("orders")}


@pytest.mark.parametrize("manifest", ["", "0" * 64])
def test_a_verification_of_another_manifest_says_nothing_of_this_one(manifest: str) -> None:
    blobs = RememberedBlobs()
    verified, *newer = [take(blobs, files(f"q/offsets/{n}")) for n in range(4)]
    store = BackupStore(blobs)
    say(store, verified)
    forged = Verification(
        backup=verified.id,
        level=Level.DRILL,
        verified_at=blobs.now,
        by="somebody",
        problems=("It is of no use.",),
        manifest=manifest,
    )
    store.record(forged, "orders")

    done = retain(blobs)

    assert done.removed == tuple(backup.id for backup in newer[:-1])
    assert [one.holds for one in store.verifications(verified.id, "orders")] == [True]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"kind": "backup-verif', id="torn"),
        pytest.param(b"\xff\x00garbage", id="garbage"),
        pytest.param(b"[" * 5_000, id="deep"),
        pytest.param(b" " * 3_000_000, id="too large"),
        pytest.param(None, id="of another backup"),
    ],
)
def test_a_backup_whose_verification_cannot_be_read_is_kept_and_named(data: bytes | None) -> None:
    blobs = RememberedBlobs()
    first, *_, last = [take(blobs, files(f"q/offsets/{n}")) for n in range(4)]
    store = BackupStore(blobs)
    say(store, first)
    path = check_path("orders", first.id, 1)
    other = blobs.objects[path][0].replace(first.id.encode(), last.id.encode())
    blobs.put(path, other if data is None else data)

    done = retain(blobs)

    assert {one.id for one in BackupStore(blobs).backups("orders")} == {first.id, last.id}
    assert [path in problem for problem in done.problems] == [True]
    say(store, first)
    assert retain(blobs).problems == ()


def test_the_last_good_backup_of_a_checkpoint_stays() -> None:
    blobs = RememberedBlobs()
    blue = take(blobs, files("q/offsets/1"), checkpoints=("file:///blue",))
    green = [
        take(blobs, files(f"q/offsets/{n}"), checkpoints=("file:///green",)) for n in range(2, 5)
    ]
    without_index(blobs, take(blobs, files("q/offsets/9"), checkpoints=("file:///blue",)))

    done = retain(blobs)

    assert done.removed == tuple(backup.id for backup in green[:-1])
    assert blue.id in {kept.backup.id for kept in done.plan.keep}
