from __future__ import annotations

from airflow_streaming.core.compatibility.finding import (
    GateDecision,
    GateFinding,
    Pattern,
    report_of,
)
from airflow_streaming.core.compatibility.markdown import as_markdown


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

    text = as_markdown(report_of([fine, bad], Pattern.BLUE_GREEN))

    assert text.splitlines() == [
        "**Decision: not allowed**",
        "",
        "How to deploy it: blue-green, with a new checkpoint.",
        "",
        "- **not allowed** in query revenue: The aggregates differ. (`aggregation.aggregates`)",
        "    - now `sum(v)`, then `max(v)`",
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
    text = as_markdown(report_of([found]))
    assert "\\[a\\](http://x) \\<img src=x\\> \\# title" in text
    assert "`a'b c`" in text


def test_a_long_value_is_shortened_and_an_empty_report_says_so() -> None:
    found = GateFinding(rule="r", severity=GateDecision.ALLOWED, message="m", new="x" * 1000)
    assert f"`{'x' * 297}...`" in as_markdown(report_of([found]))
    assert "Nothing was found that speaks against it." in as_markdown(report_of([]))
