"""The change gate on real checkpoints, without a Spark."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.gates.change_gate import Versions, gate_change
from airflow_streaming.gates.findings import GateDecision, Pattern
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.spark.plan import (
    OperatorKind,
    OperatorPlan,
    QueryPlan,
    ScriptPlan,
    WatermarkPlan,
)
from tests.golden import Golden, golden_checkpoints
from tests.trees import a_step, trees
from tests.unit.gates.change import builders as b

WINDOW = Column(name="window", type=b.WINDOW)
SESSION = Column(name="session_window", type=b.WINDOW)
WATERMARK = (WatermarkPlan(column="ts", delay_ms=60_000),)
KEY = Column(name="k", type="string")

AGG = b.an_aggregation(b.an_aggregate())
DEDUP = b.a_deduplication("k string, ts timestamp")
WITHIN = b.with_operator(
    b.a_deduplication("k string"), sort=OperatorKind.DEDUPLICATE_WITHIN_WATERMARK
)
JOINED = b.a_join(
    [a_step("project", "k@0, ts@0, v@0, v@1")],
    watermarks=(WatermarkPlan(column="ts", delay_ms=120_000),) * 2,
    sink=b.a_file_sink("k string, ts timestamp, v bigint"),
)
COUNTED = b.an_aggregation(
    OperatorPlan(
        sort=OperatorKind.AGGREGATE,
        keys=(KEY,),
        key_expressions=trees("k"),
        values=trees("count(1)"),
        value_types=("bigint",),
        output_names=(("n",),),
    ),
    output_mode="complete",
    steps=(),
    watermarks=(),
    sink=b.a_sink("memory", "k string, n bigint", target="complete"),
)
SESSIONS = b.an_aggregation(
    b.an_aggregate(
        sort=OperatorKind.SESSION_WINDOW,
        keys=(SESSION, KEY),
        key_expressions=("session_window(ts, 5 seconds)", "k"),
        values=("count(1)",),
        value_types=("bigint",),
        outputs=("lines",),
        window_us=(),
        gap="5 seconds",
    ),
    steps=(),
    sink=b.a_file_sink("k string, lines bigint"),
)
SHAPES: Mapping[str, QueryPlan] = {
    "agg": AGG,
    "agg_rocks": AGG,
    "agg_rocks_changelog": AGG,
    "agg_rocks_v2": AGG,
    "dedup": DEDUP,
    "dedup_rocks_tws": WITHIN,
    "join": JOINED,
    "join_rocks": JOINED,
    "session": SESSIONS,
    "complete": COUNTED,
    "stateless": replace(b.a_stateless(), steps=()),
}


def script(*plans: QueryPlan) -> ScriptPlan:
    return ScriptPlan(application="new.py", spark="4.3.0", queries=plans)


def of_shape(shape: str, spark: str = "4.3.0") -> Golden:
    found = [g for g in golden_checkpoints() if (g.shape, g.spark) == (shape, spark)]
    return found[0] if found else pytest.skip(f"There is no golden checkpoint {spark}/{shape}.")


@pytest.mark.parametrize("spark", ["3.5.9", "4.1.4", "4.3.0"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_plan_of_a_golden_checkpoint_contradicts_none_of_its_files(
    shape: str, spark: str
) -> None:
    golden, plan = of_shape(shape, spark), SHAPES[shape]
    found = gate_change({"q": str(golden.path)}, [plan], script(plan))
    assert found.decision is GateDecision.ALLOWED, found.findings
    assert found.pattern is Pattern.RESTART_IN_PLACE


@pytest.mark.parametrize("shape", SHAPES)
def test_the_plan_of_a_golden_checkpoint_is_unknown_by_the_checkpoint_alone(shape: str) -> None:
    found = gate_change({"q": str(of_shape(shape).path)}, [], script(SHAPES[shape]))
    assert found.decision is GateDecision.UNKNOWN
    assert {f.rule.split(".")[0] for f in found.findings if f.severity is GateDecision.UNKNOWN} == {
        "unseen"
    }


@pytest.mark.parametrize("spark", ["3.5.9", "4.3.0"])
@pytest.mark.parametrize(
    "shape", ["agg", "dedup", "dedup_rocks_tws", "join", "session", "complete"]
)
def test_no_checkpoint_takes_the_plan_of_another_shape(shape: str, spark: str) -> None:
    golden = of_shape(shape, spark)
    for other in ("stateless", "agg", "dedup", "dedup_rocks_tws", "join", "session", "complete"):
        if other != shape:
            found = gate_change({"q": str(golden.path)}, [], script(SHAPES[other]))
            assert found.decision is GateDecision.NOT_ALLOWED, (shape, other)


def test_a_checkpoint_that_does_not_tell_of_state_takes_none_for_granted() -> None:
    found = gate_change({"q": str(of_shape("stateless").path)}, [], script(AGG))
    assert "unseen.state" in {f.rule for f in found.findings}


def test_a_sum_that_became_a_maximum_is_seen_in_the_state_files_alone() -> None:
    plan = b.with_operator(AGG, values=("max(v)", "count(1)"))
    found = gate_change({"q": str(of_shape("agg").path)}, [], script(plan))
    assert [(f.old, f.evidence) for f in found.findings if f.rule == "aggregation.aggregates"] == [
        ("sum, count", "state/0/0/_metadata/schema")
    ]


def test_columns_swapped_behind_an_aggregation_are_seen_in_the_state_files_alone() -> None:
    plan = b.with_steps(AGG, ("project", "k, lines, total", 0))
    found = gate_change({"q": str(of_shape("agg").path)}, [], script(plan))
    assert "aggregation.aggregates" in {f.rule for f in found.findings}


def test_a_place_without_a_checkpoint_begins_anew(tmp_path: Path) -> None:
    found = gate_change({"q": str(tmp_path / "none")}, [AGG], script(AGG))
    assert [f.rule for f in found.findings] == ["checkpoint.absent"]


def test_a_broken_schema_file_makes_it_unknown(tmp_path: Path) -> None:
    golden = of_shape("agg")
    checkpoint = golden.copy_to(tmp_path / "copy")
    (checkpoint / "state/0/0/_metadata/schema").write_bytes(b"nothing")
    found = gate_change({"q": str(checkpoint)}, [], script(AGG))
    assert "unseen.state_columns" in {f.rule for f in found.findings}


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    checkpoint = of_shape("agg").copy_to(tmp_path / "copy")
    shutil.rmtree(checkpoint / "state")
    found = gate_change({"q": str(checkpoint)}, [AGG], script(AGG))
    assert "checkpoint.unsound" in {f.rule for f in found.findings}


def test_a_problem_of_plan_mode_is_in_the_report() -> None:
    new = ScriptPlan(application="new.py", spark="4.3.0", problem="NameError: x.")
    found = gate_change({}, [AGG], new)
    assert "NameError" in " ".join(f.message for f in found.findings)


def test_plans_of_two_sparks_ask_the_version_gate_without_being_told() -> None:
    golden = of_shape("join", "3.5.9")
    old = replace(JOINED, spark="3.5.9")

    found = gate_change({"q": str(golden.path)}, [old], script(JOINED))

    assert found.decision is GateDecision.NOT_ALLOWED
    assert found.pattern is None
    assert any(f.rule.startswith("version.") for f in found.findings)
    alone = gate_change({"q": str(golden.path)}, [old], script(JOINED), versions=None)
    assert not any(f.rule.startswith("version.") for f in alone.findings)


def test_the_spark_that_is_said_goes_before_that_of_the_plans() -> None:
    golden = of_shape("join", "3.5.9")

    found = gate_change(
        {"q": str(golden.path)}, [JOINED], script(JOINED), versions=Versions(start="3.5")
    )

    assert found.decision is GateDecision.NOT_ALLOWED


def test_nobody_knows_which_spark_wrote_a_checkpoint_without_a_plan() -> None:
    found = gate_change({"q": str(of_shape("agg").path)}, [], script(AGG))
    assert "unseen.spark" in {f.rule for f in found.findings}
