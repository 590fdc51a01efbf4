"""
The way down of a lane's driver, the same for upgrades and cutovers.

Stop request, wait, kill if needed, proof of the end, fence. The rules of keep-alive tasks decide each
act, on a situation without the conditions that only a keep-alive task has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.supervision.decide import Action, ReconcileInput, decide


class DownAct(StrEnum):
    """Acts on the way down; the moves of each kind of change have the same values."""

    STOP = "stop"
    KILL = "kill"
    FENCE = "fence"
    """The driver is gone; the next epoch keeps other tasks from starting one."""
    ASK = "ask"
    WAIT = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class DownStep:
    """The next act towards a lane without a driver, with the reason."""

    act: DownAct
    reason: str


_ACTS: Final[Mapping[Action, DownAct]] = MappingProxyType(
    {
        Action.STOP: DownAct.STOP,
        Action.KILL: DownAct.KILL,
        Action.PARK: DownAct.FENCE,
        Action.BLOCKED: DownAct.ASK,
    }
)
_FOR_THE_CHANGE: Final = frozenset({DownAct.STOP, DownAct.FENCE})
"""Acts that the change wants; the state of the driver is the reason for the others."""


def under_change(situation: ReconcileInput, desired: DesiredState) -> ReconcileInput:
    """Return the situation as the open change sees it, with the state that it wants."""
    return replace(
        situation,
        desired=desired,
        is_stop_over=False,
        change=None,
        tells=False,
        rollover_after=None,
        successor_waits=False,
    )


def step_down(situation: ReconcileInput, reason: str) -> DownStep:
    """
    Return the next act towards a lane without a driver.

    :param situation: From ``under_change``, with the desired state "stopped".
    :param reason: Why the change brings the lane down.
    """
    step = decide(situation)
    act = _ACTS.get(step.action, DownAct.WAIT)
    return DownStep(act=act, reason=reason if act in _FOR_THE_CHANGE else step.reason)
