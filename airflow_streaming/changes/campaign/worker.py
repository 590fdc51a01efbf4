"""
Work on a campaign: look at its upgrades, decide, record, act, repeat.

A step is recorded before its act, unlike in ``changes.engine``: an upgrade begins once for its key,
and a command that is in force changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from airflow_streaming.changes.campaign.analysis import judge_wave
from airflow_streaming.changes.campaign.decide import (
    PASSIVE,
    CampaignMove,
    Do,
    has_settled,
    next_step,
)
from airflow_streaming.changes.campaign.state import (
    CampaignFacts,
    CampaignState,
    MemberProgress,
    MemberState,
    QueryAnswer,
    state_of,
)
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.campaigns import Campaigns
from airflow_streaming.model.records.campaign import (
    Campaign,
    CampaignEvent,
    CampaignOutcome,
    CampaignStep,
    WaveQuery,
)

log: Final = logging.getLogger(__name__)
MOST_MOVES: Final = 10_000
"""In one call; a campaign of a thousand streams makes some three thousand."""
_MOST_REASON: Final = 1_000


class Fleet(Protocol):
    """The streams of a campaign; a failure of one of them must not raise."""

    def advance(
        self, campaign: Campaign, streams: Collection[str], *, begins: bool
    ) -> Mapping[str, MemberProgress]:
        """
        Begin or continue the upgrades of streams; leave out a stream that cannot be observed.

        :param begins: Begin upgrades that are not begun; else they count as refused.
        """

    def keep(self, campaign: Campaign, streams: Collection[str], reason: str) -> str:
        """Keep new deployments; return why one of them was not, empty for none."""

    def roll_back(self, campaign: Campaign, streams: Collection[str], reason: str) -> str:
        """Put old deployments back, or give up upgrades that changed nothing; as ``keep``."""

    def troubles(self, streams: Collection[str]) -> Mapping[str, str]:
        """Return by stream why it is not well; leave out streams that are."""

    def room(self) -> int | None:
        """Return how many more streams the cluster can take; ``None`` without a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignProgress:
    """
    How far a campaign has come.

    :param waiting: The awaited event; empty when it is closed.
    :param needs_person: Nothing continues before a user acts.
    """

    state: CampaignState
    waiting: str = ""
    needs_person: bool = False

    @property
    def is_there(self) -> bool:
        """Tell whether the campaign is closed."""
        return self.state.outcome is not None


class CampaignWorker:
    """Works on one campaign."""

    def __init__(
        self,
        campaigns: Campaigns,
        number: int,
        fleet: Fleet,
        *,
        by: str,
        now: Callable[[], datetime],
        judge: Callable[[Sequence[WaveQuery]], Sequence[QueryAnswer]] = judge_wave,
    ) -> None:
        self._campaigns, self._fleet, self._judge = campaigns, fleet, judge
        self._by, self._now = by, now
        self._campaign = campaigns.campaign(number)
        self._steps: list[CampaignStep] = []
        self._answers: dict[int, Sequence[QueryAnswer]] = {}

    def work(self) -> CampaignProgress:
        """
        Make all moves that are possible now.

        :raises RecordError: a step is missing or damaged.
        """
        self._answers = {}
        seen: dict[str, MemberProgress] = {}
        looked = set[str]()
        for _ in range(MOST_MOVES):
            state = self._state()
            taken = (
                ""
                if state.wave or state.outcome
                else taken_by_earlier(self._campaigns, self._campaign)
            )
            if taken:
                close_taken(
                    self._campaigns, self._campaign.number, taken, by=self._by, at=self._now()
                )
                continue
            self._look(state, seen, looked)
            move = next_step(state, self._facts(state, seen))
            if move.do in PASSIVE:
                waiting = "" if move.do is Do.NOTHING else move.reason
                return CampaignProgress(
                    state=state, waiting=waiting, needs_person=move.do is Do.ASK
                )
            refused = self._act(state, move)
            if refused:
                return CampaignProgress(state=state, waiting=refused)
            # Observe these streams again after the act.
            looked.difference_update(move.streams)
        raise HomeUnavailable(
            f"Campaign {self._campaign.number} made {MOST_MOVES} moves without a rest. Try again."
        )

    def _state(self) -> CampaignState:
        self._steps = self._campaigns.steps(self._campaign.number, self._steps)
        return state_of(self._campaign, self._steps)

    def _look(
        self, state: CampaignState, seen: dict[str, MemberProgress], looked: set[str]
    ) -> None:
        """Observe the streams in flight that this call has not observed since its last act on them."""
        new = [name for name in state.in_flight if name not in looked]
        if not new:
            return
        looked.update(new)
        for name in new:
            seen.pop(name, None)
        begins = not state.is_stopping
        seen.update(self._fleet.advance(self._campaign, new, begins=begins))

    def _facts(self, state: CampaignState, seen: Mapping[str, MemberProgress]) -> CampaignFacts:
        now = self._now()
        soaks = state.passed < state.wave and not state.is_stopping
        kept = [one for one in state.open_wave if state.members[one] is MemberState.KEPT]
        return CampaignFacts(
            now=now,
            progress=seen,
            troubles=self._fleet.troubles(kept) if soaks and kept else {},
            blackout=_blackout(self._campaign, now),
            room=None if state.is_stopping else self._fleet.room(),
            answers=self._answered(state) if has_settled(state, now) else (),
        )

    def _answered(self, state: CampaignState) -> Sequence[QueryAnswer]:
        """Ask the queries of a wave, once in a call of ``work``."""
        queries = self._campaign.terms.queries
        if queries and state.wave not in self._answers:
            self._answers[state.wave] = self._judge(queries)
        return self._answers.get(state.wave, ())

    def _act(self, state: CampaignState, move: CampaignMove) -> str:
        """Make a move; return why it could not be made now."""
        if move.do is Do.KEEP:
            return self._fleet.keep(self._campaign, move.streams, move.reason)
        if move.do is Do.ROLL_BACK:
            return self._fleet.roll_back(self._campaign, move.streams, move.reason)
        step = step_after(
            self._steps,
            state.campaign.number,
            move,
            by=self._by,
            at=self._now(),
        )
        if self._campaigns.take(step):
            log.info("Campaign %d, %s: %s", step.campaign, step.event, step.reason)
        return ""


def _blackout(campaign: Campaign, now: datetime) -> str:
    """Return why no stream is admitted now; empty outside of blackouts."""
    ends = [end for one in campaign.terms.blackouts if (end := one.ends_at(now)) is not None]
    return (
        f"No stream is admitted in the blackout until {max(ends):%Y-%m-%d %H:%M %Z}."
        if ends
        else ""
    )


def step_after(
    steps: Iterable[CampaignStep], campaign: int, move: CampaignMove, *, by: str, at: datetime
) -> CampaignStep:
    """Return the step that a move records behind others."""
    if move.event is None:
        raise ValueError(f"A move of kind {move.do!r} records no step.")
    return CampaignStep(
        campaign=campaign,
        number=len(list(steps)) + 1,
        event=CampaignEvent(move.event),
        reason=move.reason[:_MOST_REASON],
        at=at,
        by=by,
        streams=move.streams,
        wave=move.wave,
        facts={name: text[:_MOST_REASON] for name, text in move.facts.items()},
    )


def taken_by_earlier(campaigns: Campaigns, campaign: Campaign) -> str:
    """Return why a campaign may not have its streams: an open one with a lower number has one of them."""
    for number in campaigns.numbers():
        if number >= campaign.number:
            break
        other = state_of(campaigns.campaign(number), campaigns.steps(number))
        taken = sorted(other.reserved.intersection(campaign.streams))
        if taken:
            more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
            return (
                f"Campaign {number} is open and has stream {taken[0]!r}{more}. Wait for its end, or take the "
                f"stream out: airflow-streaming campaign take-out {number} {taken[0]} --reason TEXT"
            )
    return ""


def close_taken(campaigns: Campaigns, number: int, reason: str, *, by: str, at: datetime) -> None:
    """Close a campaign that has not begun, because an earlier one has its streams."""
    facts = {"outcome": CampaignOutcome.ABORTED.value}
    move = CampaignMove(do=Do.RECORD, event=CampaignEvent.CLOSED, reason=reason, facts=facts)
    campaigns.take(step_after(campaigns.steps(number), number, move, by=by, at=at))
