from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_streaming.checkpoint import sink_rewind
from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.sink_rewind import Rewinding, SinkRewind
from airflow_streaming.checkpoint.sink_rewind_output import Move, Output, open_output
from airflow_streaming.checkpoint.sources import Source
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.core.checkpoint.backup import Backup
from airflow_streaming.core.upgrade.rollback_sinks import SinkFacts, SinkHabit
from airflow_streaming.exceptions import CheckpointRefused, RestoreTaken
from tests.unit.checkpoint.filesink import NOON_MS, FileSink
from tests.unit.checkpoint.restoring import Killed, Life
from tests.unit.checkpoint.running import back_up, new_checkpoint, run

BOUNDARY = 4
CHANGE = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A query with a file sink, backed up at batch 4, and what the new deployment added."""

    sink: FileSink
    store: BackupStore
    backup: Backup
    before: list[str]

    def facts(self, **changes: Any) -> SinkFacts:
        told: dict[str, Any] = {
            "query": "counts",
            "sink": "file",
            "habit": SinkHabit.FILE_LOG,
            "target": str(self.sink.root),
        }
        return SinkFacts(**told | changes)

    def rewind(self, rewind: SinkRewind | None = None, **asked: Any) -> Any:
        given = {"sinks": [self.facts()], "newest": {"counts": 12}, "change": CHANGE, **asked}
        one = rewind or SinkRewind()
        return one.run(self.store, self.backup, **given)


@pytest.fixture
def world(tmp_path: Path, store: BackupStore) -> World:
    return make_world(tmp_path, store)


def make_world(folder: Path, store: BackupStore, *, interval: int = 4) -> World:
    checkpoint = new_checkpoint(folder)
    sink = FileSink(folder / "out put", interval=interval)
    for batch in range(BOUNDARY + 1):
        sink.write(batch)
    source = Source(
        folder="counts",
        folders=open_folders(str(checkpoint)),
        sink_log=open_folders(str(sink.log)),
    )
    backup = back_up(store, source)
    return World(sink=sink, store=store, backup=backup, before=sink.read())


def write_new(sink: FileSink, last: int, **asked: Any) -> None:
    for batch in range(BOUNDARY + 1, last + 1):
        sink.write(batch, by="new", **asked)


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


class DyingOutput:
    """An output whose user dies before a durable step; every file that is moved is one."""

    def __init__(self, output: Output, life: Life, watch: Callable[[], None]) -> None:
        self.uri, self.folders = output.uri, output.folders
        self.has_checksums = output.has_checksums
        self._output, self._life, self._watch = output, life, watch
        self.records: Any = self

    def read(self, path: str) -> bytes | None:
        return self._output.records.read(path)

    def create(self, path: str, data: bytes) -> None:
        self._step()
        self._output.records.create(path, data)

    def move(self, moves: Iterable[Move]) -> None:
        for move in moves:
            self._step()
            self._output.move([move])

    def _step(self) -> None:
        self._life.step()
        self._watch()


def dying(monkeypatch: pytest.MonkeyPatch, life: Life, watch: Callable[[], None]) -> None:
    monkeypatch.setattr(
        sink_rewind, "open_output", lambda *a: DyingOutput(open_output(*a), life, watch)
    )


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
        with pytest.raises(RestoreTaken, match="by somebody else meanwhile"):
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


def edited(sink: FileSink) -> None:
    (sink.log / "4").write_text("v1")


def begun_anew(sink: FileSink) -> None:
    shutil.rmtree(sink.root)
    other = FileSink(sink.root, interval=4)
    for batch in range(10):
        other.write(batch, by="another")
    other.expire(7)


def gone(sink: FileSink) -> None:
    shutil.rmtree(sink.log)


def torn(sink: FileSink) -> None:
    (sink.log / "9").write_text("v1\n{")


def of_elsewhere(sink: FileSink) -> None:
    entry = json.loads((sink.log / "9").read_text().splitlines()[1])
    entry["path"] = "file:///somewhere/else/part-0"
    (sink.log / "9").write_text(f"v1\n{json.dumps(entry)}")


def climbing(sink: FileSink) -> None:
    entry = json.loads((sink.log / "9").read_text().splitlines()[1])
    entry["path"] = f"file://{sink.root.parent}/out%20put/../checkpoint/metadata"
    (sink.log / "9").write_text(f"v1\n{json.dumps(entry)}")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (edited, "differs from the one in the backup"),
        (begun_anew, "knows no file that the backup knows"),
        (gone, "ends at batch -1, and in the backup it ends at 4"),
        (torn, "cannot be read"),
        (of_elsewhere, "is not in that folder"),
        (climbing, "is not in that folder"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_log_that_is_not_the_one_backed_up_is_refused_untouched(
    world: World, harm: Callable[[FileSink], None], said: str
) -> None:
    write_new(world.sink, 9)
    harm(world.sink)
    before = world.sink.tree()
    with pytest.raises(CheckpointRefused, match=said):
        world.rewind()
    assert world.sink.tree() == before


def test_an_output_that_somebody_else_appends_to_is_refused(world: World) -> None:
    write_new(world.sink, 9)
    with pytest.raises(CheckpointRefused, match="somebody else writes to this output"):
        world.rewind(newest={"counts": 8})
    assert world.sink.read() != world.before


def test_whoever_appends_while_it_is_put_back_is_told_of(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_new(world.sink, 6)
    steps: list[int] = []

    def append() -> None:
        steps.append(1)
        if len(steps) == 3:
            world.sink.write(7, by="stranger")

    dying(monkeypatch, Life(), append)
    with pytest.raises(CheckpointRefused, match="written to while it was put back"):
        world.rewind()
    with pytest.raises(CheckpointRefused, match="somebody else writes"):
        world.rewind()


def test_a_backup_without_the_sinks_log_is_refused(world: World) -> None:
    other = FileSink(world.sink.root.with_name("other"))
    with pytest.raises(CheckpointRefused, match="has not the sink's log of query 'counts'"):
        world.rewind(sinks=[world.facts(target=str(other.root))])


@pytest.mark.parametrize(
    ("written", "is_refused"),
    [(timedelta(minutes=1), False), (-timedelta(hours=14), False), (-timedelta(days=2), True)],
    ids=["written since", "by a clock that is behind", "older files"],
)
def test_a_query_that_had_committed_nothing_goes_back_to_nothing(
    world: World, tmp_path: Path, written: timedelta, is_refused: bool
) -> None:
    sink = FileSink(tmp_path / "late")
    at = (world.backup.begun_at + written).timestamp() * 1000
    for batch in range(3):
        sink.write(batch, by="new", at=int(at))
    facts = world.facts(query="late", target=str(sink.root))
    if not is_refused:
        (done,) = world.rewind(sinks=[facts], newest={})
        assert (done.batch, done.batches, sink.read()) == (-1, (0, 1, 2), [])
        return
    with pytest.raises(CheckpointRefused, match="has files from before backup"):
        world.rewind(sinks=[facts], newest={})


def test_other_sinks_are_put_back_by_their_authors_function(world: World) -> None:
    asked: list[Rewinding] = []
    sinks = [
        world.facts(sink="foreachbatch", habit=SinkHabit.REMEMBERS, target=""),
        world.facts(query="topic", sink="kafka", habit=SinkHabit.APPENDS, target="out"),
        world.facts(query="shown", sink="console", habit=SinkHabit.NOTHING, target=""),
    ]
    done = world.rewind(SinkRewind(asked.append), sinks=sinks, newest={"counts": 7})
    assert asked == [
        Rewinding(
            stream="orders",
            query="counts",
            change=CHANGE,
            batch=4,
            newest=7,
            sink="foreachbatch",
            target="",
        )
    ]
    assert [(plan.query, plan.batches) for plan in done] == [("counts", (5, 6, 7))]


def test_a_function_that_fails_is_told_with_what_to_do(world: World) -> None:
    def failing(asked: Rewinding) -> None:
        raise KeyError(asked.query)

    facts = world.facts(sink="foreachbatch", habit=SinkHabit.REMEMBERS, target="")
    with pytest.raises(CheckpointRefused, match=r"takes batches after 4 .* failed: 'counts'"):
        world.rewind(SinkRewind(failing), sinks=[facts])


def test_the_checkpoint_of_the_boundary_may_have_gone_on(world: World, tmp_path: Path) -> None:
    run(tmp_path / "checkpoint", 5)
    write_new(world.sink, 5, at=NOON_MS + 1)
    world.rewind(newest={"counts": 5})
    assert world.sink.read() == world.before
