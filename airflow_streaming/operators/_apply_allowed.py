"""Asks the gates about what a dag proposes, for a stream that has opted in to be changed by it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from airflow_streaming.core.compatibility.finding import (
    GateDecision,
    GateFinding,
    GateReport,
    report_of,
)

if TYPE_CHECKING:
    from airflow_streaming.core.deployment import Deployment
    from airflow_streaming.hooks.stream import SparkStreamHook

log: Final = logging.getLogger(__name__)


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
    from airflow_streaming.hooks._access import access  # not at dag parse
    from airflow_streaming.operators._upgrade.program import candidate_of
    from airflow_streaming.upgrade.preflight import ask_gates

    candidate, _ = candidate_of(hook)
    options = access(hook.spec.home, hook.home_conn_id)["storage_options"]
    return ask_gates(hook.home, current, candidate, storage_options=options)
