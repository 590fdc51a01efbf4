"""The preflight of a cutover, on a real home; only Spark and the gates are played."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.changes.cutover.begin import queries_without_batch
from airflow_streaming.changes.cutover.plan import check_format
from airflow_streaming.changes.judging.methods import ReplayStart, WaysReport, switch_ways
from airflow_streaming.exceptions import SpecError, StreamingError
from airflow_streaming.gates.findings import (
    GateDecision,
    GateFinding,
    GateReport,
    Pattern,
    report_of,
)
from airflow_streaming.gates.migration.migrations import MigratableReport
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.migration import StateMigration
from airflow_streaming.model.records.cutover_table import CutoverCommand
from airflow_streaming.model.spark.plan import QueryPlan, ScriptPlan, SinkPlan
from airflow_streaming.model.wire import decode
from airflow_streaming.operators.cutover_preflight import CutoverPreflightOperator
from airflow_streaming.spec import StreamSpec
from tests.unit.changes.cutover.cutting import Cutting
from tests.unit.checkpoints.running import new_checkpoint
from tests.unit.operators.cutovers import REPORT, Run, another_script

PLANNING = "airflow_streaming.changes.cutover.begin"
PLAN = QueryPlan(query="counts", spark="4.3.0", output_mode="append", sink=SinkPlan(sink="noop"))
FORM = {
    "way": "parallel",
    "start": "by_gate",
    "replay_from": "",
    "soak_minutes": "",
    "approval": {"switch": "ask", "end": "auto"},
    "retain_hours": "",
    "accept": "",
    "is_dry_run": "False",
}


def finding(severity: GateDecision, rule: str = "aggregation.keys") -> GateFinding:
    return GateFinding(rule=rule, severity=severity, message="Another key.", query="counts")


REFUSED = report_of([finding(GateDecision.NOT_ALLOWED)], Pattern.BLUE_GREEN)
FINE = GateReport(pattern=Pattern.RESTART_IN_PLACE)


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Play Spark and the gates; hold their answers."""
    told = SimpleNamespace(
        plan=ScriptPlan(application="orders.py", spark="4.3.0", queries=(PLAN,)),
        change=FINE,
        ways=WaysReport(),
        replay=ReplayStart(at=None, reason="There is no watermark."),
    )
    monkeypatch.setattr(f"{PLANNING}.plan_script", lambda *_, **__: told.plan)
    monkeypatch.setattr(f"{PLANNING}.judge_plan", lambda *_: told.change)
    monkeypatch.setattr(f"{PLANNING}.switch_ways", lambda *_, **__: told.ways)
    monkeypatch.setattr(f"{PLANNING}.replay_start", lambda *_: told.replay)
    places = SimpleNamespace(checkpoints={})
    monkeypatch.setattr(f"{PLANNING}.checkpoints_of", lambda *_: places)
    # Blue has committed batches of every query.
    monkeypatch.setattr(f"{PLANNING}.queries_without_batch", lambda *_: frozenset())
    return told


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gates: SimpleNamespace) -> Run:
    return Run(Cutting(tmp_path), monkeypatch)


def look(run: Run, **form: str) -> tuple[dict[str, Any], str]:
    task = run.task("preflight")
    for name, value in {**FORM, **form}.items():
        setattr(task, name, value)
    decision = task.execute(run.context("preflight"))
    assert decision in set(GateDecision), "the next tasks read the decision"
    return run.xcoms[REPORT, "report"], run.xcoms[REPORT, "markdown"]


def writes(sink: str, format_: str = "") -> QueryPlan:
    return replace(PLAN, sink=SinkPlan(sink=sink, format=format_))


@pytest.mark.parametrize(
    ("wanted", "sinks", "passes"),
    [
        ("json", [writes("file", "json")], True),
        ("JSON", [writes("file", "json")], True),
        ("parquet", [writes("file", "json")], False),
        ("parquet", [writes("file", "json"), writes("file", "parquet")], True),
        ("parquet", [writes("file", "json"), writes("foreachbatch")], True),
        ("parquet", [], True),
        ("kafka", [writes("kafka")], True),
        ("kafka", [writes("file", "json")], False),
    ],
)
def test_a_comparison_reads_the_format_that_is_written(
    wanted: str, sinks: list[QueryPlan], passes: bool
) -> None:
    terms = CompareTerms(stream="orders", format=wanted, keys=("key",) if wanted == "kafka" else ())

    if passes:
        check_format(terms, sinks)
        return
    with pytest.raises(SpecError, match=r"queries write json\. Set format='json'"):
        check_format(terms, sinks)


def test_a_comparison_that_cannot_read_the_output_is_refused_before_green_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gates: SimpleNamespace
) -> None:
    monkeypatch.setattr(StreamHome, "newest_plans", lambda *_, **__: [writes("file", "json")])
    run = Run(Cutting(tmp_path), monkeypatch, compare=[CompareTerms(stream="orders")])

    with pytest.raises(AirflowFailException, match="has format 'parquet'"):
        look(run)

    assert (REPORT, "report") not in run.xcoms


@pytest.mark.parametrize(
    ("change", "start", "said"),
    [
        pytest.param(FINE, "cloned", "a copy of blue's checkpoint", id="it could go on"),
        pytest.param(REFUSED, "fresh", "an empty checkpoint", id="its state is lost"),
        pytest.param(
            report_of([finding(GateDecision.NOT_ALLOWED)], Pattern.CARRIED_OVER),
            *("carried", "blue's position in the sources"),
            id="there is no state",
        ),
        pytest.param(
            report_of([finding(GateDecision.UNKNOWN)], Pattern.RESTART_IN_PLACE),
            *("cloned", "a copy of blue's checkpoint"),
            id="nobody knows, and green will show it",
        ),
    ],
)
def test_the_gates_say_what_green_begins_with(
    change: GateReport, start: str, said: str, run: Run, gates: SimpleNamespace
) -> None:
    gates.change = change

    report, page = look(run)

    assert report["pairs"][0]["start"] == start
    assert said in page
    assert report["decision"] in ("allowed", "allowed_with_consequence")
    assert run.stream.home("orders").changes() == []


@pytest.fixture
def places(run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of blue's checkpoints, in which the preflight looks."""
    monkeypatch.setattr(f"{PLANNING}.queries_without_batch", queries_without_batch)
    monkeypatch.setattr(f"{PLANNING}.switch_ways", switch_ways)
    return Path(run.stream.home("orders").deployment(1).checkpoint)


def test_a_green_that_has_nothing_to_copy_starts_fresh_by_the_gates_choice(
    run: Run, places: Path
) -> None:
    assert not places.exists()

    report, page = look(run)

    assert report["pairs"][0]["start"] == "fresh"
    assert "no committed checkpoint" in page


def test_the_preflight_refuses_a_copy_of_a_folder_that_is_missing(
    run: Run, gates: SimpleNamespace, places: Path
) -> None:
    places.mkdir(parents=True)
    new_checkpoint(places).rename(places / "counts")
    sums = replace(PLAN, query="sums")
    gates.plan = replace(gates.plan, queries=(PLAN, sums))

    with pytest.raises(AirflowFailException, match=r"cutover\.no_checkpoint"):
        look(run)


def test_what_the_gates_refuse_counts_where_green_begins_with_blues_state(
    run: Run, gates: SimpleNamespace
) -> None:
    gates.change = REFUSED

    report, page = look(run, start="fresh")
    assert "do not count against it" in page
    assert report["gates"]["findings"] == []
    with pytest.raises(AirflowFailException, match="The cutover of 'orders' is not allowed"):
        look(run, start="cloned")


def test_green_gets_a_migrated_copy_where_the_gates_know_the_migration(
    run: Run, gates: SimpleNamespace
) -> None:
    migration = StateMigration(query="counts", consequences=("max(x) starts anew.",))
    refused = replace(finding(GateDecision.NOT_ALLOWED), migration=migration.consequences)
    gates.change = MigratableReport(
        findings=(refused,), pattern=Pattern.BLUE_GREEN, migrations=(migration,)
    )
    report, page = look(run, start="migrated")

    (pair,) = report["pairs"]
    assert decode(StateMigration, pair["migrations"][0], "migration") == migration
    assert (report["decision"], pair["start"]) == ("allowed_with_consequence", "migrated")
    assert "max(x) starts anew." in page


def test_a_migrated_copy_without_a_migration_is_refused(run: Run, gates: SimpleNamespace) -> None:
    gates.change = REFUSED
    with pytest.raises(AirflowFailException, match=r"aggregation\.keys"):
        look(run, start="migrated")


def test_a_script_that_fails_is_refused_whatever_green_begins_with(
    run: Run, gates: SimpleNamespace
) -> None:
    gates.change = report_of([finding(GateDecision.NOT_ALLOWED, "plan.script")])

    with pytest.raises(AirflowFailException, match=r"plan\.script"):
        look(run, start="fresh")


def test_both_ways_stand_there_and_only_the_one_asked_for_decides(
    run: Run, gates: SimpleNamespace
) -> None:
    gates.ways = WaysReport(
        handover=report_of([finding(GateDecision.NOT_ALLOWED, "handover.file_sink")])
    )

    report, page = look(run)
    assert "| parallel outputs | allowed | **yes** |" in page
    assert "| handover on one sink | not allowed | — |" in page
    assert report["pairs"][0]["sound"] == ["parallel"]
    with pytest.raises(AirflowFailException, match=r"handover\.file_sink"):
        look(run, way="handover")


def test_from_when_a_fresh_green_reads_is_computed_or_asked_for_and_shown(
    run: Run, gates: SimpleNamespace
) -> None:
    report, page = look(run, start="fresh", replay_from="2026-03-01T00:00:00Z")

    assert report["pairs"][0]["replay_from"] == "2026-03-01T00:00:00+00:00"
    assert "`2026-03-01T00:00:00+00:00`" in page
    assert "There is no watermark." in page
    assert "the computed one was the beginning" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--since", "{replay_from}"), "**It reads from** `2026-03-01T", id="told"),
        pytest.param(
            ("--ms", "{replay_from_ms}"), "**It reads from** `2026-03-01T", id="told in ms"
        ),
        pytest.param((), "It reads from wherever the script itself starts", id="not told"),
    ],
)
def test_a_script_that_is_not_told_where_to_begin_is_not_said_to_begin_there(
    arguments: tuple[str, ...], said: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = run.stream.pair("orders")
    told = replace(pair, shadow=replace(pair.shadow, application_args=arguments))
    monkeypatch.setattr(run.stream, "pair", lambda _: told)

    _, page = look(run, start="fresh", replay_from="2026-03-01T00:00:00Z")

    assert said in page


@pytest.mark.parametrize(
    "form",
    [
        pytest.param({"way": "sideways"}, id="way"),
        pytest.param({"start": "anyhow"}, id="start"),
        pytest.param({"soak_minutes": "soon"}, id="soak"),
        pytest.param({"retain_hours": "-1"}, id="retain"),
        pytest.param({"start": "fresh", "replay_from": "yesterday"}, id="replay"),
    ],
)
def test_what_a_form_cannot_mean_is_said(form: dict[str, str], run: Run) -> None:
    with pytest.raises(
        AirflowFailException, match=f"{list(form)[-1]} is '{list(form.values())[-1]}'"
    ):
        look(run, **form)


@pytest.mark.parametrize("step", ["switch", "end"])
def test_an_approval_is_asked_for_or_not(step: str, run: Run) -> None:
    with pytest.raises(AirflowFailException, match=rf"approval\['{step}'\] is 'perhaps'"):
        look(run, approval={step: "perhaps"})


def test_the_page_says_what_can_be_undone_and_until_when(run: Run) -> None:
    _, page = look(run, way="handover", retain_hours="12")

    assert "**Output that green has written there by then stays.**" in page
    assert "kept for 12 h" in page
    assert "is the point of no return" in page
    assert "**not compared**" in page


def test_the_page_is_in_the_log_where_nobody_is_asked(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CutoverPreflightOperator, "log", logging.getLogger("task"))

    with caplog.at_level("INFO", "task"):
        _, page = look(run, is_dry_run="True")

    told = [record.getMessage() for record in caplog.records]
    begin = told.index("::group::The report")
    shown = "\n".join(told[begin + 1 : told.index("::endgroup::", begin)])
    assert "not compared" in shown
    assert not [mark for mark in ("**", "| --- |", "\\") if mark in shown]
    assert page.startswith("#")
    decision = told.index(next(one for one in told if one.startswith("Decision: ")))
    assert all(one.startswith("  ") for one in told[decision + 1 : begin])


def test_what_is_approved_is_what_is_begun(run: Run) -> None:
    report, _ = look(run, soak_minutes="30", retain_hours="6", approval={"switch": "auto"})

    run.go("start_green")

    home = run.stream.home("orders")
    terms = home.cutover_terms(home.changes()[0])
    assert terms.key == report["key"] == run.key
    assert terms.promotes_by_itself
    assert terms.soak.at_most.total_seconds() == 1800
    assert terms.retain_blue.total_seconds() == 6 * 3600
    assert terms.leader.shadow.fingerprint == report["pairs"][0]["fingerprint"]


def test_a_later_run_goes_on_with_the_same_and_with_nothing_else(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(run)
    run.go("start_green")
    later = Run(run.stream, monkeypatch, run_id="run-2")

    report, page = look(later)
    assert report == {"resumes": 1}
    assert "This run continues it." in page
    with pytest.raises(AirflowSkipException, match="this was a dry run and left it alone"):
        look(later, is_dry_run="True")
    assert "left it alone" in later.xcoms[REPORT, "ended"]
    another_script(run.stream)
    with pytest.raises(AirflowFailException, match="is another cutover, and it is open"):
        look(later)


def test_a_run_that_is_cleared_after_its_end_says_so(run: Run) -> None:
    look(run, approval={"switch": "auto"})
    run.go("start_green")
    run.stream.engine().command(CutoverCommand.ABORT, "Enough.")
    run.stream.drive()

    with pytest.raises(AirflowFailException, match="has cut stream 'orders' over already"):
        look(run)


def test_what_was_decided_and_left_is_carried_out_first(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(run)
    run.go("start_green")
    run.stream.engine().command(CutoverCommand.ABORT, "Enough.")
    later = Run(run.stream, monkeypatch, run_id="run-2")
    run.stream.tick()

    with pytest.raises(StreamingError, match=r"must finish first\. Waiting for"):
        look(later)
    run.stream.tick()
    report, _ = look(later)

    assert run.stream.history()[-1] == "aborted"
    assert "resumes" not in report


def test_streams_that_cannot_switch_together_are_refused_when_the_dag_is_parsed() -> None:
    one = StreamSpec(name="orders", application="o.py", home="/a", runtime="spark-4.3")
    other = StreamSpec(name="returns", application="o.py", home="/b", runtime="spark-4.3")
    told: dict[str, Any] = {"task_id": "preflight", "stream": one}

    with pytest.raises(SpecError, match="one home"):
        CutoverPreflightOperator(task_id="preflight", stream=[one, other])
    with pytest.raises(SpecError, match="different names"):
        CutoverPreflightOperator(task_id="preflight", stream=[one, one])
    with pytest.raises(SpecError, match="'napping' has no deadline"):
        CutoverPreflightOperator(**told, deadlines={"napping": timedelta(1)})
    with pytest.raises(SpecError, match="outside the cutover of"):
        CutoverPreflightOperator(**told, compare=[CompareTerms(stream="returns")])
    with pytest.raises(SpecError, match="name of its own"):
        CutoverPreflightOperator(**told, checks=[lambda _: None])
