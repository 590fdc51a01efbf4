"""A pre-warmed upgrade: the new driver waits at the barrier, and no doubt about it costs a row."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.changes.upgrade.decide import next_move
from airflow_streaming.changes.upgrade.state import Do, UpgradeView
from airflow_streaming.driver.launch_context import DriverArgs, read_assignment
from airflow_streaming.exceptions import DriverRefusal, StreamingError
from airflow_streaming.model.names import Layout, standby_of
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.control import ChangeOutcome, DesiredState
from airflow_streaming.model.records.epoch import Epoch, LaunchCause
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage, UpgradeCommand, WarmUp
from airflow_streaming.model.records.upgrade_table import UpgradeEvent as E
from airflow_streaming.model.status import DriverState
from airflow_streaming.supervision.controller import StreamController
from airflow_streaming.supervision.standby import (
    SILENT_AFTER,
    WARM_PATIENCE,
    StandbyState,
    StandbyView,
    state_of,
)
from tests.unit.changes.upgrade.killing import (
    every_step,
    killed_and_retried,
    suspended_and_overtaken,
    to_the_end,
)
from tests.unit.changes.upgrade.upgrade_states import (
    BEFORE,
    BEHIND_FENCE,
    DEPLOYED,
    DOWN,
    ENDED,
    FENCE,
    JUDGED,
    NEW,
    READY,
    ROLLING,
    RUNS,
    STOPPED,
    an_upgrade,
    deployed,
    driver,
    fence,
)
from tests.unit.changes.upgrade.upgrading import NEVER, Upgraded, end_of
from tests.unit.supervision.builders import (
    NOW,
    a_launch,
    a_process,
    a_status,
    an_epoch,
    an_exit,
    minutes,
)

GONE, RUNNING, UNSEEN = ProcessState.GONE, ProcessState.RUNNING, ProcessState.UNSEEN
SUSPENDED: Final = ProcessState.SUSPENDED
AT_BARRIER: Final = a_status(standby=True, state=DriverState.STARTING, queries=())


def warmed(
    process: ProcessState = RUNNING,
    *,
    age: timedelta = timedelta(seconds=30),
    change: int | None = 2,
    **changes: Any,
) -> dict[str, Any]:
    """Return the part of a situation that shows a driver which waits at the barrier."""
    epoch = an_epoch(
        number=1,
        stream=standby_of("orders"),
        serves="orders",
        standby=True,
        deployment=NEW,
        token="t-warmed",
        change=change,
        created_at=NOW - age,
    )
    fields: dict[str, Any] = {
        "epoch": epoch,
        "process": a_process(process),
        "launch": a_launch(epoch=1),
        "status": AT_BARRIER,
        "has_come": True,
    }
    return {"standby": StandbyView(**fields | changes)}


def held(process: ProcessState = RUNNING, **changes: Any) -> dict[str, Any]:
    """Return the situation behind a promotion."""
    epoch = an_epoch(
        number=FENCE + 1,
        deployment=NEW,
        cause=LaunchCause.UPGRADE,
        change=2,
        standby=True,
        promotes=1,
        token="t-warmed",
    )
    told = {"status": AT_BARRIER, **changes}
    seen = replace(
        driver(FENCE + 1, NEW, LaunchCause.UPGRADE, process=process, **told), epoch=epoch
    )
    return {"deployment": deployed(NEW), "seen": seen, **warmed(is_promoted=True)}


STARTING: Final = warmed(has_come=False)
HIDDEN: Final = {"is_standby_unreadable": True}


def an_act(*stages: Stage, **changes: Any) -> UpgradeView:
    return an_upgrade(*stages, prewarm=True, **changes)


TABLE: Final[dict[str, tuple[UpgradeView, Do | E]]] = {
    "first a backup": (an_act(Stage.BEGUN), Do.BACK_UP),
    "then the new driver is started": (an_act(*BEFORE), Do.WARM_UP),
    "it is waited for": (an_act(*BEFORE, situation=STARTING), Do.WAIT),
    "also out of sight": (an_act(*BEFORE, situation=warmed(UNSEEN, has_come=False)), Do.WAIT),
    "one of another change is not ours": (
        an_act(*BEFORE, situation=warmed(change=1)),
        Do.WARM_UP,
    ),
    "nor is the hot standby": (an_act(*BEFORE, situation=warmed(change=None)), Do.WARM_UP),
    "at the barrier the backup is refreshed": (an_act(*BEFORE, situation=warmed()), Do.REFRESH),
    "one that ends is done without": (an_act(*BEFORE, situation=warmed(GONE)), E.WARM_UP_FAILED),
    "so is one that falls silent": (
        an_act(*BEFORE, situation=warmed(silent_for=SILENT_AFTER)),
        E.WARM_UP_FAILED,
    ),
    "and one that does not come in time": (
        an_act(*BEFORE, situation=warmed(has_come=False, age=WARM_PATIENCE)),
        E.WARM_UP_FAILED,
    ),
    "a damaged record is no reason to stop": (
        an_act(*BEFORE, situation=HIDDEN),
        E.WARM_UP_FAILED,
    ),
    "nothing is warmed while the stream is down": (
        an_act(*BEFORE, situation=ENDED),
        E.WARM_UP_FAILED,
    ),
    "but who is warm is waited for no more": (
        an_act(*BEFORE, situation={**ENDED, **warmed()}),
        Do.REFRESH,
    ),
    "a stop ends it": (an_act(*BEFORE, situation={**STOPPED, **STARTING}), E.STOP_WANTED),
    "ready: the old one is stopped": (an_act(*READY, situation=warmed()), Do.STOP),
    "also without a warm one": (
        an_act(*READY, warm_up=WarmUp.TOO_LATE, situation=warmed(is_stopping=True)),
        Do.STOP,
    ),
    "one that came too late is asked to end": (
        an_act(*READY, warm_up=WarmUp.TOO_LATE, situation=STARTING),
        Do.RETIRE,
    ),
    "behind the fence what is new is backed up": (
        an_act(*READY, situation={**fence(), **warmed()}),
        Do.BACK_UP_AGAIN,
    ),
    "then it is decided": (
        an_act(*READY, Stage.STOPPED, situation={**fence(), **warmed()}),
        E.APPLY,
    ),
    "a promoted one is released": (
        an_act(*DEPLOYED, situation=held(), is_held=True),
        Do.RELEASE,
    ),
    "one that was released was started": (an_act(*DEPLOYED, situation=held()), E.NEW_STARTED),
    "one that died at the barrier is followed by a cold one": (
        an_act(*DEPLOYED, situation=held(GONE), is_held=True),
        Do.LAUNCH,
    ),
    "one that ends there is waited for": (
        an_act(*DEPLOYED, situation=held(exit=an_exit()), is_held=True),
        Do.WAIT,
    ),
    "one that hangs there is killed": (
        an_act(*DEPLOYED, situation=held(silent_for=minutes(5)), is_held=True),
        Do.KILL,
    ),
    "one on a host out of sight needs a person": (
        an_act(*DEPLOYED, situation=held(UNSEEN, silent_for=minutes(11)), is_held=True),
        Do.ASK,
    ),
    "a stop comes before its release": (
        an_act(*DEPLOYED, situation={**held(), **STOPPED}, is_held=True),
        E.STOP_WANTED,
    ),
    "on the way back it is stopped like any driver": (
        an_act(*DEPLOYED, Stage.ROLLING_BACK, situation=held(), is_held=True),
        Do.STOP,
    ),
    "one that waits still is of no use then": (
        an_act(*ROLLING, situation={**RUNS, **warmed()}),
        Do.RETIRE,
    ),
    "nor is it for one that is given up": (
        an_act(*READY, Stage.ABORTED, situation=warmed()),
        Do.RETIRE,
    ),
    "one that was asked is not asked again": (
        an_act(*READY, Stage.ABORTED, situation=warmed(is_stopping=True)),
        Do.CLOSE,
    ),
    "the promoted one is never asked": (
        an_act(*JUDGED, Stage.KEPT, situation=held()),
        Do.CLOSE,
    ),
}


@pytest.mark.parametrize(("state", "act"), TABLE.values(), ids=TABLE.keys())
def test_every_state_of_a_prewarmed_upgrade_has_its_act(state: UpgradeView, act: Do | E) -> None:
    found = next_move(state)
    assert (found.event or found.do, bool(found.reason)) == (act, True)
    if found.event is not None:
        assert UPGRADE.allows(state.state, found.event)


CAN_PROMOTE: Final = (*READY, Stage.STOPPED, Stage.APPLYING, Stage.DEPLOYED)


@pytest.mark.parametrize(
    "standby",
    [
        warmed(),
        warmed(GONE),
        warmed(SUSPENDED),
        warmed(UNSEEN),
        STARTING,
        warmed(is_stopping=True),
        warmed(silent_for=SILENT_AFTER),
        warmed(change=1),
        warmed(change=None),
        {},
    ],
)
def test_only_a_warm_driver_of_this_change_is_promoted(standby: dict[str, Any]) -> None:
    found = next_move(an_act(*CAN_PROMOTE, situation={**BEHIND_FENCE, **standby}))
    view = standby.get("standby")
    is_ours = view is not None and view.epoch.change == 2
    is_warm = is_ours and state_of(view, NOW) is StandbyState.WARM
    assert (found.do, found.promotes) == (Do.LAUNCH, 1 if is_warm else None)


def test_without_the_step_that_says_so_none_is_promoted() -> None:
    ways = ((*DOWN, Stage.APPLYING, Stage.DEPLOYED), CAN_PROMOTE)
    for way, warm_up in zip(ways, (WarmUp.WARM, WarmUp.SILENT), strict=True):
        found = next_move(
            an_act(*way, warm_up=warm_up, situation={**BEHIND_FENCE, **warmed(is_stopping=True)})
        )
        assert (found.do, found.promotes) == (Do.LAUNCH, None)


def started(stream: Upgraded) -> tuple[str, bool]:
    """Return how the new driver was started: what the records say, and whether it was promoted."""
    steps = stream.home.stages(1)
    facts = {**steps[Stage.READY].facts, **steps[Stage.LAUNCHED].facts}
    epoch = stream.home.epoch(int(facts["epoch"]))
    return facts["warm_up"], epoch.promotes is not None


def test_the_warmed_driver_takes_over(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, warmth="warms")
    stream.begin()
    stream.drive()
    assert started(stream) == ("warm", True)
    assert (stream.running(), end_of(stream)) == (2, stream.home.change_end(1))
    ready = stream.home.stages(1)[Stage.READY]
    assert stream.store.backup(ready.facts["refreshed"], "orders")
    assert ready.at < stream.home.epoch(2).created_at, "It was warm before the fence."


@pytest.mark.parametrize(
    ("warmth", "code"),
    [
        ("ends early", WarmUp.ENDED),
        ("never comes", WarmUp.TOO_LATE),
        ("ends warm", WarmUp.LOST),
    ],
)
def test_without_it_the_upgrade_goes_the_plain_way_and_says_so(
    warmth: str, code: WarmUp, tmp_path: Path
) -> None:
    stream = Upgraded(tmp_path, warmth=warmth)
    stream.begin()
    stream.drive()
    assert started(stream) == (code.value, False)
    assert stream.running() == 2
    assert end_of(stream) is not None
    assert all(stream.may_write(epoch) for epoch in stream.standbys())


def test_one_that_dies_before_its_release_is_followed_by_a_cold_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Upgraded(tmp_path, warmth="ends promoted")
    stream.begin()
    stream.drive(Stage.READY)
    with monkeypatch.context() as patch:
        patch.setattr(StreamController, "release", _refuse)
        stream.drive(Stage.DEPLOYED)
        assert not stream.advance(Stage.LAUNCHED).is_there
        held_epoch = stream.epoch
        for _ in range(2):
            stream.tick()
    assert held_epoch.promotes == 1
    stream.drive()
    assert started(stream) == (WarmUp.LOST.value, False)
    assert stream.epoch.number == held_epoch.number + 1
    assert not stream.home.is_released(held_epoch.number)


def _refuse(self: StreamController, epoch: Epoch) -> None:
    raise StreamingError(f"Epoch {epoch.number} is not released by this test.")


def test_a_launcher_without_standbys_starts_it_after_the_stop(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, warmth="warms")
    stream.launcher.kind = "yarn"
    stream.begin()
    assert stream.advance(Stage.READY).facts["warm_up"] == WarmUp.NO_STANDBY
    assert stream.home.standbys().newest_epoch() is None


def test_a_standby_that_cannot_be_started_is_done_without(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, warmth="warms")
    stream.begin()
    stream.launcher.refusal = "There is no memory left."
    progress = stream.advance(Stage.READY)
    assert (progress.state, progress.facts["warm_up"]) == (Stage.READY, WarmUp.NOT_STARTED)


def test_all_before_the_stop_is_done_without_a_warm_up_too(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path)
    stream.begin()
    progress = stream.advance(Stage.READY)
    assert (progress.is_there, progress.state) == (True, Stage.BACKED_UP)


def test_one_that_is_given_up_leaves_the_old_driver_and_no_standby(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, warmth="warms")
    stream.begin()
    stream.drive(Stage.READY)
    old = stream.living()
    stream.engine().command(UpgradeCommand.ABORT, "Not today.", 1)
    stream.tick()
    assert stream.living() == old
    assert stream.standbys() == []
    end = end_of(stream)
    assert end is not None
    assert end.outcome is ChangeOutcome.ABANDONED


def test_the_task_that_keeps_the_stream_leaves_the_warmed_driver_alone(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, warmth="warms")
    stream.begin()
    stream.drive(Stage.READY)
    stream.controller(by="keep-alive").retire_standby("The stream asks for no standby.")
    stream.tick()
    assert [one.number for one in stream.standbys()] == [1]
    stream.drive()
    assert started(stream) == ("warm", True)


def test_a_stop_of_the_stream_ends_the_warmed_driver(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, warmth="warms")
    stream.begin()
    stream.drive(Stage.READY)
    stream.want(DesiredState.STOPPED)
    stream.drive()
    for _ in range(3):
        stream.tick()
    assert (stream.running(), stream.standbys()) == (None, [])


@pytest.mark.parametrize(("warmth", "first", "steps"), [("warms", 5, 40), ("ends warm", 9, 40)])
def test_it_ends_the_same_wherever_its_worker_was_killed(
    warmth: str, first: int, steps: int, tmp_path: Path
) -> None:
    last = every_step(tmp_path, "works", to_the_end, every=12, first=first, warmth=warmth)
    assert last > steps - 12


@pytest.mark.parametrize("step", [8, 14, 27, 33])
def test_a_worker_that_wakes_up_late_changes_nothing(step: int, tmp_path: Path) -> None:
    _, wanted = killed_and_retried(tmp_path / "none", "works", to_the_end, NEVER, "warms")
    was_suspended, found, failed = suspended_and_overtaken(
        tmp_path / "late", "works", to_the_end, step, "warms"
    )
    assert (was_suspended, failed, found) == (True, None, wanted)


def assigned(stream: Upgraded, standby: Epoch) -> Any:
    arguments = DriverArgs(
        home=stream.uri, stream=standby.stream, epoch=standby.number, token=standby.token
    )
    return read_assignment(stream.home.store, Layout("orders"), arguments, standby)


def test_the_warmed_driver_runs_what_the_change_proposes(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, warmth="warms")
    stream.begin()
    stream.drive(Stage.READY)
    (standby,) = stream.standbys()
    found = assigned(stream, standby)
    assert (found.deployment.number, found.source) == (2, stream.new_script)
    assert found.deployment == stream.home.terms(stream.home.change(1)).proposed


@pytest.mark.parametrize(
    "changes",
    [
        {"deployment": 1},
        {"change": 7},
        {"serves": "payments", "stream": standby_of("payments")},
    ],
)
def test_it_runs_nothing_that_its_change_does_not_propose(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    stream = Upgraded(tmp_path, warmth="warms")
    stream.begin()
    stream.drive(Stage.READY)
    (standby,) = stream.standbys()
    with pytest.raises(DriverRefusal):
        assigned(stream, replace(standby, **changes))
