"""The fraud stream gets another state schema: refused as an upgrade, then cut over with warmed state."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.live import live
from airflow_streaming.model.arguments.choices import StartWay
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.spec import StreamSpec
from airflow_streaming.testing import StreamTester
from demo.events import drop
from tests.integration.pipelines.cutting_over import Arriving, CuttingOver
from tests.integration.pipelines.test_fraud import COLUMNS, frauds, payments, table
from tests.system.cutovers.keeping import KeepAlive, start
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
    pytest.mark.nightly("Four Sparks one after the other."),
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


class Payments(Arriving):
    """The files of payments."""

    def archive(self, table: Path, files: int) -> set[str]:
        """Move the oldest files out of the input into a table; return the ids of their payments."""
        known = payments(range(files))
        drop(table, "known.json", "\n".join(map(json.dumps, known)))
        for number in range(files):
            (self.folder / f"{number:06}.json").unlink()
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
    arriving = Payments(stage.input, "payments")
    moving = CuttingOver(
        stage=stage, stream=STREAM, query="alerts", green_script=stage.folder / "new.py"
    )
    for _ in range(BEFORE):
        arriving.arrive()
    start(stage, stage.folder / "old.py")
    with KeepAlive(stage) as keep_alive:
        blue = stage.lane(STREAM).deployment(1)
        moving.wait(lambda: len(batches(blue)) >= BEFORE, f"{BEFORE} batches of blue")
        known = arriving.archive(stage.initial, ARCHIVED)

        found = moving.preflight()
        refused = {f.rule for f in found.gates.findings if f.severity is GateDecision.NOT_ALLOWED}
        assert "variable.changed" in refused
        assert found.gates.decision is GateDecision.NOT_ALLOWED
        assert found.pair.start is StartWay.FRESH
        assert stage.drivers() == [(STREAM, 1)]

        # Green never reads the files that are archived.
        ended = moving.cut_over(found.pair, "the test", arriving, ahead=ARCHIVED + 1)
        assert ended.state is CutoverState.FINALIZED
        assert live(STREAM, home=stage.home_uri).lane == other_lane(STREAM)
        assert stage.drivers() == [(other_lane(STREAM), 1)]
        after = arriving.files
        for _ in range(3):
            arriving.arrive()
        green = stage.lane(other_lane(STREAM)).deployment(1)
        expected = frauds(payments(range(arriving.files)))
        assert set_of(expected) - set_of(frauds(payments(range(after))))
        moving.wait(
            lambda: set_of(expected) <= set_of(alerts(blue)) | set_of(alerts(green)),
            "the last alerts",
            keep_alive.said,
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


def never_touched(
    stage: FraudStage, tester: StreamTester, files: int, folder: Path
) -> list[dict[str, Any]]:
    """Return the alerts of the old script over the same payments, in one run."""
    arriving = Payments(folder / "in", "payments")
    for _ in range(files):
        arriving.arrive()
    tester.run(
        stage.folder / "old.py",
        *("--input", folder / "in", "--database", folder / "alerts.db"),
        checkpoint=folder / "checkpoint",
        py_files=[stage.folder / "fraud_rule.py"],
    )
    return table(folder / "alerts.db", "alerts")


def alerts(deployment: Deployment) -> list[dict[str, Any]]:
    return rows(deployment, "alerts")


def batches(deployment: Deployment) -> list[dict[str, Any]]:
    return rows(deployment, "batches")


def rows(deployment: Deployment, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table, none while there is no table yet."""
    try:
        return table(Path(deployment.output) / "alerts.db", name)
    except sqlite3.OperationalError:
        return []


def set_of(found: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {tuple(row[name] for name in COLUMNS) for row in found}
