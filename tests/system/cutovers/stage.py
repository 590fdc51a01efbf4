"""
The stream of the cutovers on this machine: its home, its drivers, and who keeps it alive.

Everything of ours is real: records, launcher, driver, steering. Only Airflow is missing: what its
task does to keep a stream alive is done by a thread here, with the same decision.
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.epoch import Exit
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.policy import RestartPolicy
from airflow_streaming.core.rules.rule import HealthRule, Metric
from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.core.steering import Action, decide
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import Home, StreamHome, open_home
from airflow_streaming.home.lanes import live_lane
from airflow_streaming.launch.application import read_application
from airflow_streaming.launch.environment import driver_environment
from airflow_streaming.launch.keeper import Keeper, Submission
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.package import build_driver_package
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.launch.private import write_private
from airflow_streaming.launch.properties import properties_text
from airflow_streaming.launch.runtime import Runtime, resolve_runtime
from airflow_streaming.observe.stream import Observer

STREAM: Final = "orders"
QUERY: Final = "counts"
CONF: Final = {
    "spark.master": "local[2]",
    "spark.driver.memory": "700m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
STATE_RULES: Final = HealthRules(
    rules=(
        HealthRule(
            name="state_rows",
            metric=Metric.STATE_ROWS,
            bound=300.0,
            # A new driver has all windows in its state until its first watermark.
            sustained_for=timedelta(seconds=10),
            clear_for=timedelta(seconds=1),
        ),
    )
)
"""What the state may hold: the good applications keep some twenty rows."""

LOOK_SECONDS: Final = 0.5
"""Between two looks of whoever keeps the stream alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """
    One stream in a folder.

    :param folder: Everything lies here.
    :param runtime: The Spark installation.
    :param sink: ``ledger`` or ``parquet``, as the application is told.
    :param watches_state: Whoever observes minds how much the state holds.
    """

    folder: Path
    runtime: Runtime
    sink: str
    watches_state: bool = False

    @classmethod
    def at(cls, folder: Path, spark: Path, sink: str) -> Stage:
        """Return the stage in a folder, with the Spark of a virtual environment."""
        runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(spark)})
        return cls(folder=folder, runtime=runtime, sink=sink)

    @property
    def input(self) -> Path:
        return self.folder / "in"

    @property
    def home_uri(self) -> str:
        return str(self.folder / "home")

    @property
    def home(self) -> Home:
        return open_home(self.home_uri)

    @property
    def store_uri(self) -> str:
        return str(self.folder / "backups")

    def lane(self, lane: str) -> StreamHome:
        """Return the records of one lane."""
        return self.home.stream(lane)

    def live_lane(self) -> str:
        """Return the lane that consumers read."""
        return live_lane(self.home, STREAM)

    def spec(self, application: str, lane: str = STREAM) -> StreamSpec:
        """Return what a dag would ask for."""
        return StreamSpec(
            name=lane,
            application=application,
            application_args=[
                "--input",
                str(self.input),
                "--output",
                "{output}",
                "--sink",
                self.sink,
            ],
            home=self.home_uri,
            runtime=self.runtime.name,
            conf=CONF,
        )

    def keeper(self, lane: str, by: str, application: str = "/not/asked/for.py") -> Keeper:
        """Return who acts on a lane."""
        return Keeper(
            self.lane(lane),
            LocalLauncher(),
            spec=self.spec(application, lane),
            submit=self.submit,
            by=by,
        )

    def observer(self, lane: str, memory: dict[str, Any] | None = None) -> Observer:
        """Return who looks at a lane."""
        return Observer(
            self.lane(lane),
            LocalLauncher(),
            rules=STATE_RULES if self.watches_state else HealthRules(),
            policy=RestartPolicy(),
            memory=memory,
        )

    def proposal(self, lane: str, application: Path, *, fresh: bool) -> tuple[Deployment, bytes]:
        """Return a deployment of an application in a lane, and its source."""
        source = read_application(str(application))
        keeper = self.keeper(lane, "a test", str(application))
        return keeper.propose(self.runtime, str(application), source, fresh=fresh), source

    def submit(self, submission: Submission) -> LaunchRequest:
        """Build the command of a driver."""
        epoch, deployment = submission.epoch, submission.deployment
        package = build_driver_package(self.folder / "package")
        log = self.folder / "logs" / f"{epoch.stream}-{epoch.number:06}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        properties = log.with_name(f"{log.stem}-{epoch.token[:8]}.conf")
        write_private(properties, properties_text(submission.conf))
        command = (
            *(str(self.runtime.spark_submit), "--properties-file", str(properties)),
            *("--py-files", str(package.archive), str(package.main)),
            *("--home", self.home_uri, "--stream", epoch.stream),
            *("--epoch", str(epoch.number), "--token", epoch.token),
            *("--properties-file", str(properties)),
        )
        assert deployment.runtime == self.runtime.name
        return LaunchRequest(
            epoch=epoch,
            command=command,
            environment=environment_of(self.runtime),
            log=log,
            private_files=(properties,),
        )

    def drivers(self) -> list[tuple[str, int]]:
        """Return lane and epoch of every driver that has a process."""
        launcher, found = LocalLauncher(), list[tuple[str, int]]()
        for lane in self.home.streams():
            home = self.lane(lane)
            newest = home.newest_epoch()
            for number in range(1, (newest.number if newest else 0) + 1):
                epoch = home.epoch(number)
                if launcher.find(epoch) is not None:
                    found.append((lane, number))
        return found

    def end(self) -> None:
        """Kill every driver there is."""
        launcher = LocalLauncher()
        for lane, number in self.drivers():
            home = self.lane(lane)
            launcher.kill(home.epoch(number), home.launch(number))

    def exit_of(self, lane: str) -> Exit | None:
        """Return the last words of a lane's newest driver."""
        epoch = self.lane(lane).newest_epoch()
        return None if epoch is None else self.lane(lane).aftermath(epoch.number).exit


def environment_of(runtime: Runtime) -> dict[str, str]:
    """Return the environment of a driver on this machine."""
    return {**driver_environment(os.environ, runtime, {}), "SPARK_LOCAL_IP": "127.0.0.1"}


class KeepAlive:
    """Keeps the live lane alive, in a thread, as the keep-alive task does."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.said: list[str] = []
        self._memories: dict[str, Any] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keep-alive", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(LOOK_SECONDS):
            with contextlib.suppress(StreamingError):
                self.look()

    def look(self) -> Action:
        """Look at the live lane once and do what it needs."""
        lane = self._stage.live_lane()
        observer = self._stage.observer(lane, self._memories.get(lane))
        situation = observer.situation()
        self._memories[lane] = observer.memory()
        step, keeper, seen = (
            decide(situation),
            self._stage.keeper(lane, "keep-alive"),
            situation.seen,
        )
        if not step.is_passive:
            self.said.append(f"{lane}: {step.action}: {step.reason}")
        if step.action is Action.LAUNCH:
            keeper.begin(situation, step)
        elif step.action is Action.SETTLE:
            keeper.settle(situation)
        elif step.action is Action.STOP and seen is not None:
            keeper.stop(seen, step.reason, timedelta(seconds=30))
        elif step.action is Action.KILL and seen is not None:
            keeper.kill(seen, step.reason)
        return step.action


def start(stage: Stage, application: Path) -> Deployment:
    """Make the first deployment of the stream; whoever keeps it alive starts it."""
    deployment, source = stage.proposal(STREAM, application, fresh=False)
    stage.keeper(STREAM, "a test").deploy(deployment, source)
    return replace(deployment)


def want(stage: Stage, lane: str, state: DesiredState) -> None:
    """Say that a lane is to run, or to be stopped."""
    keeper = stage.keeper(lane, "a test")
    stage.lane(lane).want(state, by="a test", reason="The test says so.", now=keeper._now())
