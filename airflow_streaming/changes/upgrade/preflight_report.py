"""
Preflight: the findings on an upgrade before its first act, and the decision by them.

The gates' findings and the rollback plan are one report, with one decision and one page for the approver. An
unknown finding needs a rehearsal, whose page follows this page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from airflow_streaming.advice.sizing import SizeSource
from airflow_streaming.gates.findings import (
    GateDecision,
    GateFinding,
    GateReport,
    Pattern,
    report_of,
)
from airflow_streaming.model.arguments.accepted import NO_ROLLBACK
from airflow_streaming.model.codec import encode
from airflow_streaming.model.jobs.migration import StateMigration
from airflow_streaming.model.records.deployment import Deployment, Override
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan, SinkFacts
from airflow_streaming.model.spark.conf import conf_text
from airflow_streaming.model.spark.failures import mask_secrets
from airflow_streaming.model.spark.secrets import REDACTED, is_secret_name, mask_password

_SHORT: Final = 12
_SHOWN: Final = 200
_IN_PLACE: Final = frozenset(
    {None, Pattern.NOTHING_TO_DO, Pattern.RESTART_IN_PLACE, Pattern.ROLLING_RESTART}
)

_SET_BY: Final = {"spark_version": "runtime", "application_sha256": "application"}
"""Fields that follow from another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """
    A difference between the running and the proposed deployment.

    :param what: Field of the deployment, or a key of its configuration.
    :param origin: Origin of the new value: ``form`` or ``DAG``.
    """

    what: str
    old: str
    new: str
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """
    The report on an upgrade before its first act.

    :param replaced: Number of the running deployment.
    :param gates: Findings of all gates and on the rollback.
    :param rollback: The rollback plan; ``sinks`` are the sinks that it rewinds.
    :param advice: Advice on the stream's size by its figures, as sentences.
    :param sizes: Origin of each size; empty for an upgrade without sizes.
    :param queries: Names of the proposed deployment's queries by plan mode; empty when they are unknown.
    :param partitions: New number of state partitions; 0 leaves them.
    :param migrations: Of the queries whose state is migrated before the new deployment starts.
    :param prewarm: The new driver starts before the old driver stops.
    """

    stream: str
    replaced: int
    proposed: Deployment
    differences: tuple[Difference, ...]
    gates: GateReport
    rollback: RollbackPlan
    sinks: tuple[SinkFacts, ...] = ()
    advice: tuple[str, ...] = ()
    sizes: tuple[SizeSource, ...] = ()
    queries: tuple[str, ...] = ()
    partitions: int = 0
    migrations: tuple[StateMigration, ...] = ()
    prewarm: bool = False
    kept: tuple[Override, ...] = ()

    @property
    def decision(self) -> GateDecision:
        """Return the decision of the gates and the rollback plan together."""
        return self.gates.decision

    @property
    def has_to_be_rehearsed(self) -> bool:
        """Tell whether the decision needs a rehearsal."""
        return self.decision is GateDecision.UNKNOWN

    def to_dict(self) -> dict[str, Any]:
        """
        Return the JSON for the later tasks.

        The fingerprint of the deployment takes its place: the arguments may hold secrets.
        """
        values: dict[str, Any] = encode(self)
        del values["proposed"]
        return {
            **values,
            "gates": self.gates.to_dict(),
            "decision": self.decision.value,
            "fingerprint": self.proposed.fingerprint,
            "has_to_be_rehearsed": self.has_to_be_rehearsed,
        }


def differences(current: Deployment, proposed: Deployment) -> tuple[Difference, ...]:
    """Return the changes of a proposed deployment, by configuration key, with the origins."""
    typed = {one.what.removeprefix("conf.") for one in proposed.overrides}
    return tuple(
        replace(one, origin="form" if _SET_BY.get(one.what, one.what) in typed else "DAG")
        for one in _differences(current, proposed)
    )


def kept_live(current: Deployment, proposed: Deployment) -> tuple[Override, ...]:
    """Return the values that stay live though the DAG names others."""
    return tuple(one for one in proposed.overrides if one in current.overrides)


def _differences(current: Deployment, proposed: Deployment) -> Iterator[Difference]:
    known = {field.name for field in fields(Deployment)}
    for name in proposed.differences(current):
        if name == "conf":
            yield from _conf(current.conf, proposed.conf)
        elif name in known:
            yield Difference(
                what=name, old=_shown(getattr(current, name)), new=_shown(getattr(proposed, name))
            )


def _conf(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Difference]:
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield Difference(what=key, old=_shown(old.get(key, "")), new=_shown(new.get(key, "")))


def _shown(value: object) -> str:
    text = ", ".join(_masked(value)) if isinstance(value, tuple) else conf_text(value)
    is_digest = len(text) == 64 and text.isalnum()
    return text[:_SHORT] if is_digest else mask_password(mask_secrets(text))[:_SHOWN]


def _masked(values: Sequence[object]) -> Iterator[str]:
    """Yield values, those masked that follow an argument such as ``--password``."""
    names_secret = False
    for value in map(str, values):
        yield REDACTED if names_secret else mask_password(mask_secrets(value))
        names_secret = value.startswith("-") and "=" not in value and is_secret_name(value)


def joined(
    reports: Sequence[GateReport], rollback: RollbackPlan, *, accepted: Collection[str] = ()
) -> GateReport:
    """
    Return one report of the gates' reports and the rollback plan.

    :param accepted: Codes of findings that a user accepts.
    """
    found = [finding for report in reports for finding in report.findings]
    pattern = next((report.pattern for report in reports if report.pattern is not None), None)
    # The rollback plan of a refused upgrade would repeat the findings of the gates.
    if not _is_refused(found):
        found.extend(_on_the_way_back(rollback, is_accepted=NO_ROLLBACK in accepted))
    if pattern not in _IN_PLACE and not _is_refused(found):
        found.append(_not_in_place(str(pattern)))
    return report_of(found, pattern)


def _is_refused(found: Sequence[GateFinding]) -> bool:
    return any(finding.severity is GateDecision.NOT_ALLOWED for finding in found)


def _on_the_way_back(plan: RollbackPlan, *, is_accepted: bool) -> Iterator[GateFinding]:
    if plan.refused or plan.way is RollbackMethod.NONE:
        yield GateFinding(
            rule=NO_ROLLBACK,
            severity=GateDecision.ALLOWED_WITH_CONSEQUENCE
            if is_accepted
            else GateDecision.NOT_ALLOWED,
            message=f"A rollback is not possible once the new deployment has written: {plan.reason}",
            remedy="" if is_accepted else plan.refused,
        )
        return
    yield GateFinding(
        rule=f"rollback.{plan.way}",
        severity=GateDecision.ALLOWED_WITH_CONSEQUENCE if plan.replay else GateDecision.ALLOWED,
        message=" ".join(filter(None, (plan.reason, plan.replay))),
    )


def _not_in_place(pattern: str) -> GateFinding:
    return GateFinding(
        rule="upgrade.pattern",
        severity=GateDecision.NOT_ALLOWED,
        message=f"The change gate requires {pattern.replace('_', ' ')}, which is not an upgrade in place.",
        remedy="Start the new version as a stream of its own beside this one.",
    )
