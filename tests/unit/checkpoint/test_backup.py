"""Backups of checkpoints that change while they are copied."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_streaming.checkpoint.backup import take_backup
from airflow_streaming.checkpoint.bundle_writer import LARGE
from airflow_streaming.checkpoint.folders import Folders, open_folders
from airflow_streaming.checkpoint.opening import open_blobs
from airflow_streaming.checkpoint.progress import Phase, ProgressNow
from airflow_streaming.checkpoint.sources import Source, sources_of
from airflow_streaming.checkpoint.store import BackupStore, open_backup_store
from airflow_streaming.core.checkpoint.backup import Backup, Origin
from airflow_streaming.exceptions import (
    CheckpointBusy,
    CheckpointError,
    CheckpointRefused,
    SpecError,
)
from tests.golden import golden_checkpoint
from tests.unit.checkpoint.live import Live
from tests.unit.core.checkpoint.in_memory import golden, other_codec
from tests.unit.core.checkpoint.state.papers import sidecar

NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
PLAN = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"2"}}'


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return open_backup_store(str(tmp_path / "store"), create=True)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A query that reads Kafka and has committed batches 0 to 4."""
    root = tmp_path / "checkpoint"
    (root / "offsets").mkdir(parents=True)
    (root / "commits").mkdir()
    (root / "sources/0").mkdir(parents=True)
    (root / "metadata").write_text('{"id":"2bdda8fd-e87c-45a2-aaf7-915c2c320f7e"}')
    (root / "sources/0/0").write_text("v1\n{}")
    for batch in range(5):
        run(root, batch)
    return root


def run(root: Path, batch: int) -> None:
    plan(root, batch)
    write(root / f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')


def plan(root: Path, batch: int) -> None:
    write(root / f"offsets/{batch}", f'v1\n{PLAN}\n{{"orders":{{"0":{batch}}}}}')


def write(path: Path, text: str) -> None:
    """Write a file as Spark does: under another name first."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    temporary.rename(path)


def back_up(store: BackupStore, *sources: Source, attempts: int = 5) -> Backup:
    ticks = count()
    return take_backup(
        sources,
        store,
        stream="orders",
        origin=Origin.SCHEDULED,
        by="the test",
        attempts=attempts,
        clock=lambda: NOW + timedelta(seconds=next(ticks)),
    )


def of(folders: Folders, folder: str = "") -> Source:
    return Source(folder=folder, folders=folders)


def at(root: Path) -> Source:
    return of(open_folders(str(root)))


def content(store: BackupStore, backup: Backup) -> dict[str, str]:
    return {member.path: member.sha256 for member in store.members(backup)}


def digests(root: Path) -> dict[str, str]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}


def test_a_backup_holds_what_one_committed_batch_needs(
    store: BackupStore, checkpoint: Path
) -> None:
    plan(checkpoint, 5)
    before = digests(checkpoint)
    backup = back_up(store, at(checkpoint))
    query = backup.queries[0]
    assert content(store, backup) == before == digests(checkpoint)
    assert (query.batch, query.planned, query.offsets) == (4, 5, ('{"orders":{"0":4}}',))
    assert query.query_id == "2bdda8fd-e87c-45a2-aaf7-915c2c320f7e"
    assert (backup.files, backup.size) == (len(before), query.size)
    assert (backup.begun_at, backup.finished_at) == (NOW, NOW + timedelta(seconds=1))
    assert store.backups() == [backup]


def test_all_queries_of_a_stream_are_in_one_backup(store: BackupStore, tmp_path: Path) -> None:
    for name in ("agg_rocks_v2", "join"):
        shutil.copytree(golden_checkpoint("4.3.0", name).path, tmp_path / "stream" / name)
    backup = back_up(store, *sources_of(open_folders(str(tmp_path / "stream"))))
    assert [(query.folder, query.batch) for query in backup.queries] == [
        ("agg_rocks_v2", 6),
        ("join", 3),
    ]
    assert {path.partition("/")[0] for path in content(store, backup)} == {"agg_rocks_v2", "join"}
    assert [query.state_format for query in backup.queries] == [2, 1]


def test_a_folder_without_checkpoints_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(CheckpointError):
        sources_of(open_folders(str(tmp_path / "nothing")))


@pytest.mark.parametrize("folders", [(), ("a", "a"), ("", "a")], ids=["none", "twice", "mixed"])
def test_folders_of_a_backup_cannot_collide(
    store: BackupStore, checkpoint: Path, folders: tuple[str, ...]
) -> None:
    sources = [of(open_folders(str(checkpoint)), folder) for folder in folders]
    with pytest.raises(ValueError, match="different folders"):
        back_up(store, *sources)


@pytest.mark.parametrize("place", ["checkpoint/backups", "link/backups", "."])
def test_a_store_never_lies_inside_a_checkpoint_nor_the_other_way_round(
    checkpoint: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "link").symlink_to(checkpoint)
    before = digests(checkpoint)
    store = BackupStore(open_blobs(str(tmp_path / place)))

    with pytest.raises(SpecError, match="do not lie apart") as refused:
        back_up(store, at(checkpoint))

    assert str(checkpoint) in str(refused.value)
    assert str(tmp_path / place) in str(refused.value)
    assert digests(checkpoint) == before


def test_state_of_another_codec_is_still_checked_when_its_commits_are_known(
    store: BackupStore, tmp_path: Path
) -> None:
    root = tmp_path / "checkpoint"
    made = other_codec(golden("agg_rocks_v2"), zip_at=3)
    newest = made.newest("state/0/0", ".changelog")
    made.write(f"{newest}.crc", sidecar(made.files[newest]))
    for path, data in made.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    first = back_up(store, at(root))
    assert first.queries[0].batch == 6
    (root / newest).write_bytes(made.files[newest][:-1] + b"?")

    with pytest.raises(CheckpointRefused, match=newest):
        back_up(store, at(root))


def test_files_that_an_earlier_backup_has_are_not_read_again(
    store: BackupStore, checkpoint: Path
) -> None:
    back_up(store, at(checkpoint))
    run(checkpoint, 5)
    live = Live(checkpoint)
    again = back_up(store, of(live))
    assert again.added_files == 2
    assert "sources/0/0" not in live.read_paths
    assert content(store, again) == digests(checkpoint)


def once(path: str, change: Callable[[], object]) -> Callable[[str], object]:
    """Return what makes a change when a path is about to be read for the first time."""
    waiting = [change]

    def happen(read: str) -> None:
        if read == path and waiting:
            waiting.pop()()

    return happen


def test_a_purge_under_the_copy_leads_to_a_newer_batch(
    store: BackupStore, checkpoint: Path
) -> None:
    def go_on() -> None:
        for batch in range(5, 9):
            run(checkpoint, batch)
        for batch in range(6):
            (checkpoint / f"commits/{batch}").unlink()
            (checkpoint / f"offsets/{batch}").unlink()

    live = Live(checkpoint, once("offsets/1", go_on))
    backup = back_up(store, of(live))
    assert backup.queries[0].batch == 8
    assert content(store, backup) == digests(checkpoint)
    assert live.walks == 3


def test_a_purge_of_what_was_copied_does_no_harm(store: BackupStore, checkpoint: Path) -> None:
    before = digests(checkpoint)
    # The metadata is copied last.
    live = Live(checkpoint, once("metadata", (checkpoint / "offsets/0").unlink))
    backup = back_up(store, of(live))
    assert content(store, backup) == before
    assert live.walks == 2


def test_a_purge_of_what_an_earlier_backup_has_does_no_harm(
    store: BackupStore, checkpoint: Path
) -> None:
    back_up(store, at(checkpoint))
    run(checkpoint, 5)
    before = digests(checkpoint)
    # The new plan is the first file to be read by the copy; what is known was taken before it.
    purges = iter([lambda: None, (checkpoint / "offsets/0").unlink])
    live = Live(checkpoint, lambda path: next(purges)() if path == "offsets/5" else None)
    backup = back_up(store, of(live))
    assert content(store, backup) == before
    assert live.walks == 2


def test_a_file_that_is_written_anew_is_copied_anew(store: BackupStore, checkpoint: Path) -> None:
    rewrite = once("commits/4", lambda: write(checkpoint / "offsets/4", "v1\n{}\n-"))
    backup = back_up(store, of(Live(checkpoint, rewrite)))
    assert content(store, backup) == digests(checkpoint)


def test_a_checkpoint_that_is_never_still_is_given_up_and_nothing_is_published(
    store: BackupStore, checkpoint: Path
) -> None:
    batches = count(5)

    def go_on(path: str) -> None:
        if path == "metadata":
            batch = next(batches)
            run(checkpoint, batch)
            (checkpoint / f"sources/0/x{batch}").write_text("new")
            os.utime(checkpoint / "sources/0/0", ns=(batch, batch))

    with pytest.raises(CheckpointBusy, match=r"3 attempts.*minBatchesToRetain"):
        back_up(store, of(Live(checkpoint, go_on)), attempts=3)
    assert store.backups() == []


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        pytest.param(lambda root: (root / "offsets/4").unlink(), "plan is missing", id="no plan"),
        pytest.param(lambda root: plan(root, 6), "batch 5 is not committed", id="skipped batch"),
        pytest.param(
            lambda root: (root / "commits/4").write_text("v9\n{}"), "commits/4", id="from later"
        ),
        pytest.param(lambda root: (root / "l").symlink_to("/etc"), "symbolic link", id="a link"),
        pytest.param(lambda root: os.mkfifo(root / "pipe"), "pipe", id="a pipe"),
        pytest.param(
            lambda root: (root / "metadata").write_text("{}"), "metadata", id="no query id"
        ),
    ],
)
def test_a_damaged_checkpoint_is_refused_with_the_reason(
    store: BackupStore, checkpoint: Path, spoil: Callable[[Path], object], why: str
) -> None:
    spoil(checkpoint)
    with pytest.raises(CheckpointRefused, match=why) as refused:
        back_up(store, at(checkpoint))
    assert str(checkpoint) in str(refused.value)
    assert store.backups() == []


@pytest.mark.parametrize("lost", ["state/0/1/5.delta", "state/0/1"])
def test_lost_state_is_refused(store: BackupStore, tmp_path: Path, lost: str) -> None:
    root = golden_checkpoint("4.3.0", "agg").copy_to(tmp_path / "copy")
    found = root / lost
    shutil.rmtree(found) if found.is_dir() else found.unlink()
    with pytest.raises(CheckpointRefused, match="state"):
        back_up(store, at(root))


def test_a_damaged_state_file_is_refused_again_and_again(
    store: BackupStore, tmp_path: Path
) -> None:
    root = golden_checkpoint("4.3.0", "agg").copy_to(tmp_path / "copy")
    back_up(store, at(root))
    damaged = root / "state/0/0/7.delta"
    damaged.write_bytes(damaged.read_bytes()[:-5])
    (root / "state/0/0/.7.delta.crc").unlink()
    for _ in range(2):
        # The first refused backup leaves a pack with the file, which the second one knows.
        with pytest.raises(CheckpointRefused, match=r"7\.delta"):
            back_up(store, at(root))
    assert len(store.backups()) == 1


def test_state_that_an_earlier_backup_checked_is_not_read_again(
    store: BackupStore, tmp_path: Path
) -> None:
    root = golden_checkpoint("4.3.0", "agg").copy_to(tmp_path / "copy")
    first, second = Live(root), Live(root)
    back_up(store, of(first))
    back_up(store, of(second))
    assert "state/0/0/7.delta" in first.read_paths
    assert not [path for path in second.read_paths if path.endswith(".delta")]


def large(checkpoint: Path) -> Path:
    path = checkpoint / "sources/0/large"
    path.write_bytes(os.urandom(LARGE + 5))
    return path


def test_large_files_are_streamed(store: BackupStore, checkpoint: Path) -> None:
    large(checkpoint)
    backup = back_up(store, at(checkpoint))
    alone = [member.path for member in store.members(backup) if member.is_alone]
    assert alone == ["sources/0/large"]
    assert content(store, backup) == digests(checkpoint)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(Path.unlink, id="vanishes"),
        pytest.param(lambda path: path.write_bytes(b"short"), id="shrinks"),
    ],
)
def test_a_large_file_that_changes_under_the_copy_leads_to_another_attempt(
    store: BackupStore, checkpoint: Path, change: Callable[[Path], object]
) -> None:
    path = large(checkpoint)
    live = Live(checkpoint, once("sources/0/large", lambda: change(path)))
    backup = back_up(store, of(live))
    assert live.walks == 3
    assert content(store, backup) == digests(checkpoint)


def test_the_log_of_a_file_sink_comes_along_up_to_the_pinned_batch(
    store: BackupStore, checkpoint: Path, tmp_path: Path
) -> None:
    log = tmp_path / "output/_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(6):
        (log / str(batch)).write_text("v1")
    source = Source(
        folder="", folders=open_folders(str(checkpoint)), sink_log=open_folders(str(log))
    )
    backup = back_up(store, source)
    taken = [path for path in content(store, backup) if path.startswith("_spark_metadata/")]
    assert sorted(taken) == [f"_spark_metadata/{batch}" for batch in range(5)]
    assert backup.queries[0].sink_log == str(log)
    (log / "4").unlink()
    with pytest.raises(CheckpointRefused, match="sink's log"):
        back_up(store, source)


def test_a_remote_checkpoint_is_read_ahead_and_is_the_same(
    store: BackupStore, checkpoint: Path
) -> None:
    large(checkpoint)
    remote = open_folders(f"file://{checkpoint}", filesystem=LocalFileSystem())
    backup = back_up(store, of(remote))
    assert content(store, backup) == digests(checkpoint)
    fresh = {member.path for member in store.members(backup)}
    assert fresh == set(digests(checkpoint))


def test_progress_tells_how_far_the_copy_is(store: BackupStore, checkpoint: Path) -> None:
    told: list[ProgressNow] = []
    take_backup(
        [at(checkpoint)],
        store,
        stream="orders",
        origin=Origin.MANUAL,
        by="x",
        progress=told.append,
    )
    assert list(dict.fromkeys(now.phase for now in told)) == [
        Phase.LOOK,
        Phase.COPY,
        Phase.CHECK,
        Phase.PUBLISH,
    ]
    last = [now for now in told if now.phase is Phase.COPY][-1]
    assert (last.files, last.size) == (last.of, last.of_size) == (12, last.size)


def test_a_backup_that_is_killed_is_never_listed_and_the_next_one_is_whole(
    store: BackupStore, checkpoint: Path
) -> None:
    class Killed(BaseException):
        pass

    def kill_at(step: int) -> Callable[[ProgressNow], None]:
        steps = count()

        def tell(now: ProgressNow) -> None:
            if next(steps) == step:
                raise Killed

        return tell

    for step in range(15):
        with pytest.raises(Killed):
            take_backup(
                [at(checkpoint)],
                store,
                stream="orders",
                origin=Origin.MANUAL,
                by="x",
                progress=kill_at(step),
            )
        assert store.backups() == []
    assert content(store, back_up(store, at(checkpoint))) == digests(checkpoint)


def test_the_manifest_can_be_read_as_json(store: BackupStore, checkpoint: Path) -> None:
    backup = back_up(store, at(checkpoint))
    assert json.loads(backup.to_bytes())["queries"][0]["batch"] == 4
