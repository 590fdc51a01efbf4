"""A gate's report as Markdown, for a person who approves it and for a pull request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.finding import (
    GateDecision,
    GateFinding,
    GateReport,
    Pattern,
)

DECISION_WORDS: Final = {
    GateDecision.ALLOWED: "allowed",
    GateDecision.ALLOWED_WITH_CONSEQUENCE: "allowed, with a consequence",
    GateDecision.UNKNOWN: "unknown: rehearse it",
    GateDecision.NOT_ALLOWED: "not allowed",
}
PATTERN_WORDS: Final = {
    Pattern.NOTHING_TO_DO: "nothing to do",
    Pattern.RESTART_IN_PLACE: "restart in place, on the same checkpoint",
    Pattern.ROLLING_RESTART: "rolling restart, on the same checkpoint",
    Pattern.CARRIED_OVER: "new checkpoint that goes on at the old one's positions",
    Pattern.BLUE_GREEN: "blue-green, with a new checkpoint",
}
_SPECIAL: Final = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#"})
_LONGEST: Final = 300
"""Characters of a value; a schema of a hundred columns fills no page."""


def as_markdown(report: GateReport) -> str:
    """Return a report as Markdown: the decision first, then the findings, the worst first."""
    lines = [f"**Decision: {DECISION_WORDS[report.decision]}**"]
    if report.pattern is not None:
        lines += ["", how_to_deploy(report.decision, report.pattern)]
    if not report.findings:
        lines += ["", "Nothing was found that speaks against it."]
    for finding in report.findings:
        lines += ["", *_finding(finding)]
    return "\n".join(lines) + "\n"


def how_to_deploy(decision: GateDecision, pattern: Pattern) -> str:
    """Return a pattern as a sentence; what nobody knows is not deployed before a rehearsal."""
    when = ", but not before a rehearsal" if decision is GateDecision.UNKNOWN else ""
    return f"How to deploy it{when}: {PATTERN_WORDS[pattern]}."


def visible(text: str) -> str:
    """Return a text without the characters that steer a terminal or turn writing round."""
    return "".join(char for char in text if char.isprintable() or char.isspace())


def shortened(value: str) -> str:
    """Return a value of bounded length on one line."""
    line = " ".join(visible(value).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def _finding(finding: GateFinding) -> Iterator[str]:
    subject = f" in query {_plain(finding.query)}" if finding.query else ""
    words = DECISION_WORDS[finding.severity].partition(":")[0]
    yield f"- **{words}**{subject}: {_plain(finding.message)} ({_code(finding.rule)})"
    if finding.old or finding.new:
        told = {"now": finding.old, "then": finding.new}
        yield f"    - {', '.join(f'{word} {_code(text)}' for word, text in told.items() if text)}"
    if finding.evidence:
        yield f"    - evidence: {_plain(finding.evidence)}"
    if finding.remedy:
        yield f"    - what to do: {_plain(finding.remedy)}"


def _plain(text: str) -> str:
    # What comes from a script or a checkpoint must not become markup or a link; within a pair of
    # backticks nothing can.
    parts = " ".join(visible(text).split()).split("`")
    if len(parts) % 2 == 0 or not all(parts[1:-1]):
        return "`".join(parts).translate(_SPECIAL)
    return "`".join(
        part if number % 2 else part.translate(_SPECIAL) for number, part in enumerate(parts)
    )


def _code(text: str) -> str:
    return f"`{shortened(text).replace('`', chr(39))}`" if text else ""
