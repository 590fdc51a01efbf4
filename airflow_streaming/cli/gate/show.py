"""What ``airflow-streaming gate`` prints for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from airflow_streaming.cli.table import printable
from airflow_streaming.core.compatibility.finding import GateFinding, GateReport
from airflow_streaming.core.compatibility.markdown import (
    DECISION_WORDS,
    how_to_deploy,
    shortened,
)

WIDTH: Final = 96


def report(found: GateReport) -> str:
    """Return a gate's report as text: the decision first, then the findings, the worst first."""
    lines = [DECISION_WORDS[found.decision].upper()]
    if found.pattern is not None:
        lines.append(how_to_deploy(found.decision, found.pattern))
    if not found.findings:
        lines.append("Nothing was found that speaks against it.")
    for finding in found.findings:
        lines += ["", *_finding(finding)]
    return "\n".join(printable(line) for line in lines)


def _finding(finding: GateFinding) -> Iterator[str]:
    words = DECISION_WORDS[finding.severity].partition(":")[0]
    yield "  ".join(filter(None, [words, finding.rule, finding.query]))
    yield from _wrapped(finding.message)
    if finding.old:
        yield from _wrapped(f"now:   {shortened(finding.old)}")
    if finding.new:
        yield from _wrapped(f"then:  {shortened(finding.new)}")
    if finding.evidence:
        yield from _wrapped(f"evidence: {finding.evidence}")
    if finding.remedy:
        yield from _wrapped(f"what to do: {finding.remedy}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent="    ",
        subsequent_indent="      ",
        break_on_hyphens=False,
        break_long_words=False,
    )
