"""
A world in which time passes only when somebody waits: drivers, whoever keeps them alive, a consumer.

Records are real and so is everything that acts on them; drivers are models. One seed, one course.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from airflow_streaming.changes.handover.green_start import StoredCheckpoints
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.consumers import live
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.launch.port import Heartbeat, LaunchRequest
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import Process
from airflow_streaming.model.records.epoch import Epoch, Launch
from airflow_streaming.model.storage import Store
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.controller import StreamController, Submission
from airflow_streaming.supervision.decide import Action, decide
from airflow_streaming.supervision.observer import Observer
from tests.fakes import FakeLauncher
from tests.system.cutovers.model.driver import ModelDriver
from tests.system.cutovers.model.memory import MemoryStore
from tests.system.cutovers.model.outputs import Law, Reader, Sinks
from tests.system.cutovers.model.sea import Sea
from tests.unit.home.make import NOON

STREAM: Final = "orders"
RUNTIME: Final = Runtime(
    name="spark-4.3",
    spark_home=Path("/opt/spark"),
    python=Path("/opt/spark/bin/python"),
    java_home=None,
    spark_version="4.3.0",
)
POLICY: Final = RestartPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """
    What sort of query the stream has.

    :param has_gate: It stops between planning a batch and running it, as before ``foreachBatch``.
    :param has_log: Its sink has a log of batches, as Spark's file sink.
    """

    is_stateful: bool
    reads_files: bool
    has_gate: bool
    has_log: bool


class World:
    """
    One stream and all that happens to it.

    :param folder: Where its files lie.
    """

    def __init__(self, folder: Path, seed: int, shape: Shape) -> None:
        self.folder, self.shape, self.random = folder, shape, Random(seed)
        self.uri = str(folder / "home")
        self.store: Store = MemoryStore(self.uri)
        self.t = 0.0
        self._queue: list[tuple[float, int, Callable[[], float | None]]] = []
        self._order = itertools.count()
        self.sea, self.law, self.reader = Sea(seed), Law(), Reader()
        self.sinks = Sinks(has_log=shape.has_log)
        self.states: dict[tuple[str, int], dict[Any, int]] = {}
        self.launcher = ModelLauncher(self)
        self.kills: list[float] = []
        self.told: list[str] = []
        self._memories: dict[str, Any] = {}
        self.checkpoints: Any = StoredCheckpoints()
        self.every(3.0, self.keep_alive)
        self.every(1.0, self.consume)

    # Time.

    @property
    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.t)

    @property
    def now_ms(self) -> int:
        return int(self.now.timestamp() * 1000)

    def clock(self) -> float:
        return self.t

    def sleep(self, seconds: float) -> None:
        """Let time pass, and with it everything that happens meanwhile."""
        until = self.t + max(seconds, 0.01)
        while self._queue and self._queue[0][0] <= until:
            due, _, act = heapq.heappop(self._queue)
            self.t = max(self.t, due)
            again = act()
            if again is not None:
                self._at(self.t + again, act)
        self.t = until

    def every(self, seconds: float, act: Callable[[], object]) -> None:
        """Have something done again and again."""

        def acted() -> float:
            act()
            return seconds

        self._at(self.t + seconds, acted)

    def once(self, seconds: float, act: Callable[[], object]) -> None:
        """Have something done once, later."""

        def acted() -> None:
            act()

        self._at(self.t + seconds, acted)

    def _at(self, due: float, act: Callable[[], float | None]) -> None:
        heapq.heappush(self._queue, (due, next(self._order), act))

    # Drivers.

    def begin(self, driver: ModelDriver) -> None:
        """Let a driver live until it ends or is killed."""

        def live_on() -> float | None:
            if driver.gone:
                return None
            if self.kills and self.t >= self.kills[0]:
                self.kills.pop(0)
                self.told.append(f"{self.t:.1f} a driver of {driver.epoch.stream} is killed")
                self.kill(driver)
                return None
            return next(driver.life, None)

        self._at(self.t, live_on)

    def kill(self, driver: ModelDriver) -> None:
        """Let the processes of a driver be gone."""
        driver.gone = True
        self.launcher.end(driver.token)

    # Who acts on it.

    def home(self, lane: str, store: Store | None = None) -> StreamHome:
        return StreamHome(store or self.store, lane)

    def controller(
        self, lane: str, by: str, store: Store | None = None, launcher: Any = None
    ) -> StreamController:
        return StreamController(
            self.home(lane, store),
            launcher or self.launcher,
            spec=self.spec(lane),
            submit=self._submit,
            by=by,
            now=lambda: self.now,
            chance=lambda: 0.0,
        )

    def spec(self, lane: str, application: str = "/jobs/works.py") -> StreamSpec:
        return StreamSpec(name=lane, application=application, home=self.uri, runtime=RUNTIME.name)

    def observer(self, lane: str, store: Store | None = None, memory: Any = None) -> Observer:
        return Observer(
            self.home(lane, store),
            self.launcher,
            rules=HealthRules(),
            policy=POLICY,
            memory=memory,
            clock=self.clock,
            now=lambda: self.now,
        )

    def keep_alive(self) -> None:
        """Do what the task that keeps the live lane alive does."""
        lane = live_lane(Home(self.store), STREAM)
        if self.home(lane).newest_deployment() is None:
            return
        observer = self.observer(lane, memory=self._memories.get(lane))
        situation = observer.situation()
        self._memories[lane] = observer.memory()
        step, controller, seen = (
            decide(situation),
            self.controller(lane, "keep-alive"),
            situation.seen,
        )
        with contextlib.suppress(StreamingError):
            if step.action is Action.LAUNCH:
                controller.begin(situation, step)
            elif step.action is Action.SETTLE:
                controller.settle(situation)
            elif step.action is Action.STOP and seen is not None:
                controller.stop(seen, step.reason, timedelta(seconds=30))
            elif step.action is Action.KILL and seen is not None:
                controller.kill(seen, step.reason)

    def consume(self) -> None:
        """Let the consumer read what is live."""
        if self.home(STREAM).newest_deployment() is None:
            return
        place = live(Home(self.store), STREAM).output
        self.reader.look(place, self.sinks.batches(place))

    def _submit(self, submission: Submission) -> LaunchRequest:
        return LaunchRequest(
            epoch=submission.epoch,
            command=("spark-submit",),
            environment={},
            log=self.folder / "driver.log",
        )


class ModelLauncher(FakeLauncher):
    """Starts modeled drivers."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._models: dict[str, ModelDriver] = {}

    def launch(self, request: LaunchRequest) -> Launch:
        launch = replace(super().launch(request), launched_at=self._world.now)
        epoch = request.epoch
        deployment = self._world.home(epoch.stream).deployment(epoch.deployment)
        model = ModelDriver(self._world, epoch, deployment, epoch.token)
        self._models[epoch.token] = model
        self._world.begin(model)
        return launch

    def kill(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None = None
    ) -> Process:
        seen = super().kill(epoch, launch, heartbeat)
        if epoch.token in self._models:
            self._models[epoch.token].gone = True
        return seen

    def models(self) -> Iterator[ModelDriver]:
        """Return every driver that lives."""
        return (model for model in self._models.values() if not model.gone)
