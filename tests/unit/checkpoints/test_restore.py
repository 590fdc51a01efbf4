"""A backup is restored whole into a place of its own."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.progress import Phase, ProgressNow
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.restore.local_target import LocalTarget
from airflow_streaming.checkpoints.restore.replay import RefusalCode
from airflow_streaming.checkpoints.restore.restore import Place, plan_restore, restore
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.model.spark.listing import RESTORE_MARKER
from tests.conftest import REPOSITORY
from tests.golden import golden_checkpoint
from tests.unit.checkpoints.made import local_store, make_backup, some_files
from tests.unit.checkpoints.restoring import (
    back_up,
    bytes_of,
    codes,
    is_sound_at,
    new_store,
    run_batches,
)

SAMPLES = REPOSITORY / "tests/unit/checkpoints/state_variables"


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return new_store(tmp_path)


def test_what_is_restored_is_what_was_backed_up(store: BackupStore, tmp_path: Path) -> None:
    golden = golden_checkpoint("4.3.0", "agg_rocks_v2")
    backup = back_up(store, golden.path)

    restored = restore(store, backup.id, Place(to=str(tmp_path / "new")))

    new = bytes_of(tmp_path / "new")
    assert restored.checkpoints == {"": str(tmp_path / "new")}
    assert (len(new), restored.files) == (backup.files, backup.files)
    assert all((golden.path / path).read_bytes() == data for path, data in new.items())
    assert not any(Path(path).name.startswith(".") for path in new)
    assert is_sound_at(tmp_path / "new", 6)


def test_a_marker_in_a_backup_does_not_make_the_restored_checkpoint_unfinished(
    store: BackupStore, tmp_path: Path
) -> None:
    files = bytes_of(run_batches(tmp_path / "ck", 4))
    files = {path: data for path, data in files.items() if not Path(path).name.startswith(".")}
    files = {f"counts/{path}": data for path, data in {**files, RESTORE_MARKER: b"{}"}.items()}
    backup = make_backup(store, files, number=4)

    restore(store, backup.id, Place(to=str(tmp_path / "new"), folders={"counts": "counts"}))

    assert is_sound_at(tmp_path / "new/counts", 4)
    assert not (tmp_path / "new/counts" / RESTORE_MARKER).exists()


def test_every_query_of_a_stream_gets_its_folder(store: BackupStore, tmp_path: Path) -> None:
    for name, query_id in (("counts", "c-0-0-0-1"), ("sums", "5-0-0-0-1")):
        run_batches(tmp_path / "ck" / name, 3, query_id=query_id)
    backup = back_up(store, tmp_path / "ck")

    restored = restore(
        store, backup.id, Place(to=str(tmp_path / "new"), folders={"counts": "c", "sums": "sums"})
    )

    assert restored.checkpoints == {
        "counts": f"{tmp_path}/new/c",
        "sums": f"{tmp_path}/new/sums",
    }
    assert inspect(f"{tmp_path}/new/c").query_id == "c-0-0-0-1"
    assert is_sound_at(tmp_path / "new/sums", 3)


def test_a_dry_run_says_what_comes_again_and_writes_nothing(
    store: BackupStore, tmp_path: Path
) -> None:
    live = run_batches(tmp_path / "ck", 3)
    backup = back_up(store, live)
    run_batches(live, 9)

    plan = plan_restore(store, backup.id, Place(to=str(tmp_path / "new")))

    (query,) = plan.queries
    assert (query.batch, query.current, query.again) == (3, 9, (4, 9))
    assert query.sources[0].amount == 60
    assert "Source 0 (kafka) reads again 60 records." in plan.sentences()
    assert not plan.is_refused
    assert not (tmp_path / "new").exists()


def test_a_checkpoint_that_is_gone_leaves_the_way_back_unknown(
    store: BackupStore, tmp_path: Path
) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 3))
    shutil.rmtree(tmp_path / "ck")

    plan = plan_restore(store, backup.id, Place(to=str(tmp_path / "new")))

    assert plan.queries[0].current is None
    assert any("The checkpoint in use cannot be read" in warning for warning in plan.warnings)


def test_progress_is_told_to_the_last_file(store: BackupStore, tmp_path: Path) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 3))
    told: list[ProgressNow] = []

    restore(store, backup.id, Place(to=str(tmp_path / "new")), progress=told.append)

    written = [now for now in told if now.phase is Phase.WRITE]
    assert (written[-1].files, written[-1].of) == (backup.files, backup.files)
    assert (written[-1].size, written[-1].of_size) == (backup.size, backup.size)
    assert {now.phase for now in told} >= {Phase.READ, Phase.WRITE, Phase.CHECK}


SCHEMA = "state/0/_stateSchema/default/0_1b4c"
METADATA = "state/0/_metadata/v2/0"


def with_variables(folder: Path, named: str) -> Path:
    """Make a checkpoint whose operator names its schema file by an absolute path."""
    checkpoint = shutil.copytree(golden_checkpoint("4.3.0", "agg_rocks").path, folder)
    store = {
        "storeName": "default",
        "numColsPrefixKey": 0,
        "numPartitions": 3,
        "stateSchemaFilePaths": [f"{named}/{SCHEMA}"],
    }
    about = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateInPandasExec"},
        "stateStoreInfo": [store],
    }
    for path in (METADATA, SCHEMA):
        (checkpoint / path).parent.mkdir(parents=True)
    (checkpoint / METADATA).write_text(f"v2\n{json.dumps(about)}")
    (checkpoint / f"{METADATA}.crc").write_text("{}")
    shutil.copy(SAMPLES / "state_schema-4.3.0", checkpoint / SCHEMA)
    return checkpoint


@pytest.mark.parametrize(("spelled", "prefix"), [("file:", "file:"), ("file://", "file://")])
def test_absolute_paths_are_rewritten_as_they_were_spelled(
    store: BackupStore, tmp_path: Path, spelled: str, prefix: str
) -> None:
    checkpoint = with_variables(tmp_path / "ck", f"{spelled}{tmp_path}/ck")
    backup = back_up(store, checkpoint)
    shutil.rmtree(checkpoint)

    restore(store, backup.id, Place(to=str(tmp_path / "new")))

    text = (tmp_path / "new" / METADATA).read_text()
    assert f"{prefix}{tmp_path}/new/{SCHEMA}" in text
    assert str(checkpoint) not in text
    assert not (tmp_path / "new" / f"{METADATA}.crc").exists()


def test_paths_that_cannot_be_rewritten_are_a_reason(store: BackupStore, tmp_path: Path) -> None:
    checkpoint = with_variables(tmp_path / "ck", f"file:{tmp_path}/ck")
    metadata = (checkpoint / METADATA).read_bytes().replace(b"0_1b4c", b"0_gone")
    backup = make_backup(store, {f"counts/{METADATA}": metadata, "counts/metadata": b"{}"})

    plan = plan_restore(store, backup.id, Place(to=str(tmp_path / "new")))

    assert codes(plan.refusals) == [RefusalCode.ABSOLUTE_PATHS]


def test_a_private_checkpoint_stays_private_in_a_store_and_where_it_is_restored(
    tmp_path: Path,
) -> None:
    before = os.umask(0o022)
    try:
        store = local_store(tmp_path / "store")
        backup = make_backup(store, some_files(small=3))
        target = LocalTarget(str(tmp_path / "restored"))
        target.begin("test", ())
        target.write("offsets/0", 1, [b"x"])
        target.finish()
    finally:
        os.umask(before)

    assert backup.files
    stored = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    restored = tmp_path / "restored"
    assert {path.stat().st_mode & 0o777 for path in [*stored, restored / "offsets/0"]} == {0o600}
    assert restored.stat().st_mode & 0o777 == 0o700
