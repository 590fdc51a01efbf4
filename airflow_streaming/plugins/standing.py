"""
Where a stream stands, for people: one word, how grave it is, why, and since when.

The verdict of the health judges is about a driver. A stream is more than that: it may be down on
purpose, wait for its restart, or have been given up. Decided here, on values alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.codec import format_time
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import Observation, Verdict, VerdictState
from airflow_streaming.model.records.alert import Alert
from airflow_streaming.model.records.control import ChangeInProgress, Circuit, Desired, DesiredState
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.policy import RestartDecision
from airflow_streaming.supervision.health import judge

T = TypeVar("T")
MAX_TEXT: Final = 4_000
"""Characters of a text that a page gets; a driver's whole error is in its log."""


def cut(text: str | None, most: int = MAX_TEXT) -> str:
    """Return a text of a record, no longer than a page can take."""
    found = text or ""
    return found if len(found) <= most else f"{found[:most]} ... ({len(found)} characters)"


def told(moment: datetime | None) -> str | None:
    """Return a time as the page reads it."""
    return None if moment is None else format_time(moment)


def tried(read: Callable[[], T]) -> T | None:
    """Return what was read; ``None`` for a record that cannot be."""
    try:
        return read()
    except RecordError:
        return None


class Level(StrEnum):
    """How much a stream needs a user, the gravest first."""

    DOWN = "down"
    """It should run and does not, and nothing is being done about it."""
    BAD = "bad"
    """It runs and does not do its work, or nothing is known of it."""
    WARN = "warn"
    """It does its work, and something is wrong; or it is being brought back."""
    BUSY = "busy"
    """It starts, stops or is being changed."""
    WELL = "well"
    OFF = "off"
    """It is down on purpose."""

    @property
    def rank(self) -> int:
        """Return its place among all levels, the gravest first."""
        return [*Level].index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """
    Where a stream stands.

    :param word: What it is called: a verdict, or ``gave_up``, ``restarting``, ``off``, ``never_run``.
    :param remedy: What a user should do; empty when there is nothing.
    """

    word: str
    level: Level
    reason: str
    since: datetime | None = None
    remedy: str = ""

    @property
    def rank(self) -> int:
        """Return its place among all standings, the gravest first."""
        return self.level.rank


S = VerdictState
_LEVELS: Final = {
    S.FAILED: Level.DOWN,
    S.DEAD: Level.DOWN,
    S.HUNG: Level.BAD,
    S.STALLED: Level.BAD,
    S.UNREACHABLE: Level.BAD,
    S.DEGRADED: Level.WARN,
    S.SLOW: Level.WARN,
    S.STARTING: Level.BUSY,
    S.STOPPING: Level.BUSY,
    S.HEALTHY: Level.WELL,
    S.IDLE: Level.WELL,
    S.COMPLETED: Level.OFF,
    S.STOPPED: Level.OFF,
}


def level_of(state: VerdictState) -> Level:
    """Return how much a verdict alone needs a user."""
    return _LEVELS[state]


def standing(
    verdict: Verdict | None,
    *,
    desired: Desired | None,
    circuit: Circuit | None,
    epoch: int | None,
    decision: RestartDecision | None,
    incidents: Sequence[Alert],
    now: datetime,
) -> Standing:
    """
    Return where a stream stands.

    :param verdict: On its newest epoch; ``None`` when it has never run.
    :param epoch: That epoch's number.
    :param decision: What was decided about it, if it failed.
    :param incidents: What people were told and is not over.
    """
    if circuit is not None and circuit.holds(epoch) and (verdict is None or verdict.has_ended):
        remedy = next((one.remedy for one in reversed(incidents) if one.remedy), "")
        return Standing(
            word="gave_up",
            level=Level.DOWN,
            reason=circuit.reason,
            since=circuit.at,
            remedy=(decision.remedy if decision else "") or remedy,
        )
    if verdict is None:
        return _never_run(desired)
    if desired is not None and desired.state is DesiredState.STOPPED and verdict.has_ended:
        return Standing(word="off", level=Level.OFF, reason=desired.reason, since=desired.at)
    if verdict.has_ended and decision is not None and decision.next_attempt_at is not None:
        return Standing(
            word="restarting", level=Level.WARN, reason=decision.reason, since=decision.decided_at
        )
    return _of_verdict(verdict, incidents, now)


def _never_run(desired: Desired | None) -> Standing:
    if desired is not None and desired.state is DesiredState.STOPPED:
        return Standing(word="off", level=Level.OFF, reason=desired.reason, since=desired.at)
    return Standing(word="never_run", level=Level.BUSY, reason="The stream has never run.")


def _of_verdict(verdict: Verdict, incidents: Sequence[Alert], now: datetime) -> Standing:
    level = level_of(verdict.state)
    known = next((one for one in incidents if one.rule == verdict.rule), None)
    if verdict.is_well and incidents:
        # The task that keeps it watches the figures; a look at its records alone does not.
        newest = incidents[-1]
        return Standing(
            word=VerdictState.DEGRADED.value,
            level=Level.WARN,
            reason=newest.reason,
            since=newest.at,
            remedy=newest.remedy,
        )
    since = verdict.since
    if since is None and verdict.healthy_for:
        since = now - verdict.healthy_for
    return Standing(
        word=verdict.state.value,
        level=level,
        reason=verdict.reason,
        since=since,
        remedy=known.remedy if known is not None else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at a stream found."""

    now: datetime
    rules: HealthRules
    seen: Observation | None
    desired: Desired | None
    circuit: Circuit | None
    deployment: Deployment | None
    decision: RestartDecision | None
    incidents: tuple[Alert, ...]
    change: ChangeInProgress | None

    @property
    def standing(self) -> Standing:
        """Return where the stream stands."""
        return standing(
            judge(self.seen, self.rules) if self.seen else None,
            desired=self.desired,
            circuit=self.circuit,
            epoch=self.seen.epoch.number if self.seen else None,
            decision=self.decision,
            incidents=self.incidents,
            now=self.now,
        )
