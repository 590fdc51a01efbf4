from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.upgrade.rollback import (
    Restored,
    claim_restored,
    restore_boundary,
    why_restore,
)
from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import Source
from airflow_streaming.checkpoints.restore import sink_rewind
from airflow_streaming.checkpoints.restore.sink_output import open_output
from airflow_streaming.checkpoints.restore.sink_rewind import SinkRewind
from airflow_streaming.exceptions import BackupNotFound, CheckpointRefused, RestoreRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher
from airflow_streaming.model.arguments.choices import Origin, SinkReplaySemantics
from airflow_streaming.model.arguments.rewinding import Rewinding
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import Change, ChangeKind, DesiredState
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.records.upgrade import SinkFacts
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.storage.folders import open_folders
from tests.fakes import FAKE_HOST, FakeLauncher
from tests.unit.checkpoints.filesink import FileSink
from tests.unit.checkpoints.restoring import (
    Killed,
    Life,
    bytes_of,
    is_sound_at,
    limit_local,
    new_store,
    run_batches,
)
from tests.unit.checkpoints.rewinding import DyingOutput
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch

IDS = {"counts": "c-0-0-0-1", "sums": "5-0-0-0-1"}
QUERIES = {**IDS, "late": "1a-0-0-0-1"}
BOUNDARY = 5


class Upgraded:
    """A stream whose old deployment ended at batch 5 and whose new one is gone."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.launcher = folder, FakeLauncher()
        self.home = StreamHome(LocalStore(str(folder / "home")), "orders")
        self.checkpoint = folder / "home/orders/checkpoints/000001"
        self.sink = FileSink(folder / "out")
        self.deploy(1)
        for name, query_id in QUERIES.items():
            claim = QueryClaim(
                query=name,
                query_id=query_id,
                checkpoint=f"file:{self.checkpoint / name}",
                epoch=1,
                batch_shift=40,
                counts_from=2,
            )
            self.home.store.create(
                Layout("orders").place(QueryClaim, deployment=1, query=name),
                Layout("orders").bytes_of(claim),
            )
        self.run(BOUNDARY, "old")
        self.store = new_store(folder)
        # The query "late" has committed nothing, so that no backup has it.
        sources = [self.source("counts", open_folders(str(self.sink.log))), self.source("sums")]
        self.backup = take_backup(
            sources, self.store, stream="orders", origin=Origin.BEFORE_UPGRADE, by="test"
        )
        self.home.create_epoch(make_epoch(1, host=FAKE_HOST))
        self.home.want(DesiredState.RUNNING, by="test", reason="It runs.", now=NOON)
        self.change = Change(
            number=1,
            stream="orders",
            what=ChangeKind.UPGRADE,
            replaced=1,
            deployment=2,
            checkpoint=str(self.checkpoint),
            by="test",
            reason="A test.",
            at=NOON,
        )
        self.home.begin_change(self.change)
        self.deploy(2)

    def deploy(self, number: int) -> None:
        made = make_deployment(number, checkpoint=str(self.checkpoint))
        self.home.create_deployment(made, SCRIPT)

    def source(self, name: str, sink_log: Any = None) -> Source:
        folders = open_folders(str(self.checkpoint / name))
        return Source(folder=name, folders=folders, sink_log=sink_log)

    def run(self, last: int, by: str) -> None:
        first = max((int(p.name) for p in self.checkpoint.glob("counts/commits/*")), default=-1)
        for name, query_id in IDS.items():
            run_batches(self.checkpoint / name, last, query_id)
        for batch in range(first + 1, last + 1):
            self.sink.write(batch, by=by, files=1)

    @property
    def sinks(self) -> tuple[SinkFacts, ...]:
        return (
            SinkFacts(
                query="counts",
                sink="file",
                habit=SinkReplaySemantics.FILE_LOG,
                target=str(self.sink.root),
            ),
            SinkFacts(query="sums", sink="foreachbatch", habit=SinkReplaySemantics.OVERWRITES),
            SinkFacts(query="late", sink="console", habit=SinkReplaySemantics.NOTHING),
        )

    def why(self) -> str:
        return why_restore(self.home, self.store, self.backup.id, sinks=self.sinks)

    def restore(self, launcher: Launcher | None = None, **asked: Any) -> Restored:
        given = {"sinks": self.sinks, **asked}
        return restore_boundary(
            *(self.home, self.store, self.backup.id, self.change),
            launcher=launcher or self.launcher,
            **given,
        )


@pytest.fixture
def upgraded(tmp_path: Path) -> Upgraded:
    return Upgraded(tmp_path)


def test_checkpoint_and_sink_are_what_the_old_deployment_left(upgraded: Upgraded) -> None:
    before = upgraded.sink.read()
    upgraded.run(8, "new")
    present = bytes_of(upgraded.checkpoint)
    restored = upgraded.restore()
    assert restored.checkpoint == str(upgraded.checkpoint.with_name("restored-000001"))
    assert restored.ids == IDS
    assert restored.batches == {"counts": 5, "sums": 5}
    assert all(is_sound_at(Path(restored.checkpoint) / name, 5) for name in restored.ids)
    assert [plan.batches for plan in restored.rewound] == [(6, 7, 8)]
    assert upgraded.sink.read() == before
    assert bytes_of(upgraded.checkpoint) == present


def test_asking_again_changes_nothing(upgraded: Upgraded) -> None:
    upgraded.run(8, "new")
    first = upgraded.restore()
    before = bytes_of(upgraded.folder)
    second = upgraded.restore()
    assert bytes_of(upgraded.folder) == before
    assert (second.checkpoint, second.ids) == (first.checkpoint, first.ids)
    assert [plan.is_done for plan in second.rewound] == [True]


def test_the_authors_function_is_told_the_newest_batch_that_was_planned(
    upgraded: Upgraded,
) -> None:
    upgraded.run(8, "new")
    asked: list[Rewinding] = []
    upgraded.restore(rewind=SinkRewind(asked.append))
    assert [(one.query, one.batch, one.newest) for one in asked] == [("sums", 5, 8)]


def test_the_owners_of_the_restored_checkpoints_are_recorded(upgraded: Upgraded) -> None:
    restored = upgraded.restore()
    claim_restored(upgraded.home, 3, restored)
    claim_restored(upgraded.home, 3, restored)
    found = {claim.query: claim for claim in upgraded.home.claims(3)}
    assert found["counts"].query_id == "c-0-0-0-1"
    assert found["counts"].checkpoint == f"file:{restored.checkpoint}/counts"
    assert found.keys() == {"counts", "sums"}
    assert found["counts"].batch_shift == 40, "its batches are counted on as before"
    assert found["counts"].counts_from == 2


def test_nothing_is_restored_while_a_driver_may_live(upgraded: Upgraded) -> None:
    upgraded.run(8, "new")
    before = bytes_of(upgraded.folder)
    with pytest.raises(RestoreRefused, match="driver that is not proved gone"):
        restore_boundary(
            *(upgraded.home, upgraded.store, upgraded.backup.id, upgraded.change),
            launcher=None,
            sinks=upgraded.sinks,
        )
    assert bytes_of(upgraded.folder) == before


def test_a_place_that_is_not_of_this_restore_is_left_alone(upgraded: Upgraded) -> None:
    run_batches(upgraded.checkpoint.with_name("restored-000001") / "counts", 3, "0-0-0-0-2")
    with pytest.raises(RestoreRefused, match="is not empty"):
        upgraded.restore()


def test_nothing_is_touched_when_a_sink_is_not_known(upgraded: Upgraded) -> None:
    upgraded.run(8, "new")
    before = bytes_of(upgraded.folder)
    with pytest.raises(RestoreRefused, match="has query 'counts', whose sink is unknown"):
        upgraded.restore(sinks=[facts for facts in upgraded.sinks if facts.query != "counts"])
    assert bytes_of(upgraded.folder) == before


def test_an_unknown_backup_is_told(upgraded: Upgraded) -> None:
    with pytest.raises(BackupNotFound):
        why_restore(upgraded.home, upgraded.store, "20200101-000000-000000-00000000")


def test_a_sink_that_cannot_be_put_in_step_is_told(upgraded: Upgraded) -> None:
    upgraded.run(8, "new")
    (upgraded.sink.log / "5").write_text("v1")
    with pytest.raises(CheckpointRefused, match="differs from the one in the backup"):
        upgraded.restore()


def failed_at_once(upgraded: Upgraded) -> None:
    """Leave no trace."""


def planned(upgraded: Upgraded) -> None:
    offsets = upgraded.checkpoint / "counts/offsets"
    shutil.copy(offsets / "5", offsets / "6")


def committed_first(upgraded: Upgraded) -> None:
    run_batches(upgraded.checkpoint / "late", 0, "1a-0-0-0-1")


def pinned_anew(upgraded: Upgraded) -> None:
    planned(upgraded)
    file = upgraded.checkpoint / "counts/offsets/6"
    file.write_text(file.read_text().replace('"2"', '"2", "spark.x": "new"', 1))


def committed(upgraded: Upgraded) -> None:
    upgraded.run(6, "new")


def wrote_only(upgraded: Upgraded) -> None:
    upgraded.sink.write(6, by="new")


def removed(upgraded: Upgraded) -> None:
    shutil.rmtree(upgraded.checkpoint / "sums")


@pytest.mark.parametrize(
    ("leave", "said"),
    [
        (failed_at_once, ""),
        (planned, ""),
        (pinned_anew, "pins other settings"),
        (committed, "Query 'counts': The new deployment has committed batches up to 6"),
        (wrote_only, "knows batch 6 already"),
        (committed_first, "Query 'late' has committed its first batches"),
        (removed, "/sums does not exist any more"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_it_is_told_whether_anything_has_to_be_put_back(
    upgraded: Upgraded, leave: Callable[[Upgraded], None], said: str
) -> None:
    leave(upgraded)
    reason = upgraded.why()
    assert said in reason
    assert bool(reason) is bool(said)


def test_killed_at_any_step_asking_again_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "saved"
    place = tmp_path / "place"
    upgraded = Upgraded(place)
    before = upgraded.sink.read()
    upgraded.run(7, "new")
    shutil.copytree(place, saved)
    ends: list[set[str]] = []
    killed = 0
    for last in range(1, 200):
        shutil.rmtree(place)
        shutil.copytree(saved, place)
        life = Life(last)
        with monkeypatch.context() as patch:
            limit_local(patch, Life())
            dies(patch, life)
            try:
                upgraded.restore()
            except Killed:
                killed += 1
        restored = upgraded.restore()
        assert upgraded.sink.read() == before
        assert all(is_sound_at(Path(restored.checkpoint) / name, 5) for name in restored.ids)
        ends.append({path for path in bytes_of(place) if "/holds/" not in path})
        if life.steps < last:
            break
    assert killed > 10
    assert all(end == ends[0] for end in ends)


def dies(patch: pytest.MonkeyPatch, life: Life) -> None:
    """End the process before one of the steps that a restore of the boundary makes."""
    patch.setattr(Path, "rename", life.around(Path.rename))
    patch.setattr(os, "sync", life.around(lambda: None))
    patch.setattr(
        sink_rewind, "open_output", lambda *a: DyingOutput(open_output(*a), life, lambda: None)
    )
