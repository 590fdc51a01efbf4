from __future__ import annotations

import json

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.gates.findings import (
    GateDecision,
    GateFinding,
    GateReport,
    Pattern,
    report_from,
    report_of,
)
from airflow_streaming.reports.gate import gate_report
from airflow_streaming.reports.markdown import markdown


def test_a_report_begins_with_the_decision_and_tells_each_finding_with_its_evidence() -> None:
    bad = GateFinding(
        rule="aggregation.aggregates",
        severity=GateDecision.NOT_ALLOWED,
        message="The aggregates differ.",
        query="revenue",
        old="sum(v)",
        new="max(v)",
        evidence="the plans",
        remedy="Start anew.",
    )
    fine = GateFinding(rule="sink.same", severity=GateDecision.ALLOWED, message="The same sink.")

    text = markdown(gate_report(report_of([fine, bad], Pattern.BLUE_GREEN)))

    assert text.splitlines() == [
        "Decision: **not allowed**",
        "",
        "How to deploy it: blue-green, with a new checkpoint.",
        "",
        "- **not allowed** in query revenue: The aggregates differ. (`aggregation.aggregates`)",
        "    - now: `sum(v)`",
        "    - after: `max(v)`",
        "    - evidence: the plans",
        "    - what to do: Start anew.",
        "",
        "- **allowed**: The same sink. (`sink.same`)",
    ]


def test_what_comes_from_a_script_becomes_no_markup() -> None:
    found = GateFinding(
        rule="r",
        severity=GateDecision.UNKNOWN,
        message="[a](http://x) <img src=x>\n# title",
        old="a`b\nc",
    )
    text = markdown(gate_report(report_of([found])))
    assert "\\[a\\](http://x) \\<img src=x\\> \\# title" in text
    assert "``a`b c``" in text


def test_a_long_value_is_shortened_and_an_empty_report_says_so() -> None:
    found = GateFinding(rule="r", severity=GateDecision.ALLOWED, message="m", new="x" * 1000)
    assert f"`{'x' * 297}...`" in markdown(gate_report(report_of([found])))
    assert "No findings." in markdown(gate_report(report_of([])))


def test_what_is_unknown_is_not_deployed_before_a_rehearsal() -> None:
    found = GateFinding(rule="r", severity=GateDecision.UNKNOWN, message="m")
    text = markdown(gate_report(report_of([found], Pattern.RESTART_IN_PLACE)))
    assert "How to deploy it, but not before a rehearsal: restart in place" in text


def test_a_refusal_proposes_no_restart_on_the_same_checkpoint() -> None:
    found = GateFinding(rule="r", severity=GateDecision.NOT_ALLOWED, message="m")
    assert report_of([found], Pattern.RESTART_IN_PLACE).pattern is None
    assert report_of([found], Pattern.BLUE_GREEN).pattern is Pattern.BLUE_GREEN


def test_bytes_that_steer_a_terminal_are_left_out_of_text_and_values() -> None:
    evil = "a\x1b]0;x\x07b\u202ec"
    found = GateFinding(rule="r", severity=GateDecision.ALLOWED, message=evil, old=evil, new=evil)
    text = markdown(gate_report(report_of([found])))
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "`a]0;xbc`" in text


def test_secrets_that_a_plan_quotes_are_not_shown() -> None:
    found = GateFinding(
        rule="r",
        severity=GateDecision.ALLOWED,
        message="It reads jdbc://u:hunter2@h/db.",
        old="(api_token = 'hunter2')",
        new="password=hunter2",
    )
    assert "hunter2" not in str(report_of([found]).to_dict())


def test_a_value_that_was_not_there_is_not_called_nothing() -> None:
    found = GateFinding(rule="r", severity=GateDecision.ALLOWED, message="m", new="3.5")
    assert "    - after: `3.5`" in markdown(gate_report(report_of([found]))).splitlines()


def test_a_report_travels_between_tasks() -> None:
    finding = GateFinding(
        rule="plan.unexplained",
        severity=GateDecision.UNKNOWN,
        message="It differs.",
        query="q",
        about=("steps[0].filter",),
    )
    report = report_of([finding], Pattern.RESTART_IN_PLACE)

    assert report_from(json.loads(json.dumps(report.to_dict()))) == report
    assert report_from({}) == GateReport()
    with pytest.raises(RecordError):
        report_from({"findings": "none"})
