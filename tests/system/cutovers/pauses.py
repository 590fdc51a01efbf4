"""For how long a consumer saw no fresher row in a run, and when the run did what."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from airflow_streaming.model.records.cutover_table import CutoverState, CutoverTransition
from tests.system.cutovers.consumer import Consumer
from tests.system.cutovers.dying import Step

STEADY_S: Final = 8.0
S: Final = CutoverState


def back(history: Sequence[CutoverTransition]) -> dict[str, float]:
    """Return the seconds from the step that gives green up to the one with which blue is back."""
    begun = [at_of(one) for one in history if one.after in (S.ABORTING, S.ROLLING_BACK)]
    return {"back_s": round(at_of(history[-1]) - begun[0], 2)} if begun else {}


def pauses(
    consumer: Consumer, began: float, history: Sequence[CutoverTransition], steps: Sequence[Step]
) -> dict[str, Any]:
    """
    Return the longest times without a fresher row.

    ``usual`` is the longest in the steady time before the run, and while both drivers run steadily:
    one batch. ``switch`` is the longest that touches a hand-over of the output, there or back;
    ``anywhere`` the longest of the whole run, in which drivers also start on this machine.
    """
    steady = consumer.pauses(began - STEADY_S, began - 1)
    for first, last in _beside(history):
        steady += consumer.pauses(first, last)
    usual = max(steady, default=0.0)
    anywhere = max(consumer.pauses(began, time.time()), default=0.0)
    told: dict[str, Any] = {"usual_s": round(usual, 2), "anywhere_s": round(anywhere, 2)}
    windows = list(_switches(history))
    if windows:
        longest = max(max(consumer.pauses(*window), default=0.0) for window in windows)
        hit = [one.what for one in steps if one.is_killed and _is_in(one.at, windows)]
        told |= {
            "switch_s": round(longest, 2),
            "without_fresh_s": round(max(0.0, longest - usual), 2),
            "killed_in_switch": len(hit),
        }
    return told


def _beside(history: Sequence[CutoverTransition]) -> list[tuple[float, float]]:
    """Return the times during which green kept pace beside blue, and nothing else was done."""
    steps = pairwise(history)
    return [(at_of(one), at_of(later)) for one, later in steps if one.after is S.SHADOWING]


def _switches(history: Sequence[CutoverTransition]) -> list[tuple[float, float]]:
    """Return the times during which the output goes from one lane to the other."""
    found, begun = list[tuple[float, float]](), None
    for one in history:
        if one.after in (S.DRAINING, S.SWITCHING, S.ROLLING_BACK):
            begun = begun if begun is not None else at_of(one)
        elif begun is not None and one.after is not S.LIVE and one.after is not S.ABORTING:
            found.append((begun, at_of(one) + 2.0))
            begun = None
    return found


def _is_in(at: float, windows: Sequence[tuple[float, float]]) -> bool:
    return any(first <= at <= last for first, last in windows)


def at_of(step: CutoverTransition) -> float:
    """Return when a step was taken, in seconds since 1970."""
    return step.at.timestamp()


def state_at(step: Step, history: Sequence[CutoverTransition]) -> str:
    """Return the state in which a durable step was done."""
    before = [one.after.value for one in history if at_of(one) <= step.at]
    return before[-1] if before else "planned"
