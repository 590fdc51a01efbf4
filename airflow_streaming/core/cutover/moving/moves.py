"""Moves: what there is to do in a cutover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from airflow_streaming.core.cutover.table import CutoverEvent
from airflow_streaming.core.epoch import LaunchCause
from airflow_streaming.core.rules.rule import Severity


class Do(StrEnum):
    """What to do next."""

    TAKE = "take"
    """Take the step of an event."""
    INVITE = "invite"
    """Record the change in every lane that the cutover touches."""
    START = "start"
    """Make green's first checkpoint, and its deployment."""
    RESERVE = "reserve"
    """Make green's deployment only so that nobody who is late can."""
    DEPLOY_LIVE = "deploy_live"
    """Handover: the deployment with which green goes on in blue's output."""
    DEPLOY_BACK = "deploy_back"
    """Handover: the deployment with which blue goes on in its output again."""
    LAUNCH = "launch"
    STAND_BY = "stand_by"
    """Launch a driver that waits at the barrier."""
    STOP = "stop"
    KILL = "kill"
    SETTLE = "settle"
    """Record what becomes of a failed epoch."""
    FENCE = "fence"
    """Take the next epoch, so that nobody who looked earlier starts a driver."""
    COMPARE = "compare"
    WARM = "warm"
    """Bring green's state near blue's position, while blue runs on."""
    SWITCH = "switch"
    """Bring green to blue's very position, lead consumers to it, and take the step."""
    RELEASE = "release"
    """Let the driver at the barrier go on."""
    TURN_BACK = "turn_back"
    """The same as to switch, back to blue."""
    UNDO = "undo"
    """Lead consumers that were led already back to blue, and take the step."""
    WANT_STOPPED = "want_stopped"
    """Record that a lane is to stay down."""
    WANT_RUNNING = "want_running"
    """Record that it is not: the person who wanted it has changed his mind."""
    CLOSE = "close"
    WAIT = "wait"
    """Look again later."""
    ASK = "ask"
    """Nothing goes on until a person acts."""
    NOTHING = "nothing"
    """The change is closed."""


PASSIVE: Final = frozenset({Do.WAIT, Do.ASK, Do.NOTHING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """
    One move.

    :param reason: Why, in words; what is waited for.
    :param pair: Which pair it is about, from 0.
    :param lane: The lane in which something is done; empty for a move of all.
    :param event: Of ``TAKE``.
    :param facts: Of ``TAKE``: what the step keeps.
    :param cause: For a launch: why.
    :param verdict: For a stop: what the health verdict behind it asked for, if one did.
    """

    do: Do
    reason: str
    pair: int = 0
    lane: str = ""
    event: CutoverEvent | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    cause: LaunchCause = LaunchCause.CUTOVER
    verdict: Severity | None = None

    @property
    def is_passive(self) -> bool:
        """Tell whether there is nothing to do now."""
        return self.do in PASSIVE


def take(event: CutoverEvent, reason: str, facts: Mapping[str, str] | None = None) -> Move:
    """Return the move that takes a step."""
    return Move(do=Do.TAKE, reason=reason, event=event, facts=dict(facts or {}))


def first_of(moves: Iterable[Move | None]) -> Move | None:
    """
    Return the first move that is one to make; else what to ask, else what to wait for.

    So several lanes come on side by side, and none has to wait for what another waits for.
    """
    found = [move for move in moves if move is not None]
    active = (move for move in found if not move.is_passive)
    asked = (move for move in found if move.do is Do.ASK)
    return next(active, None) or next(asked, None) or next(iter(found), None)


def of_pair(move: Move | None, index: int) -> Move | None:
    """Return a move with the number of the pair that it is about."""
    return None if move is None else replace(move, pair=index)
