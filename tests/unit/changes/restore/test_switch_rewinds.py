"""A restore that takes the file sink back with the checkpoint, as a query with state needs it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.restore.stream_restore import Switched
from airflow_streaming.changes.restore.undo import abandon, plan_switch, switch, undo
from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import Source
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.restore.replay import OutOfStep, RefusalCode
from airflow_streaming.checkpoints.restore.sink_log import newest_entry
from airflow_streaming.exceptions import RestoreRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import Origin
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
from tests.unit.launch.restored_stream import restore_request


class Written:
    """A stopped stream at batch 7 that writes files, with a backup at batch 3."""

    def __init__(
        self, folder: Path, *, has_plan: bool = True, has_log: bool = True, target: str = ""
    ) -> None:
        self.launcher = FakeLauncher()
        self.home = StreamHome(LocalStore(str(folder / "home")), "orders")
        self.old = folder / "home/orders/checkpoints/000001"
        self.sink = FileSink(folder / "out")
        made = make_deployment(1, checkpoint=str(self.old))
        self.home.create_deployment(made, SCRIPT)
        location = f"file:{self.old / 'counts'}"
        claim = QueryClaim(query="counts", query_id=COUNTS, checkpoint=location, epoch=1)
        self._create(Layout("orders"), claim, deployment=1, query="counts")
        self.home.create_epoch(make_epoch(1, host=FAKE_HOST))
        if has_plan:
            sink = SinkPlan(sink="file", format="parquet", target=target or str(self.sink.root))
            plan = QueryPlan(query="counts", spark="4.3.0", output_mode="append", sink=sink)
            self._create(Layout("orders"), plan, epoch=1, query="counts")
        self.home.want(DesiredState.STOPPED, by="test", reason="A test.", now=NOON)
        self.run(0, BACKED_UP)
        self.store = new_store(folder)
        self.backup = self.back_up(has_log=has_log)
        self.before = self.sink.read()
        self.run(BACKED_UP + 1, NEWEST)

    def _create(self, layout: Layout, record: Any, **place: int | str) -> None:
        self.home.store.create(layout.place(type(record), **place), layout.bytes_of(record))

    def run(self, first: int, last: int) -> None:
        run_batches(self.old / "counts", last, COUNTS)
        for batch in range(first, last + 1):
            self.sink.write(batch)

    def back_up(self, *, has_log: bool = True) -> Backup:
        log = open_folders(str(self.sink.log)) if has_log else None
        folders = open_folders(str(self.old / "counts"))
        source = Source(folder="counts", folders=folders, sink_log=log)
        return take_backup([source], self.store, stream="orders", origin=Origin.MANUAL, by="test")

    def plan(self, of: Backup | None = None, **asked: Any) -> Any:
        backup = self.backup if of is None else of
        return plan_switch(self.home, self.launcher, self.store, backup.id, restore_request(asked))

    def switch(self, of: Backup | None = None, **asked: Any) -> Switched:
        backup = self.backup if of is None else of
        request, how = restore_request(asked), {"by": "kim", **asked}
        return switch(self.home, self.launcher, self.store, backup.id, request, **how)

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
    plan = written.plan(rewind=True)
    assert plan.refusals == ()
    assert len(written.sink.read()) == 2 * (NEWEST + 1)

    done = written.switch(rewind=True)

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
                written.switch(rewind=True)
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

    plan = written.plan(rewind=True)
    assert RefusalCode.SINK_NOT_REWOUND in codes(plan.refusals)
    with pytest.raises(RestoreRefused):
        written.switch(rewind=True)

    assert (written.sink.tree(), written.checkpoint) == (before, written.old)
    assert written.home.changes() == []


def test_a_folder_that_another_stream_writes_to_as_well_is_left_alone(written: Written) -> None:
    other = written.home.beside("copies")
    other.create_deployment(make_deployment(1, stream="copies", checkpoint="/elsewhere"), SCRIPT)
    other.create_epoch(make_epoch(1, stream="copies", host=FAKE_HOST))
    sink = SinkPlan(sink="file", format="parquet", target=f"file:{written.sink.root}/")
    plan = QueryPlan(query="totals", spark="4.3.0", output_mode="append", sink=sink)
    written._create(Layout("copies"), plan, epoch=1, query="totals")
    before = written.sink.tree()

    (refused,) = written.plan(rewind=True).refusals

    assert refused.code is RefusalCode.SINK_NOT_REWOUND
    assert "query 'totals' of stream 'copies'" in refused.message
    with pytest.raises(RestoreRefused):
        written.switch(rewind=True)
    assert (written.sink.tree(), written.checkpoint) == (before, written.old)


def test_there_is_no_undo_onto_a_checkpoint_that_is_ahead_of_its_sink(written: Written) -> None:
    written.switch(rewind=True)

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


def half_rewound(folder: Path) -> Written:
    """Return a stream that has its restored checkpoint, and a sink that is not all back."""
    written = Written(folder)
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, Life(3), lambda: None)
        with pytest.raises(Killed):
            written.switch(rewind=True)
    return written


def put_back(sink: FileSink, batch: int) -> None:
    """Leave a sink's log as a user would who puts it back to a batch by hand."""
    shutil.rmtree(sink.log)
    sink.log.mkdir()
    for number in range(batch + 1):
        sink.write(number)


def tear(sink: FileSink, text: str = "") -> None:
    """Leave the newest entry of a sink's log as a crash or a full disk does."""
    (sink.log / newest_entry(path.name for path in sink.log.iterdir())).write_text(text)


def test_a_person_who_put_the_sinks_back_by_hand_ends_the_restore(tmp_path: Path) -> None:
    written = half_rewound(tmp_path)
    with pytest.raises(RestoreRefused):
        abandon(written.home, by="kim", sinks_in_step=True)
    assert written.home.unfinished_change() is not None
    put_back(written.sink, BACKED_UP)
    said = {"by": "kim", "reason": "Moved by hand."}
    assert abandon(written.home, sinks_in_step=True, **said) is ChangeOutcome.DONE
    told = written.home.events(1)[0].message
    assert "declared in step by kim: Moved by hand." in told
    assert "could not be seen" not in told
    start(written.home, by="kim", reason="The sink is in step.")


@pytest.mark.parametrize("batch", [BACKED_UP - 1, BACKED_UP + 1], ids=["behind", "ahead"])
def test_sinks_that_are_not_in_step_are_not_believed_to_be(tmp_path: Path, batch: int) -> None:
    written = half_rewound(tmp_path)
    put_back(written.sink, batch)

    with pytest.raises(RestoreRefused):
        abandon(written.home, by="kim", sinks_in_step=True)

    assert written.home.unfinished_change() is not None
    with pytest.raises(RestoreRefused):
        start(written.home, by="kim", reason="Too early.")


def test_sinks_that_cannot_be_seen_are_believed_and_it_is_said(tmp_path: Path) -> None:
    written = half_rewound(tmp_path)
    written.sink.root.rename(tmp_path / "unmounted")

    assert abandon(written.home, by="kim", sinks_in_step=True) is ChangeOutcome.DONE
    assert "could not be seen" in written.home.events(1)[0].message


def test_no_file_is_moved_once_the_stream_is_wanted_running(written: Written) -> None:
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, Life(3), lambda: None)
        with pytest.raises(Killed):
            written.switch(rewind=True)
    # Recorded at the moment in which the deployment was made, so that nothing refused it.
    written.home.want(DesiredState.RUNNING, by="kim", reason="A race.", now=NOON)
    before = written.sink.tree()

    with pytest.raises(RestoreRefused):
        written.switch()
    assert written.sink.tree() == before

    written.home.want(DesiredState.STOPPED, by="kim", reason="Seen.", now=NOON)
    written.switch()
    assert written.is_back()


def test_the_way_forward_over_a_sink_that_was_put_back_is_refused(written: Written) -> None:
    ahead = written.back_up()
    written.switch(rewind=True)
    restored = written.checkpoint

    plan = written.plan(of=ahead)
    assert codes(plan.refusals) == [RefusalCode.SINK_BEHIND]
    assert plan.queries[0].sink_step == OutOfStep(
        code=RefusalCode.SINK_BEHIND, first=BACKED_UP + 1, last=NEWEST
    )
    # It is said where the batches lie.
    assert f"_rolled_back/000001-{written.backup.id}" in plan.refusals[0].message
    for asked in ({}, {"rewind": True}):
        with pytest.raises(RestoreRefused):
            written.switch(of=ahead, **asked)
    assert written.checkpoint == restored

    written.switch(of=ahead, accept=[RefusalCode.SINK_BEHIND])
    assert is_sound_at(written.checkpoint / "counts", NEWEST)


def test_an_undo_onto_a_checkpoint_that_is_ahead_of_its_sink_is_refused(written: Written) -> None:
    written.switch(accept=[RefusalCode.SINK_GAP])
    restored = written.checkpoint
    put_back(written.sink, BACKED_UP)

    with pytest.raises(RestoreRefused):
        undo(written.home, written.launcher, by="kim")
    assert written.checkpoint == restored

    undo(written.home, written.launcher, by="kim", accept=[RefusalCode.SINK_BEHIND])
    assert written.checkpoint == written.old


def test_an_undo_accepts_nothing_but_what_is_said_of_sinks(written: Written) -> None:
    with pytest.raises(ValueError, match="query_missing"):
        undo(written.home, written.launcher, by="kim", accept=[RefusalCode.QUERY_MISSING])


def test_the_live_sink_is_looked_at_whether_or_not_the_backup_has_its_log(tmp_path: Path) -> None:
    written = Written(tmp_path, has_log=False)
    before = written.sink.tree()

    assert codes(written.plan().refusals) == [RefusalCode.SINK_GAP]
    with pytest.raises(RestoreRefused):
        written.switch()

    assert (written.sink.tree(), written.checkpoint) == (before, written.old)


@pytest.mark.parametrize("has_log", [True, False], ids=["in the backup", "in no backup"])
@pytest.mark.parametrize("has_plan", [True, False], ids=["recorded", "not recorded"])
def test_an_output_that_is_not_mounted_is_a_reason_that_can_be_accepted(
    tmp_path: Path, has_log: bool, has_plan: bool
) -> None:
    written = Written(tmp_path, has_log=has_log, has_plan=has_plan)
    written.sink.root.rename(tmp_path / "unmounted")
    is_known = has_log or has_plan

    assert codes(written.plan().refusals) == [RefusalCode.SINK_UNSEEN] * is_known
    written.switch(accept=[RefusalCode.SINK_UNSEEN])
    assert is_sound_at(written.checkpoint / "counts", BACKED_UP)


@pytest.mark.parametrize("text", ["", 'v1\n{"pa'], ids=["empty", "torn"])
def test_a_log_whose_newest_entry_cannot_be_read_is_unseen(tmp_path: Path, text: str) -> None:
    written = Written(tmp_path)
    put_back(written.sink, BACKED_UP)
    assert codes(written.plan().refusals) == []
    tear(written.sink, text)

    assert codes(written.plan().refusals) == [RefusalCode.SINK_UNSEEN]
    with pytest.raises(RestoreRefused):
        written.switch()
    assert written.checkpoint == written.old


def test_a_log_that_is_ahead_and_torn_is_refused_for_both(tmp_path: Path) -> None:
    written = Written(tmp_path)
    tear(written.sink)

    assert set(codes(written.plan().refusals)) == {RefusalCode.SINK_UNSEEN, RefusalCode.SINK_GAP}


@pytest.mark.parametrize(
    ("batch", "outcome"),
    [(BACKED_UP, ChangeOutcome.DONE), (BACKED_UP + 1, None)],
    ids=["in step", "ahead"],
)
def test_a_torn_log_is_believed_to_be_in_step_only_where_its_names_are(
    tmp_path: Path, batch: int, outcome: ChangeOutcome | None
) -> None:
    written = half_rewound(tmp_path)
    put_back(written.sink, batch)
    tear(written.sink)

    if outcome is None:
        with pytest.raises(RestoreRefused):
            abandon(written.home, by="kim", sinks_in_step=True)
    else:
        assert abandon(written.home, by="kim", sinks_in_step=True) is outcome
        assert "could not be seen" in written.home.events(1)[0].message


def test_a_sink_with_a_relative_path_is_unseen_until_it_is_named(tmp_path: Path) -> None:
    written = Written(tmp_path, has_log=False, target="out")

    assert codes(written.plan().refusals) == [RefusalCode.SINK_UNSEEN]
    with pytest.raises(RestoreRefused):
        written.switch()
    assert written.checkpoint == written.old
    named = written.plan(sink_logs={"counts": str(written.sink.log)})
    assert codes(named.refusals) == [RefusalCode.SINK_GAP]


def test_a_log_that_was_backed_up_is_looked_at_though_the_recorded_path_is_relative(
    tmp_path: Path,
) -> None:
    written = Written(tmp_path, has_log=True, target="out")

    assert codes(written.plan().refusals) == [RefusalCode.SINK_GAP]


@pytest.mark.parametrize("named", ["counts", ""], ids=["by its name", "as the only one"])
def test_a_sink_that_is_named_stands_above_what_is_known(written: Written, named: str) -> None:
    other = FileSink(written.sink.root.parent / "other")
    for batch in range(BACKED_UP + 1):
        other.write(batch)

    assert codes(written.plan(sink_logs={named: str(other.log)}).refusals) == []
    nowhere = str(other.root / "nowhere/_spark_metadata")
    plan = written.plan(sink_logs={named: nowhere})
    assert codes(plan.refusals) == [RefusalCode.SINK_UNSEEN]


def test_a_sink_of_a_query_that_is_not_restored_is_refused(written: Written) -> None:
    with pytest.raises(RestoreRefused, match="cuonts"):
        written.plan(sink_logs={"cuonts": str(written.sink.log)})
    assert written.home.changes() == []


def test_whoever_asks_for_sinks_to_be_rewound_is_not_told_to_ask_for_it(tmp_path: Path) -> None:
    written = Written(tmp_path, has_log=False)

    plan = written.plan(rewind=True)

    assert codes(plan.refusals) == [RefusalCode.SINK_NOT_REWOUND]
    assert not any("--rewind" in refusal.message for refusal in plan.refusals)
