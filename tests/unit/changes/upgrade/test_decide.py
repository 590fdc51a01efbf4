"""Whatever the records of an upgrade say, there is one next act, and none that does harm."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from airflow_streaming.changes.judging.soak import SoakResult
from airflow_streaming.changes.upgrade.decide import next_move
from airflow_streaming.changes.upgrade.state import Do, UpgradeView
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.records.upgrade import RollbackMethod
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage
from airflow_streaming.model.records.upgrade_table import UpgradeEvent as E
from tests.unit.supervision.builders import (
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
from tests.unit.changes.upgrade.upgrade_states import (
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

TABLE: Final[dict[str, tuple[UpgradeView, Do | E]]] = {
    # Before the new deployment.
    "first a backup": (an_upgrade(Stage.BEGUN), Do.BACK_UP),
    "also of a stream that is down": (an_upgrade(Stage.BEGUN, situation=ENDED), Do.BACK_UP),
    "a person's stop ends it": (an_upgrade(Stage.BEGUN, situation=STOPPED), E.STOP_WANTED),
    "another deployment ends it": (
        an_upgrade(Stage.BEGUN, situation={"deployment": OTHER}),
        E.SPEC_CHANGED,
    ),
    "then the driver is asked to stop": (an_upgrade(*BEFORE), Do.STOP),
    "unless it is wanted stopped": (an_upgrade(*BEFORE, situation=STOPPED), E.STOP_WANTED),
    "it has its grace": (an_upgrade(*BEFORE, situation={"stop": OURS}), Do.WAIT),
    "and is killed after it": (an_upgrade(*BEFORE, situation=OVERDUE), Do.KILL),
    "a hung one is killed": (
        an_upgrade(*BEFORE, situation={"seen": observed(silent_for=minutes(1))}),
        Do.KILL,
    ),
    "one on a host out of sight needs a person": (
        an_upgrade(*BEFORE, situation={"seen": LOST}),
        Do.ASK,
    ),
    "one that failed by itself is fenced": (
        an_upgrade(*BEFORE, situation={"seen": observed(GONE, exit=an_exit())}),
        Do.FENCE,
    ),
    "one that has stopped is fenced": (an_upgrade(*BEFORE, situation=ENDED), Do.FENCE),
    "a fence whose maker died is finished": (
        an_upgrade(*BEFORE, situation=UNFINISHED),
        Do.FENCE,
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
        Do.FENCE,
    ),
    "behind the fence what it left is backed up": (
        an_upgrade(*BEFORE, situation=fence()),
        Do.BACK_UP_AGAIN,
    ),
    "then it is decided": (an_upgrade(*DOWN, situation=fence()), E.APPLY),
    "not when it is wanted stopped now": (
        an_upgrade(*DOWN, situation={**fence(), **STOPPED}),
        E.STOP_WANTED,
    ),
    "nor when somebody has started a driver": (
        an_upgrade(*DOWN, situation={"seen": observed(epoch=an_epoch(number=FENCE + 1))}),
        E.DRIVER_CHANGED,
    ),
    # The new deployment.
    "it is deployed": (an_upgrade(*APPLYING, situation=fence()), Do.DEPLOY),
    "also when whoever did so died": (
        an_upgrade(*APPLYING, situation=BEHIND_FENCE),
        Do.DEPLOY,
    ),
    "not in the place of another one": (
        an_upgrade(*APPLYING, situation={**fence(), "deployment": OTHER}),
        E.SPEC_CHANGED,
    ),
    "a person's stop takes it back": (
        an_upgrade(*APPLYING, situation={**fence(), **STOPPED}),
        E.STOP_WANTED,
    ),
    "it is launched": (an_upgrade(*DEPLOYED, situation=BEHIND_FENCE), Do.LAUNCH),
    "not behind the fence of the way back": (
        an_upgrade(*DEPLOYED, situation=FENCED_AGAIN),
        E.DRIVER_CHANGED,
    ),
    "its epoch is recorded": (an_upgrade(*DEPLOYED, situation=RUNS), E.NEW_STARTED),
    "also when it died at once": (an_upgrade(*DEPLOYED, situation=DIED), E.NEW_STARTED),
    "also before a person's stop is heeded": (
        an_upgrade(*DEPLOYED, situation={**RUNS, **STOPPED}),
        E.NEW_STARTED,
    ),
    "what the home does not list yet is waited for": (
        an_upgrade(*DEPLOYED, situation=fence()),
        Do.WAIT,
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
        Do.WAIT,
    ),
    "a driver that never was is launched anew": (
        an_upgrade(
            *DEPLOYED,
            situation={
                "deployment": deployed(NEW),
                "seen": driver(FENCE + 1, NEW, LaunchCause.UPGRADE, **UNBORN),
            },
        ),
        Do.LAUNCH,
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
        Do.ASK,
    ),
    # The soak.
    "it soaks": (an_upgrade(*LAUNCHED, situation=RUNS, **soak(SoakResult.UNDECIDED)), Do.WAIT),
    "a good soak is recorded": (
        an_upgrade(*LAUNCHED, situation=RUNS, **soak(SoakResult.GOOD)),
        E.SOAK_ENDED,
    ),
    "a bad one too": (an_upgrade(*LAUNCHED, situation=DIED, **soak(SoakResult.BAD)), E.SOAK_ENDED),
    "a soaking stream that is wanted stopped is taken back": (
        an_upgrade(*LAUNCHED, situation={**RUNS, **STOPPED}, **soak(SoakResult.UNDECIDED)),
        E.STOP_WANTED,
    ),
    "but not without a way back": (
        an_upgrade(
            *LAUNCHED,
            way=RollbackMethod.NONE,
            situation={**RUNS, **STOPPED},
            **soak(SoakResult.UNDECIDED),
        ),
        Do.WAIT,
    ),
    "a good one is kept": (an_upgrade(*JUDGED, situation=RUNS), E.SOAK_PASSED),
    "or a person is asked": (
        an_upgrade(*JUDGED, situation=RUNS, keeps_by_itself=False),
        Do.ASK,
    ),
    "one that died since is taken back": (an_upgrade(*JUDGED, situation=DIED), E.NEW_FAILED),
    "a bad one is taken back": (
        an_upgrade(*JUDGED, situation=RUNS, verdict="bad"),
        E.SOAK_FAILED,
    ),
    "without a way back the checkpoint is asked": (
        an_upgrade(
            *JUDGED, situation=DIED, verdict="bad", way=RollbackMethod.NONE, has_committed=True
        ),
        E.NO_WAY_BACK,
    ),
    "without a way back it stays": (
        an_upgrade(*JUDGED, situation=RUNS, verdict="bad", way=RollbackMethod.NONE),
        E.NO_WAY_BACK,
    ),
    # The way back.
    "its driver is asked to stop": (an_upgrade(*ROLLING, situation=RUNS), Do.STOP),
    "and fenced when it is gone": (an_upgrade(*ROLLING, situation=DIED), Do.FENCE),
    "the first fence is not enough": (
        an_upgrade(*DEPLOYED, Stage.ROLLING_BACK, situation=BEHIND_FENCE),
        Do.FENCE,
    ),
    "what was never made is made first": (
        an_upgrade(*APPLYING, Stage.ROLLING_BACK, situation=fence(FENCE + 1)),
        Do.DEPLOY,
    ),
    "then all is put back": (an_upgrade(*ROLLING, situation=FENCED_AGAIN), Do.RESTORE),
    "what must not go back is a person's": (
        an_upgrade(*ROLLING, way=RollbackMethod.NONE, has_committed=True, situation=FENCED_AGAIN),
        Do.ASK,
    ),
    "until he leaves it": (
        an_upgrade(
            *ROLLING,
            Stage.LEFT,
            way=RollbackMethod.NONE,
            has_committed=True,
            situation={**FENCED_AGAIN, **STOPPED},
        ),
        Do.LEAVE,
    ),
    "what is left is fenced first": (
        an_upgrade(*ROLLING, Stage.LEFT, situation={**DIED, **STOPPED}),
        Do.FENCE,
    ),
    "the old one is deployed": (an_upgrade(*RESTORED, situation=FENCED_AGAIN), Do.DEPLOY_OLD),
    "and launched": (
        an_upgrade(*RESTORED, situation={**fence(FENCE + 2, NEW), "deployment": deployed(BACK)}),
        Do.LAUNCH_OLD,
    ),
    "unless it is wanted stopped then": (
        an_upgrade(
            *RESTORED,
            situation={**fence(FENCE + 2, NEW), "deployment": deployed(BACK), **STOPPED},
        ),
        E.OLD_BACK,
    ),
    "it is back": (an_upgrade(*RESTORED, situation=OLD_RUNS), E.OLD_BACK),
    "somebody else's deployment is left as it is": (
        an_upgrade(*ROLLING, situation={**RUNS, "deployment": OTHER}),
        E.SPEC_CHANGED,
    ),
    # The ends.
    "what is kept ends": (an_upgrade(*JUDGED, Stage.KEPT, situation=RUNS), Do.CLOSE),
    "also when its driver has died": (an_upgrade(*JUDGED, Stage.KEPT, situation=DIED), Do.CLOSE),
    "what is back ends": (
        an_upgrade(*RESTORED, Stage.ROLLED_BACK, situation=OLD_RUNS),
        Do.CLOSE,
    ),
    "given up while it runs": (an_upgrade(*BEFORE, Stage.ABORTED), Do.CLOSE),
    "given up while it stops": (
        an_upgrade(*BEFORE, Stage.ABORTED, situation={"stop": OURS}),
        Do.WAIT,
    ),
    "given up while somebody else stops it": (
        an_upgrade(
            *BEFORE,
            Stage.ABORTED,
            situation={"stop": a_stop(reason="Change 2 upgrades the stream.")},
        ),
        Do.CLOSE,
    ),
    "given up behind the fence": (
        an_upgrade(*DOWN, Stage.ABORTED, situation=fence()),
        Do.LAUNCH_OLD,
    ),
    "not when its circuit was open before": (
        an_upgrade(*DOWN, Stage.ABORTED, situation={**fence(), "circuit": a_circuit(epoch=FENCE)}),
        Do.CLOSE,
    ),
    "nor when it is wanted stopped": (
        an_upgrade(*DOWN, Stage.ABORTED, situation={**fence(), **STOPPED}),
        Do.CLOSE,
    ),
    "given up and back": (
        an_upgrade(
            *DOWN,
            Stage.ABORTED,
            situation={"seen": driver(FENCE + 1, OLD, LaunchCause.ROLLBACK)},
        ),
        Do.CLOSE,
    ),
    "nothing comes after the end": (
        an_upgrade(*JUDGED, Stage.KEPT, situation=RUNS, is_closed=True),
        Do.NOTHING,
    ),
}


@pytest.mark.parametrize(("state", "act"), TABLE.values(), ids=TABLE.keys())
def test_every_state_has_its_act(state: UpgradeView, act: Do | E) -> None:
    found = next_move(state)
    assert (found.event or found.do, bool(found.reason)) == (act, True)
    if found.event is not None:
        assert UPGRADE.allows(state.state, found.event)


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
    {**seen, **desired, **made}
    for seen, desired, made in product(
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
STARTS: Final = frozenset({Do.LAUNCH, Do.LAUNCH_OLD})


@pytest.mark.parametrize("stages", WAYS, ids=[way[-1].value for way in WAYS])
def test_whatever_is_seen_no_driver_is_started_beside_another_or_against_a_wish(
    stages: tuple[Stage, ...],
) -> None:
    for sight in SIGHTS:
        state = an_upgrade(*stages, situation=sight, **soak(SoakResult.UNDECIDED))
        found, seen = next_move(state), state.situation.seen
        if found.do in STARTS:
            assert seen is None or seen.is_dead, (sight, found)
            assert state.situation.desired is DesiredState.RUNNING
        if found.do is Do.LEAVE:
            assert state.is_fenced
            assert state.epoch is not None
            assert state.epoch.number > FENCE
        if found.do is Do.BACK_UP_AGAIN:
            assert state.is_fenced


def test_an_upgrade_says_where_it_stands_and_what_is_known() -> None:
    state = an_upgrade(*JUDGED)
    assert state.state is Stage.JUDGED
    assert state.facts == {**FACTS[Stage.STOPPED], "epoch": str(FENCE + 1), "verdict": "good"}
