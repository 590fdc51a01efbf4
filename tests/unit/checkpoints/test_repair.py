"""The one batch that a killed driver left in a file sink is moved out of it before the next start."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.repair import batch_move
from airflow_streaming.checkpoints.repair.put_back import PutBack
from airflow_streaming.checkpoints.repair.sink_position import _look_at_log
from airflow_streaming.checkpoints.restore.sink_output import open_output
from airflow_streaming.exceptions import (
    CheckpointRefused,
    FencedError,
    HomeUnavailable,
    RestoreTaken,
)
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.repair import RepairOutcome, SinkRepair, SinkRepairUndo
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.storage import LocalStore
from tests.fakes import FAKE_HOST
from tests.unit.checkpoints.filesink import NOON_MS
from tests.unit.checkpoints.repair_cases import QUERY, DeadStream, plan_of
from tests.unit.checkpoints.restoring import Killed, Life
from tests.unit.checkpoints.rewinding import DyingOutput
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch
from tests.unit.launch.restored_stream import DyingStore

# Batch 3, and 7 with an interval of 4, is an entry that holds all before it.
BEFORE = (-1, 0, 2, 5, 6)


@pytest.mark.parametrize("committed", BEFORE)
def test_the_batch_is_executed_again_and_readers_see_each_row_once(
    tmp_path: Path, committed: int
) -> None:
    stream = DeadStream(tmp_path, committed=committed)
    seen = stream.sink.read()

    (repaired,) = stream.launch()
    stream.run(stream.batch)

    assert repaired.repair is not None
    assert repaired.repair.batch == stream.batch
    again = [path.replace(f"-old-{stream.batch}", f"-again-{stream.batch}") for path in seen]
    assert stream.sink.read() == sorted(again)
    assert len(stream.aside()) > 2, "what was moved is kept"


def test_it_is_recorded_before_the_first_file_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = DeadStream(tmp_path)
    known: list[int] = []

    def watch() -> None:
        known.append(len(stream.home.unfinished_repairs()))

    monkeypatch.setattr(
        batch_move, "open_output", lambda *a: DyingOutput(open_output(*a), Life(), watch)
    )
    stream.launch()

    assert set(known) == {1}
    end = stream.home.repair_end(1)
    assert end is not None
    assert (end.outcome, end.files) == (RepairOutcome.DONE, 2)


@pytest.mark.parametrize("committed", [-1, 5])
def test_the_record_has_what_a_later_task_needs(tmp_path: Path, committed: int) -> None:
    stream = DeadStream(tmp_path, committed=committed)
    stream.launch()

    (repair,) = stream.home.repairs()

    assert (repair.number, repair.epoch, repair.deployment) == (1, 2, 1)
    assert (repair.query, repair.batch) == (QUERY, stream.batch)
    assert (repair.checkpoint, repair.output) == (str(stream.checkpoint), str(stream.sink.root))
    assert (repair.by, repair.at) == ("a test", NOON)
    assert repair.planned_at == datetime.fromtimestamp(NOON_MS / 1000, UTC)


@pytest.mark.parametrize("text", ["v1\n{", "", "v1\n{}\n-"])
def test_a_plan_without_a_time_is_repaired_all_the_same(tmp_path: Path, text: str) -> None:
    stream = DeadStream(tmp_path)
    stream.write(f"offsets/{stream.batch}", text)

    (repaired,) = stream.launch()

    assert repaired.repair is not None
    assert repaired.repair.planned_at is None


def test_a_second_launch_finds_nothing_to_do(tmp_path: Path) -> None:
    stream = DeadStream(tmp_path)
    stream.launch()
    after = stream.sink.tree()

    assert stream.launch(3) == []
    assert stream.sink.tree() == after
    assert len(stream.home.repairs()) == 1


def test_killed_at_any_step_the_next_launch_finishes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = DeadStream(tmp_path / "whole")
    whole.launch()
    expected = {path: text for path, text in whole.sink.tree().items() if "/data/" in path}
    for step in range(1, 40):
        stream, life = DeadStream(tmp_path / str(step)), Life(step)
        home = stream.home_on(DyingStore(LocalStore(str(stream.folder / "home")), life))
        with monkeypatch.context() as patch:
            patch.setattr(
                batch_move,
                "open_output",
                lambda *a, life=life: DyingOutput(open_output(*a), life, lambda: None),
            )
            try:
                stream.launch(home=home)
            except Killed:
                died = True
            else:
                died = False

        stream.launch(3)

        assert stream.home.unfinished_repairs() == []
        assert len(stream.home.repairs()) == 1
        assert {path: text for path, text in stream.sink.tree().items() if "/data/" in path} == (
            expected
        ), step
        stream.run(stream.batch)
        if not died:
            break
    else:
        pytest.fail("It never came to its end.")


@pytest.mark.parametrize("interval", [4, 100])
def test_a_batch_that_was_committed_meanwhile_is_left_alone(tmp_path: Path, interval: int) -> None:
    stream = DeadStream(tmp_path, interval=interval)
    stream.launch()
    repair = stream.home.repairs()[0]
    stream.run(stream.batch)
    (stream.folder / "home/orders/repairs/000001.end.json").unlink()
    after = stream.sink.tree()

    assert stream.launch(3) == []

    end = stream.home.repair_end(repair.number)
    assert end is not None
    assert end.outcome is RepairOutcome.ABANDONED
    assert stream.sink.tree() == after


def nothing_ahead(stream: DeadStream) -> None:
    stream.commit(stream.batch)


def format_1(stream: DeadStream) -> None:
    stream.commit(stream.batch - 1, ids=False)


def another_output(stream: DeadStream) -> None:
    stream.deployment = make_deployment(
        2, checkpoint=stream.deployment.checkpoint, output=str(stream.folder / "other")
    )
    stream.home.create_deployment(stream.deployment, SCRIPT)


def no_plan(stream: DeadStream) -> None:
    shutil.rmtree(stream.folder / "home/orders/epochs/000001/plans")


def torn_commit(stream: DeadStream) -> None:
    stream.write(f"commits/{stream.batch - 1}", "v2\n{")


def no_checkpoint(stream: DeadStream) -> None:
    shutil.rmtree(stream.checkpoint)


@pytest.mark.parametrize(
    "change",
    [nothing_ahead, format_1, another_output, no_plan, torn_commit, no_checkpoint],
    ids=lambda change: change.__name__,
)
def test_a_launch_leaves_alone_what_it_is_not_sure_of(tmp_path: Path, change: object) -> None:
    stream = DeadStream(tmp_path)
    change(stream)  # type: ignore[operator]
    before = stream.sink.tree()

    assert stream.launch() == []
    assert stream.sink.tree() == before
    assert stream.home.repairs() == []


def unmounted(stream: DeadStream) -> None:
    shutil.rmtree(stream.sink.root)


def two_ahead(stream: DeadStream) -> None:
    stream.sink.write(stream.batch + 1)


def hole(stream: DeadStream) -> None:
    (stream.sink.log / str(stream.batch - 2)).unlink()


def torn_entry(stream: DeadStream) -> None:
    (stream.sink.log / str(stream.batch)).write_text("v1\n{")


def of_another_folder(stream: DeadStream) -> None:
    entry = stream.sink.log / str(stream.batch)
    entry.write_text(entry.read_text().replace("out%20put", "elsewhere"))


@pytest.mark.parametrize(
    "change",
    [unmounted, two_ahead, hole, torn_entry, of_another_folder],
    ids=lambda change: change.__name__,
)
def test_a_sink_that_cannot_be_judged_is_refused_with_a_reason(
    tmp_path: Path, change: object
) -> None:
    stream = DeadStream(tmp_path, interval=100)
    change(stream)  # type: ignore[operator]
    before = stream.sink.tree()

    (refused,) = stream.launch()

    assert refused.repair is None
    assert "'counts'" in refused.reason
    assert stream.sink.tree() == before
    assert stream.home.repairs() == []


def test_no_driver_starts_while_a_repair_cannot_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = DeadStream(tmp_path)

    def unreachable(*_: object) -> None:
        raise HomeUnavailable("The store is away.")

    with monkeypatch.context() as patch:
        patch.setattr(batch_move.BatchMove, "end", unreachable)
        with pytest.raises(HomeUnavailable):
            stream.launch()
    with monkeypatch.context() as patch:
        patch.setattr(batch_move, "open_output", unreachable)
        with pytest.raises(HomeUnavailable):
            stream.launch(3)

    (repaired,) = stream.launch(4)
    assert repaired.repair is not None


@pytest.mark.parametrize("committed", BEFORE)
def test_an_undo_moves_everything_back_and_holds(tmp_path: Path, committed: int) -> None:
    stream = DeadStream(tmp_path, committed=committed)
    before = stream.sink.tree()
    stream.launch()
    (repair,) = stream.home.repairs()

    stream.home.undo_repair(SinkRepairUndo(number=1, by="kim", reason="", at=NOON))
    PutBack(repair).run()
    PutBack(repair).run()

    left = {path: text for path, text in stream.sink.tree().items() if "_rolled_back" not in path}
    assert left == before
    (refused,) = stream.launch(3)
    assert refused.repair is None
    assert "a user has put back" in refused.reason


def test_an_undo_is_refused_once_the_batch_was_written_anew(tmp_path: Path) -> None:
    stream = DeadStream(tmp_path)
    stream.launch()
    stream.run(stream.batch)
    after = stream.sink.tree()

    with pytest.raises(CheckpointRefused, match="ends at batch"):
        PutBack(stream.home.repairs()[0]).run()

    assert stream.sink.tree() == after


def test_a_task_that_slept_leaves_the_sink_of_a_newer_driver_alone(tmp_path: Path) -> None:
    stream = DeadStream(tmp_path)
    stream.home.create_epoch(make_epoch(2, host=FAKE_HOST))
    stream.home.create_epoch(make_epoch(3, host=FAKE_HOST))
    before = stream.sink.tree()

    with pytest.raises(FencedError):
        stream.launch(2)

    assert stream.sink.tree() == before
    assert stream.home.repairs() == []


def test_a_newer_epoch_that_comes_during_a_repair_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = DeadStream(tmp_path)
    stream.home.create_epoch(make_epoch(2, host=FAKE_HOST))
    before = {path: text for path, text in stream.sink.tree().items() if "_rolled" not in path}
    begin = stream.home.begin_repair

    def slow(repair: SinkRepair) -> bool:
        is_ours = begin(repair)
        stream.home.create_epoch(make_epoch(3, host=FAKE_HOST))
        return is_ours

    monkeypatch.setattr(type(stream.home), "begin_repair", lambda _, repair: slow(repair))
    with pytest.raises(RestoreTaken):
        stream.launch(2)

    left = {path: text for path, text in stream.sink.tree().items() if "_rolled" not in path}
    assert left == before
    assert len(stream.home.unfinished_repairs()) == 1


def interrupted(stream: DeadStream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a launch die after it has recorded its repair."""
    with monkeypatch.context() as patch:
        patch.setattr(batch_move.BatchMove, "_rewind", lambda *_: Unwritable())
        with pytest.raises(HomeUnavailable):
            stream.launch()
    assert len(stream.home.unfinished_repairs()) == 1


class Unwritable:
    """A sink that can be read and not written."""

    def plan(self) -> None:
        """Find nothing against the repair."""

    def run(self, _: object) -> None:
        raise HomeUnavailable("The store is read-only.")


@pytest.mark.parametrize("field", ["checkpoint", "output"])
def test_a_deployment_that_uses_another_place_is_not_kept_down_by_an_old_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    stream = DeadStream(tmp_path)
    interrupted(stream, monkeypatch)
    elsewhere = {field: str(tmp_path / "elsewhere")}
    stream.deployment = replace(stream.deployment, number=2, **elsewhere)
    stream.home.create_deployment(stream.deployment, SCRIPT)
    stream.home.create_epoch(make_epoch(2, host=FAKE_HOST, deployment=2))
    plan = plan_of(Path(stream.deployment.output))
    path = Layout("orders").place(QueryPlan, epoch=2, query=QUERY)
    stream.home.store.create(path, plan.to_bytes("orders"))

    assert [one.repair for one in stream.launch(3) if one.repair] == []
    assert stream.home.unfinished_repairs() == []
    end = stream.home.repair_end(1)
    assert end is not None
    assert end.outcome is RepairOutcome.ABANDONED


def test_a_query_that_the_script_may_have_no_more_keeps_its_batch(tmp_path: Path) -> None:
    stream = DeadStream(tmp_path)
    before = stream.sink.tree()
    other = make_deployment(
        2, b"# other", checkpoint=stream.deployment.checkpoint, output=stream.deployment.output
    )
    stream.home.create_deployment(other, b"# other")
    stream.deployment = other

    assert stream.launch() == []
    assert stream.sink.tree() == before


def test_a_damaged_plan_repairs_nothing_and_stops_no_launch(tmp_path: Path) -> None:
    stream = DeadStream(tmp_path)
    path = Layout("orders").place(QueryPlan, epoch=1, query=QUERY)
    stream.home.store.replace(path, b"{")

    assert stream.launch() == []


@pytest.mark.parametrize(
    ("committed", "sink"),
    [
        pytest.param(-1, -1, id="nothing is committed: the first batch may have no log yet"),
        pytest.param(0, None, id="one batch is committed"),
        pytest.param(5, None, id="six batches are committed"),
    ],
)
def test_a_log_that_is_missing_is_empty_only_before_the_first_commit(
    committed: int, sink: int | None, tmp_path: Path
) -> None:
    missing = tmp_path / "elsewhere"

    found = _look_at_log(str(missing), committed, None)

    reason = "" if sink is not None else f"There is no {missing}/_spark_metadata."
    assert found == (sink, reason, "")


def test_an_undo_is_refused_where_the_log_ends_before_the_batch_before(tmp_path: Path) -> None:
    stream = DeadStream(tmp_path, committed=5)
    stream.launch()
    (stream.sink.log / "5").unlink()

    with pytest.raises(CheckpointRefused, match="ends at batch 4"):
        PutBack(stream.home.repairs()[0]).run()


def test_a_batch_that_an_older_driver_commits_during_the_move_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(1, 40):
        stream, life = DeadStream(tmp_path / str(step)), Life()
        seen = stream.sink.read()

        def watch(step: int = step, stream: DeadStream = stream, life: Life = life) -> None:
            if life.steps == step:
                stream.commit(stream.batch)

        with monkeypatch.context() as patch:
            patch.setattr(
                batch_move,
                "open_output",
                lambda *a, life=life, watch=watch: DyingOutput(open_output(*a), life, watch),
            )
            if life_is_over := not committed_while_repairing(stream):
                assert life.steps < step
        if life_is_over:
            break

        assert stream.sink.read() == seen, step
        assert stream.launch(3) == []
        assert stream.sink.read() == seen, step
    else:
        pytest.fail("The older driver never came too late.")


def committed_while_repairing(stream: DeadStream) -> bool:
    """Launch; tell whether the launch noticed that an older driver lives."""
    try:
        stream.launch()
    except CheckpointRefused:
        return True
    return False


def test_a_batch_that_was_committed_before_the_task_died_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = DeadStream(tmp_path)
    seen = stream.sink.read()

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(batch_move.BatchMove, "end", killed)
        with pytest.raises(Killed):
            stream.launch()
    stream.commit(stream.batch)

    assert stream.launch(3) == []
    assert stream.sink.read() == seen
    assert stream.home.unfinished_repairs() == []


def test_a_batch_of_another_query_of_the_stream_stays(tmp_path: Path) -> None:
    stream = DeadStream(tmp_path)
    stream.record_plan(1, query="totals")
    before = stream.sink.tree()

    refused = stream.launch()

    assert [one.repair for one in refused] == [None]
    assert "query 'totals' of stream 'orders'" in refused[0].reason
    assert stream.sink.tree() == before
    assert stream.home.repairs() == []


def test_a_batch_of_another_stream_of_the_home_stays(tmp_path: Path) -> None:
    stream = DeadStream(tmp_path)
    stream.add_stream("copies")
    before = stream.sink.tree()

    refused = stream.launch()

    assert [one.repair for one in refused] == [None]
    assert "query 'counts' of stream 'copies'" in refused[0].reason
    assert stream.sink.tree() == before


def test_a_stream_with_a_folder_of_its_own_is_in_nobodys_way(tmp_path: Path) -> None:
    stream = DeadStream(tmp_path)
    stream.add_stream("copies", tmp_path / "copies of out put")

    (repaired,) = stream.launch()

    assert repaired.repair is not None


def test_an_unfinished_repair_leaves_a_batch_of_another_query_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = DeadStream(tmp_path)
    interrupted(stream, monkeypatch)
    stream.add_stream("copies")
    before = stream.sink.tree()

    refused = stream.launch(3)

    assert [one.repair for one in refused] == [None, None]
    assert stream.sink.tree() == before
    end = stream.home.repair_end(1)
    assert end is not None
    assert end.outcome is RepairOutcome.ABANDONED


def test_a_damaged_stream_beside_it_does_not_keep_the_stream_down(tmp_path: Path) -> None:
    stream = DeadStream(tmp_path)
    stream.add_stream("copies")
    path = Layout("copies").place(QueryPlan, epoch=1, query=QUERY)
    stream.home.store.replace(path, b"{")

    (repaired,) = stream.launch()

    assert repaired.repair is not None
