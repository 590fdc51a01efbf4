"""A restore that takes the file sink back with the checkpoint, as a query with state needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.restore.stream_restore import Switched
from airflow_streaming.changes.restore.undo import abandon, plan_switch, switch, undo
from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import Source
from airflow_streaming.checkpoints.backup.records import Origin
from airflow_streaming.checkpoints.restore.replay import RefusalCode
from airflow_streaming.exceptions import RestoreRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import ChangeOutcome, DesiredState
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.services.streams import start
from airflow_streaming.storage.folders import open_folders
from tests.fakes import FAKE_HOST, FakeLauncher
from tests.unit.checkpoints.filesink import FileSink
from tests.unit.checkpoints.restoring import (
    Killed,
    Life,
    codes,
    is_sound_at,
    new_store,
    run_batches,
)
from tests.unit.checkpoints.rewinding import dying
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch

COUNTS = "c-0-0-0-1"
BACKED_UP, NEWEST = 3, 7


class Written:
    """A stopped stream at batch 7 that writes files, with a backup at batch 3."""

    def __init__(self, folder: Path, *, has_plan: bool = True) -> None:
        self.launcher = FakeLauncher()
        self.home = StreamHome(LocalStore(str(folder / "home")), "orders")
        self.old = folder / "home/orders/checkpoints/000001"
        self.sink = FileSink(folder / "out")
        made = make_deployment(1, checkpoint=str(self.old))
        self.home.create_deployment(made, SCRIPT)
        location = f"file:{self.old / 'counts'}"
        claim = QueryClaim(query="counts", query_id=COUNTS, checkpoint=location, epoch=1)
        self._create(Layout("orders").place(QueryClaim, deployment=1, query="counts"), claim)
        self.home.create_epoch(make_epoch(1, host=FAKE_HOST))
        if has_plan:
            sink = SinkPlan(sink="file", format="parquet", target=str(self.sink.root))
            plan = QueryPlan(query="counts", spark="4.3.0", output_mode="append", sink=sink)
            self._create(Layout("orders").place(QueryPlan, epoch=1, query="counts"), plan)
        self.home.want(DesiredState.STOPPED, by="test", reason="A test.", now=NOON)
        self.run(0, BACKED_UP)
        self.store = new_store(folder)
        log = open_folders(str(self.sink.log))
        folders = open_folders(str(self.old / "counts"))
        source = Source(folder="counts", folders=folders, sink_log=log)
        self.backup = take_backup(
            [source], self.store, stream="orders", origin=Origin.MANUAL, by="test"
        )
        self.before = self.sink.read()
        self.run(BACKED_UP + 1, NEWEST)

    def _create(self, path: str, record: Any) -> None:
        self.home.store.create(path, record.to_bytes())

    def run(self, first: int, last: int) -> None:
        run_batches(self.old / "counts", last, COUNTS)
        for batch in range(first, last + 1):
            self.sink.write(batch)

    def plan(self, **asked: Any) -> Any:
        return plan_switch(self.home, self.launcher, self.store, self.backup.id, **asked)

    def switch(self, **asked: Any) -> Switched:
        return switch(self.home, self.launcher, self.store, self.backup.id, by="kim", **asked)

    @property
    def checkpoint(self) -> Path:
        newest = self.home.newest_deployment()
        assert newest is not None
        return Path(newest.checkpoint)

    def is_back(self) -> bool:
        """Tell whether checkpoint and sink are what they were when the backup was taken."""
        is_sound = is_sound_at(self.checkpoint / "counts", BACKED_UP)
        return is_sound and self.sink.read() == self.before


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def test_checkpoint_and_sink_go_back_together(written: Written) -> None:
    assert codes(written.plan().refusals) == [RefusalCode.SINK_GAP]
    plan = written.plan(rewind_sinks=True)
    assert plan.refusals == ()
    assert len(written.sink.read()) == 2 * (NEWEST + 1)

    done = written.switch(rewind_sinks=True)

    assert written.is_back()
    assert done.change.rewinds_sinks
    end = written.home.change_end(done.change.number)
    assert end is not None
    assert end.outcome is ChangeOutcome.DONE
    aside = written.sink.root / "_rolled_back" / f"000001-{written.backup.id}"
    assert len([*aside.rglob("part-*")]) == 2 * (NEWEST - BACKED_UP)
    start(written.home, by="kim", reason="It is back.")


def test_whoever_dies_at_a_file_is_followed_and_nothing_starts_in_between(tmp_path: Path) -> None:
    deaths = 0
    for step in range(1, 200):
        written = Written(tmp_path / str(step))
        life = Life(step)
        with pytest.MonkeyPatch.context() as patch:
            dying(patch, life, lambda: None)
            try:
                written.switch(rewind_sinks=True)
                break
            except Killed:
                deaths += 1
        with pytest.raises(RestoreRefused):
            start(written.home, by="kim", reason="Too early.")
        desired = written.home.desired()
        assert desired is not None
        assert desired.state is DesiredState.STOPPED
        with pytest.raises(RestoreRefused):
            abandon(written.home, by="kim")
        # Whoever asks for the same again finishes what was begun, even without saying all of it.
        written.switch()
        assert written.is_back()
        start(written.home, by="kim", reason="It is back.")
    assert deaths > 2 * (NEWEST - BACKED_UP)
    assert written.is_back()


def test_a_sink_of_which_nothing_is_known_is_left_alone(tmp_path: Path) -> None:
    written = Written(tmp_path, has_plan=False)
    before = written.sink.tree()

    plan = written.plan(rewind_sinks=True)
    assert RefusalCode.SINK_NOT_REWOUND in codes(plan.refusals)
    with pytest.raises(RestoreRefused):
        written.switch(rewind_sinks=True)

    assert (written.sink.tree(), written.checkpoint) == (before, written.old)
    assert written.home.changes() == []


def test_there_is_no_undo_onto_a_checkpoint_that_is_ahead_of_its_sink(written: Written) -> None:
    written.switch(rewind_sinks=True)

    with pytest.raises(RestoreRefused):
        undo(written.home, written.launcher, by="kim")

    assert written.is_back()


@pytest.mark.parametrize(("written_since", "is_undone"), [(0, True), (2, False)])
def test_an_undo_waits_for_no_batch_that_the_sink_would_pass_over(
    written: Written, written_since: int, is_undone: bool
) -> None:
    written.switch(accept=[RefusalCode.SINK_GAP])
    restored = written.checkpoint
    for batch in range(NEWEST + 1, NEWEST + 1 + written_since):
        written.sink.write(batch, by="new")

    if is_undone:
        undo(written.home, written.launcher, by="kim")
        assert written.checkpoint == written.old
    else:
        with pytest.raises(RestoreRefused):
            undo(written.home, written.launcher, by="kim")
        assert written.checkpoint == restored


def test_a_person_who_put_the_sinks_back_by_hand_ends_the_restore(tmp_path: Path) -> None:
    written = Written(tmp_path)
    life = Life(3)
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, life, lambda: None)
        with pytest.raises(Killed):
            written.switch(rewind_sinks=True)

    assert abandon(written.home, by="kim", sinks_in_step=True) is ChangeOutcome.DONE
    start(written.home, by="kim", reason="The sink is in step.")


def test_no_file_is_moved_once_the_stream_is_wanted_running(written: Written) -> None:
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, Life(3), lambda: None)
        with pytest.raises(Killed):
            written.switch(rewind_sinks=True)
    # Recorded at the moment in which the deployment was made, so that nothing refused it.
    written.home.want(DesiredState.RUNNING, by="kim", reason="A race.", now=NOON)
    before = written.sink.tree()

    with pytest.raises(RestoreRefused):
        written.switch()
    assert written.sink.tree() == before

    written.home.want(DesiredState.STOPPED, by="kim", reason="Seen.", now=NOON)
    written.switch()
    assert written.is_back()
