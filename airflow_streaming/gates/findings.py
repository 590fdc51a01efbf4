"""Gate findings, and the deployment pattern that follows from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from airflow_streaming.model.codec import encode, reader_of

_BREAK_POSITION: Final = frozenset(
    {
        "source.number",
        "source.type",
        "source.order",
        "source.naming",
        "source.paths",
        "source.topics",
        "source.format",
        "source.choice",
        "source.rate_values",
    }
)
"""After these the old offsets mean nothing to the new sources."""
_BESIDE_THE_MATTER: Final = frozenset(
    {"checkpoint.unsound", "script.no_query", "query.shared_checkpoint", "spark.refuses"}
)
"""These must be put right first, and say nothing of how the change is deployed then."""


class GateDecision(StrEnum):
    """Whether a change may be made, from good to bad; the worst finding decides."""

    ALLOWED = "allowed"
    ALLOWED_WITH_CONSEQUENCE = "allowed_with_consequence"
    """Yes, and its consequences must be known."""
    UNKNOWN = "unknown"
    """Nothing forbids it and nothing proves it: rehearse it."""
    NOT_ALLOWED = "not_allowed"

    @property
    def weight(self) -> int:
        """Return its place from good to bad."""
        return tuple(GateDecision).index(self)


class Pattern(StrEnum):
    """How a change is deployed."""

    NOTHING_TO_DO = "nothing_to_do"
    RESTART_IN_PLACE = "restart_in_place"
    """New code on the same checkpoint."""
    ROLLING_RESTART = "rolling_restart"
    """The same code on the same checkpoint: configuration, resources or a patch release."""
    CARRIED_OVER = "new_checkpoint_with_carried_over_position"
    """No state is worth keeping: a new checkpoint that continues at the old one's offsets."""
    BLUE_GREEN = "blue_green_with_new_checkpoint"


_ON_THE_SAME_CHECKPOINT: Final = frozenset(
    {Pattern.NOTHING_TO_DO, Pattern.RESTART_IN_PLACE, Pattern.ROLLING_RESTART}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFinding:
    """
    A remark.

    :param rule: Name of the rule, e.g. ``aggregation.aggregates``; ``docs/gates.md`` lists them.
    :param severity: The decision of this finding alone.
    :param message: The difference and Spark's reaction, for readers.
    :param query: The affected query; empty for the whole stream.
    :param old: The value now; ``new`` the value after the upgrade.
    :param evidence: The file, plan or measurement that shows it.
    :param remedy: The next step; empty if no action is needed.
    :param about: Places of the plan that it explains, e.g. ``steps[1].filter``; a star at the end
        makes it a prefix.
    :param migration: Consequences of the migration of state that lifts this refusal; empty without one.
    :param no_migration: Why no migration lifts it; empty where that was not examined.
    """

    rule: str
    severity: GateDecision
    message: str
    query: str = ""
    old: str = ""
    new: str = ""
    evidence: str = ""
    remedy: str = ""
    about: tuple[str, ...] = ()
    migration: tuple[str, ...] = ()
    no_migration: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """
    The result of a gate.

    :param findings: Worst first.
    :param pattern: How to deploy it, with ``unknown`` not before a rehearsal; ``None`` if the gate
        was not given code, and if a refusal must be fixed first.
    """

    findings: tuple[GateFinding, ...] = ()
    pattern: Pattern | None = None

    @property
    def decision(self) -> GateDecision:
        return worst(finding.severity for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form that ``gate --json`` prints."""
        shown: dict[str, Any] = encode(self)
        return {"decision": self.decision.value, **shown}


def report_from(shown: Mapping[str, Any]) -> GateReport:
    """
    Return the report of a JSON form, e.g. from another task.

    :raises RecordError: The form is invalid.
    """
    report: GateReport = reader_of(GateReport)(shown, "report")
    return report


def worst(decisions: Iterable[GateDecision]) -> GateDecision:
    """Return the worst of several decisions, or allowed without any."""
    return max(decisions, key=lambda d: d.weight, default=GateDecision.ALLOWED)


def report_of(findings: Iterable[GateFinding], pattern: Pattern | None = None) -> GateReport:
    """
    Return the report of findings, sorted worst first, with quoted secrets masked.

    A refused change is not deployed on the same checkpoint.
    """
    shown = (_masked(finding) for finding in findings)
    ordered = sorted(shown, key=lambda f: (-f.severity.weight, f.query, f.rule))
    found = GateReport(findings=tuple(ordered), pattern=pattern)
    if found.decision is GateDecision.NOT_ALLOWED and pattern in _ON_THE_SAME_CHECKPOINT:
        return replace(found, pattern=None)
    return found


def pattern_of(
    findings: Sequence[GateFinding],
    *,
    stateful: Collection[str],
    same_code: bool = False,
    goes_on: bool = True,
) -> Pattern | None:
    """
    Return how a change is deployed.

    A query that may not continue from its checkpoint needs a new one. If the old checkpoint holds
    no state, the new one can continue at its offsets; else state must be rebuilt beside the running
    query.

    :param stateful: Queries whose checkpoint holds state.
    :param same_code: The script is the same, byte for byte.
    :param goes_on: Some query continues from a checkpoint.
    :return: ``None`` if a finding must be fixed first, or all queries start from empty checkpoints.
    """
    refused = [
        finding
        for finding in findings
        if finding.severity is GateDecision.NOT_ALLOWED and finding.rule not in _BESIDE_THE_MATTER
    ]
    if any(finding.query in stateful or _breaks_position(finding) for finding in refused):
        return Pattern.BLUE_GREEN
    if refused:
        return Pattern.CARRIED_OVER
    if not goes_on or any(finding.severity is GateDecision.NOT_ALLOWED for finding in findings):
        return None
    if not same_code:
        # The bodies of functions are in no plan, so equal plans may still be other code.
        return Pattern.RESTART_IN_PLACE
    return Pattern.ROLLING_RESTART if findings else Pattern.NOTHING_TO_DO


def _masked(finding: GateFinding) -> GateFinding:
    from airflow_streaming.model.spark.failures import mask_secrets  # not at dag parse

    # Compare unmasked values, so that a changed literal is noticed; show them masked.
    return replace(
        finding,
        message=mask_secrets(finding.message),
        old=mask_secrets(finding.old),
        new=mask_secrets(finding.new),
        evidence=mask_secrets(finding.evidence),
    )


def _breaks_position(finding: GateFinding) -> bool:
    return finding.rule in _BREAK_POSITION
