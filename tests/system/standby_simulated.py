"""
Ten thousand schedules of a stream with a hot standby, by seed.

``python -m tests.system.standby_simulated --seeds 10000`` needs no Spark. Decisions, controller,
observer, records and the standby's way to its epoch are the real ones; processes are played. In each
schedule two tasks look and act, with other steps in between, and die before any durable step; live
and waiting drivers are killed, suspended and resumed at any moment; the stream is stopped, started
and deployed anew. After every step at most one living process may be past the point where it starts
to write. In the end, once nothing is broken any more, one driver has to write and a warm standby has
to wait beside it. One line is printed for each schedule that is not so, and the process ends with 1.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import hashlib
import logging
import multiprocessing
import os
import sys
from collections import Counter
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final

from airflow_streaming.driver.exit_status import promoted
from airflow_streaming.driver.standby.barrier import OrderBook
from airflow_streaming.driver.standby.promotion import PromotionBook, read_signs, reason_to_end
from airflow_streaming.exceptions import AlreadyExists, StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.model.arguments.policies import Budget, RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import Epoch, Exit, Launch, Outcome
from airflow_streaming.model.status import DriverState, Status
from airflow_streaming.supervision.controller import StreamController
from airflow_streaming.supervision.decide import Action, ReconcileInput, Step, decide
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.supervision.standby import can_take_over
from tests.fakes import FAKE_HOST, FakeLauncher
from tests.unit.supervision.builders import NOW, a_deployment, a_spec

POLICY: Final = RestartPolicy(
    first_delay=timedelta(milliseconds=1),
    max_delay=timedelta(milliseconds=2),
    budgets=(Budget(restarts=10_000, window=timedelta(hours=1)),),
    application_budgets=(Budget(restarts=10_000, window=timedelta(hours=1)),),
    poison_after=10_000,
)
STORMS: Final = 3
STEPS: Final = 40
ROUNDS: Final = 600
SOURCE: Final = b"a script"


class Died(BaseException):
    """A task was killed."""


class Files(dict[str, bytes]):
    """Files by path, and the names in each folder."""

    def __init__(self) -> None:
        super().__init__()
        self.folders: dict[str, set[str]] = {}

    def __setitem__(self, path: str, data: bytes) -> None:
        super().__setitem__(path, data)
        while path:
            path, _, name = path.rpartition("/")
            self.folders.setdefault(path, set()).add(name)


class MemoryStore:
    """A home in memory; ``left`` durable steps are done before its task dies, if it is one's."""

    uri = "memory://home"

    def __init__(self, files: Files) -> None:
        self.files = files
        self.left: int | None = None

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def create(self, path: str, data: bytes) -> None:
        self._live()
        if path in self.files:
            raise AlreadyExists(path)
        self.files[path] = data

    def replace(self, path: str, data: bytes) -> None:
        self._live()
        self.files[path] = data

    def names(self, folder: str) -> list[str]:
        return sorted(self.files.folders.get(folder, ()))

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def _live(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Died


class MemoryHome(StreamHome):
    """The records of a home in memory, each content of which is parsed once."""

    def _read(self, cls: type[Any], path: str, **_: object) -> Any:
        data = self.store.read(path)
        return None if data is None else parsed(cls, data)


@lru_cache(maxsize=4096)
def parsed(cls: type[Any], data: bytes) -> Any:
    """Return a record, which cannot be changed."""
    return cls.from_bytes(data)


class Driver:
    """A played driver process: its barrier, fence, heartbeat and stop, as the real one has them."""

    def __init__(self, world: World, epoch: Epoch) -> None:
        self.world, self.epoch, self.launched = world, epoch, epoch
        self.store = MemoryStore(world.files)
        self.book: OrderBook | None = None
        if epoch.serves:
            self.book = PromotionBook(self.store, epoch, adopt=self._adopt)
        self.beat, self.writes, self.passed = 0, False, False

    @property
    def is_alive(self) -> bool:
        return self.world.launcher.drivers[self.epoch.token].is_alive

    @property
    def is_suspended(self) -> bool:
        return self.world.launcher.drivers[self.epoch.token].is_suspended

    def step(self, chance: Random) -> None:
        if not self.is_alive or self.is_suspended:
            return
        if self.passed and not self.writes and chance.random() < 0.5:
            # The fence was looked at before; nothing keeps it from writing now.
            self.writes = True
            return
        layout = Layout(self.epoch.stream)
        if self.store.read(layout.place(Epoch, number=self.epoch.number + 1)) is not None:
            self._end(Outcome.FENCED)
        elif self.store.read(layout.epoch(self.epoch.number, "stop.json")) is not None:
            self._end(Outcome.STOPPED)
        elif chance.random() < 0.4:
            self._beat()
        elif self.book is None:
            self.passed = True
        elif self.epoch.serves and chance.random() < 0.3 and self._is_unwanted():
            self._end(Outcome.STOPPED)
        elif self.beat:
            self._follow(self.book)

    def _follow(self, book: OrderBook) -> None:
        if self.epoch.serves:
            book.show(("q",))
        order = book.next()
        if order is not None:
            book.answer(committed={}, error="")
            self.book = None

    def _is_unwanted(self) -> bool:
        signs = read_signs(self.store, Layout(self.epoch.serves))
        return bool(reason_to_end(signs, self.epoch))

    def _adopt(self, epoch: Epoch, _: Any) -> None:
        path = Layout(self.epoch.stream).epoch(self.epoch.number, "exit.json")
        self.store.create(
            path, promoted(self.epoch, epoch, self.world.now).to_bytes(self.epoch.stream)
        )
        self.epoch, self.beat = epoch, 0
        self._beat()

    def _beat(self) -> None:
        self.beat += 1
        is_waiting, now = self.book is not None, self.world.now
        status = Status(
            stream=self.epoch.stream,
            epoch=self.epoch.number,
            token=self.epoch.token,
            beat=self.beat,
            state=DriverState.RUNNING if self.writes else DriverState.STARTING,
            host=FAKE_HOST,
            pid=1,
            started_at=now,
            at=now,
            spark_version="4.3.0",
            first_progress_at=now if self.writes else None,
            standby=is_waiting,
        )
        path = Layout(self.epoch.stream).epoch(self.epoch.number, "status.json")
        self.store.replace(path, status.to_bytes())

    def _end(self, outcome: Outcome) -> None:
        path = Layout(self.epoch.stream).epoch(self.epoch.number, "exit.json")
        last = Exit(
            epoch=self.epoch.number, outcome=outcome, reason="It ends.", ended_at=self.world.now
        )
        if self.store.read(path) is None:
            self.store.create(path, last.to_bytes(self.epoch.stream))
        self.world.launcher.end(self.epoch.token)


class Launching(FakeLauncher):
    """Starts played drivers; a task may be killed just before one is."""

    world: World
    dies = False

    def __init__(self) -> None:
        super().__init__()
        self.late: list[LaunchRequest] = []

    def launch(self, request: LaunchRequest) -> Launch:
        if self.dies:
            self.dies = False
            if self.world.chance.random() < 0.5:
                self.late.append(request)
            raise Died
        launch = super().launch(request)
        self.world.drivers.append(Driver(self.world, request.epoch))
        return launch

    def launch_late(self) -> None:
        """Start the drivers whose submission was under way when its task died."""
        self.dies = False
        while self.late:
            self.launch(self.late.pop())


class Task:
    """One attempt after the other of the task that keeps the stream."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.memory: dict[str, Any] | None = None
        self.begin()

    def begin(self) -> None:
        """Begin a new attempt, which knows what a trigger has learned."""
        world = self.world
        self.store = MemoryStore(world.files)
        self.home = MemoryHome(self.store, "orders")
        self.seen: tuple[ReconcileInput, Step] | None = None
        self.controller = StreamController(
            self.home,
            world.launcher,
            spec=a_spec(standby=True),
            submit=lambda s: LaunchRequest(
                epoch=s.epoch, command=(), environment={}, log=Path("/nowhere/driver.log")
            ),
            by=self.name,
            now=lambda: world.now,
            chance=lambda: 0.5,
        )
        self.observer = Observer(
            self.home,
            world.launcher,
            rules=HealthRules(),
            policy=POLICY,
            memory=self.memory,
            clock=lambda: world.clock,
            now=lambda: world.now,
        )

    def look(self) -> None:
        situation = self.observer.situation(wants_standby=True)
        self.memory = self.observer.memory()
        self.controller.adopt(situation.seen)
        self.seen = situation, decide(situation)

    def act(self) -> None:
        if self.seen is None:
            return
        (situation, step), self.seen = self.seen, None
        self.world.acts[step.action] += 1
        try:
            self._act(situation, step)
        except StreamingError:
            self.world.acts["refused"] += 1

    def _act(self, situation: ReconcileInput, step: Step) -> None:
        seen = situation.seen
        match step.action:
            case Action.LAUNCH:
                self.world.acts["promote"] += step.promotes is not None
                self.controller.begin(situation, step)
            case Action.SETTLE:
                self.controller.settle(situation)
            case Action.STOP if seen is not None:
                self.controller.stop(seen, step.reason, timedelta(seconds=5), verdict=step.verdict)
            case Action.KILL if seen is not None:
                self.controller.kill(seen, step.reason)
            case Action.STANDBY:
                self.controller.launch_standby(situation, step)
            case Action.RELEASE if seen is not None:
                self.controller.release(seen.epoch)

    def do(self, what: str) -> None:
        """Look or act, and be followed by the next attempt when killed in the middle of it."""
        try:
            getattr(self, what)()
        except Died:
            self.world.acts["died"] += 1
            self.world.launcher.dies = False
            self.begin()


class World:
    """One stream, its processes, its tasks and its time."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(f"standby {seed}")
        self.files = Files()
        self.now, self.clock = NOW, 0.0
        self.acts: Counter[str] = Counter()
        self.drivers: list[Driver] = []
        self.launcher = Launching()
        self.launcher.world = self
        self.home = MemoryHome(MemoryStore(self.files), "orders")
        self.deployments = 0
        self.deploy()
        self.tasks = [Task(self, "first"), Task(self, "second")]

    def deploy(self) -> None:
        self.deployments += 1
        deployment = a_deployment(
            number=self.deployments,
            application_sha256=hashlib.sha256(SOURCE).hexdigest(),
            created_at=self.now,
        )
        self.home.create_deployment(deployment, SOURCE)

    def advance(self, seconds: float) -> None:
        self.clock += seconds
        self.now += timedelta(seconds=seconds)

    def writers(self) -> list[Driver]:
        return [driver for driver in self.drivers if driver.is_alive and driver.writes]

    def check(self) -> None:
        """
        Check that no second process writes.

        :raises AssertionError: one does.
        """
        writers = [driver.epoch.number for driver in self.writers()]
        if len(writers) > 1:
            raise AssertionError(f"the drivers of epochs {writers} write")

    def any_step(self) -> None:
        """Let something happen."""
        whats = (self._run, self._look, self._act, self._kill, self._suspend, self.resume)
        rare = (self._doom, self._doom_launch, self._late, self._want_any, self.deploy, self._wait)
        weights = (40, 19, 16, 7, 2, 3, 4, 2, 2, 1, 1, 7)
        self.chance.choices((*whats, *rare), weights)[0]()

    def _run(self) -> None:
        for driver in list(self.drivers):
            driver.step(self.chance)

    def _task(self) -> Task:
        return self.chance.choice(self.tasks)

    def _look(self) -> None:
        self._task().do("look")

    def _act(self) -> None:
        self._task().do("act")

    def _any_alive(self) -> Driver | None:
        alive = [driver for driver in self.drivers if driver.is_alive]
        # As often the one that writes as any.
        chosen = self.writers() if self.chance.random() < 0.5 else alive
        return self.chance.choice(chosen) if chosen else None

    def _kill(self) -> None:
        driver = self._any_alive()
        if driver is not None:
            self.launcher.end(driver.epoch.token)

    def _suspend(self) -> None:
        driver = self._any_alive()
        if driver is not None:
            self.launcher.suspend(driver.epoch.token)

    def _doom(self) -> None:
        self._task().store.left = self.chance.randrange(6)

    def _doom_launch(self) -> None:
        self.launcher.dies = True

    def _late(self) -> None:
        self.launcher.launch_late()

    def _want_any(self) -> None:
        self._want(self.chance.choice(list(DesiredState)))

    def _wait(self) -> None:
        self.advance(self.chance.choice([1.0, 5.0, 20.0, 70.0, 700.0]))

    def _want(self, state: DesiredState) -> None:
        self.home.want(state, by="ada", reason="The schedule says so.", now=self.now)

    def resume(self) -> None:
        for driver in self.launcher.drivers.values():
            driver.is_suspended = False

    def calm(self) -> None:
        """Break nothing any more."""
        self.resume()
        self._want(DesiredState.RUNNING)
        self.launcher.launch_late()
        for task in self.tasks:
            task.store.left = None

    def is_well(self) -> bool:
        """Tell whether one driver writes and a warm one waits."""
        situation = self.tasks[0].observer.situation(wants_standby=True)
        live = situation.seen
        return (
            live is not None
            and [driver.epoch.number for driver in self.writers()] == [live.epoch.number]
            and can_take_over(situation.standby, self.deployments, self.now)
        )


def trouble_of(seed: int) -> tuple[str, Counter[str]]:
    """Run one schedule; return what went wrong, empty when nothing did, and what was done."""
    world = World(seed)
    try:
        settle(world)
        for _ in range(STORMS):
            for _ in range(STEPS):
                world.any_step()
                world.check()
            settle(world)
    except AssertionError as err:
        return f"seed {seed}: {err}", world.acts
    return "", world.acts


def settle(world: World) -> None:
    """
    Break nothing any more, and wait until all is well.

    :raises AssertionError: two processes write, or it does not become well.
    """
    world.calm()
    for number in range(ROUNDS):
        if number % 3 == 0 and world.is_well():
            return
        world.advance(3.0)
        for driver in list(world.drivers):
            driver.step(world.chance)
            world.check()
        for task in world.tasks:
            task.do("look")
            task.do("act")
    raise AssertionError("no writer with a warm standby beside it")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seeds = range(args.first, args.first + args.seeds)
    acts: Counter[str] = Counter()
    failures = 0
    with multiprocessing.Pool(args.processes) as pool:
        for trouble, done in pool.imap_unordered(trouble_of, seeds, chunksize=20):
            acts.update(done)
            if trouble:
                failures += 1
                print(trouble, flush=True)
    print(f"{args.seeds} schedules, {failures} wrong; acts: {dict(sorted(acts.items()))}")
    return 1 if failures else 0


if __name__ == "__main__":
    os.nice(5)
    sys.exit(main())
