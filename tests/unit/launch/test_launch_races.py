"""Two tasks that launch one stream in the same instant start one driver; RACES=200 says how often."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.records.policy import RestartPolicy
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.controller import StreamController, Submission
from airflow_streaming.supervision.decide import Action, Step
from airflow_streaming.supervision.observer import Observer
from tests.fakes import FakeLauncher
from tests.unit.home.make import SCRIPT, make_deployment
from tests.unit.racing import at_once

ROUNDS = int(os.environ.get("RACES", "20"))
FIRST = Step(action=Action.LAUNCH, reason="The test launches.", cause=LaunchCause.FIRST)


class Racer:
    """A task with eyes and hands of its own on a home that both share."""

    def __init__(self, folder: Path, launcher: FakeLauncher, name: str) -> None:
        uri = str(folder / "home")
        home = StreamHome(LocalStore(uri), "orders")
        spec = StreamSpec(
            name="orders", application="/dags/orders.py", home=uri, runtime="spark-4.3"
        )

        def submit(submission: Submission) -> LaunchRequest:
            log = folder / f"{name}.log"
            return LaunchRequest(
                epoch=submission.epoch, command=("spark-submit",), environment={}, log=log
            )

        self.home = home
        self.keeper = StreamController(home, launcher, spec=spec, submit=submit, by=name)
        observer = Observer(home, launcher, rules=HealthRules(), policy=RestartPolicy())
        if home.newest_deployment() is None:
            home.create_deployment(make_deployment(), SCRIPT)
        self.situation = observer.situation()

    def launch(self) -> None:
        """Launch by what was seen before the race; the loser finds the number taken."""
        self.keeper.begin(self.situation, FIRST)


def test_of_two_tasks_that_launch_in_one_instant_one_starts_a_driver(tmp_path: Path) -> None:
    for turn in range(ROUNDS):
        folder, launcher = tmp_path / str(turn), FakeLauncher()
        racers = [Racer(folder, launcher, name) for name in ("one", "two")]

        at_once(*(racer.launch for racer in racers))

        assert launcher.living() == [1], f"In round {turn}: {launcher.living()}."
        assert len(launcher.launched) == 1
        assert racers[0].home.launch(1) is not None


def test_a_late_task_of_two_that_restart_in_one_instant_starts_no_second_driver(
    tmp_path: Path,
) -> None:
    for turn in range(ROUNDS):
        folder, launcher = tmp_path / str(turn), FakeLauncher()
        Racer(folder, launcher, "before").launch()
        launcher.end(next(iter(launcher.drivers)))
        racers = [Racer(folder, launcher, name) for name in ("one", "two")]
        refused: list[StreamingError] = []

        def restart(racer: Racer, refused: list[StreamingError] = refused) -> None:
            try:
                racer.launch()
            except StreamingError as err:
                refused.append(err)

        at_once(*(lambda r=racer: restart(r) for racer in racers))  # type: ignore[misc]

        assert launcher.living() == [2], f"In round {turn}: {launcher.living()}, {refused}."
