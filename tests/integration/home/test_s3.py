"""A home on S3: the store's promises on a real server, and the refusal of one that breaks them."""

from __future__ import annotations

import uuid

import pytest
import s3fs

from airflow_streaming.exceptions import AlreadyExists, HomeNotExclusive, HomeUnavailable
from airflow_streaming.home.home import init_home, open_home
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.storage import Store
from airflow_streaming.storage.fsspec_store import open_store
from airflow_streaming.storage.probe import RECORD
from tests.integration.home.servers import ONE_TRY, S3Server, free_ports
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch
from tests.unit.model.store_contract import ExclusiveContract, StoreContract, WholeFilesContract


class TestS3Store(StoreContract, ExclusiveContract, WholeFilesContract):
    # SeaweedFS lets writers of one key wait for each other in steps of a second.
    rounds = 5

    @pytest.fixture
    def store(self, exclusive_s3: S3Server) -> Store:
        return open_store(f"s3://streams/{uuid.uuid4().hex}", exclusive_s3.options)


def test_a_store_that_honors_conditions_passes_the_probe(exclusive_s3: S3Server) -> None:
    uri = f"s3a://streams/{uuid.uuid4().hex}"

    home = init_home(uri, exclusive_s3.options)

    assert home.store.names("_store") == [RECORD.rpartition("/")[2]]
    assert open_home(uri, exclusive_s3.options).streams() == []


def test_a_stream_lives_on_s3(exclusive_s3: S3Server) -> None:
    uri = f"s3://streams/{uuid.uuid4().hex}"
    stream = open_home(uri, exclusive_s3.options).stream("orders")
    stream.create_deployment(make_deployment(), SCRIPT)
    stream.create_epoch(make_epoch(1))
    stream.create_epoch(make_epoch(2))
    stream.want(DesiredState.STOPPED, by="ada", reason="maintenance", now=NOON)

    seen = open_home(uri, exclusive_s3.options)

    assert seen.streams() == ["orders"]
    assert seen.stream("orders").application(1) == SCRIPT
    assert seen.stream("orders").newest_epoch() == make_epoch(2)
    with pytest.raises(AlreadyExists):
        seen.stream("orders").create_epoch(make_epoch(2, token="another"))


def test_what_another_process_writes_is_seen_at_once(exclusive_s3: S3Server) -> None:
    uri = f"s3://streams/{uuid.uuid4().hex}"
    homes = [open_home(uri, exclusive_s3.options) for _ in range(2)]
    watcher, writer = (home.stream("orders") for home in homes)
    for number in range(1, 6):
        writer.create_epoch(make_epoch(number))

        assert watcher.newest_epoch() == make_epoch(number)


def test_a_file_system_of_a_caller_who_lists_with_a_cache_is_never_stale(
    exclusive_s3: S3Server,
) -> None:
    uri = f"s3://streams/{uuid.uuid4().hex}"
    writer = open_home(uri, exclusive_s3.options).stream("orders")
    caching = s3fs.S3FileSystem(
        **exclusive_s3.options, use_listings_cache=True, skip_instance_cache=True
    )
    watcher = open_home(uri, filesystem=caching).stream("orders")
    for number in range(1, 4):
        writer.create_epoch(make_epoch(number))

        assert watcher.newest_epoch() == make_epoch(number)


def test_a_gateway_that_ignores_the_condition_is_refused(careless_s3: S3Server) -> None:
    uri = f"s3://streams/{uuid.uuid4().hex}"

    with pytest.raises(
        HomeNotExclusive,
        match=rf"The store under {uri} let \d+ of 24 writers create the same file\. .*so nothing "
        r"is run\. Use a local folder, or an object store that honors conditional writes",
    ):
        init_home(uri, careless_s3.options)

    assert open_store(uri, careless_s3.options).names("_store") == []


def test_a_missing_bucket_is_no_empty_home(exclusive_s3: S3Server) -> None:
    home = open_home("s3://no-such-bucket/home", exclusive_s3.options)

    with pytest.raises(HomeUnavailable, match=r"s3://no-such-bucket/home.* cannot be used"):
        home.stream("orders").status(1)
    with pytest.raises(HomeUnavailable):
        home.streams()


def test_wrong_credentials_are_reported_and_not_repeated(exclusive_s3: S3Server) -> None:
    options = {**exclusive_s3.options, "secret": "not-the-secret"}

    with pytest.raises(HomeUnavailable, match="credentials may read and write") as raised:
        init_home(f"s3://streams/{uuid.uuid4().hex}", options)

    assert "not-the-secret" not in str(raised.value)


def test_a_server_that_is_down_is_reported(exclusive_s3: S3Server) -> None:
    [port] = free_ports(1)
    options = {
        **exclusive_s3.options,
        "endpoint_url": f"http://127.0.0.1:{port}",
        **ONE_TRY,
    }

    with pytest.raises(HomeUnavailable, match="can be reached from this host"):
        init_home("s3://streams/home", options)
