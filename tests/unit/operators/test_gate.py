"""The gates as tasks: how a report ends them, and what they leave for those who come after."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.checkpoints.copies import OfCheckpoints
from airflow_streaming.exceptions import CheckpointRefused, SpecError
from airflow_streaming.gates.findings import GateDecision, GateFinding, report_of
from airflow_streaming.gates.rehearsal import Rehearsed
from airflow_streaming.model.spark.plan import QueryPlan, ScriptPlan, SinkPlan
from airflow_streaming.operators.common.gate import fail_if_refused
from airflow_streaming.operators.gate import ChangeGateOperator, SparkVersionGateOperator, by_query
from airflow_streaming.operators.rehearsal import RehearsalOperator, bounds_of
from tests.unit.checkpoints.restoring import run_batches
from tests.unit.world import World

PLAN = QueryPlan(query="revenue", spark="4.3.0", output_mode="append", sink=SinkPlan(sink="noop"))
NEW = ScriptPlan(application="orders.py", spark="4.3.0", queries=(PLAN,))


def finding(severity: GateDecision) -> GateFinding:
    return GateFinding(
        rule="aggregation.keys",
        severity=severity,
        query="revenue",
        message="The key is another one.",
        old="id",
        new="name",
        evidence="state/0/_metadata",
        remedy="Take a new checkpoint.",
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Answer for the rooms below; hold what they were asked, and the answer to give."""
    told: dict[str, Any] = {"report": report_of([])}

    def answer(name: str) -> Any:
        def gate(*args: Any, **kwargs: Any) -> Any:
            told[name] = (args, kwargs)
            if isinstance(told["report"], Exception):
                raise told["report"]
            return told["report"]

        return gate

    monkeypatch.setattr("airflow_streaming.spark_jobs.plan_mode.plan_script", lambda *_, **__: NEW)
    monkeypatch.setattr("airflow_streaming.gates.change_gate.gate_stream_change", answer("change"))
    monkeypatch.setattr("airflow_streaming.gates.change_gate.gate_change", answer("change"))
    monkeypatch.setattr(
        "airflow_streaming.gates.version_gate.gate_stream_version", answer("version")
    )
    monkeypatch.setattr("airflow_streaming.gates.version_gate.gate_version", answer("version"))
    return told


def change_gate(world: World, **more: Any) -> ChangeGateOperator:
    return ChangeGateOperator(
        task_id="gate", stream=world.spec(), dag=DAG("gates", schedule=None), **more
    )


def test_the_answer_is_the_return_value_and_the_findings_are_xcoms(
    world: World, asked: dict[str, Any]
) -> None:
    world.run()
    asked["report"] = report_of([finding(GateDecision.ALLOWED_WITH_CONSEQUENCE)])

    assert change_gate(world).execute(world.context()) == "allowed_with_consequence"

    report = world.ti.xcoms["report"]
    assert report["decision"] == "allowed_with_consequence"
    assert report["findings"][0]["evidence"] == "state/0/_metadata"
    assert json.loads(json.dumps(report)) == report
    assert "aggregation.keys" in world.ti.xcoms["markdown"]


@pytest.mark.parametrize(
    ("decision", "fail_on", "fails"),
    [
        (GateDecision.NOT_ALLOWED, "not_allowed", True),
        (GateDecision.UNKNOWN, "not_allowed", False),
        (GateDecision.UNKNOWN, "unknown", True),
        (GateDecision.ALLOWED_WITH_CONSEQUENCE, "unknown", False),
        (GateDecision.ALLOWED_WITH_CONSEQUENCE, "allowed_with_consequence", True),
        (GateDecision.ALLOWED, "allowed_with_consequence", False),
        (GateDecision.NOT_ALLOWED, None, False),
    ],
)
def test_the_task_fails_from_the_decision_that_is_named(
    decision: GateDecision,
    fail_on: str | None,
    fails: bool,
    world: World,
    asked: dict[str, Any],
) -> None:
    world.run()
    asked["report"] = report_of([finding(decision)])
    gate = change_gate(world, fail_on=fail_on)

    if not fails:
        assert gate.execute(world.context()) == decision
        return
    with pytest.raises(AirflowFailException, match=r"(?s)The key is another one\..*new checkpoint"):
        gate.execute(world.context())
    assert world.ti.xcoms["report"]["decision"] == decision, "what was found is there all the same"


@pytest.mark.parametrize("gate", [ChangeGateOperator, SparkVersionGateOperator])
def test_a_stream_that_never_ran_passes(gate: Any, world: World, asked: dict[str, Any]) -> None:
    task = gate(task_id="gate", stream=world.spec(), dag=DAG("gates", schedule=None))

    assert task.execute(world.context()) == "allowed"

    assert set(asked) == {"report"}


def test_the_version_gate_asks_from_what_runs_to_what_is_wanted(
    world: World, asked: dict[str, Any]
) -> None:
    world.run()
    gate = SparkVersionGateOperator(
        task_id="gate", stream=world.spec(), to_version="4.1", conf={"spark.sql.x": "1"}
    )

    gate.execute(world.context())

    (home, target), kwargs = asked["version"]
    assert (home.name, target, kwargs["from_version"]) == ("orders", "4.1", "4.3.0")
    assert kwargs["conf"]["spark.sql.x"] == "1"


def test_a_checkpoint_of_another_application_is_gated_by_its_own_name(
    world: World, asked: dict[str, Any], tmp_path: Path
) -> None:
    run_batches(tmp_path / "foreign", 2)
    gate = ChangeGateOperator(
        task_id="gate",
        checkpoint=str(tmp_path / "foreign"),
        application=str(world.script),
        runtime="spark-4.3",
    )

    gate.execute(world.context())

    (checkpoints, old, new), _ = asked["change"]
    assert Path(checkpoints["revenue"].removeprefix("file://")) == tmp_path / "foreign"
    assert (list(old), new) == ([], NEW)


def test_one_checkpoint_cannot_be_of_two_queries() -> None:
    two = replace(NEW, queries=(PLAN, replace(PLAN, query="other")))

    with pytest.raises(SpecError, match="starts 2 queries and the checkpoint is of one"):
        by_query({"": "/c"}, two)


def test_what_cannot_be_asked_fails_without_retries(world: World, asked: dict[str, Any]) -> None:
    world.run()
    asked["report"] = CheckpointRefused("It is no checkpoint.")

    with pytest.raises(AirflowFailException, match="It is no checkpoint"):
        change_gate(world).execute(world.context())


@pytest.mark.parametrize(
    ("gate", "arguments", "sentence"),
    [
        (ChangeGateOperator, {}, "has neither or both of stream and checkpoint"),
        (ChangeGateOperator, {"checkpoint": "/c"}, "Give application and runtime"),
        (SparkVersionGateOperator, {"checkpoint": "/c"}, "Give from_version"),
        (RehearsalOperator, {"checkpoint": "/c"}, "give application and runtime"),
        (
            SparkVersionGateOperator,
            {"checkpoint": "/c", "from_version": "3.5", "to_version": "4.3", "fail_on": "worst"},
            "fail_on is 'worst'",
        ),
    ],
)
def test_a_gate_that_could_never_answer_is_refused_when_the_dag_is_parsed(
    gate: Any, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SpecError, match=sentence):
        gate(task_id="gate", **arguments)


@pytest.mark.parametrize(
    ("batches", "replays", "expected"), [(5, False, 5), ("3", False, 3), ("0", True, 1)]
)
def test_a_rehearsal_is_bounded_by_batches(batches: Any, replays: bool, expected: int) -> None:
    bounds = bounds_of(batches, timedelta(minutes=10))

    assert (bounds.batches, bounds.replay_only) == (expected, replays)


@pytest.mark.parametrize(
    ("batches", "typed", "seconds"),
    [
        (5, "", 600),
        (5, None, 600),
        (5, "30", 1800),
        (5, 0.5, 30),
        (0, "", 180),
        (0, "30", 1800),
    ],
    ids=["empty", "none", "longer", "shorter", "one batch", "one batch, longer"],
)
def test_minutes_of_a_form_replace_the_time_of_a_rehearsal(
    batches: int, typed: Any, seconds: float
) -> None:
    bounds = bounds_of(batches, timedelta(minutes=10), typed)

    assert (bounds.seconds, bounds.replay_only) == (seconds, batches == 0)


@pytest.mark.parametrize("batches", ["", "-1", "1.5", "many", "9" * 10, "9" * 5000])
def test_batches_of_a_rehearsal_are_a_number_of_nine_digits(batches: str) -> None:
    with pytest.raises(SpecError, match="batches is"):
        bounds_of(batches, timedelta(minutes=10))


@pytest.mark.parametrize("typed", ["soon", "0", "-1", "1441", "1e308"])
def test_minutes_of_a_rehearsal_are_a_number_above_zero(typed: str) -> None:
    with pytest.raises(SpecError, match="rehearsal_minutes"):
        bounds_of(5, timedelta(minutes=10), typed)


def test_a_rehearsal_runs_what_is_asked_for_on_a_copy_and_knows_no_real_output(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(world.operator(application_args=["--output", "{output}"]))
    seen: dict[str, Any] = {}

    def rehearse(place: Any, program: Any, runtime: Any, **kwargs: Any) -> Rehearsed:
        seen.update(place=place, program=program, runtime=runtime, **kwargs)
        return Rehearsed(
            application="orders.py",
            spark="4.3.0",
            subject="copies",
            seconds=1.0,
            findings=(finding(GateDecision.NOT_ALLOWED),),
        )

    monkeypatch.setattr("airflow_streaming.spark_jobs.rehearsal.rehearse", rehearse)
    monkeypatch.setattr(
        "airflow_streaming.checkpoints.copies.checkpoints_of",
        lambda *_: OfCheckpoints(checkpoints={"revenue": "/c"}),
    )
    task = RehearsalOperator(
        task_id="try",
        stream=world.spec(
            application_args=["--output", "{output}"], conf={"spark.my.password": "canary"}
        ),
        conf='{"spark.sql.shuffle.partitions": 4}',
        dag=DAG("gates", schedule=None),
    )

    with pytest.raises(AirflowFailException, match="The rehearsal on stream 'orders' is not"):
        task.execute(world.context())

    program = seen["program"]
    assert world.uri not in " ".join(program.arguments)
    assert program.conf["spark.my.password"] == "canary"
    assert program.conf["spark.sql.shuffle.partitions"] == "4"
    assert seen["compare_with"].name == "orders"
    assert "canary" not in json.dumps(world.ti.xcoms)


def test_a_refusal_is_a_list_that_says_each_thing_once() -> None:
    worst = finding(GateDecision.NOT_ALLOWED)
    others = [replace(worst, query="other"), replace(worst, rule="sources.gone", message="Gone.")]

    with pytest.raises(AirflowFailException) as refusal:
        fail_if_refused(report_of([worst, *others]), "not_allowed", what="The upgrade of 'orders'")

    first, *items = str(refusal.value).split("\n- ")
    assert first == "The upgrade of 'orders' is not allowed:"
    assert [item.partition(":")[0] for item in items] == [
        "aggregation.keys of queries 'other', 'revenue'",
        "sources.gone of query 'revenue' (id → name)",
    ]
