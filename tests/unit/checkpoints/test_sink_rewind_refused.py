"""Outputs that are not put back, and sinks that only their author can put back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.restore.file_sink_rewind import Boundary, SinkLook
from airflow_streaming.checkpoints.restore.sink_output import open_output
from airflow_streaming.checkpoints.restore.sink_rewind import SinkRewind
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.arguments.rewinding import Rewinding
from tests.unit.checkpoints.filesink import NOON_MS, FileSink
from tests.unit.checkpoints.restoring import Life
from tests.unit.checkpoints.rewinding import (
    BOUNDARY,
    CHANGE,
    World,
    dying,
    make_world,
    write_new,
)
from tests.unit.checkpoints.running import NOW, run


@pytest.fixture
def world(tmp_path: Path, store: BackupStore) -> World:
    return make_world(tmp_path, store)


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
    with pytest.raises(CheckpointRefused, match="another process writes to this output"):
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
    with pytest.raises(CheckpointRefused, match="another process writes"):
        world.rewind()


def test_a_backup_without_the_sinks_log_is_refused(world: World) -> None:
    other = FileSink(world.sink.root.with_name("other"))
    with pytest.raises(CheckpointRefused, match="has not the sink's log of query 'counts'"):
        world.rewind(sinks=[world.facts(target=str(other.root))])


def boundary_of(kept: dict[str, bytes]) -> Boundary:
    return Boundary(
        stream="orders",
        query="counts",
        change=CHANGE,
        backup="b-1",
        batch=BOUNDARY,
        planned=7,
        kept=kept,
        since=NOW,
    )


@pytest.mark.parametrize(
    ("first", "is_refused"), [(BOUNDARY + 1, False), (BOUNDARY, True), (BOUNDARY - 1, True)]
)
def test_an_output_that_the_backup_knows_empty_has_newer_batches_only(
    tmp_path: Path, first: int, is_refused: bool
) -> None:
    sink = FileSink(tmp_path / "output", interval=20)
    for batch in range(first, 8):
        sink.write(batch, by="new")
    look = SinkLook(open_output(str(sink.root)), boundary_of({}))
    if is_refused:
        with pytest.raises(CheckpointRefused, match="the backup has none of its entries"):
            look.look(None)
    else:
        assert look.look(None).newest == 7


def test_an_output_whose_backed_up_batches_wrote_no_file_goes_back_too(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "output", interval=20)
    sink.log.mkdir(parents=True, exist_ok=True)
    kept = {str(batch): b"v1" for batch in range(BOUNDARY + 1)}
    for name, data in kept.items():
        (sink.log / name).write_bytes(data)
    sink.write(BOUNDARY + 1, by="new")

    found = SinkLook(open_output(str(sink.root)), boundary_of(kept)).look(None)

    assert (found.newest, list(found.entries)) == (BOUNDARY + 1, [str(BOUNDARY + 1)])


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


@pytest.mark.parametrize(
    ("stream", "query"), [("orders", "later"), ("clicks", "late")], ids=["query", "stream"]
)
def test_what_was_put_back_for_another_query_is_not_taken_for_this_one(
    world: World, tmp_path: Path, stream: str, query: str
) -> None:
    sink = FileSink(tmp_path / "late")
    sink.write(0, at=int(world.backup.begun_at.timestamp() * 1000))
    late = world.facts(query="late", target=str(sink.root))
    world.rewind(sinks=[late], newest={})
    sink.write(0, by="again")
    before = sink.tree()

    empty = replace(world.backup, stream=stream, queries=(), bundles=())
    with pytest.raises(CheckpointRefused, match="is of query 'late' of stream 'orders'"):
        replace(world, backup=empty).rewind(sinks=[replace(late, query=query)], newest={})

    assert sink.tree() == before


def test_other_sinks_are_put_back_by_their_authors_function(world: World) -> None:
    asked: list[Rewinding] = []
    sinks = [
        world.facts(sink="foreachbatch", habit=SinkReplaySemantics.REMEMBERS, target=""),
        world.facts(query="topic", sink="kafka", habit=SinkReplaySemantics.APPENDS, target="out"),
        world.facts(query="shown", sink="console", habit=SinkReplaySemantics.NOTHING, target=""),
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

    facts = world.facts(sink="foreachbatch", habit=SinkReplaySemantics.REMEMBERS, target="")
    with pytest.raises(CheckpointRefused, match=r"takes batches after 4 .* failed: 'counts'"):
        world.rewind(SinkRewind(failing), sinks=[facts])


def test_a_function_whose_work_was_not_done_has_not_put_the_sink_back(world: World) -> None:
    async def rewind(asked: Rewinding) -> None: ...

    facts = world.facts(sink="foreachbatch", habit=SinkReplaySemantics.REMEMBERS, target="")
    with pytest.raises(CheckpointRefused, match="NeverRan"):
        world.rewind(SinkRewind(lambda asked: rewind(asked)), sinks=[facts])


def test_the_checkpoint_of_the_boundary_may_have_gone_on(world: World, tmp_path: Path) -> None:
    run(tmp_path / "checkpoint", 5)
    write_new(world.sink, 5, at=NOON_MS + 1)
    world.rewind(newest={"counts": 5})
    assert world.sink.read() == world.before
