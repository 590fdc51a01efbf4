"""
Reports of advice: the doctor's risks and a production profile's values.

The doctor's report lists risks with their evidence, parts that could not be examined, and checks
that passed. A profile's report lists each Spark setting with its origin and reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.advice.doctor import risks
from airflow_streaming.advice.examined import Advice, Outcome, RiskLevel
from airflow_streaming.advice.profile import Profile
from airflow_streaming.advice.profile_conf import ConfSource, ConfValue
from airflow_streaming.reports.report import (
    Block,
    Finding,
    Heading,
    Paragraph,
    Report,
    Tone,
    Verdict,
    Words,
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

_GRAVITY: Final = (Tone.NEUTRAL, Tone.WARNING, Tone.BAD)

_PINNED: Final = (
    "* Pinned: counts for new checkpoints only. A stream that continues from its checkpoint keeps "
    "the value the checkpoint was created with."
)


def doctor_report(stream: str, advice: Sequence[Advice]) -> Report:
    """Return the findings of an examination, the gravest first."""
    return report_of(_of_risks(stream, advice))


def _of_risks(stream: str, advice: Sequence[Advice]) -> Iterator[Block]:
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


def profile_report(
    profile: Profile, spark: str, values: Sequence[ConfValue], text: str = ""
) -> Report:
    """
    Return a profile's Spark settings.

    :param spark: Version that the values are for.
    :param text: The requested version, where it is newer than every known one.
    """
    return report_of(_of_profile(profile, spark, values, text))


def _of_profile(
    profile: Profile, spark: str, values: Sequence[ConfValue], text: str
) -> Iterator[Block]:
    if text and text != spark:
        yield Paragraph(
            f"Spark {text} is newer than any that this release knows: this is the profile of {spark}, "
            f"and whether {text} takes every value of it is not known."
        )
    given = sum(one.value is not None for one in values)
    yield Paragraph(
        f"Profile {profile.name} for {profile.cores} cores on Spark {spark}: {given} values."
    )
    yield table(("key", "value", "from", "why"), map(_row, values))
    if any(one.pinned for one in values):
        yield Paragraph(_PINNED)
    if profile.fair_scheduling:
        yield Paragraph(
            "In addition, every query gets a fair scheduler pool of its own (`fair_pools`)."
        )


def _row(one: ConfValue) -> tuple[Words, ...]:
    source = str(one.source)
    if one.replaces is not None and one.source is not ConfSource.LEFT_OUT:
        source = f"{source} (profile: {_short(one.replaces)})"
    shown = "" if one.shown is None else _short(one.shown)
    return value(f"{one.key}{' *' if one.pinned else ''}"), value(shown), value(source), one.why


def _short(text: str) -> str:
    # The package of Spark's own classes says nothing and fills the line.
    return text.rpartition(".")[2] if text.startswith("org.apache.spark.") else text
