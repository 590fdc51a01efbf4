"""
Decide whether an upgrade is rehearsed, by the wish of its user and the answer of the gates.

==================  =============  ==============  ===========
gates               when unknown   always          never
==================  =============  ==============  ===========
allowed             no             yes             no
with consequence    no             yes             no
unknown             yes            yes             refused
not allowed         no             no              no
==================  =============  ==============  ===========

A change that the gates do not allow is refused without a rehearsal. A migration of state is always rehearsed,
because that is a part of its proof.
"""

from __future__ import annotations

from enum import StrEnum

from airflow_streaming.gates.findings import GateDecision, worst


class RehearseWhen(StrEnum):
    """When an upgrade is rehearsed before it is approved."""

    WHEN_UNKNOWN = "when_unknown"
    """When a gate answers *unknown*."""
    ALWAYS = "always"
    NEVER = "never"


class Due(StrEnum):
    """Whether a rehearsal is due."""

    YES = "yes"
    NO = "no"
    REFUSED = "refused"
    """The change needs a rehearsal, and the run forbids one."""


def rehearsal_due(when: RehearseWhen, gates: GateDecision, *, is_migrated: bool = False) -> Due:
    """Return whether a rehearsal is due; see the table of the module."""
    if gates is GateDecision.NOT_ALLOWED:
        return Due.NO
    if gates is GateDecision.UNKNOWN or is_migrated:
        return Due.REFUSED if when is RehearseWhen.NEVER else Due.YES
    return Due.YES if when is RehearseWhen.ALWAYS else Due.NO


def decision_after(gates: GateDecision, rehearsal: GateDecision | None) -> GateDecision:
    """
    Return the decision of gates and rehearsal together.

    A rehearsal settles an unknown of the gates; otherwise the worse decision counts.

    :param rehearsal: ``None`` where none was run.
    """
    if rehearsal is None:
        return gates
    if gates is GateDecision.UNKNOWN:
        return rehearsal
    return worst([gates, rehearsal])
