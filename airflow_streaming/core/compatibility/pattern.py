"""Pattern: how a change is deployed, from what was found and from what there is to lose."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding, Pattern

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
    {"checkpoint.unsound", "script.no_query", "query.shared_checkpoint"}
)
"""These have to be put right first, and say nothing of how the change is deployed then."""


def pattern_of(
    findings: Sequence[GateFinding],
    *,
    stateful: Collection[str],
    same_code: bool = False,
    goes_on: bool = True,
) -> Pattern | None:
    """
    Return how a change is deployed.

    What may not go on from its checkpoint needs a new one. Where the old one holds no state, the
    new one can go on at its offsets; else state has to be made anew, beside the running query.

    :param stateful: Queries whose checkpoint holds state.
    :param same_code: The script is the same, byte for byte.
    :param goes_on: Some query goes on from a checkpoint; where all of them begin anew there is none
        to be the same.
    :return: ``None`` where nothing of this says how: what was found has to be put right first, or
        all queries begin anew.
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


def _breaks_position(finding: GateFinding) -> bool:
    return finding.rule in _BREAK_POSITION
