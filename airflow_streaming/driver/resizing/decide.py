"""
Decide what a driver does with a change of its size.

More executors are asked for at once: a batch in work does not notice them. Executors go between two batches, so that no
task runs on one of them. Also the state is spread over new executors there, so that no task uses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_streaming.model.arguments.autoscale import MOST_CORES, executor_cores, is_dynamic
from airflow_streaming.model.records.size_change import SizeChange
from airflow_streaming.model.spark.conf import has_executors

LIMIT_SECONDS: Final = 120.0
"""Seconds for the end of a batch in work, and again for the cluster's executors."""
_SPREAD_SECONDS: Final = 2 * LIMIT_SECONDS
"""Seconds since the request after which the state stays where it is."""
_STANDALONE: Final = ("spark://", "local-cluster[")


class ResizeAct(StrEnum):
    """The next act of a driver that sees a change of its size."""

    IGNORE = "ignore"
    """The change is not this driver's."""
    WAIT = "wait"
    """Look again."""
    GROW = "grow"
    """Ask the cluster for more executors."""
    HOLD = "hold"
    """Hold every query at the end of its batch."""
    SHRINK = "shrink"
    """Remove executors; every query is held."""
    DONE = "done"
    """The size is reached."""
    REFUSE = "refuse"
    """Leave the change to a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeView:
    """
    A change as a driver sees it, with durations by the driver's own clock.

    :param epoch: The driver's epoch.
    :param size: Executors that it has asked for until now.
    :param refusal: Why Spark cannot change its size, as a sentence; ``None`` while no Spark context is there.
    :param is_paused: A pause is open.
    :param is_asked: The cluster was asked for the new size.
    :param is_held: Every query is between two batches.
    :param cannot_hold: Why a query cannot be held.
    :param has_state: A query has state, or that is not known yet.
    :param alive: Executors that take tasks.
    :param working_for: Seconds since the change was seen, or since the cluster was asked.
    """

    change: SizeChange
    epoch: int
    size: int
    refusal: str | None = ""
    is_paused: bool = False
    is_asked: bool = False
    is_held: bool = False
    cannot_hold: str = ""
    has_state: bool = False
    alive: int = 0
    working_for: float = 0.0


@dataclass(frozen=True, slots=True)
class ResizeStep:
    """An act, with its reason as a sentence, where there is one."""

    act: ResizeAct
    reason: str = ""


def decide_resize(view: ResizeView) -> ResizeStep:
    """Decide what a driver does next with a change of its size."""
    change = view.change
    if change.epoch != view.epoch or change.is_recommended_only:
        return ResizeStep(ResizeAct.IGNORE)
    if view.is_asked:
        return _asked(view)
    if view.refusal is None:
        return _patient(view, "No Spark context is there.")
    if view.refusal:
        return ResizeStep(ResizeAct.REFUSE, view.refusal)
    if change.executors == view.size:
        return ResizeStep(ResizeAct.DONE)
    if view.is_paused:
        return ResizeStep(ResizeAct.WAIT, "A pause is open.")
    if change.executors > view.size:
        return ResizeStep(ResizeAct.GROW)
    if view.cannot_hold:
        return ResizeStep(ResizeAct.REFUSE, view.cannot_hold)
    if view.is_held:
        return ResizeStep(ResizeAct.SHRINK)
    waits = _patient(view, "The batches in work did not end.")
    return waits if waits.act is ResizeAct.REFUSE else ResizeStep(ResizeAct.HOLD)


def _asked(view: ResizeView) -> ResizeStep:
    wanted, is_late = view.change.executors, view.working_for >= LIMIT_SECONDS
    if view.change.executors < view.size:
        if view.alive <= wanted:
            return ResizeStep(ResizeAct.DONE)
        return _patient(view, f"{view.alive - wanted} executors did not go.")
    if view.alive < wanted and not is_late:
        return ResizeStep(ResizeAct.WAIT)
    if _may_spread(view):
        return ResizeStep(ResizeAct.HOLD)
    # A new driver would wait for the same cluster, and the request stays open.
    missing = f"The cluster has given {view.alive} of {wanted} executors; the others come when it has room."
    return ResizeStep(ResizeAct.DONE, missing if view.alive < wanted else "")


def _may_spread(view: ResizeView) -> bool:
    """Tell whether the state waits for the end of a batch, to be spread over the new executors."""
    is_possible = view.has_state and not (view.cannot_hold or view.is_paused or view.is_held)
    return is_possible and view.working_for < _SPREAD_SECONDS


def _patient(view: ResizeView, reason: str) -> ResizeStep:
    if view.working_for < LIMIT_SECONDS:
        return ResizeStep(ResizeAct.WAIT, reason)
    return ResizeStep(ResizeAct.REFUSE, f"{reason} The limit is {LIMIT_SECONDS:.0f} s.")


def refusal(conf: Mapping[str, str], executors: int, *, is_elastic: bool) -> str:
    """
    Return why an application cannot get a number of executors, as a sentence; empty when it can.

    :param conf: Its whole configuration.
    :param is_elastic: Its scheduler backend takes requests for executors.
    """
    if not has_executors(conf.get("spark.master", "")):
        return "Spark runs in local mode, without executors."
    if is_dynamic(conf):
        return "Dynamic allocation chooses the number of executors."
    if not is_elastic:
        return "Spark's scheduler backend takes no requests for executors."
    most = most_executors(conf)
    if most is not None and executors > most:
        return f"{MOST_CORES} of this driver allows {most} executors."
    return ""


def most_executors(conf: Mapping[str, str]) -> int | None:
    """Return how many executors a standalone master gives an application; ``None`` without a limit."""
    if not conf.get("spark.master", "").startswith(_STANDALONE):
        return None
    cores, each = conf.get(MOST_CORES, ""), executor_cores(conf)
    return int(cores) // each if cores.isdecimal() and each else None


def leaving(executors: Sequence[str], loaded: Mapping[str, int], count: int) -> list[str]:
    """
    Return the executors that go: with the fewest partitions of state, the youngest first.

    :param executors: Their ids; Spark numbers them.
    :param loaded: Loaded partitions of state by executor.
    """
    by_age = sorted(executors, key=_age, reverse=True)
    return sorted(by_age, key=lambda one: loaded.get(one, 0))[:count]


def _age(executor: str) -> int:
    return int(executor) if executor.isdecimal() else 0
