"""Report of ``airflow-streaming check``: one row for each thing that a stream needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.advice.installation.check_line import CheckOutcome, Line
from airflow_streaming.advice.installation.installation_checks import worst
from airflow_streaming.reports.report import (
    Block,
    Finding,
    Heading,
    Report,
    Tone,
    Verdict,
    counted,
    report_of,
    table,
    value,
)

_TONES: Final = {
    CheckOutcome.PROBLEM: Tone.BAD,
    CheckOutcome.WARNING: Tone.WARNING,
    CheckOutcome.UNKNOWN: Tone.WARNING,
    CheckOutcome.NOTE: Tone.NEUTRAL,
    CheckOutcome.OK: Tone.GOOD,
}


def installation_report(host: str, lines: Sequence[Line]) -> Report:
    """Return the report on a host, problems first."""
    return report_of(_blocks(host, lines))


def _blocks(host: str, lines: Sequence[Line]) -> Iterator[Block]:
    number = sum(line.outcome is CheckOutcome.PROBLEM for line in lines)
    yield Verdict(
        subject=value(host),
        word=counted(number, "problem") if number else "no problems",
        tone=_TONES[worst(lines)],
    )
    yield from (_finding(line) for line in lines if line.outcome is not CheckOutcome.OK)
    if fine := [line for line in lines if line.outcome is CheckOutcome.OK]:
        yield Heading("In order")
        rows = ((line.check, value(line.seen), line.expected) for line in fine)
        yield table(("check", "seen", "expected"), rows)


def _finding(line: Line) -> Finding:
    return Finding(
        label=line.outcome.value.upper(),
        tone=_TONES[line.outcome],
        rule=line.check,
        message=value(line.seen),
        details=(("expected", line.expected), ("next step", value(line.next))),
    )
