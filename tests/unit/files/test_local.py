from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable
from airflow_streaming.files.local import LocalStore
from airflow_streaming.files.store import Store
from tests.unit.files.contract import ExclusiveContract, StoreContract, WholeFilesContract


class TestLocalStore(StoreContract, ExclusiveContract, WholeFilesContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return LocalStore(str(tmp_path / "home"))


@pytest.mark.parametrize("prefix", ["", "file://", "local://"])
def test_a_root_may_be_a_path_or_a_uri(tmp_path: Path, prefix: str) -> None:
    LocalStore(f"{prefix}{tmp_path}").create("a/b.json", b"x")

    assert (tmp_path / "a" / "b.json").read_bytes() == b"x"


def test_no_temporary_file_stays_behind(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.create("a.json", b"x")
    store.replace("a.json", b"y")
    with pytest.raises(AlreadyExists):
        store.create("a.json", b"z")

    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_temporary_file_of_a_killed_writer_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / ".a.json.0123.tmp").write_bytes(b"hal")

    assert LocalStore(str(tmp_path)).names("") == []


def test_a_home_that_cannot_be_made_says_where_and_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = LocalStore(str(tmp_path / "file" / "home"))

    with pytest.raises(
        HomeUnavailable, match=r"file/home/a\.json cannot be used: Not a directory\. Check that"
    ):
        store.create("a.json", b"x")


def test_a_folder_in_place_of_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()

    with pytest.raises(HomeUnavailable, match="Is a directory"):
        LocalStore(str(tmp_path)).read("a.json")


def test_a_file_system_without_hard_links_is_named_as_a_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)

    with pytest.raises(HomeUnavailable, match=r"Operation not permitted.*has hard links"):
        LocalStore(str(tmp_path)).create("a.json", b"x")


def test_a_link_whose_reply_was_lost_counts_as_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def link_and_lose_the_reply(source: Path, target: Path) -> None:
        link(source, target)
        raise FileExistsError(17, "File exists")

    monkeypatch.setattr(os, "link", link_and_lose_the_reply)
    store = LocalStore(str(tmp_path))

    store.create("a.json", b"x")

    assert store.read("a.json") == b"x"
