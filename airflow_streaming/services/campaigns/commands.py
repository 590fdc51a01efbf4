"""
User commands for a campaign: begin, pause, resume, approve, abort, take a stream out.

Each command is one function here and writes one record. The task that works on the campaign follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from airflow_streaming.changes.campaign.decide import CampaignMove, Do
from airflow_streaming.changes.campaign.state import CampaignState, state_of
from airflow_streaming.changes.campaign.worker import close_taken, step_after, taken_by_earlier
from airflow_streaming.exceptions import CampaignRefused, SpecError
from airflow_streaming.home.campaigns import Campaigns
from airflow_streaming.home.folder import APPEND_TRIES
from airflow_streaming.model.records.campaign import (
    Campaign,
    CampaignEvent,
    CampaignTerms,
    FleetChange,
)

E = CampaignEvent


def begin_campaign(
    campaigns: Campaigns,
    change: FleetChange,
    waves: tuple[tuple[str, ...], ...],
    terms: CampaignTerms,
    *,
    selector: str,
    follows: Mapping[str, tuple[str, ...]],
    by: str,
    reason: str,
    key: str = "",
    now: Callable[[], datetime] | None = None,
) -> CampaignState:
    """
    Begin a campaign, or return the campaign of the same request.

    :raises SpecError: it changes nothing.
    :raises CampaignRefused: an open campaign has one of the streams; this one is closed at once.
    """
    if change.is_empty:
        raise SpecError(
            "The campaign changes nothing. Give a runtime, a script, a configuration or a size."
        )
    for _ in range(APPEND_TRIES):
        found = find_by_key(campaigns, key)
        if found is not None:
            return found
        numbers = campaigns.numbers()
        campaign = Campaign(
            number=numbers[-1] + 1 if numbers else 1,
            selector=selector,
            change=change,
            waves=waves,
            terms=terms,
            follows=follows,
            by=by,
            reason=reason,
            at=(now or _now)(),
            key=key,
        )
        taken = taken_by_earlier(campaigns, campaign)
        if taken:
            raise CampaignRefused(taken)
        if campaigns.begin(campaign):
            return _reserved(campaigns, campaign, by)
    raise campaigns.never_first("The campaign")


def open_campaigns(
    campaigns: Campaigns, closed_since: datetime | None = None
) -> list[CampaignState]:
    """
    Return the open campaigns, oldest first.

    :param closed_since: Also return campaigns that were closed at this time or later.
    """
    found = []
    for number in campaigns.numbers():
        steps = campaigns.steps(number)
        state = state_of(campaigns.campaign(number), steps)
        is_recent = closed_since is not None and bool(steps) and steps[-1].at >= closed_since
        if state.outcome is None or is_recent:
            found.append(state)
    return found


def state_by_number(campaigns: Campaigns, number: int) -> CampaignState:
    """
    Return the state of a campaign.

    :raises CampaignRefused: this number does not exist.
    """
    return state_of(_campaign(campaigns, number), campaigns.steps(number))


def _campaign(campaigns: Campaigns, number: int) -> Campaign:
    known = campaigns.numbers()
    if number in known:
        return campaigns.campaign(number)
    raise CampaignRefused(
        f"Campaign {number} does not exist in {campaigns.store.uri}. Existing campaigns: "
        f"{', '.join(map(str, known)) or 'none'}."
    )


def find_by_key(campaigns: Campaigns, key: str) -> CampaignState | None:
    """Return the newest campaign of a request, open or closed."""
    if not key:
        return None
    for number in reversed(campaigns.numbers()):
        campaign = campaigns.campaign(number)
        if campaign.key == key:
            return state_of(campaign, campaigns.steps(number))
    return None


def _reserved(campaigns: Campaigns, campaign: Campaign, by: str) -> CampaignState:
    """
    Return the campaign, if no campaign with a lower number has one of its streams.

    :raises CampaignRefused: one has, which began at the same moment; this one is closed.
    """
    taken = taken_by_earlier(campaigns, campaign)
    if taken:
        close_taken(campaigns, campaign.number, taken, by=by, at=_now())
        raise CampaignRefused(taken)
    return state_by_number(campaigns, campaign.number)


def pause(campaigns: Campaigns, number: int, *, by: str, reason: str) -> CampaignState:
    """Admit no further stream; upgrades in progress continue."""
    return _give(campaigns, number, E.PAUSED, by, reason, lambda state: state.is_paused)


def resume(campaigns: Campaigns, number: int, *, by: str, reason: str) -> CampaignState:
    """
    Continue a paused campaign.

    :raises CampaignRefused: it is closed, or a bad soak has stopped it.
    """

    def is_running(state: CampaignState) -> bool:
        if state.is_stopping:
            raise CampaignRefused(
                f"Campaign {number} is stopping and cannot be resumed. Begin a new one for the rest."
            )
        return not state.is_paused

    return _give(campaigns, number, E.RESUMED, by, reason, is_running)


def abort(campaigns: Campaigns, number: int, *, by: str, reason: str) -> CampaignState:
    """Begin nothing more, and roll back every upgrade that is not kept yet."""
    return _give(campaigns, number, E.ABORTED, by, reason, lambda state: state.is_aborted)


def approve(campaigns: Campaigns, number: int, *, by: str, reason: str) -> CampaignState:
    """
    Approve the next wave.

    :raises CampaignRefused: it is closed, or the open wave has not passed.
    """

    def is_approved(state: CampaignState) -> bool:
        if state.passed < state.wave or state.wave == 0:
            raise CampaignRefused(
                f"Campaign {number} has no wave to approve: wave {max(1, state.wave)} has not passed yet."
            )
        return not state.must_be_approved(state.wave + 1)

    return _give(
        campaigns, number, E.APPROVED, by, reason, is_approved, wave=lambda state: state.wave + 1
    )


def take_out(
    campaigns: Campaigns, number: int, stream: str, *, by: str, reason: str
) -> CampaignState:
    """
    Take a stream out of a campaign; an open upgrade of it comes to its own end.

    :raises CampaignRefused: it is closed, or has no such stream.
    """

    def is_out(state: CampaignState) -> bool:
        if stream not in state.members:
            raise CampaignRefused(f"Campaign {number} has no stream {stream!r:.80}.")
        return stream in state.taken_out

    return _give(campaigns, number, E.TAKEN_OUT, by, reason, is_out, streams=(stream,))


def _give(
    campaigns: Campaigns,
    number: int,
    event: CampaignEvent,
    by: str,
    reason: str,
    is_in_force: Callable[[CampaignState], bool],
    *,
    wave: Callable[[CampaignState], int] = lambda _: 0,
    streams: tuple[str, ...] = (),
) -> CampaignState:
    """Record a command, unless it is in force; it is judged again after a simultaneous step."""
    for _ in range(APPEND_TRIES):
        campaign = _campaign(campaigns, number)
        steps = campaigns.steps(number)
        state = state_of(campaign, steps)
        if state.outcome is not None:
            raise CampaignRefused(f"Campaign {number} is closed ({state.outcome}).")
        if is_in_force(state):
            return state
        move = CampaignMove(
            do=Do.RECORD, event=event, reason=reason, wave=wave(state), streams=streams
        )
        if campaigns.take(step_after(steps, number, move, by=by, at=_now())):
            return state_by_number(campaigns, number)
    raise campaigns.never_first("The command")


def _now() -> datetime:
    return datetime.now(UTC)
