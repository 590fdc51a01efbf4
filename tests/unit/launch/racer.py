"""A task that launches a stream by what it saw before others of its kind launched it too."""

from __future__ import annotations

from pathlib import Path

from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.controller import StreamController, Submission
from airflow_streaming.supervision.decide import Action, Step
from airflow_streaming.supervision.observer import Observer
from tests.fakes import FakeLauncher
from tests.unit.home.make import SCRIPT, make_deployment

FIRST = Step(action=Action.LAUNCH, reason="The test launches.", cause=LaunchCause.FIRST)


class Racer:
    """A task with eyes and hands of its own on a home that both share."""

    def __init__(
        self, folder: Path, launcher: FakeLauncher, name: str, home: StreamHome | None = None
    ) -> None:
        home = home or StreamHome(LocalStore(str(folder / "home")), "orders")
        spec = StreamSpec(
            name="orders",
            application="/dags/orders.py",
            home=home.store.uri,
            runtime="spark-4.3",
        )

        def submit(submission: Submission) -> LaunchRequest:
            log = folder / f"{name}.log"
            return LaunchRequest(
                epoch=submission.epoch, command=("spark-submit",), environment={}, log=log
            )

        self.home = home
        self.controller = StreamController(home, launcher, spec=spec, submit=submit, by=name)
        observer = Observer(home, launcher, rules=HealthRules(), policy=RestartPolicy())
        if home.newest_deployment() is None:
            home.create_deployment(make_deployment(), SCRIPT)
        self.situation = observer.situation()

    def launch(self) -> None:
        """Launch by what was seen before the race; the loser finds the number taken."""
        self.controller.begin(self.situation, FIRST)
