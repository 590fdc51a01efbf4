"""A checkpoint that is damaged, or lies where it cannot be backed up, is refused with the reason."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.backup.live_copy import sources_of
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import CheckpointError, CheckpointRefused, SpecError
from airflow_streaming.storage import folders
from airflow_streaming.storage.folders import open_folders
from airflow_streaming.storage.fsspec_blobs import open_blobs
from tests.golden import golden_checkpoint
from tests.unit.checkpoints.in_memory import golden, other_codec
from tests.unit.checkpoints.running import at, back_up, digests, new_checkpoint, of, plan
from tests.unit.checkpoints.state.papers import sidecar


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return new_checkpoint(tmp_path)


def test_a_folder_without_checkpoints_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(CheckpointError):
        sources_of(open_folders(str(tmp_path / "nothing")))


@pytest.mark.parametrize("names", [(), ("a", "a"), ("", "a")], ids=["none", "twice", "mixed"])
def test_folders_of_a_backup_cannot_collide(
    store: BackupStore, checkpoint: Path, names: tuple[str, ...]
) -> None:
    sources = [of(open_folders(str(checkpoint)), folder) for folder in names]
    with pytest.raises(ValueError, match="different folders"):
        back_up(store, *sources)


def test_a_state_file_of_a_size_that_none_has_is_not_copied(
    store: BackupStore, tmp_path: Path
) -> None:
    root, made = tmp_path / "stateful", golden("agg_rocks_v2")
    for path, data in made.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    newest = root / made.newest("state/0/0", ".changelog")
    os.truncate(newest, 1 << 40)

    with pytest.raises(CheckpointRefused, match=folders.LARGEST_VARIABLE):
        back_up(store, at(root))


@pytest.mark.parametrize(
    ("most", "is_copied"), [("1", False), ("1000000", True), (" 1000000 ", True)]
)
def test_the_largest_file_that_is_copied_is_a_setting(
    store: BackupStore,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    most: str,
    is_copied: bool,
) -> None:
    monkeypatch.setattr(folders, "_GIB", 16)
    monkeypatch.setenv(folders.LARGEST_VARIABLE, most)

    if is_copied:
        assert back_up(store, at(checkpoint)).queries
        return
    with pytest.raises(CheckpointRefused, match=folders.LARGEST_VARIABLE):
        back_up(store, at(checkpoint))


@pytest.mark.parametrize("most", ["0", "-1", "x", "1.5", "9" * 5_000, "²", "1000001"])
def test_a_largest_size_that_is_none_is_refused(
    store: BackupStore, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, most: str
) -> None:
    monkeypatch.setenv(folders.LARGEST_VARIABLE, most)
    with pytest.raises(SpecError, match=folders.LARGEST_VARIABLE):
        back_up(store, at(checkpoint))


@pytest.mark.parametrize("place", ["checkpoint/backups", "link/backups", "."])
def test_a_store_never_lies_inside_a_checkpoint_nor_the_other_way_round(
    checkpoint: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "link").symlink_to(checkpoint)
    before = digests(checkpoint)
    store = BackupStore(open_blobs(str(tmp_path / place)))

    with pytest.raises(SpecError, match="do not lie apart") as refused:
        back_up(store, at(checkpoint))

    assert str(checkpoint) in str(refused.value)
    assert str(tmp_path / place) in str(refused.value)
    assert digests(checkpoint) == before


def test_state_of_another_codec_is_still_checked_when_its_commits_are_known(
    store: BackupStore, tmp_path: Path
) -> None:
    root = tmp_path / "checkpoint"
    made = other_codec(golden("agg_rocks_v2"), zip_at=3)
    newest = made.newest("state/0/0", ".changelog")
    made.write(f"{newest}.crc", sidecar(made.files[newest]))
    for path, data in made.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    first = back_up(store, at(root))
    assert first.queries[0].batch == 6
    (root / newest).write_bytes(made.files[newest][:-1] + b"?")

    with pytest.raises(CheckpointRefused, match=newest):
        back_up(store, at(root))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        pytest.param(lambda root: (root / "offsets/4").unlink(), "plan is missing", id="no plan"),
        pytest.param(lambda root: plan(root, 6), "batch 5 is not committed", id="skipped batch"),
        pytest.param(
            lambda root: (root / "commits/4").write_text("v9\n{}"), "commits/4", id="from later"
        ),
        pytest.param(lambda root: (root / "l").symlink_to("/etc"), "symbolic link", id="a link"),
        pytest.param(lambda root: os.mkfifo(root / "pipe"), "pipe", id="a pipe"),
        pytest.param(
            lambda root: (root / "metadata").write_text("{}"), "metadata", id="no query id"
        ),
    ],
)
def test_a_damaged_checkpoint_is_refused_with_the_reason(
    store: BackupStore, checkpoint: Path, spoil: Callable[[Path], object], why: str
) -> None:
    spoil(checkpoint)
    with pytest.raises(CheckpointRefused, match=why) as refused:
        back_up(store, at(checkpoint))
    assert str(checkpoint) in str(refused.value)
    assert store.backups() == []


@pytest.mark.parametrize("lost", ["state/0/1/5.delta", "state/0/1"])
def test_lost_state_is_refused(store: BackupStore, tmp_path: Path, lost: str) -> None:
    root = golden_checkpoint("4.3.0", "agg").copy_to(tmp_path / "copy")
    found = root / lost
    shutil.rmtree(found) if found.is_dir() else found.unlink()
    with pytest.raises(CheckpointRefused, match="state"):
        back_up(store, at(root))


def test_a_damaged_state_file_is_refused_again_and_again(
    store: BackupStore, tmp_path: Path
) -> None:
    root = golden_checkpoint("4.3.0", "agg").copy_to(tmp_path / "copy")
    back_up(store, at(root))
    damaged = root / "state/0/0/7.delta"
    damaged.write_bytes(damaged.read_bytes()[:-5])
    (root / "state/0/0/.7.delta.crc").unlink()
    for _ in range(2):
        # The first refused backup leaves a pack with the file, which the second one knows.
        with pytest.raises(CheckpointRefused, match=r"7\.delta"):
            back_up(store, at(root))
    assert len(store.backups()) == 1
