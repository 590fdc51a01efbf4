"""What was restored, cloned or carried over, a real Spark goes on from, and the sums are right."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.handover.green_start import make_start, own_query_id
from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import Source, sources_of
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.restore.clone import carry_over, clone
from airflow_streaming.checkpoints.restore.file_sink_rewind import begin_sink_log
from airflow_streaming.checkpoints.restore.replay import OutOfStep, RefusalCode
from airflow_streaming.checkpoints.restore.restore import Place, plan_restore, restore
from airflow_streaming.checkpoints.restore.sink_rewind import SinkRewind
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.model.arguments.choices import Origin, SinkReplaySemantics, StartWay
from airflow_streaming.model.records.upgrade import SinkFacts
from airflow_streaming.storage.folders import open_folders
from tests.conftest import OLDER, find_runtimes
from tests.patience import PATIENCE
from tests.quick_java import spark_environment

JOB = Path(__file__).with_name("restoring_job.py")
ROWS = 20
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


class Spark:
    """One session in a process of its own, asked by lines."""

    def __init__(self, runtime: Path, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [str(runtime / "bin/python"), str(JOB)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=spark_environment(runtime),
            text=True,
        )
        self.version = self.answer()

    def answer(self) -> str:
        assert self.process.stdout is not None
        lines = (line for line in self.process.stdout if line.startswith("@"))
        return str(json.loads(next(lines)[1:]))

    def run(self, shape: str, checkpoint: Path | str, output: Path, **more: Any) -> str:
        order = {
            "shape": shape,
            "input": str(self.folder / "input"),
            "checkpoint": str(checkpoint),
            "output": str(output),
            **more,
        }
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def feed(self, *numbers: int, into: str = "input") -> None:
        (self.folder / into).mkdir(exist_ok=True)
        for number in numbers:
            rows = [{"id": number * ROWS + i, "k": f"k{i % 3}"} for i in range(ROWS)]
            path = self.folder / into / f"{number:03}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(path, (1_700_000_000 + number,) * 2)

    def forget_late_input(self) -> None:
        for late in self.folder.glob("input/00[4-9].json"):
            late.unlink()


@pytest.fixture(scope="module", params=["spark-4.3", OLDER])
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Spark]:
    runtime = find_runtimes().get(request.param)
    if runtime is None:
        pytest.skip(f"There is no runtime {request.param}.")
    session = Spark(runtime, tmp_path_factory.mktemp(request.param.replace(".", "-")))
    session.feed(0, 1, 2, 3)
    yield session
    session.process.communicate(timeout=PATIENCE)


def tree_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in found
    }


def updates(output: Path) -> dict[int, Any]:
    return {int(path.stem): json.loads(path.read_text()) for path in output.glob("*.json")}


def ids(output: Path) -> list[int]:
    texts = [path.read_text() for path in output.glob("part-*.json")]
    return sorted(json.loads(line)["id"] for text in texts for line in text.splitlines())


def test_a_query_with_state_goes_on_from_its_restore_and_from_its_clone(
    spark: Spark, tmp_path: Path
) -> None:
    # One state store on each Spark: the HDFS-backed one, and RocksDB with its changelog.
    conf = ROCKSDB if spark.version.startswith("4.3") else {}
    live, output = tmp_path / "ck", tmp_path / "out"
    spark.forget_late_input()
    assert spark.run("counts", live, output, conf=conf) == "done"
    store = open_backup_store(str(tmp_path / "store"), create=True)
    backup = take_backup(
        sources_of(open_folders(str(live))), store, stream="s", origin=Origin.MANUAL, by="test"
    )
    before = tree_of(live)
    made = clone(str(live), str(tmp_path / "clone"))
    assert tree_of(live) == before
    spark.feed(4, 5)
    assert spark.run("counts", live, output, conf=conf) == "done"

    plan = plan_restore(store, backup.id, Place(to=str(tmp_path / "new")))
    restore(store, backup.id, Place(to=str(tmp_path / "new")))

    assert (plan.queries[0].batch, plan.queries[0].again) == (3, (4, 5))
    for name in ("new", "clone"):
        assert spark.run("counts", tmp_path / name, tmp_path / f"out-{name}", conf=conf) == "done"
        expected = {batch: rows for batch, rows in updates(output).items() if batch > 3}
        assert updates(tmp_path / f"out-{name}") == expected
        assert inspect(str(tmp_path / name)).is_sound
    assert inspect(made.uri).query_id == made.query_id
    with pytest.raises(CheckpointRefused, match="has state"):
        carry_over(str(live), str(tmp_path / "carried"), stateless=True)


def test_a_rewritten_query_goes_on_from_a_carry_over_without_loss_or_doubling(
    spark: Spark, tmp_path: Path
) -> None:
    live, output = tmp_path / "ck", tmp_path / "out"
    spark.forget_late_input()
    assert spark.run("plain", live, output) == "done"

    carried = carry_over(str(live), str(tmp_path / "new"), stateless=True)
    spark.feed(4, 5)
    assert spark.run("changed", carried.uri, output) == "done"

    assert ids(output) == list(range(6 * ROWS))
    found = inspect(carried.uri)
    assert (found.is_sound, found.query_id) == (True, carried.query_id)
    assert (carried.batch, found.last_committed_batch) == (3, 5)


def test_a_clone_goes_through_the_compactions_of_a_sink_of_its_own(
    spark: Spark, tmp_path: Path
) -> None:
    source = {"input": str(spark.folder / "cloned")}
    spark.feed(*range(12), into="cloned")
    assert spark.run("plain", tmp_path / "blue", tmp_path / "old", **source) == "done"

    made = make_start(
        *(StartWay.CLONED, str(tmp_path / "blue"), str(tmp_path / "green")),
        query_id=own_query_id("orders.green", 1, "plain"),
    )
    assert made.batch == 11
    begin_sink_log(str(tmp_path / "new"), made.batch, compact_interval=10)
    spark.feed(*range(12, 24), into="cloned")
    # Batches 12 to 23: entry 19 is made of all that are before it.
    assert spark.run("plain", tmp_path / "green", tmp_path / "new", **source) == "done"

    compacted = tmp_path / "new" / "_spark_metadata" / "19.compact"
    assert len(compacted.read_text().splitlines()) > 1
    assert ids(tmp_path / "new") == list(range(12 * ROWS, 24 * ROWS))


def test_a_restore_behind_a_file_sink_is_refused_and_with_the_same_limits_does_no_harm(
    spark: Spark, tmp_path: Path
) -> None:
    live, output = tmp_path / "ck", tmp_path / "out"
    spark.forget_late_input()
    assert spark.run("plain", live, output) == "done"
    store = open_backup_store(str(tmp_path / "store"), create=True)
    backup = take_backup(
        sources_of(open_folders(str(live))), store, stream="s", origin=Origin.MANUAL, by="test"
    )
    spark.feed(4, 5)
    assert spark.run("plain", live, output) == "done"
    place = Place(to=str(tmp_path / "new"), sink_logs={"": str(output / "_spark_metadata")})

    plan = plan_restore(store, backup.id, place)
    assert [refusal.code for refusal in plan.refusals] == [RefusalCode.SINK_GAP]
    assert plan.queries[0].sink_step == OutOfStep(code=RefusalCode.SINK_GAP, first=4, last=5)
    restore(store, backup.id, place, accept=[RefusalCode.SINK_GAP])
    assert spark.run("plain", tmp_path / "new", output) == "done"

    assert written_ids(output) == list(range(6 * ROWS))


def test_state_goes_back_only_together_with_the_file_sink_behind_it(
    spark: Spark, tmp_path: Path
) -> None:
    live, output = tmp_path / "ck", tmp_path / "out"
    spark.forget_late_input()
    assert spark.run("distinct", live, output) == "done"
    log = output / "_spark_metadata"
    source = Source(folder="", folders=open_folders(str(live)), sink_log=open_folders(str(log)))
    store = open_backup_store(str(tmp_path / "store"), create=True)
    backup = take_backup([source], store, stream="s", origin=Origin.MANUAL, by="test")
    spark.feed(4, 5)
    assert spark.run("distinct", live, output) == "done"

    alone = Place(to=str(tmp_path / "alone"))
    plan = plan_restore(store, backup.id, alone)
    assert [refusal.code for refusal in plan.refusals] == [RefusalCode.SINK_SKIPS_STATE]
    skipped = OutOfStep(code=RefusalCode.SINK_SKIPS_STATE, first=4, last=5)
    assert plan.queries[0].sink_step == skipped
    restore(store, backup.id, alone, accept=[RefusalCode.SINK_SKIPS_STATE])
    spark.feed(6)
    # Batches 4 and 5 are passed over, and batch 6 does not find what they should have left.
    assert spark.run("distinct", tmp_path / "alone", output) != "done"
    assert written_ids(output) == list(range(6 * ROWS))

    facts = SinkFacts(query="", sink="file", habit=SinkReplaySemantics.FILE_LOG, target=str(output))
    SinkRewind().run(store, backup, 1, [facts], {})
    together = Place(to=str(tmp_path / "together"))
    assert plan_restore(store, backup.id, together).refusals == ()
    restore(store, backup.id, together)
    assert spark.run("distinct", tmp_path / "together", output) == "done"
    assert written_ids(output) == list(range(7 * ROWS))


def written_ids(output: Path) -> list[int]:
    """Return what a reader of the sink's log finds."""
    listed = {entry["path"] for entry in sink_entries(output)}
    read = [line for path in listed for line in Path(path[7:]).read_text().splitlines()]
    return sorted(json.loads(line)["id"] for line in read)


def sink_entries(output: Path) -> Iterator[dict[str, Any]]:
    for log in (output / "_spark_metadata").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            yield json.loads(line)
