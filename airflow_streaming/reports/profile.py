"""The report of a production profile: what Spark is given, from where, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.advice.profile import ConfSource, ConfValue, Profile
from airflow_streaming.reports.report import (
    Block,
    Paragraph,
    Report,
    Words,
    report_of,
    table,
    value,
)

_PINNED: Final = (
    "* Pinned: counts for new checkpoints only. A stream that continues from its checkpoint keeps "
    "the value the checkpoint was created with."
)


def profile_report(
    profile: Profile, spark: str, values: Sequence[ConfValue], asked: str = ""
) -> Report:
    """
    Return what a profile gives Spark.

    :param spark: Version that the values are for.
    :param asked: The version that was asked for, where it is newer than every known one.
    """
    return report_of(_blocks(profile, spark, values, asked))


def _blocks(
    profile: Profile, spark: str, values: Sequence[ConfValue], asked: str
) -> Iterator[Block]:
    if asked and asked != spark:
        yield Paragraph(
            f"Spark {asked} is newer than any that this release knows: this is the profile of {spark}, "
            f"and whether {asked} takes every value of it is not known."
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
