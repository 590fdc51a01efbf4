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
from airflow_streaming.core.compatibility.version.key_order import KeyOrder
from airflow_streaming.core.compatibility.version.matrix import Outcome, Seen
from airflow_streaming.core.compatibility.version.measured import SAME_MINOR, never_null
from airflow_streaming.core.compatibility.version.release import Release
from airflow_streaming.core.compatibility.version.shape import Shape

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
BACK_ORDER: Final = Rule(
    name="version.back.deduplication_order",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Duplicates are dropped by more than four columns. The older Spark leaves out of its "
    "plans that they are in the order of the code, so that the newer one, when it comes back, takes "
    "the order of a hash set, which is another one.",
    source="measured: 4.3 to 3.5 and up again gave 12 rows instead of 4, with five text columns; "
    "SPARK-57489",
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
BACK_AMBIGUOUS: Final = Rule(
    name="version.back.ambiguous",
    severity=GateDecision.UNKNOWN,
    sentence="The checkpoint does not tell which of several shapes the query has, and not all of "
    "them came back.",
    source=_MATRIX,
    remedy=f"Give the query's plan (airflow-streaming plan SCRIPT --runtime NAME --json). {_RESTORE}",
)

RULES: Final = (
    CAN_COME_BACK,
    NO_WAY_BACK,
    BACK_FAILED,
    BACK_ORDER,
    BACK_FORMAT,
    BACK_NOT_MEASURED,
    BACK_AMBIGUOUS,
)

_AFTER_FAILURE: Final = (
    "The new Spark failed on such a query, and the old one went on as if nothing had been tried."
)
_STREAMING: Final = "spark.sql.streaming."
_NEW_FORMATS: Final[Mapping[str, tuple[str, str]]] = {
    _STREAMING + "offsetLog.formatVersion": ("2", "4.2"),
    _STREAMING + "queryEvolution.enableSourceEvolution": ("true", "4.2"),
}
"""Settings that give an old checkpoint a new format: the value, and the first Spark to read it."""


def way_back(case: Case) -> Iterator[GateFinding]:
    """Yield what is known of the way back, as strictly as it is meant; always one at least."""
    yield from _new_formats(case)
    if case.stays:
        yield CAN_COME_BACK.found(SAME_MINOR.sentence, evidence="the two versions")
        return
    if case.key_order_back is KeyOrder.DIFFERENT:
        yield BACK_ORDER.found(evidence="the state schema")
        return
    seen = case.seen or case.seen_apart
    if not seen or any(not shape.name for shape in case.shapes):
        yield BACK_NOT_MEASURED.found(
            evidence=f"the version matrix of {case.matrix.measured} has no such way"
        )
        return
    yield _measured_back(case, seen)


def _measured_back(case: Case, seen: Mapping[Shape, Seen]) -> GateFinding:
    tried = {shape: _tried(one, case) for shape, one in seen.items()}
    rules = {_rule(outcome) for outcome, _ in tried.values()}
    rule = rules.pop() if len(rules) == 1 else _of_several(rules)
    if rule is BACK_FAILED and not case.seen:
        # It may have failed by its store, which is another one.
        rule = BACK_NOT_MEASURED
    after_failure = rule is CAN_COME_BACK and _all_failed(seen, case)
    told = ", ".join(_text(shape, *one, case) for shape, one in tried.items())
    return rule.found(
        _AFTER_FAILURE if after_failure else "",
        evidence=f"the version matrix of {case.matrix.measured}, {case.exact_pair} and back: {told}",
    )


def as_consequence(findings: Iterator[GateFinding]) -> Iterator[GateFinding]:
    """Yield findings on the way back as those who go look at them: none of them forbids to go."""
    for finding in findings:
        if finding.severity is GateDecision.ALLOWED:
            yield finding
        else:
            yield NO_WAY_BACK.found(finding.message, evidence=finding.evidence)


def _tried(seen: Seen, case: Case) -> tuple[Outcome, str]:
    """Return what became of the way back, and Spark's condition; untried where nobody went it."""
    if _goes_unchecked(seen, case):
        return seen.unchecked_back, ""
    return seen.back, seen.back_condition


def _goes_unchecked(seen: Seen, case: Case) -> bool:
    return seen.unchecked.is_fine and never_null(case) is not False


def _all_failed(seen: Mapping[Shape, Seen], case: Case) -> bool:
    return all(
        one.there is Outcome.FAILED and not _goes_unchecked(one, case) for one in seen.values()
    )


def _rule(outcome: Outcome) -> Rule:
    if outcome.is_fine:
        return CAN_COME_BACK
    return BACK_FAILED if outcome else BACK_NOT_MEASURED


def _of_several(rules: set[Rule]) -> Rule:
    return BACK_AMBIGUOUS if BACK_FAILED in rules else BACK_NOT_MEASURED


def _text(shape: Shape, outcome: Outcome, condition: str, case: Case) -> str:
    stores = "" if case.seen else ", on other state stores,"
    what = {Outcome.FAILED: "failed", Outcome.UNTRIED: "was not tried"}.get(
        outcome, f"{outcome.value} rows"
    )
    return f"{shape.text}{stores} {what}{f' ({condition})' if condition else ''}"


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
