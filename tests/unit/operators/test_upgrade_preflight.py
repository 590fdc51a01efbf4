"""The preflight of an upgrade, on a real home; only Spark and the gates are played."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_streaming.exceptions import LaunchError, SpecError
from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, report_of
from airflow_streaming.gates.migration.migrations import MigratableReport
from airflow_streaming.gates.rehearsal import Pace, Rehearsed, RehearsedQuery
from airflow_streaming.gates.rehearsal_compare import Compared, ComparedQuery
from airflow_streaming.model.arguments.choices import Answer
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT
from airflow_streaming.model.jobs.migration import StateMigration
from airflow_streaming.model.jobs.rehearsal import Ending
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import ChangeEnd, ChangeOutcome
from airflow_streaming.model.records.upgrade_table import UpgradeCommand
from airflow_streaming.model.spark.plan import QueryPlan, ScriptPlan, SinkPlan
from airflow_streaming.operators.common.run_report import push_recorded
from airflow_streaming.operators.rehearsal import UpgradeRehearsalOperator, migrations_of
from airflow_streaming.operators.upgrade import UpgradeStepOperator
from airflow_streaming.operators.upgrade_preflight import UpgradePreflightOperator
from airflow_streaming.options import RehearsalOptions, UpgradeOptions
from airflow_streaming.orchestration.upgrade import upgrade_in_place
from airflow_streaming.services.changes import command_upgrade
from tests.unit.operators.upgrades import TaskInstance
from tests.unit.world import World

PREFLIGHT = "airflow_streaming.changes.upgrade.preflight"
WAY_BACK = "airflow_streaming.changes.upgrade.rollback"
PLAN = QueryPlan(query="revenue", spark="4.3.0", output_mode="append", sink=SinkPlan(sink="noop"))
EDIT = {"conf": '{"spark.executor.memory": "2g"}'}


def finding(severity: GateDecision) -> GateFinding:
    return GateFinding(rule="aggregation.keys", severity=severity, message="Another key.")


@pytest.fixture
def gates(world: World, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Play Spark and the gates; hold what they answer and what they were asked."""
    # What the first driver records of its query.
    world.home.store.create(
        Layout("orders").place(QueryPlan, epoch=1, query=PLAN.query),
        Layout("orders").bytes_of(PLAN),
    )
    told = SimpleNamespace(
        plan=ScriptPlan(application="orders.py", spark="4.3.0", queries=(PLAN,)),
        change=GateReport(),
        version=GateReport(),
        asked=[],
        programs=[],
        sparks=[],
    )

    def plan_script(program: Any, *_: Any, spark: Any = None, **__: Any) -> ScriptPlan:
        told.programs.append(program)
        told.sparks.append(spark)
        plan: ScriptPlan = told.plan
        return plan

    def gate(name: str) -> Any:
        def answer(*_: Any, **__: Any) -> Any:
            told.asked.append(name)
            return getattr(told, "version" if name == "back" else name)

        return answer

    places = SimpleNamespace(checkpoints={})
    monkeypatch.setattr(f"{PREFLIGHT}.plan_script", plan_script)
    monkeypatch.setattr(f"{PREFLIGHT}.gate_stream_change", gate("change"))
    monkeypatch.setattr(f"{PREFLIGHT}.gate_stream_version", gate("version"))
    monkeypatch.setattr(f"{WAY_BACK}.gate_version", gate("back"))
    monkeypatch.setattr(f"{WAY_BACK}.checkpoints_of", lambda *_: places)
    return told


def preflight(world: World, **more: Any) -> UpgradePreflightOperator:
    rendered = {name: more.pop(name) for name in ("prewarm",) if name in more}
    with DAG("orders_upgrade", schedule=None):
        task = UpgradePreflightOperator(
            task_id="preflight", **{"stream": world.spec(), **EDIT, **more}
        )
    for name, value in rendered.items():
        setattr(task, name, value)
    return task


def context(xcoms: dict[tuple[str, str], Any], task_id: str = "preflight") -> Any:
    return {"ti": TaskInstance(task_id=task_id, run_id="run-1", xcoms=xcoms), "params": {}}


def look(world: World, **more: Any) -> dict[tuple[str, str], Any]:
    xcoms: dict[tuple[str, str], Any] = {}
    preflight(world, **more).execute(context(xcoms))
    return xcoms


def test_it_reports_what_changes_and_does_nothing(world: World, gates: SimpleNamespace) -> None:
    world.run()

    xcoms = look(world)

    report = xcoms["preflight", "report"]
    assert (report["replaced"], report["decision"]) == (1, "allowed")
    assert report["differences"] == [
        {"what": "spark.executor.memory", "old": "", "new": "2g", "origin": "form"}
    ]
    assert report["key"] == "orders_upgrade run-1"
    assert "spark.executor.memory" in xcoms["preflight", "markdown"]
    assert gates.asked == ["change"], "the Spark stays"
    assert world.home.changes() == []
    deployment = world.home.newest_deployment()
    assert deployment is not None
    assert deployment.number == 1


@pytest.mark.parametrize(
    ("standby", "prewarm", "expected"),
    [
        (False, None, False),
        (True, None, True),
        (True, "", True),
        (True, "False", False),
        (False, "True", True),
    ],
)
def test_a_stream_with_a_standby_is_upgraded_pre_warmed_unless_it_is_said_otherwise(
    standby: bool, prewarm: Any, expected: bool, world: World, gates: SimpleNamespace
) -> None:
    world.run()
    xcoms = look(world, stream=world.spec(standby=standby), prewarm=prewarm)
    assert xcoms["preflight", "report"]["prewarm"] is expected
    assert ("both take their memory" in xcoms["preflight", "markdown"]) is expected


def test_where_the_launcher_keeps_no_standby_it_is_only_tried_when_it_is_asked_for(
    world: World,
) -> None:
    task = preflight(world, stream=world.spec(standby=True))
    assert not task._prewarms("yarn")
    task.prewarm = True
    # The engine finds out then, and says so in its records.
    assert task._prewarms("yarn")


def test_a_switch_that_is_neither_yes_nor_no_is_refused(
    world: World, gates: SimpleNamespace
) -> None:
    world.run()
    with pytest.raises(AirflowFailException, match="prewarm"):
        look(world, prewarm="perhaps")


def test_a_secret_reaches_plan_mode_and_no_report(world: World, gates: SimpleNamespace) -> None:
    spec = {"conf": {"spark.my.password": "canary-1"}}
    world.run(world.operator(**spec))
    xcoms: dict[tuple[str, str], Any] = {}
    with DAG("orders_upgrade", schedule=None):
        task = UpgradePreflightOperator(task_id="preflight", stream=world.spec(**spec), **EDIT)

    task.execute(context(xcoms))

    assert gates.programs[0].conf["spark.my.password"] == "canary-1"
    assert "canary-1" not in json.dumps(list(xcoms.values()))


@pytest.mark.parametrize("decision", [GateDecision.NOT_ALLOWED, GateDecision.UNKNOWN])
def test_what_must_not_be_done_fails_and_what_is_unknown_has_to_be_rehearsed(
    decision: GateDecision, world: World, gates: SimpleNamespace
) -> None:
    world.run()
    gates.change = report_of([finding(decision)])
    xcoms: dict[tuple[str, str], Any] = {}
    task = preflight(world)

    if decision is GateDecision.NOT_ALLOWED:
        with pytest.raises(AirflowFailException, match="The upgrade of 'orders' is not allowed"):
            task.execute(context(xcoms))
    else:
        assert task.execute(context(xcoms)) == "unknown"
    report = xcoms["preflight", "report"]
    assert report["has_to_be_rehearsed"] is (decision is GateDecision.UNKNOWN)


def test_a_script_that_fails_in_plan_mode_is_refused(world: World, gates: SimpleNamespace) -> None:
    world.run()
    gates.plan = ScriptPlan(application="orders.py", spark="4.3.0", problem="no such table")

    with pytest.raises(AirflowFailException, match="no such table"):
        look(world)


def test_nothing_to_do_is_skipped_with_the_reason(world: World, gates: SimpleNamespace) -> None:
    world.run()
    xcoms: dict[tuple[str, str], Any] = {}

    with pytest.raises(AirflowSkipException, match="already runs the requested deployment"):
        preflight(world, conf="{}").execute(context(xcoms))

    assert "already runs" in xcoms["preflight", "ended"]
    assert gates.programs == [], "no Spark is started for it"


def test_a_plain_restart_goes_on_though_nothing_differs(
    world: World, gates: SimpleNamespace
) -> None:
    world.run()

    report = look(world, conf="{}", same_code=True, even_if_equal=True)["preflight", "report"]

    assert report["differences"] == []


def test_a_rolling_restart_changes_no_code(world: World, gates: SimpleNamespace) -> None:
    world.run()
    world.script.write_text("other = True\n")

    with pytest.raises(AirflowFailException, match="would change the code"):
        look(world, same_code=True)


def test_a_stream_that_never_ran_cannot_be_upgraded(world: World, gates: SimpleNamespace) -> None:
    with pytest.raises(AirflowFailException, match="has never run"):
        look(world)


def test_a_habit_that_no_sink_has_is_refused_when_the_dag_is_parsed(world: World) -> None:
    with pytest.raises(SpecError, match="'forgets' is not a known sink behavior"):
        preflight(world, sink_habits={"revenue": "forgets"})


@pytest.fixture
def rehearsals(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Play the rehearsal; hold the Spark and the program of each."""
    ran: list[Any] = []

    def rehearse(_: Any, program: Any, *__: Any, spark: Any, **___: Any) -> Rehearsed:
        ran.append((spark, program))
        # Figures of progress are whole numbers, also in fields of floats.
        live = Pace(batches=1, input_rows=40, rows_per_second=0.8, duration_ms=47813)
        query = RehearsedQuery(query="revenue", ending=Ending.CAUGHT_UP, live=live)
        return Rehearsed(
            application="job.py", spark="4.3.0", subject="a copy", seconds=1.0, queries=(query,)
        )

    monkeypatch.setattr("airflow_streaming.spark_jobs.rehearsal.rehearse", rehearse)
    tasks = "airflow_streaming.operators.rehearsal"
    monkeypatch.setattr(f"{tasks}.place_of", lambda *_, **__: "a copy")
    return ran


@pytest.mark.parametrize(
    ("when", "gate", "runs"),
    [
        ("when_unknown", GateDecision.ALLOWED, False),
        ("when_unknown", GateDecision.UNKNOWN, True),
        ("always", GateDecision.ALLOWED, True),
        ("never", GateDecision.UNKNOWN, False),
        ("always", GateDecision.NOT_ALLOWED, False),
    ],
)
def test_a_rehearsal_that_is_due_runs_in_the_spark_of_plan_mode(
    when: str,
    gate: GateDecision,
    runs: bool,
    world: World,
    gates: SimpleNamespace,
    rehearsals: list[Any],
) -> None:
    world.run()
    gates.change = report_of([finding(gate)])
    xcoms: dict[tuple[str, str], Any] = {}
    task = preflight(world, rehearsal=RehearsalOptions(), when=when)

    with contextlib.suppress(AirflowFailException):
        task.execute(context(xcoms))

    assert [spark for spark, _ in rehearsals] == ([gates.sparks[0]] if runs else [])
    assert (("preflight", "rehearsed") in xcoms) is runs


MIGRATION = StateMigration(query="revenue", consequences=("max(x) starts anew.",))


def migratable() -> GateReport:
    refused = replace(finding(GateDecision.NOT_ALLOWED), query="revenue", migration=("It starts.",))
    return MigratableReport(findings=(refused,), migrations=(MIGRATION,))


def test_a_change_that_can_be_migrated_is_refused_without_the_switch(
    world: World, gates: SimpleNamespace
) -> None:
    world.run()
    gates.change = migratable()
    with pytest.raises(AirflowFailException, match="Turn on migrate"):
        look(world)


@pytest.mark.parametrize(("when", "runs"), [("when_unknown", True), ("never", False)])
def test_a_migration_is_rehearsed_before_the_approval_and_tells_what_a_user_accepts(
    when: str,
    runs: bool,
    world: World,
    gates: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[Any] = []

    def rehearsed(rehearsal: Any, *_: Any) -> Rehearsed:
        ran.append(rehearsal)
        return Rehearsed(application="job.py", spark="4.3.0", subject="a copy", seconds=1.0)

    tasks = "airflow_streaming.operators.rehearsal"
    monkeypatch.setattr(f"{tasks}.UpgradeRehearsal.run", rehearsed)
    monkeypatch.setattr(f"{tasks}.place_of", lambda *_, **__: "a copy")
    world.run()
    gates.change = migratable()
    xcoms = look(
        world,
        migrate=True,
        rehearsal=RehearsalOptions(),
        when=when,
        accept=["migration.unproved"],
    )

    report = xcoms["preflight", "report"]
    assert migrations_of(report) == (MIGRATION,)
    assert report["accepted"] == ["migration.unproved"]
    assert [(one.migrations, set(one.accepted)) for one in ran] == (
        [((MIGRATION,), {"migration.unproved"})] if runs else []
    )
    if not runs:
        with pytest.raises(AirflowFailException, match="the rehearsal is turned off"):
            rehearsal(world, when=when).execute(context(xcoms, "rehearse"))


def test_a_rehearsal_in_the_preflight_does_not_know_the_live_output(
    world: World, gates: SimpleNamespace, rehearsals: list[Any]
) -> None:
    spec = {"application_args": ["{output}"]}
    world.run(world.operator(**spec))

    look(world, stream=world.spec(**spec), rehearsal=RehearsalOptions(), when="always")

    ((_, program),) = rehearsals
    assert program.arguments == (SCRATCH_OUTPUT,)
    assert gates.programs[0].arguments != (SCRATCH_OUTPUT,), "the plan tells the live one"


@pytest.mark.parametrize(("try_number", "anew"), [(1, False), (2, True)])
def test_the_task_takes_what_the_preflight_has_rehearsed_and_rehearses_anew_when_cleared(
    try_number: int,
    anew: bool,
    world: World,
    gates: SimpleNamespace,
    rehearsals: list[Any],
) -> None:
    world.run()
    xcoms = look(world, rehearsal=RehearsalOptions(), when="always")
    rehearsals.clear()
    given = context(xcoms, "rehearse")
    given["ti"].try_number = try_number

    assert rehearsal(world, when="always").execute(given) == "allowed"

    assert bool(rehearsals) is anew
    assert xcoms["rehearse", "report"]["kind"] == "rehearsed"
    assert "Rehearsal" in xcoms["rehearse", "markdown"]


def edited(seen: dict[str, Any]) -> dict[str, Any]:
    return {**seen, "findings": [], "seconds": 0.0}


@pytest.mark.parametrize(
    ("change", "is_believed"),
    [
        pytest.param(lambda seen: seen, True, id="as recorded"),
        pytest.param(edited, False, id="edited"),
        pytest.param(lambda _: {"kind": "rehearsed"}, False, id="malformed"),
    ],
)
def test_a_rehearsal_in_xcom_is_believed_where_the_home_has_recorded_it(
    change: Callable[[dict[str, Any]], dict[str, Any]],
    is_believed: bool,
    world: World,
    gates: SimpleNamespace,
    rehearsals: list[Any],
) -> None:
    world.run()
    xcoms = look(world, rehearsal=RehearsalOptions(), when="always")
    rehearsals.clear()
    # XCom keeps JSON.
    xcoms["preflight", "rehearsed"] = change(
        json.loads(json.dumps(xcoms["preflight", "rehearsed"]))
    )

    assert rehearsal(world, when="always").execute(context(xcoms, "rehearse")) == "allowed"

    assert bool(rehearsals) is not is_believed


def test_a_rehearsal_that_the_preflight_cannot_run_is_left_to_its_task(
    world: World, gates: SimpleNamespace, rehearsals: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Rehearsed:
        raise LaunchError("Java is missing.")

    world.run()
    with monkeypatch.context() as patch:
        patch.setattr("airflow_streaming.spark_jobs.rehearsal.rehearse", fail)
        xcoms = look(world, rehearsal=RehearsalOptions(), when="always")

    assert xcoms["preflight", "report"]["decision"] == "allowed"
    assert rehearsal(world, when="always").execute(context(xcoms, "rehearse")) == "allowed"
    assert len(rehearsals) == 1


def rehearsal(world: World, **more: Any) -> UpgradeRehearsalOperator:
    with DAG("orders_upgrade", schedule=None):
        return UpgradeRehearsalOperator(
            task_id="rehearse", preflight_task_id="preflight", stream=world.spec(), **more
        )


@pytest.mark.parametrize(
    ("when", "is_needed", "expected"),
    [
        ("when_unknown", False, AirflowSkipException),
        ("never", False, AirflowSkipException),
        ("never", True, AirflowFailException),
        ("when_unknown", True, None),
        ("always", False, None),
    ],
)
def test_it_is_rehearsed_when_it_has_to_be_or_is_wanted(
    when: str,
    is_needed: bool,
    expected: type[Exception] | None,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "airflow_streaming.operators.rehearsal.RehearsalOperator.execute", lambda *_: "x"
    )
    xcoms: dict[tuple[str, str], Any] = {}
    push_recorded(context(xcoms), world.home, "report", {"has_to_be_rehearsed": is_needed})
    task = rehearsal(world, when=when)

    if expected is None:
        assert task.execute(context(xcoms, "rehearse")) == "x"
        return
    with pytest.raises(expected):
        task.execute(context(xcoms, "rehearse"))


@pytest.mark.parametrize(
    ("answer", "passing", "passes"),
    [
        pytest.param(Answer.SAME, ("same", "not_revised"), True, id="the same"),
        pytest.param(Answer.SETTLES, ("same", "not_revised"), False, id="settles"),
        pytest.param(Answer.SETTLES, ("same", "settles"), True, id="settles, which is accepted"),
        pytest.param(Answer.UNDECIDED, ("same", "not_revised"), False, id="undecided"),
        pytest.param(Answer.WRONG_FOR_GOOD, ("same", "settles"), False, id="wrong"),
    ],
)
def test_what_a_gate_does_not_know_passes_with_an_accepted_answer_of_the_comparison(
    answer: Answer,
    passing: tuple[str, ...],
    passes: bool,
    stream: World,
    gates: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def compare(place: Any, old: Any, new: Any, **_: Any) -> Compared:
        asked.append((old.program.source, new.program.source))
        query = ComparedQuery(query="revenue", answer=answer, reason="So it is.")
        return Compared(subject="a copy", queries=(query,), seconds=2.0)

    clean = Rehearsed(application="job.py", spark="4.3.0", subject="a copy", seconds=1.0)
    unknown = GateFinding(
        rule="plan.unexplained",
        severity=GateDecision.UNKNOWN,
        message="It differs.",
        query="revenue",
    )
    jobs = "airflow_streaming.spark_jobs"
    monkeypatch.setattr(f"{jobs}.rehearsal.rehearse", lambda *_, **__: clean)
    monkeypatch.setattr(f"{jobs}.rehearsal_compare.compare_versions", compare)
    monkeypatch.setattr(UpgradeRehearsalOperator, "_place", lambda *_: "a copy")
    report = {"has_to_be_rehearsed": True, "gates": report_of([unknown]).to_dict()}
    xcoms: dict[tuple[str, str], Any] = {}
    push_recorded(context(xcoms), stream.home, "report", report)
    running = stream.script.read_bytes()
    stream.script.write_text("other = True\n")
    task = rehearsal(stream, compare=True, passing=passing)

    if passes:
        task.execute(context(xcoms, "rehearse"))
    else:
        with pytest.raises(AirflowFailException, match=answer.value):
            task.execute(context(xcoms, "rehearse"))

    assert asked == [(running, b"other = True\n")]
    (finding,) = xcoms["rehearse", "report"]["findings"]
    assert finding["rule"] == f"rehearsal.{answer}"


def begin(world: World) -> UpgradeStepOperator:
    with DAG("orders_upgrade", schedule=None):
        return UpgradeStepOperator(
            task_id="back_up",
            until="backed_up",
            preflight_task_id="preflight",
            stream=world.spec(),
            **EDIT,
        )


def test_what_was_looked_at_is_what_is_begun_and_backed_up(
    stream: World, gates: SimpleNamespace
) -> None:
    stream.say()
    xcoms = look(stream)

    done = begin(stream).execute(context(xcoms, "back_up"))

    assert done["stage"] == "backed_up"
    change = stream.home.open_upgrade()
    assert change is not None
    terms = stream.home.terms(change)
    assert terms.proposed.conf["spark.executor.memory"] == "2g"
    assert not terms.keeps_by_itself
    assert terms.soak.queries == ("revenue",), "what plan mode saw has to be there"
    assert stream.launcher.living() == [1], "the stream runs on"


def test_a_run_that_finds_its_upgrade_open_goes_on_with_it(
    stream: World, gates: SimpleNamespace
) -> None:
    stream.say()
    xcoms = look(stream)
    begin(stream).execute(context(xcoms, "back_up"))

    again = look(stream)

    assert again["preflight", "report"]["resumes"] == 1
    with pytest.raises(AirflowSkipException, match=r"Change 1 .* this was a dry run"):
        look(stream, dry_run="True")
    with pytest.raises(AirflowFailException, match=r"Change 1 \(upgrade\) .* is open"):
        look(stream, conf='{"spark.executor.memory": "8g"}')


def test_an_end_that_was_decided_and_whose_run_is_gone_is_carried_out_first(
    stream: World, gates: SimpleNamespace
) -> None:
    stream.say()
    begin(stream).execute(context(look(stream), "back_up"))
    command_upgrade(
        *(stream.home, stream.home.change(1), UpgradeCommand.ABORT), by="ann", reason="Not today."
    )

    with pytest.raises(AirflowFailException, match=r"Not today. Start a new run"):
        look(stream)

    end = stream.home.change_end(1)
    assert end is not None
    assert end.outcome is ChangeOutcome.ABANDONED
    assert stream.launcher.living() == [1], "the stream runs on"


def test_a_run_that_is_cleared_after_its_end_is_refused_at_once(
    stream: World, gates: SimpleNamespace
) -> None:
    stream.say()
    xcoms = look(stream)
    begin(stream).execute(context(xcoms, "back_up"))
    end = ChangeEnd(
        number=1,
        outcome=ChangeOutcome.ROLLED_BACK,
        by="ann",
        reason="Wrong totals.",
        at=datetime.now(UTC),
    )
    stream.home.end_change(end)
    gates.programs.clear()

    with pytest.raises(AirflowFailException, match=r"rolled back.*Wrong totals. Start a new run"):
        look(stream)

    assert gates.programs == [], "no Spark is started for it"


@pytest.mark.parametrize(
    ("approval", "is_refused"), [({"begin": "auto"}, True), ({"begin": "ask"}, False), ({}, False)]
)
def test_a_restart_that_the_gates_do_not_know_needs_a_person(
    approval: dict[str, str], is_refused: bool, world: World, gates: SimpleNamespace
) -> None:
    world.run()
    gates.change = report_of([finding(GateDecision.UNKNOWN)])
    xcoms: dict[tuple[str, str], Any] = {}
    task = preflight(world, same_code=True, approval=approval)

    if not is_refused:
        assert task.execute(context(xcoms)) == "unknown"
        return
    with pytest.raises(AirflowFailException, match=r"Another key.*Ask for an approval.*rehearsed"):
        task.execute(context(xcoms))
    assert xcoms["preflight", "markdown"], "the report is there to be read"


@pytest.mark.parametrize(("minutes", "at_most"), [("", 900), ("30", 1800)])
def test_the_soak_that_the_approver_reads_is_the_soak_that_is_begun(
    minutes: str, at_most: int, stream: World, gates: SimpleNamespace
) -> None:
    stream.say()

    xcoms = look(stream, soak_minutes=minutes)

    assert f"at most {at_most // 60} min" in xcoms["preflight", "markdown"]
    begin(stream).execute(context(xcoms, "back_up"))
    change = stream.home.open_upgrade()
    assert change is not None
    assert stream.home.terms(change).soak.at_most.total_seconds() == at_most


def test_a_wait_leaves_the_worker(stream: World, gates: SimpleNamespace) -> None:
    stream.say()
    xcoms = look(stream)
    with DAG("orders_upgrade", schedule=None) as dag:
        upgrade_in_place(stream.spec(), UpgradeOptions(edits=EDIT))
    step = dag.get_task("upgrade.switch")
    step.preflight_task_id, step.patience = "preflight", timedelta(0)

    with pytest.raises(TaskDeferred) as deferred:
        step.execute(context(xcoms, "switch"))

    assert deferred.value.trigger.stream == "orders"
    assert stream.home.stop_request(1) is not None


def test_an_upgrade_of_another_dags_stream_is_not_begun(
    stream: World, gates: SimpleNamespace
) -> None:
    stream.say()
    xcoms = look(stream)
    stream.home.hand_over("another", by="ann", reason="It moved.", now=datetime.now(UTC))

    with pytest.raises(AirflowFailException, match="belongs to dag 'another'"):
        begin(stream).execute(context(xcoms, "back_up"))

    assert stream.home.changes() == []


def by_form(world: World, **form: Any) -> None:
    """Deploy what a form asks for, as an upgrade does."""
    task = preflight(world, **{"conf": None, **form})
    hook = task.hook(context({}))
    hook.controller.deploy(*hook.proposal())


def test_an_empty_form_starts_from_the_live_deployment_and_not_from_the_dag(
    world: World, gates: SimpleNamespace
) -> None:
    world.run()
    by_form(world, conf={"spark.executor.memory": "4g"})

    xcoms = look(world, conf={"spark.executor.cores": "2"}, accept="rollback.none")

    report = xcoms["preflight", "report"]
    assert [one["what"] for one in report["differences"]] == ["spark.executor.cores"]
    assert report["kept"] == [{"what": "conf.spark.executor.memory", "value": "4g", "dag": None}]
    assert "The DAG names other values" in xcoms["preflight", "markdown"]


def test_a_live_setting_is_dropped_only_when_that_is_accepted(
    world: World, gates: SimpleNamespace
) -> None:
    world.run()
    by_form(world, conf={"spark.executor.memory": "4g"})
    dropped = {"conf": {"spark.executor.memory": None}}

    with pytest.raises(AirflowFailException, match=r"live\.dropped_conf"):
        look(world, **dropped, accept="rollback.none")

    report = look(world, **dropped, accept="live.dropped_conf, rollback.none")[
        "preflight", "report"
    ]
    assert report["decision"] == "allowed_with_consequence"
