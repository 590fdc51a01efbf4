"""Another number of state partitions: when it is possible, and that it is done by one, or taken back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.changes.upgrade.decide import REPARTITION_PATIENCE
from airflow_streaming.changes.upgrade.repartition import unbegun_batches
from airflow_streaming.checkpoints.read.report import Checkpoint, Finding, FindingCode, Operator
from airflow_streaming.exceptions import SpecError, UpgradeRefused
from airflow_streaming.gates.state_partitions import Refusal, is_done, plan_repartition
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.jobs.upkeep import RepartitionAnswer
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.epoch import Exit, LaunchCause
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan, SinkFacts
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeCommand
from airflow_streaming.model.storage import LocalStore
from tests.unit.changes.upgrade.killing import died
from tests.unit.changes.upgrade.upgrading import QUERY, REWIND, TICK, Upgraded
from tests.unit.home.make import make_epoch, make_exit

ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
RESUME: Final = RollbackPlan(way=RollbackMethod.RESUME, reason="Its rows would come twice.")
START, FENCE = LaunchCause.START, LaunchCause.FENCE
NONE: Final = RollbackPlan(way=RollbackMethod.NONE, reason="It cannot.")


def a_checkpoint(**changes: Any) -> Checkpoint:
    fields: dict[str, Any] = {
        "uri": "/c/revenue",
        "last_planned_batch": 7,
        "last_committed_batch": 7,
        "is_stateful": True,
        "shuffle_partitions": 4,
        "operators": (Operator(id=0, name="stateStoreSave", partitions=4),),
        "conf": {"spark.sql.streaming.stateStore.providerClass": ROCKSDB},
    }
    return Checkpoint(**fields | changes)


def a_sink(**changes: Any) -> SinkFacts:
    fields = {"query": "revenue", "sink": "foreachbatch", "habit": SinkReplaySemantics.OVERWRITES}
    return SinkFacts(**fields | changes)


DAMAGE: Final = Finding(code=FindingCode.STATE_MISSING, path="state/0", message="It is gone.")
CASES: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "all is there": ({}, ["state_partitions.possible"]),
    "it has the number": ({"wanted": 4}, []),
    "a query without state": ({"report": a_checkpoint(is_stateful=False)}, []),
    "Spark 4.1": ({"spark": (4, 1, 1)}, [Refusal.SPARK]),
    "Spark 3.5": ({"spark": (3, 5, 9)}, [Refusal.SPARK]),
    "the HDFS-backed store": (
        {
            "report": a_checkpoint(
                conf={
                    "spark.sql.streaming.stateStore.providerClass": ROCKSDB.replace(
                        "RocksDB", "HDFSBacked"
                    )
                }
            )
        },
        [Refusal.PROVIDER],
    ),
    "a store of somebody's own": (
        {"report": a_checkpoint(conf={"spark.sql.streaming.stateStore.providerClass": "my.Store"})},
        [Refusal.PROVIDER],
    ),
    "an operator that Spark has no rule for": (
        {"report": a_checkpoint(operators=(Operator(id=0, name="globalLimit", partitions=4),))},
        [Refusal.OPERATOR],
    ),
    "an operator without a name, as 3.5 wrote it": (
        {"report": a_checkpoint(operators=(Operator(id=0, name=None, partitions=4),))},
        [Refusal.OPERATOR],
    ),
    "a batch in work": (
        {"report": a_checkpoint(last_planned_batch=8)},
        ["state_partitions.possible"],
    ),
    "asynchronous progress": ({"report": a_checkpoint(async_progress=True)}, [Refusal.UNFINISHED]),
    "a damaged checkpoint": ({"report": a_checkpoint(problems=(DAMAGE,))}, [Refusal.DAMAGED]),
    "a file sink": (
        {"sinks": (a_sink(habit=SinkReplaySemantics.FILE_LOG),)},
        [Refusal.FILE_SINK],
    ),
    "a checkpoint that the script chose": (
        {"sinks": (a_sink(own_checkpoint="/own"),)},
        [Refusal.NO_WAY_BACK],
    ),
    "no way back": ({"rollback": NONE}, [Refusal.NO_WAY_BACK]),
}


@pytest.mark.parametrize(("given", "rules"), CASES.values(), ids=CASES.keys())
def test_what_is_possible_and_why_not_are_codes(given: dict[str, Any], rules: list[str]) -> None:
    report = given.get("report", a_checkpoint())
    plan = plan_repartition(
        {"revenue": report},
        given.get("wanted", 8),
        given.get("spark", (4, 3, 0)),
        sinks=given.get("sinks", (a_sink(),)),
        rollback=given.get("rollback", REWIND),
    )

    assert [finding.rule for finding in plan.findings] == rules
    assert plan.partitions == (8 if rules == ["state_partitions.possible"] else 0)


@pytest.mark.parametrize(
    ("epochs", "exits", "found"),
    [
        pytest.param(
            [START, FENCE], {1: {"unbegun": {QUERY: 8}}}, {QUERY: 8}, id="of the last driver"
        ),
        pytest.param(
            [START, START], {1: {"unbegun": {QUERY: 8}}}, {}, id="a later driver left no word"
        ),
        pytest.param(
            [START, START, FENCE], {1: {"unbegun": {QUERY: 8}}, 2: {}}, {}, id="it has none"
        ),
        pytest.param(
            [START],
            {1: {"unbegun": {QUERY: 8}, "cut_off": True}},
            {},
            id="cut off: it may still write",
        ),
        pytest.param([], {}, {}, id="nothing has run"),
    ],
)
def test_only_the_last_driver_says_what_was_never_begun(
    tmp_path: Path,
    epochs: list[LaunchCause],
    exits: dict[int, dict[str, Any]],
    found: dict[str, int],
) -> None:
    home = StreamHome(LocalStore(str(tmp_path)), "orders")
    for number, cause in enumerate(epochs, start=1):
        home.create_epoch(make_epoch(number, cause=cause))
    for number, said in exits.items():
        home.store.create(
            Layout("orders").place(Exit, epoch=number),
            Layout("orders").bytes_of(make_exit(number, **said)),
        )

    assert unbegun_batches(home) == found


def test_it_is_done_when_all_state_has_the_number_and_nothing_is_half_done() -> None:
    done = a_checkpoint(shuffle_partitions=8)
    assert is_done([done, a_checkpoint(is_stateful=False)], 8)
    assert not is_done([done, a_checkpoint()], 8)
    assert not is_done([replace(done, last_planned_batch=8)], 8)


class Killed(BaseException):
    """The task is gone."""


@dataclass
class PlayedSpark:
    """
    Writes the batch that repartitions as Spark does: a plan, and a commit unless it fails before.

    :param fails: Spark refuses, with this condition, after it wrote the plan.
    :param dies: The task is killed while Spark is at it; ``finishes`` whether Spark comes to its end.
    """

    stream: Upgraded
    fails: str = ""
    raises: bool = False
    dies: bool = False
    finishes: bool = False
    runs: list[int] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return Path(self.stream.deployment.checkpoint) / QUERY

    def run(self, partitions: int) -> RepartitionAnswer:
        self.runs.append(partitions)
        if self.raises:
            raise SpecError("The runtime is not there any more.")
        last = max(int(one.name) for one in (self.folder / "commits").glob("[0-9]*"))
        plan = (self.folder / "offsets" / str(last)).read_text()
        changed = plan.replace(
            '"spark.sql.shuffle.partitions": "2"', f'"spark.sql.shuffle.partitions": "{partitions}"'
        )
        (self.folder / "offsets" / str(last + 1)).write_text(changed)
        if self.fails:
            return RepartitionAnswer(condition=self.fails, failed="It is not supported.")
        if not self.dies or self.finishes:
            (self.folder / "commits" / str(last + 1)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        if self.dies:
            raise Killed
        return RepartitionAnswer()

    def is_done(self, partitions: int) -> bool:
        plans = {int(one.name) for one in (self.folder / "offsets").glob("[0-9]*")}
        commits = {int(one.name) for one in (self.folder / "commits").glob("[0-9]*")}
        return bool(self.runs) and plans == commits


def repartitioned(folder: Path, code: str = "works", **played: Any) -> tuple[Upgraded, PlayedSpark]:
    stream = Upgraded(folder, code)
    spark = PlayedSpark(stream, **played)
    engine = stream.engine
    stream.engine = lambda home=None, **more: engine(home, repartitioner=spark, **more)  # type: ignore[method-assign]
    return stream, spark


@pytest.mark.parametrize("rollback", [REWIND, RESUME])
def test_it_is_done_between_the_backup_and_the_new_epoch(
    tmp_path: Path, rollback: RollbackPlan
) -> None:
    stream, spark = repartitioned(tmp_path)
    stream.begin(partitions=8, rollback=rollback)
    assert stream.drive().state is Stage.KEPT

    stages = stream.stages()
    assert spark.runs == [8]
    assert stages.index("stopped") < stages.index("repartitioning") < stages.index("repartitioned")
    assert stages.index("repartitioned") < stages.index("deployed") < stages.index("launched")
    assert (stream.deployment.checkpoint, stream.deployment.number) == (stream.first, 2)


def test_what_spark_refuses_is_taken_back_by_the_backup(tmp_path: Path) -> None:
    stream, spark = repartitioned(tmp_path, fails="UNSUPPORTED")
    stream.begin(partitions=8)
    progress = stream.drive()

    assert progress.state is Stage.ROLLED_BACK
    assert progress.facts["condition"] == "UNSUPPORTED"
    assert spark.runs == [8]
    assert stream.deployment.checkpoint != stream.first, "the one that Spark left is not used again"
    offsets = Path(stream.deployment.checkpoint) / QUERY / "offsets"
    assert not [one for one in offsets.glob("[0-9]*") if '"8"' in one.read_text()]
    stream.tick()
    batches = [batch for _, batch in stream.written]
    assert batches == [*range(1, len(batches) + 1)], "no batch is lost, and none comes twice"


def test_a_spark_that_cannot_be_started_is_taken_back_at_once(tmp_path: Path) -> None:
    stream, _ = repartitioned(tmp_path, raises=True)
    stream.begin(partitions=8)
    progress = stream.drive()

    assert progress.state is Stage.ROLLED_BACK
    assert progress.facts["condition"] == "SpecError"


@pytest.mark.parametrize("rollback", [REWIND, RESUME])
def test_before_a_driver_has_written_the_way_back_has_the_old_number(
    tmp_path: Path, rollback: RollbackPlan
) -> None:
    stream, _ = repartitioned(tmp_path)
    stream.begin(partitions=8, rollback=rollback)
    stream.drive(Stage.DEPLOYED)
    stream.engine().command(UpgradeCommand.ROLL_BACK, "Not today.")

    assert stream.drive().state is Stage.ROLLED_BACK
    assert stream.deployment.checkpoint != stream.first
    stream.tick()
    batches = [batch for _, batch in stream.written]
    assert batches == [*range(1, len(batches) + 1)]


@pytest.mark.parametrize(
    ("rollback", "is_restored"), [(REWIND, True), (RESUME, False)], ids=["rewind", "resume"]
)
def test_after_it_has_written_the_way_back_is_the_one_of_the_plan(
    tmp_path: Path, rollback: RollbackPlan, is_restored: bool
) -> None:
    stream, _ = repartitioned(tmp_path, "fails after two")
    sinks = (SinkFacts(query=QUERY, sink="foreachbatch", habit=SinkReplaySemantics.NOTHING),)
    stream.begin(partitions=8, rollback=rollback, sinks=sinks)

    assert stream.drive().state is Stage.ROLLED_BACK
    assert (stream.deployment.checkpoint != stream.first) is is_restored


@pytest.mark.parametrize("finishes", [True, False])
def test_a_task_that_dies_meanwhile_leaves_it_to_the_checkpoint_and_the_clock(
    tmp_path: Path, finishes: bool
) -> None:
    stream, spark = repartitioned(tmp_path, dies=True, finishes=finishes)
    stream.begin(partitions=8)
    with pytest.raises(Killed):
        stream.drive()
    progress = stream.advance()
    if finishes:
        assert stream.drive().state is Stage.KEPT
        assert stream.deployment.checkpoint == stream.first
    else:
        assert progress.state is Stage.REPARTITIONING
        assert progress.waiting, "another Spark beside the first would be two writers"
        waits = REPARTITION_PATIENCE // TICK + 10
        assert stream.drive(ticks=waits).state is Stage.ROLLED_BACK
        assert stream.deployment.checkpoint != stream.first
    assert spark.runs == [8]


def test_a_word_to_roll_back_while_spark_is_at_it_gives_its_checkpoint_up(tmp_path: Path) -> None:
    stream, _ = repartitioned(tmp_path, dies=True)
    stream.begin(partitions=8)
    with pytest.raises(Killed):
        stream.drive()
    stream.engine().command(UpgradeCommand.ROLL_BACK, "It takes too long.")

    assert stream.drive().state is Stage.ROLLED_BACK
    assert stream.deployment.checkpoint != stream.first


def test_without_a_rollback_it_is_not_begun(tmp_path: Path) -> None:
    stream, spark = repartitioned(tmp_path)
    with pytest.raises(UpgradeRefused):
        stream.begin(partitions=8, rollback=NONE, accepts_no_way_back=True)
    assert spark.runs == []


def test_the_time_that_spark_has_is_over_before_it_is_taken_for_failed() -> None:
    from airflow_streaming.changes.upgrade.decide import REPARTITION_WITHIN

    assert timedelta(minutes=1) <= REPARTITION_PATIENCE - REPARTITION_WITHIN


def to_the_end(stream: Upgraded, home: StreamHome) -> None:
    """Begin with another number of partitions, and go on until it is over."""
    stream.begin(home, partitions=8)
    for _ in range(REPARTITION_PATIENCE // TICK + 60):
        if stream.advance(Stage.KEPT, home).is_there:
            return
        stream.tick()
    raise AssertionError("It came to no end.")


@pytest.mark.parametrize("first", range(1, 8, 2))
def test_a_worker_killed_before_any_step_loses_no_batch_and_starts_no_second_spark(
    tmp_path: Path, first: int
) -> None:
    ends = set()
    for step in range(first, 200, 7):
        stream, spark = repartitioned(tmp_path / str(step))
        has_died = died(stream, to_the_end, step)
        if has_died:
            stream.tick()
            to_the_end(stream, stream.home)
        stream.tick()
        stages, batches = stream.stages(), [batch for _, batch in stream.written]
        ends.add(stages[-1])

        assert len(spark.runs) <= 1
        assert batches == sorted(set(batches)), f"A batch was run twice: killed before step {step}."
        # Spark's own batch is none of a driver's; where it was taken back there is no gap.
        gaps = {*range(1, batches[-1] + 1)} - {*batches}
        assert len(gaps) == (stages[-1] == "kept"), f"Killed before step {step}: {stages}"
        assert stream.running() == stream.deployment.number
        if not has_died:
            break
    assert ends <= {"kept", "rolled_back"}
    assert "kept" in ends
