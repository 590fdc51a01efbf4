"""The report of the doctor: risks with their evidence, what could not be examined, what is fine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.advice.doctor import risks
from airflow_streaming.advice.examined import Advice, Outcome, RiskLevel
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
    RiskLevel.HIGH: Tone.BAD,
    RiskLevel.MEDIUM: Tone.WARNING,
    RiskLevel.LOW: Tone.NEUTRAL,
}


def doctor_report(stream: str, advice: Sequence[Advice]) -> Report:
    """Return what an examination of a stream found, the gravest first."""
    return report_of(_blocks(stream, advice))


def _blocks(stream: str, advice: Sequence[Advice]) -> Iterator[Block]:
    found = risks(advice)
    levels = [one.level for one in found]
    yield Verdict(
        subject=value(stream),
        word=counted(len(found), "risk") if found else "no risks",
        tone=max(
            (_TONES[level] for level in levels if level), key=_GRAVITY.index, default=Tone.GOOD
        ),
    )
    yield from map(_risk, found)
    rest = {
        "Could not be examined": [one for one in advice if one.outcome is Outcome.UNKNOWN],
        "Nothing risky": [one for one in advice if one.outcome is Outcome.FINE],
    }
    for title, several in rest.items():
        if several:
            yield Heading(title)
            rows = ((one.rule, value(one.query or ""), _said(one)) for one in several)
            yield table(("rule", "query", "what"), rows)


_GRAVITY: Final = (Tone.NEUTRAL, Tone.WARNING, Tone.BAD)


def _risk(one: Advice) -> Finding:
    level = one.level or RiskLevel.LOW
    return Finding(
        label=level.value.upper(),
        tone=_TONES[level],
        rule=one.rule,
        subject=("query ", value(one.query)) if one.query is not None else "",
        message=one.what,
        details=(("seen", value(one.evidence)), ("what to do", one.remedy)),
    )


def _said(one: Advice) -> str:
    return f"{one.what} {one.remedy}".rstrip()
