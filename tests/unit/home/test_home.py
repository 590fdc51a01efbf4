from __future__ import annotations

from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_streaming.exceptions import HomeUnavailable, SpecError
from airflow_streaming.home.home import Home, init_home, open_home
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.storage.fsspec_store import FsspecStore, open_store
from airflow_streaming.storage.probe import RECORD
from tests.unit.home.make import SCRIPT, make_deployment


def test_a_home_that_is_made_has_the_record_of_its_probe(tmp_path: Path) -> None:
    init_home(str(tmp_path))

    assert LocalStore(str(tmp_path)).read(RECORD) is not None


def test_opening_a_home_writes_nothing(tmp_path: Path) -> None:
    assert open_home(str(tmp_path / "home")).streams() == []

    assert list(tmp_path.iterdir()) == []


def test_the_streams_of_a_home_are_the_folders_with_a_deployment(tmp_path: Path) -> None:
    home = open_home(str(tmp_path))
    for name in ("sales", "orders"):
        home.stream(name).create_deployment(make_deployment(stream=name), SCRIPT)
    (tmp_path / "README.md").write_text("not a stream")
    (tmp_path / "empty").mkdir()
    (tmp_path / "a name").mkdir()

    assert home.streams() == ["orders", "sales"]


@pytest.mark.parametrize("name", ["x" * 87, "a.", "orders.green.green", "orders.standby"])
def test_a_folder_with_a_name_that_no_stream_can_have_is_passed_over(
    tmp_path: Path, name: str
) -> None:
    home = open_home(str(tmp_path))
    for lane in ("orders", "orders.green"):
        home.stream(lane).create_deployment(make_deployment(stream=lane), SCRIPT)
    (tmp_path / name / "deployments").mkdir(parents=True)

    assert home.streams() == ["orders", "orders.green"]


@pytest.mark.parametrize("name", ["a/b", "..", "a..b", "", "_store", "a b", "x" * 101, "ä"])
def test_a_stream_whose_name_cannot_be_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match="cannot be used as a folder name"):
        Home(LocalStore(str(tmp_path))).stream(name)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param("streams", "is relative", id="a relative path"),
        pytest.param("s3://key:secret@bucket/x", "may not carry credentials", id="credentials"),
        pytest.param("/a/../b", "has '..' in it", id="dots"),
        pytest.param("simplecache::s3://bucket", "Give a plain path or a URI", id="a chain"),
        pytest.param("file://host/streams", "names a host", id="a file of another host"),
        pytest.param("nosuch://x/y", "Protocol not known: nosuch.*Install", id="unknown scheme"),
    ],
)
def test_a_uri_that_cannot_be_a_home_is_refused(uri: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        open_store(uri)


def test_a_missing_client_is_named_with_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import fsspec.core

    def missing(*_: object, **__: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)

    with pytest.raises(SpecError, match=r"pip install 'airflow-streaming\[s3\]'"):
        open_store("s3a://bucket/streams")


def test_a_client_that_cannot_be_set_up_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec.core

    class NoCredentials(Exception):
        """Like a cloud client's own error, which shares no base class with others."""

    def fail(*_: object, **__: object) -> None:
        raise NoCredentials("no default credentials were found")

    monkeypatch.setattr(fsspec.core, "url_to_fs", fail)

    with pytest.raises(HomeUnavailable, match=r"no default credentials .*Check the connection"):
        open_store("gs://bucket/streams")


def test_a_remote_home_lists_without_a_cache_and_on_an_instance_of_its_own() -> None:
    pytest.importorskip("s3fs")

    stores = [open_store("s3a://bucket/streams", {"anon": True}) for _ in range(2)]

    first, second = (store._fs for store in stores if isinstance(store, FsspecStore))
    assert first is not second
    assert first.dircache.use_listings_cache is False
    assert stores[0].uri == "s3a://bucket/streams"


def test_a_file_system_from_outside_is_used_as_it_is() -> None:
    filesystem = MemoryFileSystem()

    store = open_store("memory://test_home/streams/", filesystem=filesystem)

    assert isinstance(store, FsspecStore)
    assert store._fs is filesystem
    store.create("a.json", b"x")
    try:
        assert filesystem.cat_file("/test_home/streams/a.json") == b"x"
    finally:
        filesystem.rm("/test_home", recursive=True)


def test_the_uri_of_a_home_is_kept_as_the_user_wrote_it(tmp_path: Path) -> None:
    assert open_home(f"file://{tmp_path}/").store.uri == f"file://{tmp_path}"
