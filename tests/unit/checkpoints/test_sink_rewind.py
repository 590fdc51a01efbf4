from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_streaming.checkpoints.restore import sink_rewind
from airflow_streaming.checkpoints.restore.sink_output import open_output
from airflow_streaming.checkpoints.restore.sink_rewind import SinkRewind
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import CheckpointRefused, RestoreTaken
from tests.unit.checkpoints.filesink import FileSink
from tests.unit.checkpoints.restoring import Killed, Life
from tests.unit.checkpoints.rewinding import BOUNDARY, World, dying, make_world, write_new


@pytest.fixture
def world(tmp_path: Path, store: BackupStore) -> World:
    return make_world(tmp_path, store)


@pytest.mark.parametrize("last", range(BOUNDARY, 13))
def test_the_output_is_what_it_was_and_nothing_is_deleted(world: World, last: int) -> None:
    kept = world.sink.tree()
    write_new(world.sink, last)
    new = {path: text for path, text in world.sink.tree().items() if path not in kept}
    world.rewind()
    assert world.sink.read() == world.before
    after = world.sink.tree()
    aside = {path: text for path, text in after.items() if path.startswith("_rolled_back/")}
    assert {path: text for path, text in after.items() if path not in aside} == kept
    texts = list(aside.values())
    assert all(text in texts for text in new.values())


def test_what_was_moved_is_told(world: World) -> None:
    write_new(world.sink, 9)
    (done,) = world.rewind(newest={"counts": 9})
    assert (done.batch, done.batches, done.files) == (4, (5, 6, 7, 8, 9), 10)
    assert done.size == sum(len(f"k=a b/part-0-new-{b}") for b in range(5, 10)) * 2
    assert done.aside == f"{world.sink.root}/_rolled_back/000002-{world.backup.id}"


def test_the_folders_of_partitions_are_kept_aside(world: World) -> None:
    write_new(world.sink, 5)
    (done,) = world.rewind()
    moved = sorted(path.name for path in (Path(done.aside) / "data" / "k=a b").glob("part*"))
    assert moved == ["part-0-new-5", "part-1-new-5"]


def test_the_old_deployment_writes_on_from_the_boundary(world: World) -> None:
    write_new(world.sink, 9)
    world.rewind()
    for batch in range(BOUNDARY + 1, 12):
        world.sink.write(batch, by="again")
    found = world.sink.read()
    assert not [path for path in found if "new" in path]
    assert len([path for path in found if "again" in path]) == 14


def test_asking_again_after_the_old_deployment_has_written_changes_nothing(world: World) -> None:
    write_new(world.sink, 9)
    (first,) = world.rewind()
    world.sink.write(5, by="again")
    before = world.sink.tree()
    (second,) = world.rewind()
    assert world.sink.tree() == before
    assert second.is_done
    assert dataclasses.replace(second, is_done=False) == first


def test_an_output_without_newer_batches_stays_untouched(world: World) -> None:
    before = world.sink.tree()
    (done,) = world.rewind()
    assert world.sink.tree() == before
    assert (done.batches, done.files, done.aside) == ((), 0, "")


@pytest.mark.parametrize("below", [3, 7, 11], ids=["nothing lost", "one compaction", "two"])
def test_entries_that_spark_has_deleted_meanwhile_come_back(world: World, below: int) -> None:
    write_new(world.sink, 12)
    world.sink.expire(below)
    world.rewind()
    assert world.sink.read() == world.before


def prefixes(sink: FileSink, before: list[str]) -> Iterator[list[str]]:
    found = list(before)
    yield sorted(found)
    for batch in range(BOUNDARY + 1, 10):
        found.append(f"k=a b/part-0-new-{batch}")
        yield sorted(found)


def test_killed_at_any_step_a_reader_sees_whole_batches_and_asking_again_ends_the_same(
    tmp_path: Path, store: BackupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path / "first", store)
    write_new(world.sink, 9, files=1)
    saved = shutil.copytree(world.sink.root, tmp_path / "saved")
    whole = list(prefixes(world.sink, world.before))
    seen: list[int] = []

    def watch() -> None:
        seen.append(whole.index(world.sink.read()))

    ends, steps = [], 0
    for last in [None, *range(1, 60)]:
        shutil.rmtree(world.sink.root)
        shutil.copytree(saved, world.sink.root)
        life = Life(last)
        if last is None:
            dying(monkeypatch, life, watch)
            world.rewind()
            steps = life.steps
            assert seen == sorted(seen, reverse=True)
        else:
            dying(monkeypatch, life, lambda: None)
            with pytest.raises(Killed):
                world.rewind()
            assert world.sink.read() in whole
        monkeypatch.setattr(sink_rewind, "open_output", open_output)
        world.rewind()
        ends.append(world.sink.tree())
        if last == steps:
            break
    assert len(ends) == steps + 1 > 20
    assert all(end == ends[0] for end in ends)


def test_two_at_once_end_as_one(
    tmp_path: Path, store: BackupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path / "first", store)
    write_new(world.sink, 7, files=1)
    saved = shutil.copytree(world.sink.root, tmp_path / "saved")
    ends = []
    for at in range(15):
        shutil.rmtree(world.sink.root)
        shutil.copytree(saved, world.sink.root)
        left = [at]

        def other(left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                with monkeypatch.context() as inner:
                    inner.setattr(sink_rewind, "open_output", open_output)
                    world.rewind()

        dying(monkeypatch, Life(), other)
        world.rewind()
        ends.append((world.sink.read(), sorted(world.sink.tree())))
    assert all(end == ends[0] for end in ends)
    assert ends[0][0] == world.before


@pytest.mark.parametrize("asked", range(10))
def test_whoever_is_no_longer_needed_takes_nothing_more_away(world: World, asked: int) -> None:
    write_new(world.sink, 9)
    left = iter([True] * asked)

    def is_needed() -> bool:
        if next(left, False):
            return True
        # Another task has finished it, and the old deployment has written again.
        if not again:
            world.rewind()
            world.sink.write(5, by="again")
            again.append(world.sink.tree())
        return False

    again: list[dict[str, str]] = []
    if asked < 6:
        with pytest.raises(RestoreTaken, match="by another process meanwhile"):
            world.rewind(is_needed=is_needed)
        assert world.sink.tree() == again[0]
    else:
        world.rewind(is_needed=is_needed)
        assert world.sink.read() == world.before


def test_an_entry_that_was_written_anew_meanwhile_is_left_alone(world: World) -> None:
    write_new(world.sink, 9)
    asked: list[int] = []

    def is_needed() -> bool:
        asked.append(1)
        if len(asked) == 3:
            world.sink.write(5, by="again")
            world.sink.write(8, by="again")
        return True

    with pytest.raises(CheckpointRefused, match=r"Entry 8 .* was written anew"):
        world.rewind(is_needed=is_needed)


def test_an_output_of_fsspec_is_put_back_too(world: World) -> None:
    write_new(world.sink, 9)
    for path in list(world.sink.root.rglob(".*.crc")):
        path.unlink()
    root = f"file://{world.sink.root}"
    rewind = SinkRewind(filesystem=LocalFileSystem(auto_mkdir=True))
    world.rewind(rewind, sinks=[world.facts(target=root)])
    assert world.sink.read() == world.before
    aside = world.sink.root / f"_rolled_back/000002-{world.backup.id}/data/k=a b"
    assert len(list(aside.iterdir())) == 10
