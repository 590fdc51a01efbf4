"""A home remembers its backup stores: an empty folder or another store in the place of one is no new store."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.vault.store import BackupStore, open_backup_store
from airflow_streaming.exceptions import BackupStoreMissing
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.storage.known_stores import known_stores


class Place:
    """A backup store, and the home that uses it."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "backups"
        self.home = LocalStore(str(folder / "home"))

    def open(self, *, create: bool = True) -> BackupStore:
        return open_backup_store(str(self.store), create=create, home=self.home)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def emptied(store: Path) -> None:
    shutil.rmtree(store)
    store.mkdir()


def gone(store: Path) -> None:
    shutil.rmtree(store)


def another(store: Path) -> None:
    shutil.rmtree(store)
    open_backup_store(str(store), create=True)


@pytest.mark.parametrize("happens", [emptied, gone, another], ids=lambda one: one.__name__)
@pytest.mark.parametrize("create", [True, False], ids=["backup", "verify"])
def test_a_store_that_is_not_there_any_more_is_named_and_not_made_anew(
    place: Place, happens: object, create: bool
) -> None:
    place.open()
    happens(place.store)  # type: ignore[operator]
    before = sorted(place.store.rglob("*")) if place.store.exists() else None

    with pytest.raises(BackupStoreMissing) as refusal:
        place.open(create=create)

    told = str(refusal.value)
    assert str(place.store) in told
    assert f"{datetime.now(UTC):%Y-%m-%d}" in told
    assert f"delete {place.home.uri}/_store/" in told
    assert (sorted(place.store.rglob("*")) if place.store.exists() else None) == before


def test_the_store_that_is_back_is_used_again(place: Place) -> None:
    place.open()
    away = place.store.with_name("volume")
    place.store.rename(away)
    place.store.mkdir()
    with pytest.raises(BackupStoreMissing):
        place.open()
    place.store.rmdir()
    away.rename(place.store)

    assert place.open().backups() == []


def test_a_new_store_is_made_once_the_home_has_forgotten_the_old_one(place: Place) -> None:
    place.open()
    gone(place.store)
    (record,) = Path(place.home.uri, "_store").iterdir()
    record.unlink()

    place.open()

    assert place.open(create=False).backups() == []


def test_a_store_that_another_home_made_is_remembered_too(place: Place) -> None:
    open_backup_store(str(place.store), create=True)
    place.open()
    gone(place.store)

    with pytest.raises(BackupStoreMissing):
        place.open()


def test_a_look_makes_no_store_known(place: Place) -> None:
    open_backup_store(str(place.store), create=True)
    place.open(create=False)

    assert known_stores(place.home) == []


def test_spellings_of_one_place_are_one_store(place: Place) -> None:
    place.open()
    gone(place.store)

    with pytest.raises(BackupStoreMissing):
        open_backup_store(f"file://{place.store}/", create=True, home=place.home)


def test_the_records_of_a_home_say_when_and_where(place: Place) -> None:
    opened = place.open()

    (known,) = known_stores(place.home)

    assert (known.uri, known.id) == (str(place.store), opened.id)
    assert len(opened.id) == 32
