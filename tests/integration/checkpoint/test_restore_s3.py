"""A restore on S3 is marked until it is whole, and an object store's own paths are written."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.restore.clone import clone
from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.restore.target import open_target
from airflow_streaming.exceptions import RestoreRefused
from airflow_streaming.model.spark.listing import RESTORE_MARKER
from tests.golden import golden_checkpoint
from tests.integration.home.servers import S3Server, seaweedfs
from tests.unit.checkpoints.restoring import back_up, new_store, run_batches


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture
def uri() -> str:
    return f"s3://streams/{uuid.uuid4().hex}"


def test_a_backup_is_restored_to_s3_and_cloned_there(
    s3: S3Server, uri: str, tmp_path: Path
) -> None:
    store = new_store(tmp_path)
    backup = back_up(store, golden_checkpoint("4.3.0", "agg_rocks_v2").path)
    place = Place(to=f"{uri}/new", storage_options=s3.options)

    restored = restore(store, backup.id, place)
    cloned = clone(f"{uri}/new", f"{uri}/clone", storage_options=s3.options)

    assert (restored.files, cloned.files) == (backup.files, backup.files)
    for name in ("new", "clone"):
        found = inspect(f"{uri}/{name}", s3.options)
        assert (found.is_sound, found.last_committed_batch) == (True, 6)
    with pytest.raises(RestoreRefused, match="is not empty"):
        restore(store, backup.id, place)


def test_a_claimed_place_on_s3_is_nobody_elses(s3: S3Server, uri: str, tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = back_up(store, run_batches(tmp_path / "ck", 1))
    second = back_up(store, run_batches(tmp_path / "ck", 2))
    open_target(uri, s3.options).begin(first.id, [""])
    place = Place(to=uri, storage_options=s3.options)

    assert RESTORE_MARKER in open_target(uri, s3.options).look([""]).names
    with pytest.raises(RestoreRefused, match=f"restore of backup {first.id}"):
        restore(store, second.id, place)

    assert restore(store, first.id, place).resumed
    assert inspect(uri, s3.options).last_committed_batch == 1
