from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoints.read.formats import PINNED_SINCE, newer_than
from airflow_streaming.exceptions import CheckpointError, SpecError
from airflow_streaming.gates.findings import GateDecision, GateReport
from airflow_streaming.gates.version.judge import can_come_back
from airflow_streaming.gates.version.matrix import Matrix, Outcome, Seen
from airflow_streaming.gates.version_gate import gate_stream_version, gate_version
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.storage import LocalStore
from tests.golden import golden_checkpoint
from tests.unit.gates.version.measured import plan_of

CHECK_OFF = {"spark.sql.streaming.stateStore.stateSchemaCheck": "false"}


AGGREGATES = ("window_aggregate", "aggregate_update", "aggregate_objects", "aggregate_complete")
JOIN_FAILS = Seen(
    there=Outcome.FAILED,
    back=Outcome.SAME,
    unchecked=Outcome.SAME,
    unchecked_back=Outcome.SAME,
)
MATRIX = Matrix(
    measured="2026-11-21",
    releases={"3.5": "3.5.9", "4.0": "4.0.5", "4.3": "4.3.0"},
    cells={
        **{
            f"{shape}/hdfs": {"3.5>4.3": Seen(there=Outcome.SAME, back=Outcome.SAME)}
            for shape in AGGREGATES
        },
        "inner_join/hdfs": {"3.5>4.0": JOIN_FAILS},
    },
)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix that does not depend on how far the measurement has come."""
    monkeypatch.setattr("airflow_streaming.gates.version_gate.load_matrix", lambda: MATRIX)


def rules_of(report: GateReport) -> set[str]:
    return {finding.rule for finding in report.findings}


def test_a_join_of_spark_3_5_needs_a_setting_for_spark_4() -> None:
    checkpoint = str(golden_checkpoint("3.5.9", "join").path)

    refused = gate_version(checkpoint, "3.5.9", "4.3.0")
    let = gate_version(checkpoint, "3.5.9", "4.3.0", conf=CHECK_OFF)

    assert refused.decision is GateDecision.NOT_ALLOWED
    assert "stateSchemaCheck=false" in refused.findings[0].remedy
    assert let.decision is GateDecision.ALLOWED_WITH_CONSEQUENCE


def test_format_2_does_not_go_below_spark_4() -> None:
    checkpoint = str(golden_checkpoint("4.3.0", "agg_rocks_v2").path)

    report = gate_version(checkpoint, "4.3.0", "3.5.9")

    assert report.decision is GateDecision.NOT_ALLOWED
    assert "version.format" in rules_of(report)


@pytest.mark.usefixtures("measured")
def test_an_aggregate_goes_up_and_comes_back() -> None:
    checkpoint = str(golden_checkpoint("3.5.9", "agg").path)

    there = gate_version(checkpoint, "3.5.9", "4.3.0", conf={"spark.sql.ansi.enabled": "false"})
    back = gate_version(checkpoint, "3.5.9", "4.3.0", judge=can_come_back)

    assert there.decision is GateDecision.ALLOWED
    assert back.decision is GateDecision.ALLOWED


def test_a_folder_of_checkpoints_is_judged_query_by_query(tmp_path: Path) -> None:
    for query in ("join", "agg"):
        shutil.copytree(golden_checkpoint("3.5.9", query).path, tmp_path / query)

    report = gate_version(str(tmp_path), "3.5.9", "4.3.0")

    refused = {f.query for f in report.findings if f.severity is GateDecision.NOT_ALLOWED}
    assert {finding.query for finding in report.findings} == {"agg", "join"}
    assert refused == {"join"}


def test_the_plan_of_one_checkpoint_needs_no_name() -> None:
    checkpoint = str(golden_checkpoint("4.3.0", "join").path)

    report = gate_version(checkpoint, "4.3.0", "4.1.4", plans=[plan_of("inner_join")])

    assert any("known from its plan" in finding.evidence for finding in report.findings)


@pytest.mark.usefixtures("measured")
def test_a_state_schema_that_cannot_be_read_leaves_it_to_the_matrix(tmp_path: Path) -> None:
    copied = golden_checkpoint("3.5.9", "join").copy_to(tmp_path)
    (copied / "state/0/0/right-keyWithIndexToValue/_metadata/schema").write_bytes(b"nonsense")

    report = gate_version(str(copied), "3.5.9", "4.0.5", plans=[plan_of("inner_join")])

    # The reader has found it too.
    assert {"version.needs_conf", "version.damaged"} <= rules_of(report)


def test_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="There is no folder"):
        gate_version(str(tmp_path / "nothing"), "3.5.9", "4.3.0")


def test_a_text_that_is_no_version_is_told() -> None:
    with pytest.raises(SpecError, match="not a version of Spark"):
        gate_version(str(golden_checkpoint("4.3.0", "agg").path), "4.3.0", "latest")


@pytest.mark.parametrize("version", [None, 3.5, 4, "", "3.5.x", "3.05"])
def test_what_is_no_text_is_no_version(version: Any) -> None:
    checkpoint = str(golden_checkpoint("4.3.0", "agg").path)

    with pytest.raises(SpecError, match="not a version of Spark"):
        gate_version(checkpoint, version, "4.3.0")
    with pytest.raises(SpecError, match="not a version of Spark"):
        gate_version({}, "4.3.0", version)


@pytest.mark.parametrize("checkpoints", [None, 7, {"orders": None}, ["/data/orders"]])
def test_what_is_no_text_is_no_checkpoint(checkpoints: Any) -> None:
    with pytest.raises(SpecError, match="Pass its URI as text"):
        gate_version(checkpoints, "3.5.9", "4.3.0")


@pytest.mark.parametrize("start", ["4.0.5", "4.3.0"])
def test_the_checkpoint_is_believed_over_the_version_that_is_said(start: str) -> None:
    checkpoint = str(golden_checkpoint("3.5.9", "join").path)

    report = gate_version(checkpoint, start, "4.3.0", plans=[plan_of("inner_join")])

    assert report.decision is GateDecision.UNKNOWN
    assert report.findings[0].rule == "version.written_by_older"
    back = gate_version(checkpoint, start, "4.3.0", judge=can_come_back)
    assert back.decision is GateDecision.UNKNOWN


def test_the_checkpoint_is_believed_over_the_plan() -> None:
    checkpoint = str(golden_checkpoint("4.3.0", "join").path)

    report = gate_version(checkpoint, "4.3.0", "4.3.1", plans=[plan_of("window_aggregate")])

    assert report.decision is GateDecision.UNKNOWN
    assert "version.contradiction" in rules_of(report)


def test_a_plan_that_could_not_be_read_contradicts_nothing() -> None:
    unread = replace(plan_of("stateless"), query="", sources=(), notes=("It was not read.",))
    checkpoint = str(golden_checkpoint("4.3.0", "join").path)

    report = gate_version(checkpoint, "4.3.0", "4.3.1", plans=[unread])

    assert report.decision is GateDecision.ALLOWED


def test_an_older_spark_in_between_is_seen_in_the_offset_log(tmp_path: Path) -> None:
    copied = golden_checkpoint("4.3.0", "agg_rocks").copy_to(tmp_path)
    offsets = sorted((copied / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    head, about, *rest = offsets[-1].read_text().split("\n")
    told = json.loads(about)
    told["conf"] = {
        key: value
        for key, value in told["conf"].items()
        if not newer_than(PINNED_SINCE.get(key), "4.1")
    }
    offsets[-1].write_text("\n".join([head, json.dumps(told), *rest]))
    (offsets[-1].parent / f".{offsets[-1].name}.crc").unlink(missing_ok=True)

    report = gate_version(str(copied), "4.1.4", "4.3.0")

    [found] = [each for each in report.findings if each.rule == "version.down_and_up"]
    assert "mergeOperatorVersion" in found.old
    assert "deterministicKeyOrder" not in found.old


def test_a_stream_that_never_ran_has_nothing_to_be_judged(tmp_path: Path) -> None:
    home = StreamHome(LocalStore(str(tmp_path)), "orders")

    assert gate_stream_version(home, "4.3.0") == GateReport()
