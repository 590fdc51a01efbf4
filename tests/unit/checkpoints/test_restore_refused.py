"""A restore that would do harm is refused with every reason, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.checkpoints.restore.refusal import Circumstances
from airflow_streaming.checkpoints.restore.replay import RefusalCode
from airflow_streaming.checkpoints.restore.restore import Place, plan_restore, restore
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import BackupDamaged, BackupNotFound, RestoreRefused
from airflow_streaming.storage import folders
from tests.golden import golden_checkpoint
from tests.unit.checkpoints.restoring import (
    back_up,
    bytes_of,
    codes,
    is_sound_at,
    new_store,
    run_batches,
)


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return new_store(tmp_path)


def a_sink_log(folder: Path, *names: str) -> str:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("v1\n")
    return str(folder)


def test_a_file_sink_that_is_ahead_refuses_unless_that_is_accepted(
    store: BackupStore, tmp_path: Path
) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 3))
    log = a_sink_log(tmp_path / "out/_spark_metadata", "8", "9.compact", "10", ".10.crc", "x")
    place = Place(to=str(tmp_path / "new"), sink_logs={"": log})

    with pytest.raises(RestoreRefused, match=r"silently drop batches 4 to 10"):
        restore(store, backup.id, place)
    assert not (tmp_path / "new").exists()

    restored = restore(store, backup.id, place, accept=[RefusalCode.SINK_GAP])
    assert codes(restored.plan.accepted) == [RefusalCode.SINK_GAP]
    assert is_sound_at(tmp_path / "new", 3)


def test_nobody_can_accept_a_place_that_is_not_empty(store: BackupStore, tmp_path: Path) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 3))

    with pytest.raises(ValueError, match="cannot be accepted: target_not_empty"):
        restore(
            store,
            backup.id,
            Place(to=str(tmp_path / "new")),
            accept=[RefusalCode.TARGET_NOT_EMPTY],
        )


def test_a_restore_never_writes_over_anything(store: BackupStore, tmp_path: Path) -> None:
    live = run_batches(tmp_path / "ck", 3)
    backup = back_up(store, live)
    before = bytes_of(live)

    with pytest.raises(RestoreRefused, match="is not empty: it has commits, metadata, offsets"):
        restore(store, backup.id, Place(to=str(live)))

    assert bytes_of(live) == before


def test_all_reasons_are_told_at_once(store: BackupStore, tmp_path: Path) -> None:
    backup = back_up(store, golden_checkpoint("4.3.0", "agg_rocks_v2").path, stream="other")
    (tmp_path / "new").mkdir()
    (tmp_path / "new/mine").write_text("")
    known = Circumstances(stream="orders", runtime="3.5.9", wanted_running=True)

    plan = plan_restore(store, backup.id, Place(to=str(tmp_path / "new")), circumstances=known)

    assert codes(plan.refusals) == [
        RefusalCode.TARGET_NOT_EMPTY,
        RefusalCode.OTHER_STREAM,
        RefusalCode.WANTED_RUNNING,
        RefusalCode.FORMAT_TOO_NEW,
    ]


@pytest.mark.parametrize(
    "folders",
    [{"x": "x"}, {}, {"counts": "a", "sums": "a"}],
    ids=["unknown", "none", "one for two"],
)
def test_queries_can_only_be_chosen_from_those_that_are_there(
    store: BackupStore, tmp_path: Path, folders: dict[str, str]
) -> None:
    for name in ("counts", "sums"):
        run_batches(tmp_path / "ck" / name, 1)
    backup = back_up(store, tmp_path / "ck")

    with pytest.raises(RestoreRefused, match=r"has no query|into one folder"):
        plan_restore(store, backup.id, Place(to=str(tmp_path / "new"), folders=folders))


def test_a_damaged_backup_is_never_restored(store: BackupStore, tmp_path: Path) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 3))
    (pack,) = (tmp_path / "store").rglob("*.tar.gz")
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)

    with pytest.raises(BackupDamaged):
        restore(store, backup.id, Place(to=str(tmp_path / "new")))

    assert not (tmp_path / "new").exists()


def test_a_backup_with_a_file_of_a_size_that_none_has_is_not_even_read(
    store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 3))
    monkeypatch.setattr(folders, "_GIB", 4)
    monkeypatch.setenv(folders.LARGEST_VARIABLE, "1")
    for pack in (tmp_path / "store").rglob("*.tar.gz"):
        pack.write_bytes(b"")  # nothing of it is looked at

    with pytest.raises(RestoreRefused, match=folders.LARGEST_VARIABLE):
        restore(store, backup.id, Place(to=str(tmp_path / "new")))

    assert not (tmp_path / "new").exists()


def test_an_unknown_backup_is_said(store: BackupStore, tmp_path: Path) -> None:
    with pytest.raises(BackupNotFound):
        restore(store, "20260101T000000-000", Place(to=str(tmp_path / "new")))
