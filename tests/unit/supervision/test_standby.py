"""When a hot standby is started, when it takes over, and that nothing before it can write then."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.cli.status import view_stream
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.names import check_is_stream, standby_of
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.status import DriverState
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.supervision.controller import StreamController
from airflow_streaming.supervision.decide import Action, decide
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.supervision.standby import (
    BIRTH_PATIENCE,
    REST_COLD,
    REST_WARM,
    SILENT_AFTER,
    WARM_PATIENCE,
    StandbyState,
    StandbyView,
    can_take_over,
    state_of,
)
from tests.fakes import FAKE_HOST, FakeLauncher
from tests.system.standby_simulated import trouble_of
from tests.unit.supervision.builders import (
    NOW,
    a_deployment,
    a_launch,
    a_process,
    a_restart,
    a_situation,
    a_spec,
    a_status,
    a_stop,
    an_epoch,
    observed,
    seconds,
)
from tests.unit.supervision.steering_cases import COMPLETED, DEAD, NEXT, OPEN

GONE, UNSEEN, SUSPENDED = ProcessState.GONE, ProcessState.UNSEEN, ProcessState.SUSPENDED
AT_BARRIER: Final = a_status(standby=True, state=DriverState.STARTING, queries=())


def a_standby(
    process: ProcessState = ProcessState.RUNNING,
    *,
    age: timedelta = timedelta(minutes=20),
    deployment: int = 3,
    **changes: Any,
) -> StandbyView:
    fields: dict[str, Any] = {
        "epoch": an_epoch(
            number=5,
            stream=standby_of("orders"),
            serves="orders",
            standby=True,
            deployment=deployment,
            token="t-standby-5",
            created_at=NOW - age,
        ),
        "process": a_process(process),
        "launch": a_launch(epoch=5),
        "status": AT_BARRIER,
        "has_come": True,
    }
    return StandbyView(**fields | changes)


WARM: Final = a_standby()
YOUNG: Final = seconds(1)
STATES: Final[dict[str, tuple[StandbyView, StandbyState]]] = {
    "at the barrier": (WARM, StandbyState.WARM),
    "on its way": (a_standby(has_come=False, age=YOUNG), StandbyState.STARTING),
    "not launched yet": (
        a_standby(GONE, age=YOUNG, launch=None, status=None, has_come=False),
        StandbyState.STARTING,
    ),
    "never launched": (a_standby(GONE, launch=None, status=None), StandbyState.ENDED),
    "not there in time": (a_standby(has_come=False, age=BIRTH_PATIENCE), StandbyState.SILENT),
    "silent": (a_standby(silent_for=SILENT_AFTER), StandbyState.SILENT),
    "silent, out of sight": (a_standby(UNSEEN, silent_for=SILENT_AFTER), StandbyState.SILENT),
    "out of sight": (a_standby(UNSEEN), StandbyState.AWAY),
    "suspended": (a_standby(SUSPENDED), StandbyState.AWAY),
    "killed": (a_standby(GONE), StandbyState.ENDED),
    "with a last word": (a_standby(has_ended=True), StandbyState.ENDED),
    "asked to end": (a_standby(is_stopping=True), StandbyState.ENDED),
    "ending": (
        a_standby(status=replace(AT_BARRIER, state=DriverState.STOPPING)),
        StandbyState.ENDED,
    ),
    "promoted": (a_standby(is_promoted=True, has_ended=True), StandbyState.PROMOTED),
}


@pytest.mark.parametrize(("standby", "state"), STATES.values(), ids=STATES.keys())
def test_only_a_standby_at_the_barrier_may_take_over(
    standby: StandbyView, state: StandbyState
) -> None:
    assert state_of(standby, NOW) is state
    assert can_take_over(standby, 3, NOW) is (state is StandbyState.WARM)


STARTING: Final = observed(status=a_status(state=DriverState.STARTING, first_progress_at=None))
PROMOTED: Final = observed(
    epoch=an_epoch(promotes=5, standby=True, token="t-standby-5"), status=AT_BARRIER
)
OLD: Final = {"deployment": NEXT}
FRESH: Final = replace(NEXT, created_at=NOW)
OF_CHANGE: Final = replace(WARM, epoch=replace(WARM.epoch, change=2))
"""At the barrier, of a deployment with the same number that was proposed and never made."""
NEW_WARM: Final = a_standby(deployment=NEXT.number)
CASES: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "there is none": ({"standby": None}, "standby"),
    "none is asked for": ({"standby": None, "wants_standby": False}, "watch"),
    "its record is damaged": ({"standby": None, "is_standby_unreadable": True}, "watch"),
    "it is warm": ({}, "watch"),
    "it was warmed for an upgrade": ({"standby": OF_CHANGE}, "standby"),
    "it is on its way": ({"standby": STATES["on its way"][0]}, "watch"),
    "it was promoted": ({"standby": STATES["promoted"][0]}, "standby"),
    "it was killed": ({"standby": STATES["killed"][0]}, "standby"),
    "it was killed a moment ago": (
        {"standby": a_standby(GONE, age=REST_WARM - YOUNG)},
        "watch",
    ),
    "it died before it was warm": (
        {"standby": a_standby(GONE, has_come=False, age=REST_COLD - YOUNG)},
        "watch",
    ),
    "it is silent": ({"standby": STATES["silent"][0]}, "standby"),
    "it is out of sight": ({"standby": STATES["out of sight"][0]}, "watch"),
    "it is of another deployment": ({"standby": NEW_WARM}, "standby"),
    "the live driver starts": ({"standby": None, "seen": STARTING}, "watch"),
    "the live driver is asked to stop": ({"standby": None, "stop": a_stop()}, "watch"),
    "the stream is wanted stopped": ({"standby": None, "desired": DesiredState.STOPPED}, "stop"),
    "the circuit is open": ({"standby": None, "seen": DEAD, "circuit": OPEN}, "park"),
    "the home shows less than was seen": ({"standby": None, "watched": 99}, "watch"),
    "a promoted standby is not released": ({"seen": PROMOTED, "is_unreleased": True}, "release"),
    "a promoted standby was released just now": ({"seen": PROMOTED}, "watch"),
    "an unreleased one of a stream that is wanted stopped": (
        {"seen": PROMOTED, "is_unreleased": True, "desired": DesiredState.STOPPED},
        "stop",
    ),
    "a deployment is new": ({"deployment": FRESH}, "standby"),
    "the standby of the new deployment is on its way": (
        {"deployment": FRESH, "standby": a_standby(deployment=4, has_come=False, age=YOUNG)},
        "watch",
    ),
    "the standby of the new deployment is warm": (
        {"deployment": FRESH, "standby": NEW_WARM},
        "stop",
    ),
    "the standby of the new deployment has died": (
        {"deployment": FRESH, "standby": a_standby(GONE, deployment=4, age=YOUNG)},
        "stop",
    ),
    "the standby of the new deployment does not come": (
        {"deployment": replace(NEXT, created_at=NOW - WARM_PATIENCE), "standby": WARM},
        "stop",
    ),
    "no standby is asked for, and a deployment is new": (
        {"deployment": FRESH, "wants_standby": False},
        "stop",
    ),
}


@pytest.mark.parametrize(("changes", "action"), CASES.values(), ids=CASES.keys())
def test_every_situation_with_a_standby_has_its_step(changes: dict[str, Any], action: str) -> None:
    situation = a_situation(**{"wants_standby": True, "standby": WARM, **changes})

    assert decide(situation).action == action


@pytest.mark.parametrize(
    ("changes", "promotes"),
    [
        pytest.param({"decision": a_restart()}, 5, id="after a failure"),
        pytest.param({"seen": COMPLETED}, 5, id="after a stop"),
        pytest.param({"decision": a_restart(), "wants_standby": False}, None, id="not asked for"),
        pytest.param({"decision": a_restart(), "standby": a_standby(GONE)}, None, id="dead"),
        pytest.param(
            {"decision": a_restart(), "standby": OF_CHANGE}, None, id="warmed for an upgrade"
        ),
        pytest.param({"deployment": NEXT}, None, id="of the deployment before"),
        pytest.param({"deployment": NEXT, "standby": NEW_WARM}, 5, id="of the new deployment"),
    ],
)
def test_the_next_epoch_is_the_drivers_that_waits(
    changes: dict[str, Any], promotes: int | None
) -> None:
    situation = a_situation(**{"wants_standby": True, "standby": WARM, "seen": DEAD, **changes})
    step = decide(situation)

    assert (step.action, step.promotes) == (Action.LAUNCH, promotes)


SOURCE: Final = b"a script"


class Keeping:
    """A stream in a folder, with a live driver and a warm standby on the fake launcher."""

    def __init__(self, folder: Path) -> None:
        self.launcher = FakeLauncher()
        self.home = StreamHome(LocalStore(str(folder)), "orders")
        self.home.create_deployment(
            a_deployment(number=1, application_sha256=hashlib.sha256(SOURCE).hexdigest()), SOURCE
        )
        self.controller = StreamController(
            self.home,
            self.launcher,
            spec=a_spec(standby=True),
            submit=lambda s: LaunchRequest(
                epoch=s.epoch, command=(), environment={}, log=folder / "logs" / "driver.log"
            ),
            by="a test",
            now=lambda: NOW,
        )
        self.observer = Observer(self.home, self.launcher, now=lambda: NOW)
        self.controller.begin(self.look(), decide(self.look()))
        self.beat(self.home, 1)
        self.controller.launch_standby(self.look(), decide(self.look()))
        self.standbys = self.home.standbys()
        self.beat(self.standbys, 1, standby=True)
        self.come()

    def come(self) -> None:
        from airflow_streaming.driver.standby.barrier import OrderBook
        from airflow_streaming.model.names import Layout

        OrderBook(self.home.store, Layout(self.standbys.name), 1).show(("revenue",))

    def beat(self, home: StreamHome, number: int, **changes: Any) -> None:
        from airflow_streaming.model.names import Layout

        epoch = home.epoch(number)
        status = a_status(
            stream=home.name, epoch=number, token=epoch.token, host=FAKE_HOST, **changes
        )
        path = Layout(home.name).epoch(number, "status.json")
        home.store.replace(path, status.to_bytes())

    def look(self) -> Any:
        return self.observer.situation(wants_standby=True)

    def promote(self, situation: Any = None) -> Any:
        """Promote the standby as a task would that takes the live driver for dead."""
        situation = situation or self.look()
        step = replace(
            decide(situation), action=Action.LAUNCH, cause=LaunchCause.RESTART, promotes=1
        )
        return self.controller.begin(situation, step)


@pytest.fixture
def keeping(tmp_path: Path) -> Keeping:
    return Keeping(tmp_path)


def test_a_standby_has_a_record_of_its_own_and_no_epoch(keeping: Keeping) -> None:
    waiting = keeping.standbys.epoch(1)

    assert (waiting.serves, waiting.standby, waiting.queries) == ("orders", True, ("revenue",))
    assert keeping.home.epoch_numbers() == [1]
    assert decide(keeping.look()).action is Action.WATCH


def test_a_damaged_record_of_a_standby_leaves_the_stream_watched(keeping: Keeping) -> None:
    keeping.home.store.replace(f"{keeping.standbys.name}/epochs/000001.json", b"junk")
    found = keeping.look()
    assert (found.is_standby_unreadable, found.standby) == (True, None)
    assert decide(found).action is Action.WATCH
    shown = view_stream(keeping.home, keeping.launcher.probe, patience=0)
    assert shown.status.seen is not None
    assert shown.standby != ""


def test_the_promoted_epoch_is_the_drivers_that_waits_and_is_released(keeping: Keeping) -> None:
    keeping.launcher.end(keeping.home.epoch(1).token)
    epoch, waiting = keeping.promote(), keeping.standbys.epoch(1)

    assert (epoch.number, epoch.promotes, epoch.token) == (2, 1, waiting.token)
    assert (epoch.as_launched.number, epoch.as_launched.stream) == (1, "orders.standby")
    assert keeping.home.is_released(2)
    launch = keeping.home.launch(2)
    assert launch is not None
    assert launch.handle == keeping.launcher.drivers[waiting.token].launch.handle
    assert len(keeping.launcher.launched) == 2, "no third driver is started"


def test_a_driver_that_lives_on_is_killed_before_the_standby_is_released(keeping: Keeping) -> None:
    keeping.promote()

    assert keeping.launcher.killed == [1]
    assert keeping.home.is_released(2)


def test_a_standby_waits_on_while_a_driver_before_it_cannot_be_killed(keeping: Keeping) -> None:
    keeping.launcher.is_unkillable = True
    with pytest.raises(StreamingError):
        keeping.promote()

    assert not keeping.home.is_released(2)
    assert keeping.home.death(2) is None, "its driver lives and may be released later"
    keeping.launcher.is_unkillable = False
    step = decide(keeping.look())
    assert step.action is Action.RELEASE
    keeping.controller.release(keeping.home.epoch(2))
    assert keeping.launcher.living() == [1], "the standby, by the number it was launched with"
    assert keeping.home.is_released(2)


def test_a_promotion_without_its_release_proves_nothing_of_the_drivers_before_it(
    keeping: Keeping,
) -> None:
    keeping.launcher.is_unkillable = True
    with pytest.raises(StreamingError):
        keeping.promote()
    keeping.launcher.end(keeping.standbys.epoch(1).token)
    situation = keeping.look()
    step = replace(decide(situation), action=Action.LAUNCH, promotes=None)
    with pytest.raises(StreamingError):
        keeping.controller.begin(situation, step)

    assert keeping.launcher.living() == [1], "the first driver lives, and none is started beside it"


def test_one_that_was_warmed_for_an_upgrade_is_not_promoted_to_run_anything_else(
    keeping: Keeping,
) -> None:
    situation = keeping.look()
    keeping.launcher.end(keeping.home.epoch(1).token)
    ours = replace(situation.standby, epoch=replace(situation.standby.epoch, change=2))
    with pytest.raises(StreamingError):
        keeping.promote(replace(situation, standby=ours))
    assert keeping.home.epoch_numbers() == [1]


def test_two_tasks_that_promote_one_standby_do_the_same(keeping: Keeping) -> None:
    keeping.launcher.end(keeping.home.epoch(1).token)
    situation = keeping.look()
    keeping.promote(situation)
    keeping.promote(situation)

    assert keeping.home.epoch_numbers() == [1, 2]
    assert [order.number for order in keeping.home.orders(2)] == [1]
    assert keeping.launcher.killed == []


def test_a_task_that_starts_a_driver_and_one_that_promotes_race_for_one_epoch(
    keeping: Keeping,
) -> None:
    keeping.launcher.end(keeping.home.epoch(1).token)
    situation = keeping.look()
    started = keeping.controller.begin(
        situation, replace(decide(situation), action=Action.LAUNCH, promotes=None)
    )

    assert keeping.promote(situation) is None
    assert keeping.home.newest_epoch() == started
    assert not keeping.home.is_released(2)


def test_a_standby_that_is_not_asked_for_any_more_is_asked_to_end_once(keeping: Keeping) -> None:
    keeping.controller.retire_standby("The dag asks for no standby.")
    first = keeping.standbys.stop_request(1)
    keeping.controller.retire_standby("Again.")

    assert first is not None
    assert keeping.standbys.stop_request(1) == first


def test_the_live_driver_is_never_retired_as_a_standby(keeping: Keeping) -> None:
    keeping.launcher.end(keeping.home.epoch(1).token)
    keeping.promote()
    keeping.controller.retire_standby("The dag asks for no standby.")

    assert keeping.standbys.stop_request(1) is None


def test_launchers_know_a_promoted_driver_by_its_first_names(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping.launcher.end(keeping.home.epoch(1).token)
    epoch = keeping.promote()
    asked: list[tuple[str, int]] = []

    class Asked(FakeLauncher):
        def probe(self, epoch: Any, launch: Any, /, heartbeat: Any = None) -> Any:
            asked.append((epoch.stream, epoch.number))
            asked.append((epoch.stream, launch.epoch))
            return super().probe(epoch, launch, heartbeat)

    known = Asked(drivers=keeping.launcher.drivers)
    monkeypatch.setattr("airflow_streaming.launch.local.LocalLauncher", lambda **_: known)
    launch = keeping.home.launch(2)
    found = open_launcher().probe(epoch, launch)

    assert found.state is ProcessState.RUNNING
    assert asked == [("orders.standby", 1), ("orders.standby", 1)]
    adopted = open_launcher().find(epoch)
    assert adopted is not None
    assert adopted.epoch == 2


def test_no_stream_has_the_name_of_a_standbys_records() -> None:
    from airflow_streaming.exceptions import SpecError

    with pytest.raises(SpecError):
        check_is_stream("orders.standby")


@pytest.mark.parametrize("seed", range(25))
def test_random_schedules_end_with_one_writer_and_a_warm_standby(seed: int) -> None:
    # ``python -m tests.system.standby_simulated`` tries as many as wanted.
    assert trouble_of(seed)[0] == ""
