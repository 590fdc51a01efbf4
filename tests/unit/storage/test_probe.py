from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.exceptions import (
    AlreadyExists,
    HomeNotExclusive,
    HomeUnavailable,
    RecordError,
)
from airflow_streaming.home.home import init_home
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.storage.probe import CREATORS, RECORD, ROUNDS, StoreProbe, ensure_exclusive


class CountingStore(LocalStore):
    """Counts creates."""

    creates = 0

    def create(self, path: str, data: bytes) -> None:
        self.creates += 1
        super().create(path, data)


class CarelessStore(LocalStore):
    """Lets everybody create, as a store that ignores If-None-Match does."""

    def create(self, path: str, data: bytes) -> None:
        self.replace(path, data)


class LyingStore(LocalStore):
    """Refuses the later creators, but keeps their content."""

    def create(self, path: str, data: bytes) -> None:
        try:
            super().create(path, data)
        except AlreadyExists:
            self.replace(path, data)
            raise


class RefusingStore(LocalStore):
    """Says of every new file that it exists."""

    def create(self, path: str, data: bytes) -> None:
        raise AlreadyExists(path)


def test_a_sound_store_is_probed_once_and_the_proof_is_recorded(tmp_path: Path) -> None:
    store = CountingStore(str(tmp_path))

    ensure_exclusive(store)
    assert store.creates == CREATORS * ROUNDS + 1
    ensure_exclusive(store)
    assert store.creates == CREATORS * ROUNDS + 1

    proof = StoreProbe.from_bytes(store.read(RECORD) or b"")
    assert (proof.creators, proof.rounds) == (24, ROUNDS)


def test_the_probe_leaves_nothing_but_its_record(tmp_path: Path) -> None:
    ensure_exclusive(LocalStore(str(tmp_path)))

    assert [path.name for path in (tmp_path / "_store").iterdir()] == ["000001.json"]


def test_a_store_that_lets_everybody_win_is_refused_with_its_name_and_the_count(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        HomeNotExclusive,
        match=rf"The store under {tmp_path} let 24 of 24 writers create the same file\. .*"
        r"Use a local folder, or an object store that honors conditional writes",
    ):
        ensure_exclusive(CarelessStore(str(tmp_path)))

    assert list((tmp_path / "_store").iterdir()) == []


def test_a_refused_store_is_probed_again_the_next_time(tmp_path: Path) -> None:
    with pytest.raises(HomeNotExclusive):
        ensure_exclusive(CarelessStore(str(tmp_path)))

    ensure_exclusive(LocalStore(str(tmp_path)))

    assert LocalStore(str(tmp_path)).read(RECORD) is not None


def test_a_store_that_keeps_a_losers_content_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HomeNotExclusive, match="kept the content of another"):
        ensure_exclusive(LyingStore(str(tmp_path)))


def test_a_store_in_which_nobody_wins_is_not_called_unsafe(tmp_path: Path) -> None:
    with pytest.raises(HomeUnavailable, match="let none of 24 writers create a new file"):
        ensure_exclusive(RefusingStore(str(tmp_path)))


def test_two_tasks_may_probe_one_home_at_once(tmp_path: Path) -> None:
    class LateStore(LocalStore):
        """Another task records its probe while this one is still racing."""

        def create(self, path: str, data: bytes) -> None:
            if path == RECORD:
                super().create(path, data)
            super().create(path, data)

    ensure_exclusive(LateStore(str(tmp_path)))

    assert LocalStore(str(tmp_path)).read(RECORD) is not None


def test_a_home_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(HomeUnavailable, match=r"cannot be used: Not a directory.*may write there"):
        init_home(str(tmp_path / "file" / "home"))


def test_probe_files_that_cannot_be_deleted_do_not_matter(tmp_path: Path) -> None:
    class KeepingStore(LocalStore):
        def delete(self, path: str) -> None:
            raise HomeUnavailable("Deleting is not allowed here.")

    ensure_exclusive(KeepingStore(str(tmp_path)))

    assert LocalStore(str(tmp_path)).read(RECORD) is not None


def test_a_foreign_file_in_place_of_the_proof_is_no_proof(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.create(RECORD, b"{}")

    with pytest.raises(RecordError, match=r"_store/000001\.json cannot be read"):
        ensure_exclusive(store)
