"""
The stream of the cutovers on this machine: its home, its drivers, and who looks at them.

Everything of ours is real: records, launcher, driver. Only Airflow is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from airflow_streaming.home.home import Home, StreamHome, open_home
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.launch.environment import properties_text, write_private
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.package import build_driver_package, read_application
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.launch.runtime import Runtime, resolve_runtime
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRule, HealthRules
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Exit
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.controller import StreamController, Submission
from airflow_streaming.supervision.observer import Observer
from tests.quick_java import spark_environment

STREAM: Final = "orders"
QUERY: Final = "counts"
STATEFUL: Final = frozenset({QUERY})
CONF: Final = {
    "spark.master": "local[2]",
    "spark.driver.memory": "700m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """
    One stream in a folder, or several.

    :param folder: Everything lies here.
    :param runtime: The Spark installation.
    :param sink: ``ledger`` or ``parquet``, as the application is told.
    :param queries: What the application starts.
    :param streams: Their names; all run the same and read the same input.
    :param watches_state: Whoever observes minds how much the state holds.
    :param conf: What is set beside ``CONF``.
    """

    folder: Path
    runtime: Runtime
    sink: str
    queries: tuple[str, ...] = (QUERY,)
    streams: tuple[str, ...] = (STREAM,)
    watches_state: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def at(
        cls,
        folder: Path,
        spark: Path,
        sink: str,
        *,
        queries: tuple[str, ...] = (QUERY,),
        streams: tuple[str, ...] = (STREAM,),
    ) -> Self:
        """Return the stage in a folder, with the Spark of a virtual environment."""
        runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(spark)})
        return cls(folder=folder, runtime=runtime, sink=sink, queries=queries, streams=streams)

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

    @property
    def stateful(self) -> tuple[str, ...]:
        """Return the queries that have state."""
        return tuple(query for query in self.queries if query in STATEFUL)

    def live_lane(self, stream: str = STREAM) -> str:
        """Return the lane that consumers read."""
        return live_lane(self.home, stream)

    def place(self, output: str, query: str) -> str:
        """Return where in an output a query writes."""
        return output if self.queries == (query,) else f"{output}/{query}"

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
                "--queries",
                ",".join(self.queries),
            ],
            home=self.home_uri,
            runtime=self.runtime.name,
            conf={**CONF, **self.conf},
        )

    def controller(
        self, lane: str, by: str, application: str = "/not/asked/for.py"
    ) -> StreamController:
        """Return who acts on a lane."""
        return StreamController(
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

    def proposal(
        self,
        lane: str,
        application: Path,
        *,
        fresh: bool,
        carried_on: Mapping[str, str] | None = None,
    ) -> tuple[Deployment, bytes]:
        """Return a deployment of an application in a lane, and its source."""
        source = read_application(str(application))
        controller = self.controller(lane, "a test", str(application))
        proposed = controller.propose(
            self.runtime, str(application), source, fresh=fresh, carried_on=carried_on
        )
        return proposed, source

    def submit(self, submission: Submission) -> LaunchRequest:
        """Build the command of a driver."""
        epoch, deployment = submission.epoch, submission.deployment
        package = build_driver_package(self.folder / "package")
        py_files = ",".join((str(package.archive), *deployment.py_files))
        log = self.folder / "logs" / f"{epoch.stream}-{epoch.number:06}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        properties = log.with_name(f"{log.stem}-{epoch.token[:8]}.conf")
        write_private(properties, properties_text(submission.conf))
        command = (
            *(str(self.runtime.spark_submit), "--properties-file", str(properties)),
            *("--py-files", py_files, str(package.main)),
            *("--home", self.home_uri, "--stream", epoch.stream),
            *("--epoch", str(epoch.number), "--token", epoch.mark),
            *("--properties-file", str(properties)),
        )
        assert deployment.runtime == self.runtime.name
        return LaunchRequest(
            epoch=epoch,
            command=command,
            environment=spark_environment(self.runtime),
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
