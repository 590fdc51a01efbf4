"""
Situation → Readiness: whether a downstream dag may rely on the stream now.

Three-valued: ready, not yet, or never by itself. A status that was only read is no proof of life;
ready needs a heartbeat that the observer has seen rise.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.health import judge
from airflow_streaming.core.steering import Situation


class ReadinessState(StrEnum):
    """Whether the stream can be relied on."""

    READY = "ready"
    WAITING = "waiting"
    LOST = "lost"
    """It will not become healthy until a person acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether the stream can be relied on, and why."""

    state: ReadinessState
    reason: str


def assess(situation: Situation, healthy_for: timedelta) -> Readiness:
    """Say whether the stream has been healthy for that long."""
    if situation.desired is DesiredState.STOPPED:
        return Readiness(state=ReadinessState.LOST, reason="The stream is wanted stopped.")
    circuit, seen = situation.circuit, situation.seen
    if circuit is not None and circuit.holds(seen.epoch.number if seen else None):
        reason = f"The circuit is open: {circuit.reason}"
        return Readiness(state=ReadinessState.LOST, reason=reason)
    if seen is None:
        return Readiness(state=ReadinessState.WAITING, reason="The stream has never run.")
    verdict = judge(seen, situation.rules)
    if not verdict.is_well:
        return Readiness(state=ReadinessState.WAITING, reason=verdict.reason)
    if not seen.beating:
        return Readiness(
            state=ReadinessState.WAITING, reason="Waiting to see the driver's heartbeat rise."
        )
    if verdict.healthy_for < healthy_for:
        return Readiness(
            state=ReadinessState.WAITING,
            reason=f"Healthy for {verdict.healthy_for.total_seconds():.0f} s of "
            f"{healthy_for.total_seconds():.0f} s. {verdict.reason}",
        )
    return Readiness(state=ReadinessState.READY, reason=verdict.reason)
