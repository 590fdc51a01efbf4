"""Nothing new is made inside somebody's checkpoint or backup store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoints.restore.clone import carry_over, clone
from airflow_streaming.checkpoints.restore.restore import Place, plan_restore, restore
from airflow_streaming.checkpoints.vault.layout import check_outside
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.exceptions import SpecError
from airflow_streaming.storage.folders import open_folders
from tests.unit.checkpoints.restoring import Memory, back_up, bytes_of, new_store, run_batches

INSIDE = (
    pytest.param("live/state/1", "the checkpoint of a query", id="where Spark has state"),
    pytest.param("live/new", "the checkpoint of a query", id="in a checkpoint"),
    pytest.param("link/new", "the checkpoint of a query", id="behind a link"),
    pytest.param("store/orders/packs/x", "a backup store", id="among packs"),
    pytest.param("store/clone", "a backup store", id="in a store"),
)


def _restored(to: str, folder: Path) -> None:
    store = open_backup_store(str(folder / "store"))
    restore(store, store.backups()[0].id, Place(to=to))


def _planned(to: str, folder: Path) -> None:
    store = open_backup_store(str(folder / "store"))
    plan_restore(store, store.backups()[0].id, Place(to=to))


MAKES: dict[str, Callable[[str, Path], object]] = {
    "restore": _restored,
    "dry run": _planned,
    "clone": lambda to, folder: clone(str(folder / "other"), to),
    "carry-over": lambda to, folder: carry_over(str(folder / "other"), to, stateless=True),
    "store": lambda to, _: open_backup_store(to, create=True),
}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@pytest.mark.parametrize(("to", "what"), INSIDE)
def test_nothing_new_is_made_in_a_checkpoint_or_a_store(
    make: Callable[[str, Path], object], to: str, what: str, tmp_path: Path
) -> None:
    run_batches(tmp_path / "live", 3)
    (tmp_path / "link").symlink_to(tmp_path / "live")
    back_up(new_store(tmp_path), run_batches(tmp_path / "other", 2))
    before = bytes_of(tmp_path)

    with pytest.raises(SpecError, match=f"{to} lies inside .*, which is {what}"):
        make(str(tmp_path / to), tmp_path)

    assert {path for path in bytes_of(tmp_path) if "/holds/" not in path} == before.keys()


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_beside_them_there_is_room(make: Callable[[str, Path], object], tmp_path: Path) -> None:
    run_batches(tmp_path / "all/live", 3)
    back_up(new_store(tmp_path), run_batches(tmp_path / "other", 2))
    (tmp_path / "all/metadata").write_text("notes on our checkpoints")
    (tmp_path / "all/store.json").mkdir()

    make(str(tmp_path / "all/new/place"), tmp_path)


class Counting(Memory):
    """Counts what is asked for, and denies whatever is not under a prefix."""

    def __init__(self, may_read: str = "") -> None:
        super().__init__()
        self.asked: list[str] = []
        self.may_read = may_read

    def cat_file(self, path: str, *more: Any, **options: Any) -> bytes:
        self.asked.append(path)
        if self.may_read not in path:
            raise PermissionError(path)
        found: bytes = super().cat_file(path, *more, **options)
        return found


def test_on_an_object_store_two_small_files_of_each_folder_above_are_asked_for() -> None:
    memory = Counting()
    place = open_folders("memory://bucket/a/live/state/1", filesystem=memory)

    check_outside(place)
    assert len(memory.asked) == 2 * len(("bucket", "a", "live", "state"))

    memory.pipe_file("bucket/a/live/metadata", b'{"id":"1-1-1-1-1"}')
    with pytest.raises(SpecError, match=r"inside memory://bucket/a/live, which is the checkpoint"):
        check_outside(place)


def test_above_what_the_credentials_are_good_for_nobody_looks() -> None:
    memory = Counting(may_read="bucket/ours")

    check_outside(open_folders("memory://bucket/ours/new/place", filesystem=memory))

    assert [path.rpartition("/")[0].strip("/") for path in memory.asked] == [
        "bucket/ours/new",
        "bucket/ours/new",
        "bucket/ours",
        "bucket/ours",
        "bucket",
    ]
