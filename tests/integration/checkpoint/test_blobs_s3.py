"""A backup store on S3: the promises of its objects on a real server, and a backup end to end."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import s3fs

from airflow_streaming.checkpoints.backup.index import LARGE
from airflow_streaming.checkpoints.vault.contents import contents
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.exceptions import CheckpointError, HomeUnavailable
from airflow_streaming.model.arguments.choices import Level
from airflow_streaming.storage.blobs import Blobs, Elsewhere
from airflow_streaming.storage.fsspec_blobs import open_blobs
from tests.integration.home.servers import S3Server, seaweedfs
from tests.unit.checkpoints.blobs_contract import BlobsContract
from tests.unit.checkpoints.made import NOON, STREAM, make_backup, some_files


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture
def uri() -> str:
    return f"s3://streams/{uuid.uuid4().hex}"


class TestS3(BlobsContract):
    @pytest.fixture
    def blobs(self, s3: S3Server, uri: str) -> Blobs:
        return open_blobs(uri, s3.options)


def test_a_backup_is_taken_verified_and_read_on_s3(s3: S3Server, uri: str) -> None:
    files = some_files(small=30, large=2)
    with pytest.raises(CheckpointError, match="is not a backup store"):
        open_backup_store(uri, s3.options)
    store = open_backup_store(uri, s3.options, create=True)

    first = make_backup(store, files)
    second = make_backup(open_backup_store(uri, s3.options), {**files, "counts/x": b"1"}, number=2)

    assert (first.added_files, second.added_files) == (len(files), 1)
    assert verify(store, second.id, Level.FULL, by="kim", now=NOON).problems == ()
    read = {one.path: b"".join(one.chunks) for one in contents(store, first, "counts")}
    assert read == {path.removeprefix("counts/"): data for path, data in files.items()}
    store.delete_backup(first.id, STREAM)
    assert store.backups() == [second]
    assert store.clock() is not None


def test_a_lost_object_is_found_on_s3(s3: S3Server, uri: str) -> None:
    store = open_backup_store(uri, s3.options, create=True)
    backup = make_backup(store, some_files(small=5))
    store.delete_object(next(one.path for one in store.objects(STREAM) if "/files/" in one.path))

    assert "is missing" in verify(store, backup.id, Level.QUICK, by="kim", now=NOON).problems[0]


def test_s3_copies_a_large_file_by_itself(s3: S3Server, uri: str) -> None:
    client = s3fs.S3FileSystem(**s3.options, use_listings_cache=False, skip_instance_cache=True)
    place = f"{uri.removeprefix('s3://')}/checkpoint/1.zip"
    data = b"state" * (LARGE // 4)
    client.pipe_file(place, data)
    blobs = open_blobs(uri, s3.options)

    copies = [blobs.server_copy(Elsewhere(client, place)) for _ in range(2)]

    assert copies[0] is not None
    assert copies[1] is not None
    assert copies[0].to("orders/files/a")
    assert blobs.read("orders/files/a", 2 * LARGE) == data
    client.pipe_file(place, data[::-1])
    assert not copies[1].to("orders/files/b")
    assert [entry.name for entry in blobs.entries("orders/files")] == ["a"]


def test_another_server_with_a_bucket_of_that_name_is_another_place(s3: S3Server, uri: str) -> None:
    other = s3fs.S3FileSystem(
        **{**s3.options, "endpoint_url": "http://127.0.0.1:1"}, skip_instance_cache=True
    )

    assert open_blobs(uri, s3.options).server_copy(Elsewhere(other, "streams/a")) is None


def test_a_missing_bucket_is_no_empty_store(s3: S3Server) -> None:
    with pytest.raises(HomeUnavailable, match="no-such-bucket"):
        open_backup_store("s3://no-such-bucket/store", s3.options, create=True)
