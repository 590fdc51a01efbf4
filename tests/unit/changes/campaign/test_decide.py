"""The next move of a campaign, as a table of histories and looks."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_streaming.changes.campaign.decide import CampaignMove, Do, next_step
from airflow_streaming.changes.campaign.state import (
    CampaignFacts,
    MemberProgress,
    MemberState,
    Seen,
    state_of,
)
from airflow_streaming.model.records.campaign import (
    ApproveWaves,
    BadSoak,
    Campaign,
    CampaignEvent,
    CampaignOutcome,
    CampaignStep,
    CampaignTerms,
    FleetChange,
)
from tests.unit.home.make import NOON

E, S = CampaignEvent, Seen
CAMPAIGN = Campaign(
    number=1,
    selector="team=payments",
    change=FleetChange(runtime="spark-4.4"),
    waves=(("a",), ("b", "c", "d")),
    by="ada",
    reason="why",
    at=NOON,
)
OPENED = [(E.WAVE_OPENED, 1, ())]
CANARY_KEPT = [
    *OPENED,
    (E.ADMITTED, 1, ("a",)),
    (E.GOOD, 0, ("a",)),
    (E.KEPT, 0, ("a",)),
    (E.WAVE_PASSED, 1, ()),
]
SECOND = [*CANARY_KEPT, (E.WAVE_OPENED, 2, ())]
TWO_BUSY = [*SECOND, (E.ADMITTED, 2, ("b", "c"))]
BY_WAVE = {"bad_soak": BadSoak.WAVE, "at_once": 2}


def steps_of(history: list[Any]) -> list[CampaignStep]:
    return [
        CampaignStep(
            campaign=1,
            number=number,
            event=event,
            wave=wave,
            streams=streams,
            reason="why",
            at=NOON,
            by="ada",
            facts={"outcome": "done"} if event is E.CLOSED else {},
        )
        for number, (event, wave, streams) in enumerate(history, 1)
    ]


def seen(name: Seen, *, applied: bool = True, person: bool = False) -> MemberProgress:
    return MemberProgress(seen=name, reason="told", is_applied=applied, needs_person=person)


def step(
    history: list[Any],
    looks: dict[str, MemberProgress] | None = None,
    *,
    now: datetime = NOON,
    campaign: Campaign = CAMPAIGN,
    troubles: dict[str, str] | None = None,
    blackout: str = "",
    room: int | None = None,
    **terms: Any,
) -> CampaignMove:
    campaign = replace(campaign, terms=CampaignTerms(**terms))
    state = state_of(campaign, steps_of(history))
    facts = CampaignFacts(
        now=now, progress=looks or {}, troubles=troubles or {}, blackout=blackout, room=room
    )
    return next_step(state, facts)


PAUSED = (E.PAUSED, 0, ())
ABORTED = (E.ABORTED, 0, ())
RUNNING, GOOD = seen(S.RUNNING), seen(S.GOOD)
UNTOUCHED = seen(S.RUNNING, applied=False)

MOVES = [
    ("a campaign begins with its canary", [], {}, {}, (E.WAVE_OPENED, ())),
    ("the canary is admitted", OPENED, {}, {}, (E.ADMITTED, ("a",))),
    (
        "a good soak is recorded before it is kept",
        [*OPENED, (E.ADMITTED, 1, ("a",))],
        {"a": GOOD},
        {},
        (E.GOOD, ("a",)),
    ),
    (
        "then it is kept",
        [*OPENED, (E.ADMITTED, 1, ("a",)), (E.GOOD, 0, ("a",))],
        {"a": GOOD},
        {},
        (Do.KEEP, ("a",)),
    ),
    ("a wave whose streams are kept has passed", CANARY_KEPT[:-1], {}, {}, (E.WAVE_PASSED, ())),
    ("the next wave opens", CANARY_KEPT, {}, {}, (E.WAVE_OPENED, ())),
    ("one at a time", SECOND, {}, {}, (E.ADMITTED, ("b",))),
    ("or more, if the limit allows", SECOND, {}, {"at_once": 2}, (E.ADMITTED, ("b", "c"))),
    ("the cluster has room for one", SECOND, {}, {"at_once": 3, "room": 1}, (E.ADMITTED, ("b",))),
    ("the cluster has no room", SECOND, {}, {"room": 0}, (Do.WAIT, ())),
    ("nobody is admitted in a blackout", SECOND, {}, {"blackout": "till six"}, (Do.WAIT, ())),
    ("no wave opens in a blackout", CANARY_KEPT, {}, {"blackout": "till six"}, (Do.WAIT, ())),
    ("a paused campaign opens no wave", [*CANARY_KEPT, PAUSED], {}, {}, (Do.ASK, ())),
    ("a paused campaign admits nobody", [*SECOND, PAUSED], {}, {}, (Do.ASK, ())),
    (
        "a paused campaign keeps what soaked well",
        [*TWO_BUSY, (E.GOOD, 0, ("b",)), PAUSED],
        {"b": GOOD, "c": RUNNING},
        {},
        (Do.KEEP, ("b",)),
    ),
    (
        "the limit is reached",
        TWO_BUSY,
        {"b": RUNNING, "c": RUNNING},
        {"at_once": 2},
        (Do.WAIT, ()),
    ),
    (
        "a bad stream is recorded before a good one",
        TWO_BUSY,
        {"b": GOOD, "c": seen(S.RETURNING)},
        {},
        (E.BAD, ("c",)),
    ),
    (
        "a stream that is back was bad",
        TWO_BUSY,
        {"b": RUNNING, "c": seen(S.ROLLED_BACK)},
        {},
        (E.BAD, ("c",)),
    ),
    (
        "a bad stream that cannot return stops the campaign, too",
        TWO_BUSY,
        {"b": RUNNING, "c": replace(seen(S.KEPT), is_bad=True)},
        {},
        (E.BAD, ("c",)),
    ),
    (
        "after a bad one nobody is admitted",
        [*TWO_BUSY, (E.BAD, 0, ("c",))],
        {"b": RUNNING, "c": seen(S.RETURNING)},
        {"at_once": 3},
        (Do.WAIT, ()),
    ),
    (
        "after a bad one an upgrade that changed nothing is given up",
        [*TWO_BUSY, (E.BAD, 0, ("c",))],
        {"b": UNTOUCHED, "c": seen(S.RETURNING)},
        {},
        (E.RETURNING, ("b",)),
    ),
    (
        "and one that was applied comes to its own verdict",
        [*TWO_BUSY, (E.BAD, 0, ("c",)), (E.GOOD, 0, ("b",))],
        {"b": GOOD, "c": seen(S.RETURNING)},
        {},
        (Do.KEEP, ("b",)),
    ),
    (
        "by wave, all of it returns",
        [*TWO_BUSY, (E.GOOD, 0, ("b",)), (E.BAD, 0, ("c",))],
        {"b": GOOD, "c": seen(S.RETURNING)},
        BY_WAVE,
        (E.RETURNING, ("b",)),
    ),
    (
        "no more at a time than the limit allows",
        [*TWO_BUSY, (E.ADMITTED, 2, ("d",)), (E.GOOD, 0, ("b", "d")), (E.BAD, 0, ("c",))],
        {"b": GOOD, "c": seen(S.RETURNING), "d": GOOD},
        BY_WAVE,
        (E.RETURNING, ("b",)),
    ),
    (
        "the command follows its record",
        [
            *TWO_BUSY,
            (E.ADMITTED, 2, ("d",)),
            (E.GOOD, 0, ("b", "d")),
            (E.BAD, 0, ("c",)),
            (E.RETURNING, 0, ("b",)),
        ],
        {"b": GOOD, "c": seen(S.RETURNING), "d": GOOD},
        BY_WAVE,
        (Do.ROLL_BACK, ("b",)),
    ),
    (
        "and a stream on its way back counts",
        [
            *TWO_BUSY,
            (E.ADMITTED, 2, ("d",)),
            (E.GOOD, 0, ("b", "d")),
            (E.BAD, 0, ("c",)),
            (E.RETURNING, 0, ("b",)),
        ],
        {"b": seen(S.RETURNING), "c": seen(S.RETURNING), "d": GOOD},
        BY_WAVE,
        (Do.WAIT, ()),
    ),
    (
        "by wave, a good stream waits for the others",
        [*TWO_BUSY, (E.GOOD, 0, ("b",))],
        {"b": GOOD, "c": RUNNING},
        BY_WAVE,
        (E.ADMITTED, ("d",)),
    ),
    (
        "by wave, a wave of good streams has passed",
        [*TWO_BUSY, (E.ADMITTED, 2, ("d",)), (E.GOOD, 0, ("b", "c", "d"))],
        {"b": GOOD, "c": GOOD, "d": GOOD},
        BY_WAVE,
        (E.WAVE_PASSED, ()),
    ),
    (
        "by wave, they are kept then",
        [
            *TWO_BUSY,
            (E.ADMITTED, 2, ("d",)),
            (E.GOOD, 0, ("b", "c", "d")),
            (E.WAVE_PASSED, 2, ()),
        ],
        {"b": GOOD, "c": GOOD, "d": GOOD},
        BY_WAVE,
        (Do.KEEP, ("b", "c", "d")),
    ),
    (
        "the rest returns before the campaign closes",
        [*TWO_BUSY, (E.BAD, 0, ("c",)), (E.KEPT, 0, ("b",))],
        {"c": seen(S.RETURNING)},
        {},
        (Do.WAIT, ()),
    ),
    (
        "a return is recorded",
        [*TWO_BUSY, (E.BAD, 0, ("c",)), (E.KEPT, 0, ("b",))],
        {"c": seen(S.ROLLED_BACK)},
        {},
        (E.ROLLED_BACK, ("c",)),
    ),
    (
        "then the campaign closes",
        [*TWO_BUSY, (E.BAD, 0, ("c",)), (E.KEPT, 0, ("b",)), (E.ROLLED_BACK, 0, ("c",))],
        {},
        {},
        (E.CLOSED, ()),
    ),
    (
        "an abort puts back all that is not kept",
        [*TWO_BUSY, (E.GOOD, 0, ("b",)), ABORTED],
        {"b": GOOD, "c": RUNNING},
        {"at_once": 2},
        (E.RETURNING, ("c", "b")),
    ),
    (
        "a stream that could not be looked at is not put back blindly",
        [*TWO_BUSY, ABORTED],
        {"c": RUNNING},
        {},
        (E.RETURNING, ("c",)),
    ),
    ("an abort before all closes at once", [ABORTED], {}, {}, (E.CLOSED, ())),
    (
        "a stream that was taken out before its upgrade is passed over",
        [*SECOND, (E.TAKEN_OUT, 0, ("b",))],
        {},
        {},
        (E.ADMITTED, ("c",)),
    ),
    (
        "a bad stream that was taken out stops nothing",
        [*TWO_BUSY, (E.TAKEN_OUT, 0, ("c",))],
        {"b": RUNNING, "c": seen(S.ROLLED_BACK)},
        {},
        (E.ROLLED_BACK, ("c",)),
    ),
    (
        "a refused stream is passed over",
        TWO_BUSY,
        {"b": seen(S.REFUSED), "c": RUNNING},
        {},
        (E.REFUSED, ("b",)),
    ),
    (
        "a canary that was refused proves nothing",
        [*OPENED, (E.ADMITTED, 1, ("a",)), (E.REFUSED, 0, ("a",)), (E.WAVE_PASSED, 1, ())],
        {},
        {},
        (Do.ASK, ()),
    ),
    (
        "unless a user approves",
        [
            *OPENED,
            (E.ADMITTED, 1, ("a",)),
            (E.REFUSED, 0, ("a",)),
            (E.WAVE_PASSED, 1, ()),
            (E.APPROVED, 2, ()),
        ],
        {},
        {},
        (E.WAVE_OPENED, ()),
    ),
    (
        "the wave after the canary waits for its approval",
        CANARY_KEPT,
        {},
        {"approve": ApproveWaves.SECOND},
        (Do.ASK, ()),
    ),
    (
        "an approved wave opens",
        [*CANARY_KEPT, (E.APPROVED, 2, ())],
        {},
        {"approve": ApproveWaves.EACH},
        (E.WAVE_OPENED, ()),
    ),
    (
        "a wave soaks",
        CANARY_KEPT[:-1],
        {},
        {"wave_soak": timedelta(hours=1), "now": NOON + timedelta(minutes=59)},
        (Do.WAIT, ()),
    ),
    (
        "for its whole time",
        CANARY_KEPT[:-1],
        {},
        {"wave_soak": timedelta(hours=1), "now": NOON + timedelta(hours=1)},
        (E.WAVE_PASSED, ()),
    ),
    (
        "a kept stream that gets sick while its wave soaks stops the campaign",
        CANARY_KEPT[:-1],
        {},
        {"wave_soak": timedelta(hours=1), "troubles": {"a": "Its circuit is open."}},
        (E.BAD, ("a",)),
    ),
    (
        "an upgrade that asks for a user",
        TWO_BUSY,
        {"b": RUNNING, "c": seen(S.RUNNING, person=True)},
        {"at_once": 2},
        (Do.ASK, ()),
    ),
    (
        "all waves have passed",
        [*SECOND, (E.KEPT, 0, ("b", "c", "d")), (E.WAVE_PASSED, 2, ())],
        {},
        {},
        (E.CLOSED, ()),
    ),
    ("a closed campaign does nothing", [ABORTED, (E.CLOSED, 0, ())], {}, {}, (Do.NOTHING, ())),
]


@pytest.mark.parametrize(
    ("history", "looks", "more", "wanted"),
    [pytest.param(*row[1:], id=row[0]) for row in MOVES],
)
def test_the_next_move(history: Any, looks: Any, more: Any, wanted: Any) -> None:
    move = step(history, looks, **more)

    assert (move.event or move.do, move.streams) == wanted
    assert move.reason


def test_a_stream_waits_for_those_whose_output_it_reads() -> None:
    chain = replace(CAMPAIGN, follows={"c": ("b",), "d": ("c",)})

    assert step(SECOND, campaign=chain, at_once=3).streams == ("b",)
    kept = [*SECOND, (E.ADMITTED, 2, ("b",)), (E.KEPT, 0, ("b",))]
    assert step(kept, campaign=chain, at_once=3).streams == ("c",)


def test_streams_that_feed_each_other_do_not_wait_forever() -> None:
    circle = replace(CAMPAIGN, follows={"b": ("c",), "c": ("b",), "d": ("b",)})

    assert step(SECOND, campaign=circle, at_once=3).streams == ("b",)


@pytest.mark.parametrize("event", CampaignEvent)
def test_each_event_is_folded(event: CampaignEvent) -> None:
    before = state_of(CAMPAIGN, [])
    after = state_of(CAMPAIGN, steps_of([(event, 1, ("a",))]))

    assert before != after or event in (E.RESUMED, E.KEPT)


def test_a_stopped_campaign_says_so() -> None:
    history = [*TWO_BUSY, (E.BAD, 0, ("c",)), (E.KEPT, 0, ("b",)), (E.ROLLED_BACK, 0, ("c",))]

    assert step(history).facts == {"outcome": CampaignOutcome.STOPPED}
    assert step([*history, ABORTED]).facts == {"outcome": CampaignOutcome.ABORTED}


def test_a_campaign_that_was_closed_reserves_nothing() -> None:
    opened = state_of(CAMPAIGN, steps_of([*TWO_BUSY, (E.TAKEN_OUT, 0, ("c", "d"))]))

    assert opened.members["d"] is MemberState.OUT
    assert opened.reserved == {"a", "b", "c"}
    closed = state_of(CAMPAIGN, steps_of([ABORTED, (E.CLOSED, 0, ())]))
    assert not closed.reserved
