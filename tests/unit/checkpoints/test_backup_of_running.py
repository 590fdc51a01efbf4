"""Backups of checkpoints that change while they are copied, and backups that are killed."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.progress import ProgressNow
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import CheckpointBusy
from airflow_streaming.model.arguments.choices import Origin
from tests.unit.checkpoints.live import Live
from tests.unit.checkpoints.running import (
    at,
    back_up,
    content,
    digests,
    large,
    new_checkpoint,
    of,
    once,
    run,
    write,
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return new_checkpoint(tmp_path)


def test_a_purge_under_the_copy_leads_to_a_newer_batch(
    store: BackupStore, checkpoint: Path
) -> None:
    def go_on() -> None:
        for batch in range(5, 9):
            run(checkpoint, batch)
        for batch in range(6):
            (checkpoint / f"commits/{batch}").unlink()
            (checkpoint / f"offsets/{batch}").unlink()

    live = Live(checkpoint, once("offsets/1", go_on))
    backup = back_up(store, of(live))
    assert backup.queries[0].batch == 8
    assert content(store, backup) == digests(checkpoint)
    assert live.walks == 3


def test_a_quick_query_that_purges_its_oldest_plans_is_copied_without_them(
    store: BackupStore, checkpoint: Path
) -> None:
    def purge() -> None:
        for log in ("offsets", "commits"):
            for batch in range(3):
                (checkpoint / f"{log}/{batch}").unlink()

    live = Live(checkpoint, once("offsets/1", purge))
    backup = back_up(store, of(live))
    assert backup.queries[0].batch == 4
    assert content(store, backup) == digests(checkpoint)
    assert live.walks == 2


def test_a_purge_of_what_was_copied_does_no_harm(store: BackupStore, checkpoint: Path) -> None:
    before = digests(checkpoint)
    # The metadata is copied last.
    live = Live(checkpoint, once("metadata", (checkpoint / "offsets/0").unlink))
    backup = back_up(store, of(live))
    assert content(store, backup) == before
    assert live.walks == 2


def test_a_purge_of_what_an_earlier_backup_has_does_no_harm(
    store: BackupStore, checkpoint: Path
) -> None:
    back_up(store, at(checkpoint))
    run(checkpoint, 5)
    before = digests(checkpoint)
    # The new plan is the first file to be read by the copy; what is known was taken before it.
    purges = iter([lambda: None, (checkpoint / "offsets/0").unlink])
    live = Live(checkpoint, lambda path: next(purges)() if path == "offsets/5" else None)
    backup = back_up(store, of(live))
    assert content(store, backup) == before
    assert live.walks == 2


def test_a_file_that_is_written_anew_is_copied_anew(store: BackupStore, checkpoint: Path) -> None:
    rewrite = once("commits/4", lambda: write(checkpoint / "offsets/4", "v1\n{}\n-"))
    backup = back_up(store, of(Live(checkpoint, rewrite)))
    assert content(store, backup) == digests(checkpoint)


def test_a_checkpoint_that_is_never_still_is_given_up_and_nothing_is_published(
    store: BackupStore, checkpoint: Path
) -> None:
    newest = 4

    def go_on(path: str) -> None:
        nonlocal newest
        if path == f"commits/{newest}":
            newest += 1
            run(checkpoint, newest)
            (checkpoint / f"sources/0/x{newest}").write_text("new")
            os.utime(checkpoint / "sources/0/0", ns=(newest, newest))

    with pytest.raises(CheckpointBusy, match=r"3 attempts.*minBatchesToRetain"):
        back_up(store, of(Live(checkpoint, go_on)), attempts=3)
    assert store.backups() == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(Path.unlink, id="vanishes"),
        pytest.param(lambda path: path.write_bytes(b"short"), id="shrinks"),
    ],
)
def test_a_large_file_that_changes_under_the_copy_leads_to_another_attempt(
    store: BackupStore, checkpoint: Path, change: Callable[[Path], object]
) -> None:
    path = large(checkpoint)
    live = Live(checkpoint, once("sources/0/large", lambda: change(path)))
    backup = back_up(store, of(live))
    assert live.walks == 3
    assert content(store, backup) == digests(checkpoint)


def test_a_backup_that_is_killed_is_never_listed_and_the_next_one_is_whole(
    store: BackupStore, checkpoint: Path
) -> None:
    class Killed(BaseException):
        pass

    def kill_at(step: int) -> Callable[[ProgressNow], None]:
        steps = count()

        def tell(now: ProgressNow) -> None:
            if next(steps) == step:
                raise Killed

        return tell

    for step in range(15):
        with pytest.raises(Killed):
            take_backup(
                [at(checkpoint)],
                store,
                stream="orders",
                origin=Origin.MANUAL,
                by="x",
                progress=kill_at(step),
            )
        assert store.backups() == []
    assert content(store, back_up(store, at(checkpoint))) == digests(checkpoint)
