"""
What is told, and what is not told again.

The table comes first: a story in looks (the epoch, the verdict, what the rules say) and what each
look tells. Below it are laws over random histories.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.model.health_rules import RuleState
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.records.alert import FLAPPING, Alert, AlertKind, is_told
from airflow_streaming.supervision.alerts.alerting import (
    MOST_OPEN,
    gave_up,
    open_incidents,
    restart_failed,
    restarted,
)
from tests.unit.supervision.builders import NOW, a_give_up, a_restart, minutes
from tests.unit.supervision.telling import (
    BEHIND,
    CLEAR,
    FIRES,
    OVER,
    PENDING,
    UNKNOWN,
    Look,
    shown,
    told_at,
)

LATER: Final = FLAPPING + minutes(1)

STORIES: Final = {
    "all is well": [Look(), Look(state=VerdictState.IDLE)],
    "a rule fires and clears": [FIRES, OVER],
    "what goes on is told once": [FIRES, replace(FIRES, tells=()), replace(FIRES, tells=())],
    "what is over is told once": [FIRES, OVER, replace(OVER, tells=())],
    "what never fired is not told to be over": [replace(OVER, tells=())],
    "a rule that only threatens is not told": [Look(rules=((BEHIND, PENDING),))],
    "unknown is not clear": [FIRES, Look(rules=((BEHIND, UNKNOWN),)), OVER],
    "pending is not clear": [FIRES, Look(rules=((BEHIND, PENDING),)), OVER],
    "rules that were not asked are not clear": [FIRES, Look(), OVER],
    "two rules are two incidents": [
        FIRES,
        Look(fires=(BEHIND, "backlog/revenue"), tells=("unhealthy backlog/revenue",)),
        Look(
            fires=("backlog/revenue",),
            rules=((BEHIND, CLEAR),),
            tells=(f"recovered {BEHIND}",),
        ),
    ],
    "two queries are two incidents": [
        FIRES,
        Look(fires=(BEHIND, "falling_behind/audit"), tells=("unhealthy falling_behind/audit",)),
    ],
    "two sources are two incidents": [
        Look(fires=("backlog/revenue/a",), tells=("unhealthy backlog/revenue/a",)),
        Look(
            fires=("backlog/revenue/b",),
            rules=(("backlog/revenue/a", CLEAR),),
            tells=("recovered backlog/revenue/a", "unhealthy backlog/revenue/b"),
        ),
    ],
    "one key that fires twice in one verdict is told once": [
        Look(fires=(BEHIND, BEHIND), tells=(f"unhealthy {BEHIND}",)),
    ],
    "flapping within an hour is one incident": [
        FIRES,
        OVER,
        replace(FIRES, tells=(), after=minutes(10)),
        replace(OVER, tells=()),
        replace(FIRES, tells=(), after=minutes(10)),
    ],
    "what still fires an hour after it recovered is told": [
        FIRES,
        OVER,
        replace(FIRES, tells=(), after=minutes(50)),
        replace(FIRES, after=minutes(11)),
        OVER,
    ],
    "what fires again later is told": [FIRES, OVER, replace(FIRES, after=LATER)],
    "what fires again in a new epoch is told": [FIRES, OVER, replace(FIRES, epoch=18)],
    "a new epoch alone is no new incident": [
        FIRES,
        Look(epoch=18, state=VerdictState.STARTING, rules=((BEHIND, UNKNOWN),)),
        replace(FIRES, epoch=18, tells=()),
        replace(OVER, epoch=18),
    ],
    "a clear rule says nothing while the driver is starting": [
        FIRES,
        replace(OVER, epoch=18, state=VerdictState.STARTING, tells=()),
        replace(OVER, epoch=18),
    ],
    "a clear rule says nothing while the driver is silent": [
        FIRES,
        Look(
            state=VerdictState.SLOW,
            fires=("slow",),
            query="",
            rules=((BEHIND, CLEAR),),
            tells=("unhealthy slow",),
        ),
        replace(OVER, tells=(f"recovered {BEHIND}", "recovered slow")),
    ],
    "a driver that is gone recovers nothing": [
        FIRES,
        *(
            replace(OVER, state=state, tells=())
            for state in (
                VerdictState.DEAD,
                VerdictState.FAILED,
                VerdictState.STOPPED,
                VerdictState.COMPLETED,
                VerdictState.STOPPING,
            )
        ),
    ],
    **{
        f"{rule} is over when the driver is seen at work": [
            Look(state=state, fires=(rule,), query="", tells=(f"unhealthy {rule}",)),
            Look(state=VerdictState.STARTING, epoch=18),
            Look(epoch=18, tells=(f"recovered {rule}",)),
        ]
        for rule, state in (
            ("hung", VerdictState.HUNG),
            ("unreachable", VerdictState.UNREACHABLE),
            ("slow", VerdictState.SLOW),
        )
    },
    "a hung driver that is only slow is not back": [
        Look(state=VerdictState.HUNG, fires=("hung",), query="", tells=("unhealthy hung",)),
        Look(state=VerdictState.SLOW, fires=("slow",), query="", tells=("unhealthy slow",)),
        Look(tells=("recovered hung", "recovered slow")),
    ],
    "a stalled query moves on": [
        Look(
            state=VerdictState.STALLED,
            fires=("stalled/revenue",),
            tells=("unhealthy stalled/revenue",),
        ),
        Look(tells=("recovered stalled/revenue",)),
    ],
    "slow that becomes stalled is not over": [
        Look(state=VerdictState.SLOW, fires=("slow/revenue",), tells=("unhealthy slow/revenue",)),
        Look(
            state=VerdictState.STALLED,
            fires=("stalled/revenue",),
            tells=("unhealthy stalled/revenue",),
        ),
        Look(tells=("recovered slow/revenue", "recovered stalled/revenue")),
    ],
    "stalled that becomes slow is better": [
        Look(
            state=VerdictState.STALLED,
            fires=("stalled/revenue",),
            tells=("unhealthy stalled/revenue",),
        ),
        Look(
            state=VerdictState.SLOW,
            fires=("slow/revenue",),
            tells=("recovered stalled/revenue", "unhealthy slow/revenue"),
        ),
    ],
    "a query that ended is over when it runs again": [
        Look(fires=("query_failed/audit",), tells=("unhealthy query_failed/audit",)),
        Look(epoch=18, tells=("recovered query_failed/audit",)),
    ],
    "a built-in incident ends although another rule fires": [
        Look(
            state=VerdictState.STALLED,
            fires=("stalled/revenue",),
            tells=("unhealthy stalled/revenue",),
        ),
        replace(FIRES, tells=("recovered stalled/revenue", f"unhealthy {BEHIND}")),
    ],
    "an incident of a query that is no longer there ends": [
        FIRES,
        Look(
            epoch=18,
            rules=(("falling_behind/audit", CLEAR),),
            tells=(f"recovered {BEHIND}",),
        ),
    ],
    "an incident of a rule that was taken out ends": [
        FIRES,
        Look(epoch=18, rules=(("backlog/revenue", UNKNOWN),), tells=(f"recovered {BEHIND}",)),
    ],
    "a source that has not been named yet may come back": [
        Look(fires=("backlog/revenue/a",), tells=("unhealthy backlog/revenue/a",)),
        Look(epoch=18, rules=(("backlog/revenue", UNKNOWN),)),
    ],
}


@pytest.mark.parametrize("looks", STORIES.values(), ids=STORIES.keys())
def test_an_incident_is_told_once_and_its_end_is_told_once(looks: list[Look]) -> None:
    now, log = NOW, list[Alert]()

    for number, look in enumerate(looks):
        now += look.after
        alerts = told_at(look, log, now)
        assert [shown(alert) for alert in alerts] == list(look.tells), f"look {number}"
        log.extend(alerts)


RESTARTED: Final = restarted(stream="orders", decision=a_restart(), now=NOW)
GAVE_UP: Final = gave_up(stream="orders", decision=a_give_up(), now=NOW)
NOT_STARTED: Final = restart_failed(stream="orders", epoch=18, error="no such jar", now=NOW)
BACK: Final = ("recovered restart",)


@pytest.mark.parametrize("told", [RESTARTED, GAVE_UP], ids=["restarted", "given up"])
@pytest.mark.parametrize(
    ("look", "tells"),
    [
        pytest.param(Look(epoch=18), BACK, id="the next epoch is well and has committed"),
        pytest.param(Look(epoch=18, state=VerdictState.IDLE), BACK, id="it has, and is idle now"),
        pytest.param(Look(epoch=19), BACK, id="a later epoch is well"),
        pytest.param(Look(epoch=18, batches=0), (), id="it has committed nothing yet"),
        pytest.param(Look(epoch=18, state=VerdictState.STARTING), (), id="it is starting"),
        pytest.param(Look(epoch=18, state=VerdictState.SLOW), (), id="it is slow"),
        pytest.param(Look(epoch=18, state=VerdictState.DEAD), (), id="it is dead as well"),
        pytest.param(Look(epoch=17), (), id="it is still the epoch that failed"),
    ],
)
def test_a_failure_is_over_when_a_later_epoch_is_well_and_has_committed_a_batch(
    told: Alert, look: Look, tells: tuple[str, ...]
) -> None:
    assert tuple(shown(alert) for alert in told_at(look, [told], NOW)) == tells


def test_what_was_told_of_a_restart_is_over_only_after_the_last_failure() -> None:
    log = [RESTARTED, replace(RESTARTED, epoch=18)]

    assert told_at(Look(epoch=18), log, NOW) == ()
    assert [shown(alert) for alert in told_at(Look(epoch=19), log, NOW)] == ["recovered restart"]


RECOVERED: Final = replace(RESTARTED, alert=AlertKind.RECOVERED, epoch=18)


@pytest.mark.parametrize(
    ("alert", "log", "told"),
    [
        (RESTARTED, [], False),
        (RESTARTED, [RESTARTED], True),
        (replace(RESTARTED, epoch=18), [RESTARTED], False),
        (GAVE_UP, [RESTARTED], False),
        (GAVE_UP, [GAVE_UP], True),
        (NOT_STARTED, [RESTARTED], False),
        (NOT_STARTED, [NOT_STARTED], True),
        (replace(RESTARTED, epoch=18), [NOT_STARTED], False),
        (RECOVERED, [], True),
        (RECOVERED, [RESTARTED], False),
        (RECOVERED, [RESTARTED, RECOVERED], True),
        (RECOVERED, [RESTARTED, replace(RESTARTED, epoch=18)], True),
    ],
    ids=[
        "a first restart",
        "the same restart, by another task",
        "the restart after the next failure",
        "giving up after restarts",
        "giving up, by another task",
        "a failed launch within an incident",
        "the same failed launch",
        "the decision about the epoch whose launch failed",
        "recovery from nothing",
        "recovery",
        "recovery, by another task",
        "recovery of an epoch that has failed since",
    ],
)
def test_every_restart_is_told_once(alert: Alert, log: list[Alert], told: bool) -> None:
    assert is_told(alert, log) is told


@pytest.mark.parametrize("by", [timedelta(days=400), -timedelta(days=400)], ids=["on", "back"])
def test_a_clock_that_is_far_off_silences_no_incident(by: timedelta) -> None:
    log = [*told_at(FIRES, [], NOW + by)]
    log += told_at(OVER, log, NOW + by)

    assert [shown(alert) for alert in told_at(FIRES, log, NOW)] == [f"unhealthy {BEHIND}"]


KEYS: Final = (BEHIND, "backlog/revenue/a", "stalled/revenue", "slow/revenue", "hung")


@st.composite
def looks(draw: st.DrawFn) -> Look:
    return Look(
        epoch=0,
        state=draw(st.sampled_from([None, *VerdictState])),
        fires=tuple(draw(st.lists(st.sampled_from(KEYS), max_size=3))),
        rules=tuple(
            draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(RuleState))).items()
        ),
        batches=draw(st.integers(0, 1)),
        after=minutes(draw(st.integers(-10, 90))),
        query=draw(st.sampled_from(["", "revenue"])),
    )


EVENTS: Final = st.one_of(looks(), st.sampled_from([RESTARTED, GAVE_UP, NOT_STARTED]))


def play(history: list[Look | Alert]) -> list[Alert]:
    """Let two tasks look at once, over and over; each records what it holds to be untold."""
    now, epoch, log = NOW, 17, list[Alert]()
    for event in history:
        if isinstance(event, Alert):
            proposed = [replace(event, epoch=epoch)] * 2
            epoch += 1
        else:
            now += event.after
            look = replace(event, epoch=epoch)
            proposed = [*told_at(look, log, now), *told_at(look, log, now)]
        for alert in proposed:
            if not is_told(alert, log):
                log.append(replace(alert, number=len(log) + 1))
    return log


@settings(max_examples=120)
@given(st.lists(EVENTS, max_size=40))
def test_incidents_begin_and_end_in_turn_whatever_happens(history: list[Look | Alert]) -> None:
    is_open: dict[str, bool] = {}
    for alert in play(history):
        if alert.alert is AlertKind.RECOVERED:
            assert is_open.get(alert.key), "Recovered without an open incident."
        elif alert.alert is AlertKind.UNHEALTHY:
            assert not is_open.get(alert.key), "Told twice without a recovery between."
        is_open[alert.key] = alert.alert is not AlertKind.RECOVERED


@given(st.lists(EVENTS, max_size=40))
def test_open_incidents_are_those_that_were_told_and_have_not_ended(
    history: list[Look | Alert],
) -> None:
    log = play(history)

    last = {alert.key: alert for alert in log}
    expected = [a for a in last.values() if a.alert is not AlertKind.RECOVERED]
    assert sorted(open_incidents(log), key=lambda a: a.number) == sorted(
        expected, key=lambda a: a.number
    )


@given(st.lists(looks(), min_size=1, max_size=40))
def test_within_an_hour_and_an_epoch_no_key_is_told_twice(history: list[Look]) -> None:
    soon = [replace(look, after=timedelta(seconds=20)) for look in history]

    told = Counter(a.key for a in play([*soon]) if a.alert is AlertKind.UNHEALTHY)

    assert not told or max(told.values()) == 1


def test_when_everything_is_on_fire_no_more_than_fifty_incidents_are_opened() -> None:
    look = Look(fires=tuple(f"rule-{n}/revenue" for n in range(120)))

    first = told_at(look, [], NOW)

    assert len(first) == MOST_OPEN
    assert told_at(look, first, NOW + minutes(1)) == ()
