"""The fraud stream gets another state schema: refused as an upgrade, then cut over with warmed state."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.changes.cutover.begin import PlanRequest, plan_pair
from airflow_streaming.changes.cutover.engine import Cutover
from airflow_streaming.changes.cutover.lanes import Candidate
from airflow_streaming.changes.cutover.plan import CutoverPlan, PairPreflight
from airflow_streaming.changes.handover.green_start import StoredCheckpoints
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.exceptions import CheckpointError
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.live import live
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.cutover import Pair, ReadyTerms, StartWay, SwitchMethod
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade import SoakTerms
from airflow_streaming.spark_jobs.runner import Program
from airflow_streaming.spec import StreamSpec
from airflow_streaming.testing import StreamTester
from demo.events import drop
from demo.feeds.shapes import FEEDS
from tests.integration.pipelines.test_fraud import COLUMNS, frauds, payments, table
from tests.patience import tail, until
from tests.system.cutovers.keeping import KeepAlive, start
from tests.system.cutovers.lanes import StageLanes
from tests.system.cutovers.stage import CONF, Stage

STREAM: Final = "fraud"
ARCHIVED: Final = 3
"""Files that have left the input before green begins; their payments are in the table."""

BEFORE: Final = 5
"""Files that blue has read before the cutover."""

MORE_STATE: Final = (
    ('lat double, lon double"\n', 'lat double, lon double, seen long"\n'),
    ("self.payments.put(kept)", "self.payments.put([(*one, 1) for one in kept])"),
    (
        "self.payments.put(judge((), payments_in(initial))[0])",
        "self.payments.put([(*one, 1) for one in judge((), payments_in(initial))[0]])",
    ),
)
"""As in the example's README: each payment in the state gets a column."""

pytestmark = [
    pytest.mark.usefixtures("has_pandas"),
    pytest.mark.skipif(
        not os.environ.get("AIRFLOW_STREAMING_TEST_MORE"),
        reason="Four Sparks one after the other; set AIRFLOW_STREAMING_TEST_MORE.",
    ),
]


class FraudStage(Stage):
    """The stage of a cutover, with the example in it instead of the shop."""

    @property
    def initial(self) -> Path:
        return self.folder / "initial"

    def spec(self, application: str, lane: str = STREAM) -> StreamSpec:
        # What green is given beside blue's arguments: the payments that it cannot read any more.
        more = () if lane == STREAM else ("--initial", str(self.initial))
        return StreamSpec(
            name=lane,
            application=application,
            application_args=[
                *("--input", str(self.input), "--database", "{output}/alerts.db"),
                *("--trigger-seconds", "0.5", *more),
            ],
            py_files=[str(self.folder / "fraud_rule.py")],
            home=self.home_uri,
            runtime=self.runtime.name,
            conf=CONF,
        )


class Payments:
    """The files of payments, which arrive one after another."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.files = folder, 0

    def arrive(self) -> None:
        """Let the next file arrive."""
        lines = FEEDS["payments"].lines(self.files)
        drop(self._folder, f"{self.files:06}.json", "\n".join(lines) + "\n")
        self.files += 1

    def archive(self, table: Path, files: int) -> set[str]:
        """Move the oldest files out of the input into a table; return the ids of their payments."""
        known = payments(range(files))
        drop(table, "known.json", "\n".join(map(json.dumps, known)))
        for number in range(files):
            (self._folder / f"{number:06}.json").unlink()
        return {row["id"] for row in known}


@pytest.fixture
def stage(tmp_path: Path, spark_4_3: Path, dags: Path) -> Iterator[FraudStage]:
    made = FraudStage.at(tmp_path / "stage", spark_4_3, "ledger", streams=(STREAM,))
    made.input.mkdir(parents=True)
    jobs = dags / "fraud" / "jobs"
    text = (jobs / "fraud_alerts.py").read_text()
    (made.folder / "old.py").write_text(text)
    for old, new in MORE_STATE:
        assert old in text, old
        text = text.replace(old, new)
    (made.folder / "new.py").write_text(text)
    (made.folder / "fraud_rule.py").write_bytes((jobs / "fraud_rule.py").read_bytes())
    yield made
    made.end()


def test_another_state_schema_is_refused_then_cut_over_and_no_alert_differs(
    stage: FraudStage, stream_tester: StreamTester, tmp_path: Path
) -> None:
    arriving = Payments(stage.input)
    for _ in range(BEFORE):
        arriving.arrive()
    start(stage, stage.folder / "old.py")
    with KeepAlive(stage) as keep_alive:
        blue = stage.lane(STREAM).deployment(1)
        wait(stage, lambda: len(batches(blue)) >= BEFORE, f"{BEFORE} batches of blue")
        known = arriving.archive(stage.initial, ARCHIVED)

        found = examined(stage)
        refused = {f.rule for f in found.gates.findings if f.severity is GateDecision.NOT_ALLOWED}
        assert "variable.changed" in refused
        assert found.gates.decision is GateDecision.NOT_ALLOWED
        assert found.pair.start is StartWay.FRESH
        assert stage.drivers() == [(STREAM, 1)]

        cut_over(stage, found.pair, arriving)
        assert live(STREAM, home=stage.home_uri).lane == other_lane(STREAM)
        assert stage.drivers() == [(other_lane(STREAM), 1)]
        after = arriving.files
        for _ in range(3):
            arriving.arrive()
        green = stage.lane(other_lane(STREAM)).deployment(1)
        expected = frauds(payments(range(arriving.files)))
        assert set_of(expected) - set_of(frauds(payments(range(after))))
        wait(
            stage,
            lambda: set_of(expected) <= set_of(alerts(blue)) | set_of(alerts(green)),
            "the last alerts",
            keep_alive,
        )
    stage.end()

    outputs = live(STREAM, home=stage.home_uri, history=True)
    assert [one.output for one in outputs.history] == [blue.output]
    assert outputs.output == green.output
    for written in (alerts(blue), alerts(green)):
        assert len(set_of(written)) == len(written) > 0
    # The state was warm: green's alerts name payments that it has never read, each with one it has.
    warm = [known & {row["first"], row["second"]} for row in alerts(green)]
    assert {len(one) for one in warm} == {0, 1}
    untouched = never_touched(stage, stream_tester, arriving.files, tmp_path / "untouched")
    assert set_of(alerts(blue)) | set_of(alerts(green)) == set_of(untouched)
    assert sorted(set_of(untouched)) == sorted(set_of(expected))


def examined(stage: FraudStage) -> PairPreflight:
    """Ask what the preflight of an upgrade and of a cutover ask about the new script."""
    blue, green = stage.lane(STREAM), other_lane(STREAM)

    def program(deployment: Deployment, source: bytes) -> Program:
        return Program(
            application=deployment.application,
            source=source,
            arguments=tuple(deployment.arguments(stage.home_uri)),
            conf=deployment.conf,
            py_files=deployment.py_files,
        )

    candidate = Candidate(
        stream=STREAM,
        home=stage.home_uri,
        blue=blue,
        green=green,
        propose=lambda conf: stage.proposal(
            green, stage.folder / "new.py", fresh=True, carried_on=conf
        ),
        program=program,
        runtime=stage.runtime,
    )
    return plan_pair(candidate, PlanRequest(way=SwitchMethod.PARALLEL))


def cut_over(stage: FraudStage, pair: Pair, arriving: Payments) -> None:
    """Take the cutover to its end while payments arrive."""
    engine = Cutover(
        STREAM, StageLanes(stage, "a test"), by="a test", checkpoints=StoredCheckpoints()
    )
    plan = CutoverPlan(
        ready=ReadyTerms(well_for=timedelta(seconds=2), batches=3),
        soak=SoakTerms(batches=2, at_least=timedelta(seconds=1), at_most=timedelta(minutes=5)),
        promotes_by_itself=True,
    )
    source = (stage.folder / "new.py").read_bytes()
    engine.begin(plan.terms(SwitchMethod.PARALLEL, (pair,), "the test"), {STREAM: source})
    lanes = [stage.lane(lane) for lane in (STREAM, other_lane(STREAM))]

    def is_there() -> bool:
        # No machine is too slow to keep pace with files that come when the last was read by both.
        read = [files_read(lane.deployment(1)) for lane in lanes if lane.newest_deployment()]
        if min(read) > arriving.files - ARCHIVED - 1:
            arriving.arrive()
        progress = engine.advance(CutoverState.FINALIZED)
        assert not progress.needs_person, progress
        return progress.is_there

    wait(stage, is_there, "the cutover's end")
    home = stage.lane(STREAM)
    (change,) = home.changes()
    assert home.steps(change.number)[-1].after is CutoverState.FINALIZED


def never_touched(
    stage: FraudStage, tester: StreamTester, files: int, folder: Path
) -> list[dict[str, Any]]:
    """Return the alerts of the old script over the same payments, in one run."""
    arriving = Payments(folder / "in")
    for _ in range(files):
        arriving.arrive()
    tester.run(
        stage.folder / "old.py",
        *("--input", folder / "in", "--database", folder / "alerts.db"),
        checkpoint=folder / "checkpoint",
        py_files=[stage.folder / "fraud_rule.py"],
    )
    return table(folder / "alerts.db", "alerts")


def wait(stage: FraudStage, condition: Any, what: str, *seen: Any) -> None:
    def shown() -> str:
        logs = sorted((stage.folder / "logs").glob("*.log"))
        said = [line for one in seen for line in one.said]
        return "\n".join([*said, *map(tail, logs)])

    until(condition, what, seen=shown)


def alerts(deployment: Deployment) -> list[dict[str, Any]]:
    return rows(deployment, "alerts")


def batches(deployment: Deployment) -> list[dict[str, Any]]:
    return rows(deployment, "batches")


def files_read(deployment: Deployment) -> int:
    """Return how many files a lane has taken into committed batches."""
    try:
        (source,) = inspect(f"{deployment.checkpoint}/alerts").sources
    except (CheckpointError, ValueError):
        return 0
    return int(source.committed["logOffset"]) + 1 if source.committed else 0


def rows(deployment: Deployment, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table, none while there is no table yet."""
    try:
        return table(Path(deployment.output) / "alerts.db", name)
    except sqlite3.OperationalError:
        return []


def set_of(found: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {tuple(row[name] for name in COLUMNS) for row in found}
