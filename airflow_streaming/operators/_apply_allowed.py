"""Asks the gates about what a dag proposes, for a stream that has opted in to be changed by it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_streaming.core.change import ChangeOutcome, ChangeSort
from airflow_streaming.core.compatibility.finding import (
    GateDecision,
    GateFinding,
    GateReport,
    report_of,
)
from airflow_streaming.exceptions import StreamingError

if TYPE_CHECKING:
    from airflow_streaming.core.deployment import Deployment
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.hooks.stream import SparkStreamHook

log: Final = logging.getLogger(__name__)


def undone_by_a_person(home: StreamHome, proposed: Deployment) -> str:
    """
    Return why a proposal is not applied though the gates allow it: an upgrade has ended otherwise.

    After a good upgrade a dag goes on proposing the old deployment until somebody writes the new
    one into it; after one that was taken back, the bad one. Empty when it is neither.
    """
    upgrades = [one for one in home.changes() if one.what is ChangeSort.UPGRADE]
    end = home.change_end(upgrades[-1].number) if upgrades else None
    if end is None:
        return ""
    upgrade = upgrades[-1]
    try:
        left = home.deployment(upgrade.replaced)
        if end.outcome is not ChangeOutcome.DONE:
            left = home.terms(upgrade).proposed
    except StreamingError as err:
        return f"What change {upgrade.number} has decided cannot be read: {err}"
    # A deployment that was put back may lie on another checkpoint than the one it was.
    if replace(proposed, checkpoint=left.checkpoint).fingerprint != left.fingerprint:
        return ""
    if end.outcome is ChangeOutcome.DONE:
        return (
            f"It is what change {upgrade.number} has replaced, and the new deployment was kept: "
            "write that into the dag."
        )
    return (
        f"It is what change {upgrade.number} has tried, and that has ended "
        f"({end.outcome.value.replace('_', ' ')}): {end.reason}"
    )


def gates_on(hook: SparkStreamHook, current: Deployment) -> GateReport:
    """
    Return what the change gate and the version gate say of the dag's proposal.

    It never raises: a running stream has to be watched whether or not its successor can be judged.
    What could not be asked is unknown.
    """
    try:
        return _ask(hook, current)
    except Exception as err:
        log.exception("The proposal for stream %s could not be judged.", hook.home.name)
        return report_of(
            [
                GateFinding(
                    rule="gate.failed",
                    severity=GateDecision.UNKNOWN,
                    message=f"The gates could not be asked: {err}",
                    remedy="Apply the proposal with restart=True, or as an upgrade.",
                )
            ]
        )


def _ask(hook: SparkStreamHook, current: Deployment) -> GateReport:
    from airflow_streaming.hooks._access import access_options  # not at dag parse
    from airflow_streaming.operators._upgrade.program import candidate_of
    from airflow_streaming.upgrade.preflight import ask_gates

    candidate, _ = candidate_of(hook)
    options = access_options(hook.spec.home, hook.home_conn_id)
    return ask_gates(hook.home, current, candidate, storage_options=options)
