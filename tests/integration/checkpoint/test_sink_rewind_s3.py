"""A file sink on S3, where nothing can be renamed, is put back and nothing of it is deleted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fsspec.core import url_to_fs

from airflow_streaming.checkpoints.backup.live_copy import Source
from airflow_streaming.checkpoints.restore.sink_rewind import SinkRewind
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.records.upgrade import SinkFacts
from airflow_streaming.storage.folders import open_folders
from tests.integration.home.servers import S3Server, seaweedfs
from tests.unit.checkpoints.filesink import FileSink
from tests.unit.checkpoints.restoring import new_store
from tests.unit.checkpoints.running import back_up, new_checkpoint

BOUNDARY, NEWEST = 4, 9


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


def upload(sink: FileSink, fs: Any, root: str, first: int) -> None:
    """Put what a sink has written on S3, as if Spark had written it there."""
    for path, text in sink.tree().items():
        name = path.rpartition("/")[2]
        if name.startswith("."):
            continue
        if int(name.split("-")[-1].removesuffix(".compact")) >= first:
            told = text.replace(f"file://{quote(str(sink.root))}", f"s3a://{root}")
            fs.pipe_file(f"{root}/{path}", told.encode())


def test_newer_batches_are_moved_aside_on_s3_and_only_once(s3: S3Server, tmp_path: Path) -> None:
    root = f"streams/{uuid.uuid4().hex}/out"
    fs, _ = url_to_fs(f"s3://{root}", **s3.options, use_listings_cache=False)
    sink, store = FileSink(tmp_path / "out"), new_store(tmp_path)
    for batch in range(BOUNDARY + 1):
        sink.write(batch)
    upload(sink, fs, root, 0)
    log = open_folders(f"s3://{root}/_spark_metadata", s3.options)
    checkpoint = open_folders(str(new_checkpoint(tmp_path)))
    backup = back_up(store, Source(folder="counts", folders=checkpoint, sink_log=log))
    kept = set(fs.find(root))
    for batch in range(BOUNDARY + 1, NEWEST + 1):
        sink.write(batch, by="new")
    upload(sink, fs, root, BOUNDARY + 1)
    newer = set(fs.find(root)) - kept

    rewind = SinkRewind(storage_options=s3.options)
    facts = SinkFacts(
        query="counts", sink="file", habit=SinkReplaySemantics.FILE_LOG, target=f"s3a://{root}"
    )
    with pytest.raises(CheckpointRefused, match="another process writes"):
        rewind.run(store, backup, 2, [facts], {"counts": NEWEST - 1})
    (done,) = rewind.run(store, backup, 2, [facts], {"counts": NEWEST})

    there = set(fs.find(root))
    aside = {path for path in there if "/_rolled_back/" in path}
    names = sorted(path.rpartition("/")[2] for path in aside if not path.endswith(".json"))
    assert (done.batches, done.files) == ((5, 6, 7, 8, 9), 10)
    assert there - aside == kept
    assert names == sorted(path.rpartition("/")[2] for path in newer)
    (again,) = rewind.run(store, backup, 2, [facts], {"counts": NEWEST})
    assert again.is_done
    assert set(fs.find(root)) == there
