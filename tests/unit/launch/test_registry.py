"""A launcher from another package does all that ours does, and an absent one sees nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_streaming.exceptions import LaunchError, SpecError
from airflow_streaming.launch.cluster_policy import ask_recorded
from airflow_streaming.launch.environment import secret_files
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.launch.registry import GROUP, MissingLauncher, open_launcher
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Launch
from airflow_streaming.model.spark.launchers import OWN_LAUNCHERS, near_launcher
from airflow_streaming.operators.switch import StopStreamOperator
from tests.fakes import FAKE_HOST
from tests.unit.launch.brokered import NAME
from tests.unit.launch.conftest import MakeEpoch
from tests.unit.launch.test_port_contract import SUBMIT
from tests.unit.world import World

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return what installs a package that provides a launcher."""

    def install(name: str, leads_to: str) -> None:
        package = tmp_path / "installed" / "others_launcher-1.0.dist-info"
        package.mkdir(parents=True)
        (package / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: others-launcher\nVersion: 1.0\n"
        )
        (package / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {leads_to}\n")
        monkeypatch.syspath_prepend(str(package.parent))

    return install


@pytest.fixture
def brokered(install: Install) -> None:
    install(NAME, "tests.unit.launch.brokered:BrokeredLauncher")


@pytest.mark.usefixtures("brokered")
def test_a_stream_is_kept_and_stopped_by_a_launcher_from_another_package(world: World) -> None:
    submit = world.folder / "spark" / "bin" / "spark-submit"
    submit.write_text(SUBMIT.replace('"$PYTHON"', "python3"))
    operator = world.operator(launcher=NAME, env={"PATH": "/usr/local/bin:/usr/bin:/bin"})
    stop = StopStreamOperator(task_id="stop", home=world.uri, stream="orders")

    world.run(operator)
    epoch, launch = world.epoch(), world.home.launch(1)
    try:
        assert launch is not None
        assert (epoch.launcher, list(launch.handle)) == (NAME, ["session"])
        assert open_launcher(policy=ask_recorded).probe(epoch, launch).state is ProcessState.RUNNING
        assert world.launcher.launched == [], "ours started nothing"

        world.run(operator)
        assert world.epochs() == 1, "a second task adopts the driver"

        with pytest.raises(TaskDeferred):
            stop.execute(world.context())
        late = {"epoch": 1, "beat": 0, "silent_for": 0.0, "stopping_for": 3600.0}
        assert stop.execute_complete(world.context(), {"memory": late})["epoch"] == 1
        assert open_launcher(policy=ask_recorded).probe(epoch, launch).state is ProcessState.GONE
        assert world.launcher.killed == []
    finally:
        open_launcher(policy=ask_recorded).kill(epoch, launch)


def test_each_driver_is_looked_at_by_the_launcher_that_started_it(
    world: World, install: Install
) -> None:
    world.run()
    install(NAME, "tests.unit.launch.brokered:BrokeredLauncher")
    theirs = replace(world.epoch(), launcher=NAME)

    # Whichever starts new drivers.
    for launcher in (open_launcher(policy=ask_recorded), open_launcher(NAME, policy=ask_recorded)):
        assert launcher.probe(world.epoch(), None).state is ProcessState.RUNNING
        assert launcher.probe(theirs, None).state is not ProcessState.RUNNING


@pytest.mark.parametrize(
    "leads_to",
    [
        pytest.param("", id="not_installed"),
        pytest.param("no_such_module:Launcher", id="not_importable"),
        pytest.param("tests.unit.launch.brokered:NAME", id="no_launcher"),
    ],
)
def test_a_launcher_that_cannot_be_had_sees_nothing_and_starts_nothing(
    install: Install, make_epoch: MakeEpoch, tmp_path: Path, leads_to: str
) -> None:
    if leads_to:
        install(NAME, leads_to)
    epoch = replace(make_epoch(), launcher=NAME)
    launch = Launch(epoch=1, token=epoch.token, host=FAKE_HOST, launched_at=epoch.created_at)
    launcher = open_launcher(NAME, policy=ask_recorded)
    request = LaunchRequest(epoch=epoch, command=(), environment={}, log=tmp_path / "log")

    assert launcher.find(epoch) is None
    assert launcher.probe(epoch, launch).state is ProcessState.UNSEEN
    assert launcher.kill(epoch, launch).state is ProcessState.UNSEEN
    shown = launcher.logs(epoch, launch, tmp_path / "log", 100)
    assert (shown.tail, bool(shown.trouble)) == (None, True)
    with pytest.raises(LaunchError, match=NAME):
        launcher.launch(request)
    with pytest.raises(SpecError, match=NAME):
        launcher.host()


def test_no_epoch_is_taken_for_a_launcher_that_is_not_there(world: World) -> None:
    with pytest.raises(Exception, match="is not installed here"):
        world.operator(launcher="absent").execute(world.context())

    assert world.epochs() == 0


def test_the_private_files_of_a_launch_are_deleted_where_logs_lie(
    make_epoch: MakeEpoch, tmp_path: Path
) -> None:
    epoch = make_epoch()
    files = secret_files(tmp_path / epoch.stream, epoch)
    files[0].parent.mkdir()
    for file in files:
        file.write_text("secret")

    open_launcher().clean_up(epoch)
    assert all(file.exists() for file in files), "it is not known where they lie"

    open_launcher(folder=tmp_path).clean_up(epoch)
    assert not any(file.exists() for file in files)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_reboot_is_judged_by_the_heartbeat(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setattr("airflow_streaming.launch.local.this_host", lambda: FAKE_HOST)
    epoch, asked = make_epoch(host=replace(FAKE_HOST, boot="boot-0")), list[bool]()
    launcher = open_launcher(policy=ask_recorded)

    def heartbeat() -> None:
        asked.append(True)

    (launcher.kill if is_killed else launcher.probe)(epoch, None, heartbeat)

    assert asked == [True]


def test_every_launcher_of_this_package_is_made_by_its_name() -> None:
    made = {name: open_launcher(name)._named(name) for name in OWN_LAUNCHERS}  # type: ignore[attr-defined]

    assert [name for name, one in made.items() if isinstance(one, MissingLauncher)] == []
    assert {name: one.kind for name, one in made.items()} == {name: name for name in OWN_LAUNCHERS}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        *((name, None) for name in OWN_LAUNCHERS),
        ("", None),
        ("jobs", None),
        ("locals", None),
        ("LOCAL", "local"),
        (" yarn\n", "yarn"),
        ("Kubeflow Operator", "kubeflow-operator"),
        ("apache_operator", "apache-operator"),
    ],
)
def test_a_launcher_of_another_spelling_is_recognized(name: str, near: str | None) -> None:
    assert near_launcher(name) == near


def test_no_other_package_takes_the_place_of_the_local_launcher(
    install: Install, make_epoch: MakeEpoch
) -> None:
    install("local", "tests.unit.launch.brokered:NAME")

    assert open_launcher(policy=ask_recorded).probe(make_epoch(), None).state is ProcessState.GONE
