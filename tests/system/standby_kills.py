"""
Kill live and waiting drivers of one stream with a hot standby, in every order, on a real Spark.

``python -m tests.system.standby_kills --kills 100`` keeps a stateful query with a standby beside it, as the
task does, and kills JVMs with SIGKILL, order after order: the live driver; the standby; the one and then the
other; both at once; the live one a moment after a promotion, which may hit the new driver before its first
batch; and either of them while the next standby is warming. Ten times a second it is counted how many
drivers may write: those with a process that are past the barrier. At the end all rows are compared with
what a batch over the same input gives. One line is printed for each order, and the process ends with 1 when
a row is lost, doubled or wrong, or two drivers could write at once.

The last line names the order with which the next run continues, on a stream of its own: ``--first``. A
standby that ended is made again at once here; in production it rests first, to spare the machine.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import psutil

from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.supervision.decide import Action, decide
from airflow_streaming.supervision.observer import Observer
from tests.conftest import find_runtimes
from tests.system.cutovers import applications
from tests.system.cutovers.consumer import new_rows
from tests.system.cutovers.keeping import KeepAlive, start, want
from tests.system.cutovers.shop import Shop, expected
from tests.system.cutovers.stage import QUERY, STREAM, Stage
from tests.system.cutovers.truth import judge_rows
from tests.system.cutovers.waiting import until
from tests.system.standby_simulated import POLICY

PATIENCE: Final = 300.0
LOOK_SECONDS: Final = 0.1


class KeepWithStandby(KeepAlive):
    """Keeps the stream alive with a hot standby."""

    def look(self, stream: str) -> Action:
        stage = self._stage
        observer = Observer(
            *(stage.lane(stream), LocalLauncher()),
            rules=HealthRules(),
            policy=POLICY,
            memory=self._memories.get(stream),
        )
        situation = observer.situation(wants_standby=True)
        self._memories[stream] = observer.memory()
        step, controller, seen = (
            decide(situation),
            stage.controller(stream, "keep-alive"),
            situation.seen,
        )
        controller.adopt(seen)
        match step.action:
            case Action.LAUNCH:
                controller.begin(situation, step)
            case Action.SETTLE:
                controller.settle(situation)
            case Action.STOP if seen is not None:
                controller.stop(seen, step.reason, timedelta(seconds=30))
            case Action.KILL if seen is not None:
                controller.kill(seen, step.reason)
            case Action.STANDBY:
                controller.launch_standby(situation, step)
            case Action.RELEASE if seen is not None:
                controller.release(seen.epoch)
        return step.action


@dataclass
class Watch:
    """Counts the drivers that may write, in a thread of its own."""

    stage: Stage
    most: int = 0
    looks: int = 0
    together: list[tuple[int, ...]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.over.wait(LOOK_SECONDS):
            with contextlib.suppress(StreamingError):
                self.look()

    def look(self) -> None:
        home = self.stage.lane(STREAM)
        numbers = home.epoch_numbers()[-4:]
        able = tuple(number for number in numbers if self._may_write(home, home.epoch(number)))
        self.looks += 1
        self.most = max(self.most, len(able))
        if len(able) > 1:
            self.together.append(able)

    def _may_write(self, home: StreamHome, epoch: Epoch) -> bool:
        if epoch.promotes is None:
            return is_alive(jvm_of(home, epoch))
        # A promotion is recorded before its launch, and the standby is the driver from then on.
        standbys = home.standbys()
        is_past = home.is_released(epoch.number)
        return is_past and is_alive(jvm_of(standbys, standbys.epoch(epoch.promotes)))


def jvm_of(home: StreamHome, epoch: Epoch) -> psutil.Process | None:
    """Return the JVM of an epoch's driver, or of a standby's, while it is there and so named."""
    launch = home.launch(epoch.number)
    if launch is None:
        return None
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(int(launch.handle["pid"]))
        # Another process may have got the number: one of a busy machine comes round in minutes.
        return process if epoch.mark in process.cmdline() else None
    return None


def is_alive(process: psutil.Process | None) -> bool:
    """Tell whether a process can still write; one that nobody has reaped cannot."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process is not None and process.status() != psutil.STATUS_ZOMBIE
    return False


class Kills:
    """The orders, by name; each begins beside a warm standby and returns how many drivers it killed."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.orders: dict[str, Callable[[], int]] = {
            "live": lambda: self._kill(self._live),
            "standby": lambda: self._kill(self._standby),
            "live, then standby": lambda: self._kill(self._live, self._standby),
            "standby, then live": lambda: self._kill(self._standby, self._live),
            "both at once": self._both,
            "live, then the promoted one": self._promoted,
            "standby, then the next as it warms": lambda: self._as_next_warms(self._standby),
            "standby, then live as the next warms": lambda: self._as_next_warms(self._live),
        }

    @property
    def home(self) -> StreamHome:
        """The stream's records."""
        return self._stage.lane(STREAM)

    def await_ready(self) -> None:
        """Wait until a driver commits and a warm standby waits beside it."""
        until(self._is_ready, "a live driver with a warm standby", PATIENCE, every=0.3)

    def _is_ready(self) -> bool:
        situation = self._stage.observer(STREAM).situation(wants_standby=True)
        live, standby = situation.seen, situation.standby
        if live is None or live.status is None or standby is None or standby.is_promoted:
            return False
        is_running = live.process.state is ProcessState.RUNNING and live.status.batches > 0
        return is_running and standby.has_come and standby.process.state is ProcessState.RUNNING

    def _is_warming(self) -> bool:
        standby = self._stage.observer(STREAM).situation(wants_standby=True).standby
        if standby is None or standby.is_promoted or standby.has_come or standby.has_ended:
            return False
        return is_alive(self._standby())

    def _live(self) -> psutil.Process | None:
        epoch = self.home.newest_epoch()
        return None if epoch is None else jvm_of(self.home, epoch)

    def _standby(self) -> psutil.Process | None:
        standbys = self.home.standbys()
        epoch = standbys.newest_epoch()
        return None if epoch is None else jvm_of(standbys, epoch)

    def _kill(self, *who: Callable[[], psutil.Process | None]) -> int:
        killed = 0
        for which in who:
            process = which()
            if process is not None and is_alive(process):
                process.kill()
                killed += 1
        return killed

    def _both(self) -> int:
        both = [process for process in (self._live(), self._standby()) if process is not None]
        for process in both:
            process.kill()
        return len(both)

    def _promoted(self) -> int:
        old = self.home.newest_epoch()
        killed = self._kill(self._live)
        until(lambda: self.home.newest_epoch() != old, "the next epoch", PATIENCE)
        return killed + self._kill(self._live)

    def _as_next_warms(self, which: Callable[[], psutil.Process | None]) -> int:
        killed = self._kill(self._standby)
        until(self._is_warming, "the next standby", PATIENCE)
        return killed + self._kill(which)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the rounds; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--first", type=int, default=0, help="the order to begin with")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no order after that")
    parser.add_argument("--runtime", type=Path, default=find_runtimes().get("spark-4.3"))
    given = parser.parse_args(arguments)
    if given.runtime is None:
        parser.error("there is no runtime spark-4.3; name one with --runtime")
    rests = dict.fromkeys(("REST_WARM", "REST_COLD"), timedelta(0))
    with (
        tempfile.TemporaryDirectory(prefix="standby-kills-", ignore_cleanup_errors=True) as made,
        patch.multiple("airflow_streaming.supervision.standby", **rests),
    ):
        stage = Stage.at(Path(made).resolve() / "stage", given.runtime, "ledger")
        return played(stage, given.kills, given.first, time.monotonic() + given.minutes * 60)


def played(stage: Stage, kills: int, first: int, until_: float) -> int:
    """Play orders on a stage until enough drivers are killed; return the exit code."""
    script = applications.write(stage.folder / "jobs")["old"]
    start(stage, script)
    watch, plays, killed = Watch(stage), Kills(stage), 0
    thread = threading.Thread(target=watch.run, daemon=True)
    thread.start()
    try:
        with Shop(stage.input), KeepWithStandby(stage):
            for order, (name, play) in enumerate(islice(cycle(plays.orders.items()), first, None)):
                plays.await_ready()
                if killed >= kills or time.monotonic() > until_:
                    first += order
                    break
                count, took = _timed(stage, play)
                killed += count
                print(f"{killed:4} {name}: {took:.1f} s to the next commit", flush=True)
            want(stage, STREAM, DesiredState.STOPPED)
            until(lambda: not stage.drivers(), "the driver to be stopped", PATIENCE)
    finally:
        watch.over.set()
        thread.join()
        end_standbys(stage)
        stage.end()
        code = told(stage, watch, killed)
    print(f"The next order is --first {first % len(plays.orders)}.")
    return code


def _timed(stage: Stage, play: Callable[[], int]) -> tuple[int, float]:
    began = time.monotonic()
    killed, before = play(), _commits(stage)
    until(lambda: _commits(stage) > before, "the next commit", PATIENCE)
    return killed, time.monotonic() - began


def _commits(stage: Stage) -> int:
    deployment: Any = stage.lane(STREAM).newest_deployment()
    folder = Path(deployment.checkpoint) / QUERY / "commits"
    names = (entry.name for entry in folder.glob("[0-9]*")) if folder.is_dir() else ()
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def end_standbys(stage: Stage) -> None:
    """Kill the standbys that wait still."""
    standbys, launcher = (
        stage.lane(STREAM).standbys(),
        stage.controller(STREAM, "the program").launcher,
    )
    for epoch in map(standbys.epoch, standbys.epoch_numbers()):
        launch = standbys.launch(epoch.number)
        if launcher.probe(epoch, launch).state is not ProcessState.GONE:
            launcher.kill(epoch, launch)


def told(stage: Stage, watch: Watch, killed: int) -> int:
    """Print what came of it; return the exit code."""
    deployment: Any = stage.lane(STREAM).newest_deployment()
    found = judge_rows(new_rows(deployment.output, set()), expected(stage.input))
    print(
        f"{killed} drivers killed. {found.rows} rows: {found.lost} lost, {found.doubled} doubled, "
        f"{found.wrong} wrong. At most {watch.most} drivers could write at once, in {watch.looks} looks "
        f"{watch.together[:5]}."
    )
    return 0 if found.is_whole and watch.most == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
