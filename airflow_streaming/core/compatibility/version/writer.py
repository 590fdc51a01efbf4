"""
Writer: whether the Spark that is said to have run a query last can have written its newest plan.

A newer Spark leaves what older ones do not write, and every Spark pins the same settings in every
plan. So one that is named too high is found by what the plan lacks, and one that is named too low
by what it has. Releases that pin the same settings, as 4.0 and 4.1, cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.core.checkpoint.formats import newer_than
from airflow_streaming.core.checkpoint.written import PINNED_SINCE
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.compatibility.version.case import Case

NOT_THE_WRITER: Final = Rule(
    name="version.not_the_writer",
    severity=GateDecision.UNKNOWN,
    sentence="The checkpoint was written by a newer Spark than the one that is said to have run "
    "it, or has been with one before. What has been with two Sparks was not measured with a third.",
    source="measured: settings and formats that each release writes",
    remedy="Give the version that ran it last; if it is right, rehearse it.",
)
WRITTEN_BY_OLDER: Final = Rule(
    name="version.written_by_older",
    severity=GateDecision.UNKNOWN,
    sentence="The newest plan of the checkpoint lacks settings that the Spark which is said to have "
    "run it pins in every plan: an older one wrote it.",
    source="measured: settings that each release pins in the offset log, whatever the query",
    remedy="Give the version that ran it last: the one that planned its newest batch.",
)
NOT_A_RELEASE: Final = Rule(
    name="version.not_a_release",
    severity=GateDecision.UNKNOWN,
    sentence="A vendor's build, a preview or a snapshot is none of the releases of Apache Spark "
    "that were measured, and may write other formats.",
    source="not measured",
    remedy="Rehearse it: run the new Spark on a clone of the checkpoint. Or give the release that "
    "the build is made of, if nothing of it was changed.",
)

RULES: Final = (NOT_THE_WRITER, WRITTEN_BY_OLDER, NOT_A_RELEASE)

# Both were taken back into maintenance releases, so that only the next minor has them throughout.
_ALWAYS_SINCE: Final[Mapping[str, str]] = {
    **PINNED_SINCE,
    "spark.sql.streaming.statefulOperator.useStrictDistribution": "3.3",
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "4.0",
}


def writer(case: Case) -> Iterator[GateFinding]:
    """Yield what speaks against the versions that were given."""
    yield from _builds(case)
    report = case.checkpoint
    if newer_than(report.spark_at_least, case.start.name):
        yield NOT_THE_WRITER.found(
            f"The checkpoint was written by Spark {report.spark_at_least} or newer, and "
            f"{case.start.text} is said to have run it last.",
            old=case.start.text,
            new=report.spark_at_least or "",
            evidence=report.uri,
        )
    yield from _too_high(case)


def _builds(case: Case) -> Iterator[GateFinding]:
    builds = [each.text for each in (case.start, case.target) if each.build]
    if builds and case.start.text != case.target.text:
        yield NOT_A_RELEASE.found(
            f"{' and '.join(f'Spark {text}' for text in builds)}: {NOT_A_RELEASE.sentence}",
            old=case.start.text,
            new=case.target.text,
            evidence="the versions that were given",
        )


def _too_high(case: Case) -> Iterator[GateFinding]:
    report, start = case.checkpoint, case.start
    if report.offset_log_version is None:
        # There is no plan, or none that can be read.
        return
    lacking = [
        key
        for key, since in _ALWAYS_SINCE.items()
        if key not in report.conf and not newer_than(since, start.name)
    ]
    if lacking:
        # The table is in the order of the releases.
        since = _ALWAYS_SINCE[lacking[0]]
        yield WRITTEN_BY_OLDER.found(
            f"Spark {start.text} is said to have run it last. The newest plan lacks "
            f"{', '.join(lacking)}, and Spark {since} and newer pin that in every plan: an older "
            "one wrote it.",
            old=f"older than Spark {since}",
            new=start.text,
            evidence=f"offsets/{report.last_planned_batch}",
        )
