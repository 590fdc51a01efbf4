"""A backup holds what one committed batch of every query needs, and reads no more than it must."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import Source, sources_of
from airflow_streaming.checkpoints.progress import Phase, ProgressNow
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.storage.folders import open_folders
from tests.golden import golden_checkpoint
from tests.unit.checkpoints.live import Live
from tests.unit.checkpoints.running import (
    NOW,
    at,
    back_up,
    content,
    digests,
    large,
    new_checkpoint,
    of,
    plan,
    run,
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return new_checkpoint(tmp_path)


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


def test_state_that_an_earlier_backup_checked_is_not_read_again(
    store: BackupStore, tmp_path: Path
) -> None:
    root = golden_checkpoint("4.3.0", "agg").copy_to(tmp_path / "copy")
    first, second = Live(root), Live(root)
    back_up(store, of(first))
    back_up(store, of(second))
    assert "state/0/0/7.delta" in first.read_paths
    assert not [path for path in second.read_paths if path.endswith(".delta")]


def test_large_files_are_streamed(store: BackupStore, checkpoint: Path) -> None:
    large(checkpoint)
    backup = back_up(store, at(checkpoint))
    alone = [member.path for member in store.members(backup) if member.is_alone]
    assert alone == ["sources/0/large"]
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


def test_the_manifest_can_be_read_as_json(store: BackupStore, checkpoint: Path) -> None:
    backup = back_up(store, at(checkpoint))
    assert json.loads(backup.to_bytes())["queries"][0]["batch"] == 4
