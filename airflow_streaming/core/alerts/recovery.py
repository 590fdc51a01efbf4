"""
Open incident + Verdict → how it ended, if it has.

An end has to be seen. A rule that has become unknown, a driver that has gone silent or is only
starting: none of them says that what was told is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from airflow_streaming.core.alerts.alert import BACKUP_KEY, RESTART_KEY, Alert
from airflow_streaming.core.rules.rule import BUILT_IN, Finding, RuleState
from airflow_streaming.core.verdict import Verdict, VerdictState

_SEEN_AT_WORK: Final = frozenset(
    {VerdictState.HEALTHY, VerdictState.IDLE, VerdictState.DEGRADED, VerdictState.STALLED}
)


def end_of(
    incident: Alert, *, verdict: Verdict, findings: Sequence[Finding], epoch: int
) -> str | None:
    """
    Return how an incident ended, ``None`` while it has not, or nobody can say.

    :param incident: The last alert of an open incident.
    :param epoch: The epoch that the verdict speaks of.
    """
    if incident.key == BACKUP_KEY:
        return None
    if incident.key == RESTART_KEY:
        has_come_back = epoch > incident.epoch and verdict.is_well and verdict.batches > 0
        return verdict.reason if has_come_back else None
    if not _is_seen_at_work(verdict) or _still_fires(incident, verdict):
        return None
    if incident.rule in BUILT_IN:
        # Judges say nothing while all is well; health rules say that they are clear.
        return verdict.reason
    finding = next((f for f in findings if f.key == incident.key), None)
    if finding is not None:
        return finding.reason if finding.state is RuleState.CLEAR else None
    if verdict.is_well and findings and not _may_come_back(incident, findings):
        return "The rule, the query or the source is no longer a part of the stream."
    return None


def _is_seen_at_work(verdict: Verdict) -> bool:
    # A silent driver is called slow too, but then nobody has looked at its queries.
    is_long_batch = verdict.state is VerdictState.SLOW and verdict.query != ""
    return is_long_batch or verdict.state in _SEEN_AT_WORK


def _still_fires(incident: Alert, verdict: Verdict) -> bool:
    # Slow that has become stalled is not over, it is worse.
    worse = "stalled" if incident.rule == "slow" else incident.rule
    return any(
        finding.key == incident.key
        or (finding.rule == worse != incident.rule and finding.query == incident.query)
        for finding in verdict.findings
    )


def _may_come_back(incident: Alert, findings: Sequence[Finding]) -> bool:
    # A rule speaks of a source only after the first batch that names it.
    return any(
        finding.rule == incident.rule
        and finding.state is RuleState.UNKNOWN
        and finding.query in ("", incident.query)
        for finding in findings
    )
