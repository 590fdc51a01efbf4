"""The state of a campaign by its steps, and the input of its next move. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from airflow_streaming.model.records.campaign import (
    ApproveWaves,
    Campaign,
    CampaignEvent,
    CampaignOutcome,
    CampaignStep,
)

DOUBT: Final = "inconclusive"
"""Fact of a passed wave whose queries stayed inconclusive."""


class MemberState(StrEnum):
    """How far a stream of a campaign has come."""

    WAITING = "waiting"
    UPGRADING = "upgrading"
    GOOD = "good"
    """It has soaked well, and is not kept yet."""
    RETURNING = "returning"
    """Its old deployment is being put back, or its upgrade is given up."""
    KEPT = "kept"
    ROLLED_BACK = "rolled_back"
    REFUSED = "refused"
    """It is not upgraded, and nothing of it was changed."""
    OUT = "out"
    """A user took it out before its upgrade began."""


IN_FLIGHT: Final = frozenset({MemberState.UPGRADING, MemberState.GOOD, MemberState.RETURNING})
"""States of streams with an open upgrade."""
BUSY: Final = frozenset({MemberState.UPGRADING, MemberState.RETURNING})
"""States of streams whose drivers are, or may be, exchanged."""
_AFTER: Final[Mapping[CampaignEvent, MemberState]] = {
    CampaignEvent.ADMITTED: MemberState.UPGRADING,
    CampaignEvent.GOOD: MemberState.GOOD,
    CampaignEvent.KEPT: MemberState.KEPT,
    CampaignEvent.BAD: MemberState.RETURNING,
    CampaignEvent.RETURNING: MemberState.RETURNING,
    CampaignEvent.ROLLED_BACK: MemberState.ROLLED_BACK,
    CampaignEvent.REFUSED: MemberState.REFUSED,
}


class Seen(StrEnum):
    """The observed state of a stream's upgrade."""

    RUNNING = "running"
    GOOD = "good"
    """It has soaked well, and waits to be kept."""
    KEPT = "kept"
    RETURNING = "returning"
    ROLLED_BACK = "rolled_back"
    REFUSED = "refused"
    """It was not begun, or given up before anything was changed."""


class QueryResult(StrEnum):
    """The answer of a query that judges a wave."""

    SUCCESS = "success"
    FAILURE = "failure"
    INCONCLUSIVE = "inconclusive"


class QueryAnswer(NamedTuple):
    """The result of a query, and the reason with the value."""

    name: str
    result: QueryResult
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberProgress:
    """
    How far the upgrade of a stream has come, by its own records.

    :param reason: Why, or the awaited event.
    :param change: Number of its change; 0 before it is begun.
    :param is_applied: The new deployment is being made, or is made: giving up is a rollback from here on.
    :param needs_person: Nothing continues before a user acts on it.
    :param is_bad: Its soak was bad, though it stays where it is because it cannot be rolled back.
    """

    seen: Seen
    reason: str
    change: int = 0
    is_applied: bool = False
    needs_person: bool = False
    is_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFacts:
    """
    The input of the campaign's next move beside its steps.

    :param progress: Of streams in flight, as far as they could be observed.
    :param troubles: Why a kept stream of the open wave is not well, by stream.
    :param blackout: Why no stream is admitted now; empty outside of blackouts.
    :param room: How many more streams the cluster can take; ``None`` without a limit.
    :param answers: Of the queries that judge the open wave, once it has settled.
    """

    now: datetime
    progress: Mapping[str, MemberProgress] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)
    blackout: str = ""
    room: int | None = None
    answers: Sequence[QueryAnswer] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignState:
    """
    A campaign as its steps tell it.

    :param taken_out: Streams that a user took out; an open upgrade of them comes to its own end.
    :param wave: The wave that is open; 0 before the first.
    :param passed: The last wave that has passed.
    :param approved: The last wave that a user has approved.
    :param bad: Streams that stopped the campaign, with the reason.
    :param refused: Streams that were not upgraded, with the reason.
    :param settled_at: When a stream of the open wave last came to an end.
    :param outcome: ``None`` while it is open.
    :param steps: Number of its steps.
    :param doubtful: The last wave whose queries stayed inconclusive.
    """

    campaign: Campaign
    members: Mapping[str, MemberState]
    taken_out: frozenset[str] = frozenset()
    wave: int = 0
    passed: int = 0
    approved: int = 0
    bad: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    is_paused: bool = False
    is_aborted: bool = False
    settled_at: datetime
    outcome: CampaignOutcome | None = None
    steps: int = 0
    doubtful: int = 0

    @property
    def is_stopping(self) -> bool:
        """Tell whether nothing more begins."""
        return self.is_aborted or bool(self.bad)

    @property
    def word(self) -> str:
        """Return how far the campaign is, in one word: open, paused, stopping, or its outcome."""
        if self.outcome is not None:
            return self.outcome.value
        if self.is_stopping:
            return "stopping"
        return "paused" if self.is_paused else "open"

    def streams_in(self, *states: MemberState) -> list[str]:
        """Return the streams in one of some states, in the order of the campaign."""
        return [name for name in self.campaign.streams if self.members[name] in states]

    @property
    def in_flight(self) -> list[str]:
        """Return the streams with an open upgrade."""
        return self.streams_in(*IN_FLIGHT)

    @property
    def open_wave(self) -> tuple[str, ...]:
        """Return the streams of the open wave that were not taken out."""
        if not self.wave:
            return ()
        wave = self.campaign.waves[self.wave - 1]
        return tuple(name for name in wave if name not in self.taken_out)

    @property
    def reserved(self) -> frozenset[str]:
        """Return the streams that no other campaign may have."""
        if self.outcome is not None:
            return frozenset()
        rest = (name for name in self.members if name not in self.taken_out)
        return frozenset(rest) | frozenset(self.in_flight)

    def must_be_approved(self, wave: int) -> bool:
        """Tell whether a wave needs the approval of a user, and has none."""
        if wave <= self.approved or wave == 1:
            return False
        approve = self.campaign.terms.approve
        is_wanted = approve is ApproveWaves.EACH or (approve is ApproveWaves.SECOND and wave == 2)
        return is_wanted or self.doubtful == wave - 1 or not self.has_kept(wave - 1)

    def has_kept(self, wave: int) -> bool:
        """Tell whether a stream of a wave, or of an earlier one, was kept; else nothing is proved."""
        earlier = (name for names in self.campaign.waves[:wave] for name in names)
        return any(self.members[name] is MemberState.KEPT for name in earlier)


def state_of(campaign: Campaign, steps: Iterable[CampaignStep]) -> CampaignState:
    """Return the state of a campaign by its steps."""
    members = dict.fromkeys(campaign.streams, MemberState.WAITING)
    told: dict[str, int] = {"wave": 0, "passed": 0, "approved": 0, "doubtful": 0}
    flags = {CampaignEvent.PAUSED: False, CampaignEvent.ABORTED: False}
    out, bad, refused = set[str](), dict[str, str](), dict[str, str]()
    told_of = {CampaignEvent.BAD: bad, CampaignEvent.REFUSED: refused}
    outcome, settled_at, count = None, campaign.at, 0
    for count, step in enumerate(steps, 1):  # noqa: B007 - the last one counts
        known = [name for name in step.streams if name in members]
        match step.event:
            case CampaignEvent.WAVE_OPENED:
                told["wave"], settled_at = step.wave, step.at
            case CampaignEvent.WAVE_PASSED:
                told["passed"] = step.wave
                told["doubtful"] = step.wave if DOUBT in step.facts else 0
            case CampaignEvent.APPROVED:
                told["approved"] = step.wave
            case CampaignEvent.PAUSED | CampaignEvent.ABORTED:
                flags[step.event] = True
            case CampaignEvent.RESUMED:
                flags[CampaignEvent.PAUSED] = False
            case CampaignEvent.TAKEN_OUT:
                out.update(known)
                waiting = [name for name in known if members[name] is MemberState.WAITING]
                members.update(dict.fromkeys(waiting, MemberState.OUT))
            case CampaignEvent.CLOSED:
                outcome = CampaignOutcome(step.facts["outcome"])
            case _:
                settled_at = step.at
                reasons = {name: step.facts.get(name, step.reason) for name in known}
                told_of.get(step.event, {}).update(reasons)
                members.update(_ends_of(step, reasons, members))
    return CampaignState(
        campaign=campaign,
        members=members,
        taken_out=frozenset(out),
        **told,
        bad=bad,
        refused=refused,
        is_paused=flags[CampaignEvent.PAUSED],
        is_aborted=flags[CampaignEvent.ABORTED],
        settled_at=settled_at,
        outcome=outcome,
        steps=count,
    )


def _ends_of(
    step: CampaignStep, names: Iterable[str], members: Mapping[str, MemberState]
) -> Mapping[str, MemberState]:
    """Return the states of streams after a step; a kept stream that turns bad stays kept."""
    stays = MemberState.KEPT if step.event is CampaignEvent.BAD else None
    return {name: _AFTER[step.event] for name in names if members[name] is not stays}
