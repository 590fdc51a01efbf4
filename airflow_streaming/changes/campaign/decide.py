"""
The next move of a campaign: a pure function of its steps and of the upgrades of its streams.

The order of the rules is the guarantee. Observed ends are recorded first, and a bad stream before all else. After
it, or after an abort, nothing more begins. Only then are streams kept, waves passed, and streams admitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.changes.campaign.state import (
    BUSY,
    DOUBT,
    CampaignFacts,
    CampaignState,
    MemberProgress,
    MemberState,
    QueryResult,
    Seen,
)
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.records.campaign import (
    BadSoak,
    CampaignEvent,
    CampaignOutcome,
)

E, M = CampaignEvent, MemberState
_ENDS: Final = frozenset({M.KEPT, M.ROLLED_BACK, M.REFUSED, M.OUT, M.GOOD})
DOUBT_PATIENCE: Final = timedelta(minutes=10)
"""How long an inconclusive query is asked again; then the next wave waits for an approval."""
ASKS_AGAIN: Final = timedelta(minutes=1)


class Do(StrEnum):
    """Kinds of moves."""

    RECORD = "record"
    """Record a step."""
    KEEP = "keep"
    """Keep the new deployments of streams that have soaked well."""
    ROLL_BACK = "roll_back"
    """Put the old deployments of streams back; of an upgrade that changed nothing yet: give it up."""
    WAIT = "wait"
    """Look again later."""
    ASK = "ask"
    """Nothing continues until a user acts."""
    NOTHING = "nothing"
    """The campaign is closed."""


PASSIVE: Final = frozenset({Do.WAIT, Do.ASK, Do.NOTHING})


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignMove:
    """
    A move of a campaign.

    :param reason: Why, in words; for a wait, the awaited event.
    :param event: Of a step.
    :param streams: The streams it is about.
    :param wave: Of a step about a wave.
    :param facts: Of a step.
    """

    do: Do
    reason: str
    event: CampaignEvent | None = None
    streams: tuple[str, ...] = ()
    wave: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)


def next_step(state: CampaignState, facts: CampaignFacts) -> CampaignMove:
    """Return the next move of a campaign."""
    if state.outcome is not None:
        return CampaignMove(do=Do.NOTHING, reason=f"The campaign is {state.outcome}.")
    rules = (
        _news(state, facts),
        _stopping(state, facts),
        _keeping(state),
        _wave(state, facts),
        _admitting(state, facts),
    )
    for rule in rules:
        move = next(rule, None)
        if move is not None:
            return move
    raise AssertionError("The last rule always has a move.")


def wakes_at(state: CampaignState, now: datetime) -> datetime | None:
    """Return when time alone changes the next move, ``None`` for never; soaks of streams are not counted."""
    terms = state.campaign.terms
    ends = [end for one in terms.blackouts if (end := one.ends_at(now)) is not None]
    if state.passed < state.wave:
        ends.append(state.settled_at + terms.wave_soak)
    if terms.queries and has_settled(state, now):
        ends.append(now + ASKS_AGAIN)
    return min((end for end in ends if end > now), default=None)


def _news(state: CampaignState, facts: CampaignFacts) -> Iterator[CampaignMove]:
    """Record the observed ends; bad streams first."""
    found: dict[CampaignEvent, dict[str, MemberProgress]] = {}
    for name in state.in_flight:
        progress = facts.progress.get(name)
        event = None if progress is None else _event_of(state, name, progress)
        if event is not None and progress is not None:
            found.setdefault(event, {})[name] = progress
    if not state.is_stopping:
        kept = [name for name in state.open_wave if state.members[name] is M.KEPT]
        troubles = {name: facts.troubles[name] for name in kept if name in facts.troubles}
        if troubles and state.passed < state.wave:
            found.setdefault(E.BAD, {}).update(
                {name: MemberProgress(seen=Seen.KEPT, reason=why) for name, why in troubles.items()}
            )
    for event in (E.BAD, E.KEPT, E.ROLLED_BACK, E.REFUSED, E.GOOD):
        if event in found:
            yield _of_streams(event, found[event])


def _event_of(state: CampaignState, name: str, progress: MemberProgress) -> CampaignEvent | None:
    """Return the event of a stream in flight that must be recorded."""
    member, seen = state.members[name], progress.seen
    is_quiet = state.is_stopping or name in state.taken_out or member is M.RETURNING
    if (progress.is_bad or seen in (Seen.RETURNING, Seen.ROLLED_BACK)) and not is_quiet:
        return E.BAD
    events = {Seen.KEPT: E.KEPT, Seen.ROLLED_BACK: E.ROLLED_BACK, Seen.REFUSED: E.REFUSED}
    if seen is Seen.GOOD and member is M.UPGRADING:
        return E.GOOD
    return events.get(seen)


def _of_streams(event: CampaignEvent, found: Mapping[str, MemberProgress]) -> CampaignMove:
    first = next(iter(found))
    more = f" And {len(found) - 1} more." if len(found) > 1 else ""
    return CampaignMove(
        do=Do.RECORD,
        event=event,
        reason=f"{first}: {found[first].reason}{more}",
        streams=tuple(found),
        facts={name: one.reason for name, one in found.items()},
    )


def _stopping(state: CampaignState, facts: CampaignFacts) -> Iterator[CampaignMove]:
    """After a bad stream or an abort: put back what returns, wait for the rest, and close."""
    if not state.is_stopping:
        return
    why = "A user aborted the campaign." if state.is_aborted else _bad_words(state)
    yield from _putting_back(state, facts, why)
    yield from _keeping(state)
    if state.in_flight:
        yield _waiting(f"{why} Nothing more begins.", state, facts)
        return
    outcome = CampaignOutcome.ABORTED if state.is_aborted else CampaignOutcome.STOPPED
    yield _closing(outcome, why)


def _putting_back(state: CampaignState, facts: CampaignFacts, why: str) -> Iterator[CampaignMove]:
    """Record which streams return, no more at a time than the limit allows; then give the commands."""
    untold = [name for name in state.streams_in(M.RETURNING) if _is_untold(facts, name)]
    if untold:
        yield CampaignMove(do=Do.ROLL_BACK, reason=why, streams=tuple(untold))
    back = [name for name in state.streams_in(M.UPGRADING) if _returns(state, facts, name)]
    good = [name for name in state.streams_in(M.GOOD) if _returns(state, facts, name)]
    back += good[: max(0, state.campaign.terms.at_once - len(state.streams_in(*BUSY)))]
    if back:
        yield CampaignMove(do=Do.RECORD, event=E.RETURNING, reason=why, streams=tuple(back))


def _is_untold(facts: CampaignFacts, name: str) -> bool:
    """Tell whether the upgrade of a stream that returns does not know it yet."""
    progress = facts.progress.get(name)
    return progress is not None and progress.seen in (Seen.RUNNING, Seen.GOOD)


def _returns(state: CampaignState, facts: CampaignFacts, name: str) -> bool:
    """Tell whether a stream that was not bad itself is put back."""
    progress = facts.progress.get(name)
    # Else it returns already, or its end is recorded next.
    if progress is None or name in state.taken_out or not _is_untold(facts, name):
        return False
    if state.is_aborted or state.campaign.terms.bad_soak is BadSoak.WAVE:
        return True
    return not progress.is_applied


def _bad_words(state: CampaignState) -> str:
    name, why = next(iter(state.bad.items()))
    more = f" and {len(state.bad) - 1} more streams" if len(state.bad) > 1 else ""
    return f"Stream {name!r}{more} stopped the campaign: {why}"


def _keeping(state: CampaignState) -> Iterator[CampaignMove]:
    """Keep streams that have soaked well: at once, or with their whole wave."""
    good = state.streams_in(M.GOOD)
    if state.campaign.terms.bad_soak is BadSoak.WAVE and state.passed < state.wave:
        good = [name for name in good if name in state.taken_out]
    if good:
        reason = f"Campaign {state.campaign.number}: the new deployment soaked well."
        yield CampaignMove(do=Do.KEEP, reason=reason, streams=tuple(good))


def _wave(state: CampaignState, facts: CampaignFacts) -> Iterator[CampaignMove]:
    """Pass a wave whose streams have all come to an end; open the next one, or close the campaign."""
    if any(state.members[name] not in _ENDS for name in state.open_wave):
        return
    if state.passed < state.wave:
        until = state.settled_at + state.campaign.terms.wave_soak
        if facts.now < until:
            left = duration_text(until - facts.now)
            yield _waiting(f"Wave {state.wave} soaks for {left} more.", state, facts)
            return
        yield from _judging(state, facts)
        yield CampaignMove(
            do=Do.RECORD,
            event=E.WAVE_PASSED,
            reason=f"All {len(state.open_wave)} streams of wave {state.wave} have come to an end.",
            wave=state.wave,
            facts={answer.name: answer.reason for answer in facts.answers} | _doubt(facts),
        )
    elif any(state.members[name] is M.GOOD for name in state.open_wave):
        yield _waiting(f"The streams of wave {state.wave} are being kept.", state, facts)
    elif state.wave < len(state.campaign.waves):
        yield _opening(state, facts)
    elif state.in_flight:
        yield _waiting("Streams that were taken out come to their own end.", state, facts)
    else:
        yield _closing(CampaignOutcome.DONE, "All waves have passed.")


def _judging(state: CampaignState, facts: CampaignFacts) -> Iterator[CampaignMove]:
    """Stop the campaign by a failed query; wait a while for an inconclusive one."""
    upgraded = [name for name in state.open_wave if state.members[name] in (M.KEPT, M.GOOD)]
    failed = [one for one in facts.answers if one.result is QueryResult.FAILURE]
    if failed and upgraded:
        yield CampaignMove(
            do=Do.RECORD,
            event=E.BAD,
            reason=f"Wave {state.wave}: {failed[0].reason}",
            streams=tuple(upgraded),
        )
    until = state.settled_at + state.campaign.terms.wave_soak + DOUBT_PATIENCE
    doubts = [one for one in facts.answers if one.result is QueryResult.INCONCLUSIVE]
    if doubts and facts.now < until:
        yield _waiting(f"Wave {state.wave} is judged: {doubts[0].reason}", state, facts)


def _doubt(facts: CampaignFacts) -> dict[str, str]:
    doubts = [one for one in facts.answers if one.result is QueryResult.INCONCLUSIVE]
    return {DOUBT: doubts[0].reason} if doubts else {}


def has_settled(state: CampaignState, now: datetime) -> bool:
    """Tell whether the open wave can be judged: its streams and its soak have come to an end."""
    is_open = state.passed < state.wave and not state.is_stopping and state.outcome is None
    return (
        is_open
        and all(state.members[name] in _ENDS for name in state.open_wave)
        and now >= state.settled_at + state.campaign.terms.wave_soak
    )


def _opening(state: CampaignState, facts: CampaignFacts) -> CampaignMove:
    wave = state.wave + 1
    if state.is_paused:
        return CampaignMove(do=Do.ASK, reason="The campaign is paused.")
    if state.must_be_approved(wave):
        why = (
            ""
            if state.has_kept(state.wave)
            else " No stream was kept so far, so nothing is proved."
        )
        return CampaignMove(do=Do.ASK, reason=f"Wave {wave} waits for an approval.{why}")
    if facts.blackout:
        return _waiting(facts.blackout, state, facts)
    streams = state.campaign.waves[wave - 1]
    reason = f"Wave {wave} of {len(state.campaign.waves)}: {len(streams)} streams."
    return CampaignMove(do=Do.RECORD, event=E.WAVE_OPENED, reason=reason, wave=wave)


def _admitting(state: CampaignState, facts: CampaignFacts) -> Iterator[CampaignMove]:
    """Admit streams of the open wave, as many as the limits allow."""
    if state.is_paused:
        yield _paused(state, facts)
        return
    if facts.blackout:
        yield _waiting(facts.blackout, state, facts)
        return
    busy = len(state.streams_in(*BUSY))
    free = state.campaign.terms.at_once - busy
    if free > 0 and facts.room is not None and facts.room <= 0:
        yield _waiting("The cluster has no room for another stream.", state, facts)
        return
    free = free if facts.room is None else min(free, facts.room)
    chosen = _next_streams(state, free)
    if chosen:
        reason = f"Wave {state.wave}: {busy} of at most {state.campaign.terms.at_once} streams are being upgraded."
        yield CampaignMove(
            do=Do.RECORD,
            event=E.ADMITTED,
            reason=reason,
            streams=tuple(chosen),
            wave=state.wave,
        )
    yield _waiting(f"{busy} streams of wave {state.wave} are being upgraded.", state, facts)


def _next_streams(state: CampaignState, most: int) -> Sequence[str]:
    """Return the next streams to admit, each after the streams of its campaign whose output it reads."""
    waiting = [name for name in state.open_wave if state.members[name] is M.WAITING]
    chosen: list[str] = []
    for name in waiting[: len(waiting) if most > 0 else 0]:
        if len(chosen) == most:
            break
        if not any(_is_ahead(state, one) for one in state.campaign.follows.get(name, ())):
            chosen.append(name)
    # Streams that feed each other in a circle would wait for each other.
    if not chosen and most > 0 and not state.streams_in(*BUSY):
        return waiting[:1]
    return chosen


def _is_ahead(state: CampaignState, name: str) -> bool:
    """Tell whether a stream must come to its end first."""
    member = state.members[name]
    return member in BUSY or (member is M.WAITING and name in state.open_wave)


def _waiting(reason: str, state: CampaignState, facts: CampaignFacts) -> CampaignMove:
    """Wait, or ask for a user where an upgrade does; say which one."""
    for name in state.in_flight:
        progress = facts.progress.get(name)
        if progress is not None and progress.needs_person and progress.seen is not Seen.GOOD:
            return CampaignMove(do=Do.ASK, reason=f"{reason} Stream {name!r}: {progress.reason}")
    return CampaignMove(do=Do.WAIT, reason=reason)


def _paused(state: CampaignState, facts: CampaignFacts) -> CampaignMove:
    if state.in_flight:
        return _waiting("The campaign is paused; upgrades in progress continue.", state, facts)
    return CampaignMove(do=Do.ASK, reason="The campaign is paused.")


def _closing(outcome: CampaignOutcome, reason: str) -> CampaignMove:
    return CampaignMove(
        do=Do.RECORD, event=E.CLOSED, reason=reason, facts={"outcome": outcome.value}
    )
