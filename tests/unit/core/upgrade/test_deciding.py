"""Whatever the records of an upgrade say, there is one next act, and none that does harm."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.epoch import LaunchCause
from airflow_streaming.core.observation import ProcessState
from airflow_streaming.core.upgrade.deciding import next_act
from airflow_streaming.core.upgrade.soak import SoakResult
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.state import Act, UpgradeState
from airflow_streaming.core.upgrade.terms import RollbackWay
from tests.unit.core.builders import (
    NOW,
    a_circuit,
    a_death,
    a_stop,
    an_epoch,
    an_exit,
    minutes,
    observed,
)

GONE, UNSEEN = ProcessState.GONE, ProcessState.UNSEEN
OLD, NEW, BACK = 3, 4, 5
from tests.unit.core.upgrade.upgrade_states import (
    APPLYING,
    BEFORE,
    BEHIND_FENCE,
    DEPLOYED,
    DIED,
    DOWN,
    ENDED,
    FACTS,
    FENCE,
    FENCED_AGAIN,
    JUDGED,
    LAUNCHED,
    LOST,
    OLD_RUNS,
    OTHER,
    OURS,
    OVERDUE,
    RESTORED,
    ROLLING,
    RUNS,
    STOPPED,
    UNBORN,
    UNFINISHED,
    an_upgrade,
    deployed,
    driver,
    fence,
    soak,
)

TABLE: Final[dict[str, tuple[UpgradeState, Act]]] = {
    # Before the new deployment.
    "first a backup": (an_upgrade(Stage.BEGUN), Act.BACK_UP),
    "also of a stream that is down": (an_upgrade(Stage.BEGUN, situation=ENDED), Act.BACK_UP),
    "a person's stop ends it": (an_upgrade(Stage.BEGUN, situation=STOPPED), Act.ABORT),
    "another deployment ends it": (
        an_upgrade(Stage.BEGUN, situation={"deployment": OTHER}),
        Act.ABORT,
    ),
    "then the driver is asked to stop": (an_upgrade(*BEFORE), Act.STOP),
    "unless it is wanted stopped": (an_upgrade(*BEFORE, situation=STOPPED), Act.ABORT),
    "it has its grace": (an_upgrade(*BEFORE, situation={"stop": OURS}), Act.WAIT),
    "and is killed after it": (an_upgrade(*BEFORE, situation=OVERDUE), Act.KILL),
    "a hung one is killed": (
        an_upgrade(*BEFORE, situation={"seen": observed(silent_for=minutes(1))}),
        Act.KILL,
    ),
    "one on a host out of sight needs a person": (
        an_upgrade(*BEFORE, situation={"seen": LOST}),
        Act.ASK,
    ),
    "one that failed by itself is fenced": (
        an_upgrade(*BEFORE, situation={"seen": observed(GONE, exit=an_exit())}),
        Act.FENCE,
    ),
    "one that has stopped is fenced": (an_upgrade(*BEFORE, situation=ENDED), Act.FENCE),
    "a fence whose maker died is finished": (
        an_upgrade(*BEFORE, situation=UNFINISHED),
        Act.FENCE,
    ),
    "a fence of another change is none": (
        an_upgrade(
            *BEFORE,
            situation={
                "seen": observed(
                    GONE,
                    epoch=an_epoch(number=FENCE, cause=LaunchCause.FENCE, change=1),
                    launch=None,
                    status=None,
                    death=a_death(epoch=FENCE),
                ),
                "stop": a_stop(epoch=FENCE),
            },
        ),
        Act.FENCE,
    ),
    "behind the fence what it left is backed up": (
        an_upgrade(*BEFORE, situation=fence()),
        Act.BACK_UP_AGAIN,
    ),
    "then it is decided": (an_upgrade(*DOWN, situation=fence()), Act.APPLY),
    "not when it is wanted stopped now": (
        an_upgrade(*DOWN, situation={**fence(), **STOPPED}),
        Act.ABORT,
    ),
    "nor when somebody has started a driver": (
        an_upgrade(*DOWN, situation={"seen": observed(epoch=an_epoch(number=FENCE + 1))}),
        Act.ABORT,
    ),
    # The new deployment.
    "it is deployed": (an_upgrade(*APPLYING, situation=fence()), Act.DEPLOY),
    "also when whoever did so died": (
        an_upgrade(*APPLYING, situation=BEHIND_FENCE),
        Act.DEPLOY,
    ),
    "not in the place of another one": (
        an_upgrade(*APPLYING, situation={**fence(), "deployment": OTHER}),
        Act.ROLL_BACK,
    ),
    "a person's stop takes it back": (
        an_upgrade(*APPLYING, situation={**fence(), **STOPPED}),
        Act.ROLL_BACK,
    ),
    "it is launched": (an_upgrade(*DEPLOYED, situation=BEHIND_FENCE), Act.LAUNCH),
    "not behind the fence of the way back": (
        an_upgrade(*DEPLOYED, situation=FENCED_AGAIN),
        Act.ROLL_BACK,
    ),
    "its epoch is recorded": (an_upgrade(*DEPLOYED, situation=RUNS), Act.RECORD_LAUNCH),
    "also when it died at once": (an_upgrade(*DEPLOYED, situation=DIED), Act.RECORD_LAUNCH),
    "also before a person's stop is heeded": (
        an_upgrade(*DEPLOYED, situation={**RUNS, **STOPPED}),
        Act.RECORD_LAUNCH,
    ),
    "what the home does not list yet is waited for": (
        an_upgrade(*DEPLOYED, situation=fence()),
        Act.WAIT,
    ),
    "a driver on its way is waited for": (
        an_upgrade(
            *DEPLOYED,
            situation={
                "deployment": deployed(NEW),
                "seen": observed(
                    GONE,
                    epoch=an_epoch(
                        number=FENCE + 1, change=2, cause=LaunchCause.UPGRADE, created_at=NOW
                    ),
                    launch=None,
                    status=None,
                ),
            },
        ),
        Act.WAIT,
    ),
    "a driver that never was is launched anew": (
        an_upgrade(
            *DEPLOYED,
            situation={
                "deployment": deployed(NEW),
                "seen": driver(FENCE + 1, NEW, LaunchCause.UPGRADE, **UNBORN),
            },
        ),
        Act.LAUNCH,
    ),
    "a launcher out of sight is a person's": (
        an_upgrade(
            *DEPLOYED,
            situation={
                "deployment": deployed(NEW),
                "seen": driver(
                    FENCE + 1,
                    NEW,
                    LaunchCause.UPGRADE,
                    launch=None,
                    status=None,
                    process=UNSEEN,
                    silent_for=minutes(11),
                ),
            },
        ),
        Act.ASK,
    ),
    # The soak.
    "it soaks": (an_upgrade(*LAUNCHED, situation=RUNS, **soak(SoakResult.UNDECIDED)), Act.WAIT),
    "a good soak is recorded": (
        an_upgrade(*LAUNCHED, situation=RUNS, **soak(SoakResult.GOOD)),
        Act.JUDGE,
    ),
    "a bad one too": (an_upgrade(*LAUNCHED, situation=DIED, **soak(SoakResult.BAD)), Act.JUDGE),
    "a soaking stream that is wanted stopped is taken back": (
        an_upgrade(*LAUNCHED, situation={**RUNS, **STOPPED}, **soak(SoakResult.UNDECIDED)),
        Act.ROLL_BACK,
    ),
    "but not without a way back": (
        an_upgrade(
            *LAUNCHED,
            way=RollbackWay.NONE,
            situation={**RUNS, **STOPPED},
            **soak(SoakResult.UNDECIDED),
        ),
        Act.WAIT,
    ),
    "a good one is kept": (an_upgrade(*JUDGED, situation=RUNS), Act.KEEP),
    "or a person is asked": (
        an_upgrade(*JUDGED, situation=RUNS, keeps_by_itself=False),
        Act.ASK,
    ),
    "one that died since is taken back": (an_upgrade(*JUDGED, situation=DIED), Act.ROLL_BACK),
    "a bad one is taken back": (
        an_upgrade(*JUDGED, situation=RUNS, verdict="bad"),
        Act.ROLL_BACK,
    ),
    "without a way back the checkpoint is asked": (
        an_upgrade(
            *JUDGED, situation=DIED, verdict="bad", way=RollbackWay.NONE, has_committed=True
        ),
        Act.KEEP,
    ),
    "without a way back it stays": (
        an_upgrade(*JUDGED, situation=RUNS, verdict="bad", way=RollbackWay.NONE),
        Act.KEEP,
    ),
    # The way back.
    "its driver is asked to stop": (an_upgrade(*ROLLING, situation=RUNS), Act.STOP),
    "and fenced when it is gone": (an_upgrade(*ROLLING, situation=DIED), Act.FENCE),
    "the first fence is not enough": (
        an_upgrade(*DEPLOYED, Stage.ROLLING_BACK, situation=BEHIND_FENCE),
        Act.FENCE,
    ),
    "what was never made is made first": (
        an_upgrade(*APPLYING, Stage.ROLLING_BACK, situation=fence(FENCE + 1)),
        Act.DEPLOY,
    ),
    "then all is put back": (an_upgrade(*ROLLING, situation=FENCED_AGAIN), Act.RESTORE),
    "what must not go back is a person's": (
        an_upgrade(*ROLLING, way=RollbackWay.NONE, has_committed=True, situation=FENCED_AGAIN),
        Act.ASK,
    ),
    "until he leaves it": (
        an_upgrade(
            *ROLLING,
            Stage.LEFT,
            way=RollbackWay.NONE,
            has_committed=True,
            situation={**FENCED_AGAIN, **STOPPED},
        ),
        Act.RESTORE,
    ),
    "what is left is fenced first": (
        an_upgrade(*ROLLING, Stage.LEFT, situation={**DIED, **STOPPED}),
        Act.FENCE,
    ),
    "the old one is deployed": (an_upgrade(*RESTORED, situation=FENCED_AGAIN), Act.DEPLOY_OLD),
    "and launched": (
        an_upgrade(*RESTORED, situation={**fence(FENCE + 2, NEW), "deployment": deployed(BACK)}),
        Act.LAUNCH_OLD,
    ),
    "unless it is wanted stopped then": (
        an_upgrade(
            *RESTORED,
            situation={**fence(FENCE + 2, NEW), "deployment": deployed(BACK), **STOPPED},
        ),
        Act.SETTLE,
    ),
    "it is back": (an_upgrade(*RESTORED, situation=OLD_RUNS), Act.SETTLE),
    "somebody else's deployment is left as it is": (
        an_upgrade(*ROLLING, situation={**RUNS, "deployment": OTHER}),
        Act.SETTLE,
    ),
    # The ends.
    "what is kept ends": (an_upgrade(*JUDGED, Stage.KEPT, situation=RUNS), Act.END),
    "also when its driver has died": (an_upgrade(*JUDGED, Stage.KEPT, situation=DIED), Act.END),
    "what is back ends": (
        an_upgrade(*RESTORED, Stage.ROLLED_BACK, situation=OLD_RUNS),
        Act.END,
    ),
    "given up while it runs": (an_upgrade(*BEFORE, Stage.ABORTED), Act.END),
    "given up while it stops": (
        an_upgrade(*BEFORE, Stage.ABORTED, situation={"stop": OURS}),
        Act.WAIT,
    ),
    "given up while somebody else stops it": (
        an_upgrade(*BEFORE, Stage.ABORTED, situation={"stop": a_stop()}),
        Act.END,
    ),
    "given up behind the fence": (
        an_upgrade(*DOWN, Stage.ABORTED, situation=fence()),
        Act.LAUNCH_OLD,
    ),
    "not when its circuit was open before": (
        an_upgrade(*DOWN, Stage.ABORTED, situation={**fence(), "circuit": a_circuit(epoch=FENCE)}),
        Act.END,
    ),
    "nor when it is wanted stopped": (
        an_upgrade(*DOWN, Stage.ABORTED, situation={**fence(), **STOPPED}),
        Act.END,
    ),
    "given up and back": (
        an_upgrade(
            *DOWN,
            Stage.ABORTED,
            situation={"seen": driver(FENCE + 1, OLD, LaunchCause.ROLLBACK)},
        ),
        Act.END,
    ),
    "nothing comes after the end": (
        an_upgrade(*JUDGED, Stage.KEPT, situation=RUNS, is_closed=True),
        Act.NOTHING,
    ),
}


@pytest.mark.parametrize(("state", "act"), TABLE.values(), ids=TABLE.keys())
def test_every_state_has_its_act(state: UpgradeState, act: Act) -> None:
    found = next_act(state)
    assert (found.act, bool(found.reason)) == (act, True)


WAYS: Final = (
    (Stage.BEGUN,),
    BEFORE,
    DOWN,
    APPLYING,
    DEPLOYED,
    LAUNCHED,
    JUDGED,
    ROLLING,
    (*ROLLING, Stage.LEFT),
    RESTORED,
    (*DOWN, Stage.ABORTED),
    (*JUDGED, Stage.KEPT),
    (*RESTORED, Stage.ROLLED_BACK),
)
SIGHTS: Final = tuple(
    {**seen, **wish, **made}
    for seen, wish, made in product(
        (
            {},
            ENDED,
            {"seen": LOST},
            fence(),
            fence(FENCE + 2, NEW),
            UNFINISHED,
            {"seen": RUNS["seen"]},
            {"seen": DIED["seen"]},
            {"seen": OLD_RUNS["seen"]},
            {"seen": None},
        ),
        ({}, STOPPED),
        ({}, {"deployment": deployed(NEW)}, {"deployment": OTHER}, {"deployment": deployed(BACK)}),
    )
)
STARTS: Final = frozenset({Act.LAUNCH, Act.LAUNCH_OLD})


@pytest.mark.parametrize("stages", WAYS, ids=[way[-1].value for way in WAYS])
def test_whatever_is_seen_no_driver_is_started_beside_another_or_against_a_wish(
    stages: tuple[Stage, ...],
) -> None:
    for sight in SIGHTS:
        state = an_upgrade(*stages, situation=sight, **soak(SoakResult.UNDECIDED))
        found, seen = next_act(state), state.situation.seen
        if found.act in STARTS:
            assert seen is None or seen.is_dead, (sight, found)
            assert state.situation.desired is DesiredState.RUNNING
        if found.act is Act.RESTORE:
            assert state.is_fenced
            assert state.epoch is not None
            assert state.epoch.number > FENCE
        if found.act is Act.BACK_UP_AGAIN:
            assert state.is_fenced


def test_an_upgrade_says_since_when_it_stands_and_what_is_known() -> None:
    state = an_upgrade(*JUDGED)
    assert (state.stage, state.since) == (Stage.JUDGED, NOW)
    assert state.facts == {**FACTS[Stage.STOPPED], "epoch": str(FENCE + 1), "verdict": "good"}
    assert an_upgrade(Stage.BEGUN).since == state.change.at
