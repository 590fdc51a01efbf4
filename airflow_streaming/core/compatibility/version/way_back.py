"""
The way back: whether the old Spark can go on with what the new one leaves behind.

That the way back is shut does not forbid to go: it is a consequence, which a backup heals. Whoever
wants to go back without one asks for it strictly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.compatibility.version.case import Case
from airflow_streaming.core.compatibility.version.matrix import Seen
from airflow_streaming.core.compatibility.version.measured import never_null
from airflow_streaming.core.compatibility.version.release import Release

_MATRIX: Final = "measured: the version matrix"
_RESTORE: Final = "Go back by restoring the backup from before the upgrade."

CAN_COME_BACK: Final = Rule(
    name="version.can_come_back",
    severity=GateDecision.ALLOWED,
    sentence="Such a query came back and went on with the same rows.",
    source=_MATRIX,
)
NO_WAY_BACK: Final = Rule(
    name="version.no_way_back",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Once the new Spark has committed a batch, the old one is not known to go on with the "
    "checkpoint.",
    source=_MATRIX,
    remedy="Take a backup before, and go back by restoring it.",
)
BACK_FAILED: Final = Rule(
    name="version.back.failed",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The old Spark failed on, or gave other rows from, what the new one had left.",
    source=_MATRIX,
    remedy=_RESTORE,
)
BACK_FORMAT: Final = Rule(
    name="version.back.format",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The new deployment writes a format that the old Spark cannot read.",
    source="measured: format versions",
    remedy=f"{_RESTORE} Or leave the setting out.",
)
BACK_NOT_MEASURED: Final = Rule(
    name="version.back.not_measured",
    severity=GateDecision.UNKNOWN,
    sentence="Nobody has measured whether the old Spark can go on after the new one.",
    source="not measured",
    remedy=_RESTORE,
)

RULES: Final = (CAN_COME_BACK, NO_WAY_BACK, BACK_FAILED, BACK_FORMAT, BACK_NOT_MEASURED)

_STREAMING: Final = "spark.sql.streaming."
_NEW_FORMATS: Final[Mapping[str, tuple[str, str]]] = {
    _STREAMING + "offsetLog.formatVersion": ("2", "4.2"),
    _STREAMING + "queryEvolution.enableSourceEvolution": ("true", "4.2"),
}
"""Settings that give an old checkpoint a new format: the value, and the first Spark to read it."""


def way_back(case: Case) -> Iterator[GateFinding]:
    """Yield what is known of the way back, as strictly as it is meant; always one at least."""
    yield from _new_formats(case)
    if case.start.minor == case.target.minor:
        yield CAN_COME_BACK.found(
            "Releases of one minor version write the same formats.", evidence="the two versions"
        )
        return
    seen = case.seen or case.seen_apart
    if not seen or any(not shape.name for shape in case.shapes):
        yield BACK_NOT_MEASURED.found(evidence=f"the version matrix of {case.matrix.measured}")
        return
    rules = {_rule(one, case) for one in seen.values()}
    rule = rules.pop() if len(rules) == 1 else max(rules, key=lambda rule: rule.severity.weight)
    evidence = f"measured on {case.matrix.measured}, {case.exact_pair} and back"
    conditions = sorted({one.back_condition for one in seen.values() if one.back_condition})
    yield rule.found(
        evidence=": ".join([evidence, ", ".join(conditions)]) if conditions else evidence
    )


def as_consequence(findings: Iterator[GateFinding]) -> Iterator[GateFinding]:
    """Yield findings on the way back as those who go look at them: none of them forbids to go."""
    for finding in findings:
        if finding.severity is GateDecision.ALLOWED:
            yield finding
        else:
            yield NO_WAY_BACK.found(finding.message, evidence=finding.evidence)


def _rule(seen: Seen, case: Case) -> Rule:
    decided = never_null(case)
    unchecked = seen.unchecked.is_fine if decided is None else decided
    outcome = seen.unchecked_back if unchecked and seen.unchecked.is_fine else seen.back
    if outcome.is_fine:
        return CAN_COME_BACK
    return BACK_FAILED if outcome else BACK_NOT_MEASURED


def _new_formats(case: Case) -> Iterator[GateFinding]:
    for key, (value, since) in _NEW_FORMATS.items():
        if case.conf.get(key, "").strip().lower() == value and _reads_not(case.start, since):
            yield BACK_FORMAT.found(
                f"{key}={value} makes a format that only Spark {since} and newer read.",
                old=case.start.text,
                new=f"{key}={value}",
                evidence="the new deployment's configuration",
            )


def _reads_not(release: Release, since: str) -> bool:
    return release.is_before(since)
