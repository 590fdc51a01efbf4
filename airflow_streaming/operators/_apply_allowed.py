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
from airflow_streaming.core.lanes import colour_of, other_lane
from airflow_streaming.exceptions import StreamingError

if TYPE_CHECKING:
    from airflow_streaming.core.deployment import Deployment
    from airflow_streaming.home.home import Home, StreamHome
    from airflow_streaming.hooks.stream import SparkStreamHook

log: Final = logging.getLogger(__name__)


def undone_by_a_person(streams: Home, home: StreamHome, proposed: Deployment) -> str:
    """
    Return why a proposal is not applied though the gates allow it: a change has ended otherwise.

    After a good upgrade or cutover a dag goes on proposing the old deployment until somebody writes
    the new one into it; after one that was taken back, the bad one. Empty when it is neither.

    :param streams: The home, for the records of the other lane.
    :param home: The records of the lane to which it is proposed.
    """
    return _left_in_the_other_lane(streams, home, proposed) or _undone_upgrade(home, proposed)


def _left_in_the_other_lane(streams: Home, home: StreamHome, proposed: Deployment) -> str:
    # What the newest cutover has replaced, or has tried and taken back: either lies there.
    left = streams.stream(other_lane(home.name)).newest_deployment()
    if left is None:
        return ""
    same_place = replace(
        proposed, stream=left.stream, checkpoint=left.checkpoint, output=left.output
    )
    if same_place.fingerprint != left.fingerprint:
        return ""
    return (
        f"It is what runs, or ran, in the {colour_of(left.stream)} lane (deployment {left.number}), "
        f"and the {colour_of(home.name)} one is live: write what runs there into the dag."
    )


def _undone_upgrade(home: StreamHome, proposed: Deployment) -> str:
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
