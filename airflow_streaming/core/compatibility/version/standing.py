"""What the checkpoint itself says before any version is compared: fit to be judged, and readable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.checkpoint.finding import FindingCode
from airflow_streaming.core.checkpoint.formats import too_new
from airflow_streaming.core.checkpoint.report import SourceType
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.compatibility.version.case import Case

_REHEARSE: Final = "Rehearse it: run the new Spark on a clone of the checkpoint."

NOTHING_WRITTEN: Final = Rule(
    name="version.nothing_written",
    severity=GateDecision.ALLOWED,
    sentence="The checkpoint has no batch yet, so that any Spark can begin with it.",
    source="the checkpoint's layout",
)
DAMAGED: Final = Rule(
    name="version.damaged",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The checkpoint is not sound; what another Spark makes of it cannot be told.",
    source="measured: what each defect does on restart",
    remedy="Restore a verified backup, or repair it, and ask again.",
)
ASYNCHRONOUS: Final = Rule(
    name="version.asynchronous_progress",
    severity=GateDecision.UNKNOWN,
    sentence="The query tracks its progress asynchronously, which was not measured.",
    source="not measured",
    remedy=_REHEARSE,
)
FORMAT: Final = Rule(
    name="version.format",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The checkpoint holds a format that this Spark cannot read.",
    source="measured: format versions; SPARK-55795 and SPARK-56971 for the newest",
    remedy="Stay on a Spark that reads it, or begin with a new checkpoint beside the old stream.",
)
SOURCE_READ: Final = Rule(
    name="version.source_not_measured",
    severity=GateDecision.ALLOWED,
    sentence="Kafka's offsets have one form in every release of Spark; this was read, and not "
    "measured.",
    source="Spark's Kafka integration guide",
)
SOURCE_UNKNOWN: Final = Rule(
    name="version.source_unknown",
    severity=GateDecision.UNKNOWN,
    sentence="A source has a form of its own, which was not measured.",
    source="not measured",
    remedy=f"Take the connector's release for the new Spark and read its notes. {_REHEARSE}",
)

RULES: Final = (
    NOTHING_WRITTEN,
    DAMAGED,
    ASYNCHRONOUS,
    FORMAT,
    SOURCE_READ,
    SOURCE_UNKNOWN,
)

_MEASURED_SOURCES: Final = frozenset({SourceType.FILE, SourceType.NOT_STARTED})
# Its own rule looks at it: only newer Sparks mind.
_NO_METADATA: Final = FindingCode.METADATA_MISSING


def standing(case: Case) -> Iterator[GateFinding]:
    """Yield what stands against the checkpoint, whatever the matrix says."""
    report = case.checkpoint
    for problem in report.problems:
        if problem.code is not _NO_METADATA:
            yield DAMAGED.found(problem.message, evidence=problem.path)
    for what in too_new(report, case.target.name):
        yield FORMAT.found(
            f"The checkpoint holds {what}, and Spark {case.target.text} cannot read it.",
            new=case.target.text,
            evidence=report.uri,
        )
    if report.async_progress and not case.stays:
        yield ASYNCHRONOUS.found(evidence=report.uri)
    yield from _sources(case)


def _sources(case: Case) -> Iterator[GateFinding]:
    if case.stays:
        return
    for number, position in enumerate(case.checkpoint.sources):
        said = _said(case, number)
        if position.source is SourceType.KAFKA:
            yield SOURCE_READ.found(evidence=f"source {position.name}")
        elif position.source not in _MEASURED_SOURCES or said not in ("", "file"):
            told = said or position.source.value.replace("_", " ")
            yield SOURCE_UNKNOWN.found(
                f"Source {position.name} ({told}) was not measured with any pair of versions.",
                evidence=f"source {position.name}",
            )


def _said(case: Case, number: int) -> str:
    sources = case.plan.sources if case.plan is not None else ()
    return sources[number].source if number < len(sources) else ""
