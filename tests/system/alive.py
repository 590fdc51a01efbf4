"""
Twenty ways to be slow and alive, on a real driver: not one of them may restart it.

One driver on Spark lives through all of them while a trigger looks at it every 5 s, with the
recommended rules and with stalls set to restart. What the trigger asks for is written down;
anything but an alert is a false alarm.

    python -m tests.system.alive
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psutil

from airflow_streaming.home.live_lane import LiveLaneCache
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.model.health_rules import HealthRules, Severity
from airflow_streaming.model.records.supervision import Supervision
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.triggers.stream import StreamTrigger
from benchmarks.figures import heed_signals
from demo.stage import REPOSITORY

POLL: Final = 5.0
AFTER: Final = 8.0
"""Seconds watched after a misfortune is over: the moment of waking up is the tricky one."""

CGROUP: Final = Path("/sys/fs/cgroup/cpu/airflow-streaming-alive")
PERIOD: Final = 100_000

SCRIPT: Final = """
import datetime, pathlib, socket, sys, time
from pyspark.sql import SparkSession
import airflow_streaming.driver.monitoring.heartbeat as report

folder = pathlib.Path(sys.argv[1])
spark = SparkSession.builder.getOrCreate()


class Moved(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        clock = folder / "clock"
        return super().now(tz) + datetime.timedelta(hours=float(clock.read_text() or 0))


report.datetime = Moved


def work(rows, batch):
    what, _, amount = (folder / "mood").read_text().partition(":")
    until = time.monotonic() + float(amount or 0)
    if what == "sleep":
        time.sleep(float(amount))
    elif what == "burn":
        while time.monotonic() < until:
            sum(range(10_000))
    elif what == "tasks":
        rows.sparkSession.range(0, 2, 1, 2).foreach(lambda _: spin(float(amount)))
    elif what == "sleeping-tasks":
        rows.sparkSession.range(0, 2, 1, 2).foreach(lambda _: time.sleep(float(amount)))
    elif what == "wait":
        with socket.create_connection(("127.0.0.1", int((folder / "port").read_text()))) as peer:
            peer.settimeout(float(amount))
            try:
                peer.recv(1)
            except TimeoutError:
                pass
    rows.count()


def spin(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(10_000))


rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
rows.writeStream.queryName("numbers").foreachBatch(work).trigger(processingTime="1 second").start()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """
    What the trigger said of one case.

    :param actions: What it asked a worker for, in order.
    :param batches: Batches committed meanwhile.
    """

    name: str
    actions: tuple[str, ...]
    batches: int

    @property
    def is_false_alarm(self) -> bool:
        return any(action != "alert" for action in self.actions)


class Driver:
    """
    One real driver and what can happen to it.

    :param world: The stream, its home and its operator (``tests.unit.world``).
    """

    def __init__(self, world: Any) -> None:
        self.world, self.folder = world, world.folder
        self.offset = timedelta(0)
        (self.folder / "mood").write_text("")
        (self.folder / "clock").write_text("0")

    @property
    def pid(self) -> int:
        launch = self.world.home.launch(1)
        assert launch is not None
        return int(launch.handle["pid"])

    def batches(self) -> int:
        status = self.world.home.status(1)
        return status.batches if status else 0

    def processes(self) -> list[psutil.Process]:
        leader = psutil.Process(self.pid)
        return [leader, *leader.children(recursive=True)]

    @contextlib.contextmanager
    def mood(self, what: str) -> Iterator[None]:
        """Let batches take long."""
        (self.folder / "mood").write_text(what)
        yield
        (self.folder / "mood").write_text("")

    @contextlib.contextmanager
    def stopped(
        self, which: Callable[[list[psutil.Process]], list[psutil.Process]]
    ) -> Iterator[None]:
        """Let some of its processes stand still."""
        victims = which(self.processes())
        for victim in victims:
            victim.send_signal(signal.SIGSTOP)
        yield
        for victim in victims:
            victim.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def rationed(self, share: float) -> Iterator[None]:
        """Let it have this share of one core."""
        CGROUP.mkdir(exist_ok=True)
        (CGROUP / "cpu.cfs_period_us").write_text(str(PERIOD))
        (CGROUP / "cpu.cfs_quota_us").write_text(str(int(PERIOD * share)))
        for process in self.processes():
            (CGROUP / "cgroup.procs").write_text(str(process.pid))
        yield
        for pid in (CGROUP / "cgroup.procs").read_text().split():
            (CGROUP.parent / "cgroup.procs").write_text(pid)

    @contextlib.contextmanager
    def clock_moved(self, hours: float) -> Iterator[None]:
        """Move the clock by which the driver writes its heartbeat."""
        (self.folder / "clock").write_text(str(hours))
        yield
        (self.folder / "clock").write_text("0")

    @contextlib.contextmanager
    def observers_clock_moved(self, hours: float) -> Iterator[None]:
        """Move the clock of whoever looks."""
        self.offset = timedelta(hours=hours)
        yield
        self.offset = timedelta(0)

    @contextlib.contextmanager
    def home_away(self) -> Iterator[None]:
        """Take the home away, as a network folder that is not mounted."""
        home, away = Path(self.world.uri), Path(self.world.uri + ".away")
        home.rename(away)
        yield
        # Whoever wrote meanwhile has begun a new folder.
        shutil.rmtree(home, ignore_errors=True)
        away.rename(home)

    def trigger(self) -> StreamTrigger:
        """Return what Airflow would run in its triggerer."""
        driver = self

        class Watching(StreamTrigger):
            def _observer(self, live: LiveLaneCache, lane: str) -> Observer:
                return Observer(
                    live.home(lane),
                    LocalLauncher(),
                    now=lambda: datetime.now(UTC) + driver.offset,
                )

        rules = HealthRules.recommended(watermark_sla=timedelta(minutes=5))
        rules = replace(rules, stalled=Severity.RESTART)
        asked = Supervision(number=0, by="test", at=datetime.now(UTC), health=rules)
        self.world.home.supervise(asked)
        return Watching(
            home=self.world.uri,
            stream="orders",
            deferred_at=(datetime.now(UTC) - timedelta(hours=1)).isoformat(),
            poll_seconds=POLL,
            watched=1,
        )


def cases(driver: Driver) -> dict[str, tuple[AbstractContextManager[None], float]]:
    """Return what happens, and for how long."""
    return {
        "a batch 20 times as long, asleep": (driver.mood("sleep:20"), 25),
        "a batch 20 times as long, computing in Python": (driver.mood("burn:20"), 25),
        "a batch 20 times as long, computing in tasks": (driver.mood("tasks:20"), 25),
        "a batch 20 times as long, in tasks that sleep": (driver.mood("sleeping-tasks:20"), 25),
        "a batch that waits 20 s for a server": (driver.mood("wait:20"), 25),
        "a batch 60 times as long, asleep": (driver.mood("sleep:60"), 65),
        "every process stopped for 20 s": (driver.stopped(lambda all: all), 20),
        "every process stopped for 20 s, again": (driver.stopped(lambda all: all), 20),
        "the JVM stopped for 20 s": (driver.stopped(lambda all: all[:1]), 20),
        "Python stopped for 20 s": (driver.stopped(lambda all: all[1:]), 20),
        "a tenth of a core for a minute": (driver.rationed(0.1), 60),
        "a tenth of a core in a long batch": (
            both(driver.rationed(0.1), driver.mood("burn:10")),
            45,
        ),
        "a fifth of a core for half a minute": (driver.rationed(0.2), 30),
        "its clock an hour ahead": (driver.clock_moved(1), 15),
        "its clock an hour behind": (driver.clock_moved(-1), 15),
        "our clock an hour ahead": (driver.observers_clock_moved(1), 15),
        "our clock an hour behind": (driver.observers_clock_moved(-1), 15),
        "its clock ahead and stopped": (
            both(driver.clock_moved(1), driver.stopped(lambda all: all)),
            20,
        ),
        "the home away for 20 s": (driver.home_away(), 20),
        "the home away in a long batch": (both(driver.home_away(), driver.mood("sleep:20")), 25),
    }


@contextlib.contextmanager
def both(one: AbstractContextManager[None], other: AbstractContextManager[None]) -> Iterator[None]:
    with one, other:
        yield


async def live_through(
    driver: Driver, name: str, case: AbstractContextManager[None], seconds: float
) -> Result:
    """Watch the driver through one case."""
    actions: list[str] = []
    before = driver.batches()
    watching = asyncio.create_task(watch(driver, actions))
    await asyncio.sleep(POLL + 1)
    with case:
        await asyncio.sleep(seconds)
    await asyncio.sleep(AFTER)
    watching.cancel()
    return Result(name=name, actions=tuple(actions), batches=driver.batches() - before)


async def watch(driver: Driver, actions: list[str]) -> None:
    """Write down what a trigger asks for, again and again, as the next deferral would."""
    while True:
        async for event in driver.trigger().run():
            actions.append(event.payload["action"])
            print(f"  {event.payload['action']}: {event.payload['reason']}")
        await asyncio.sleep(POLL)


@contextlib.contextmanager
def silent_server(folder: Path) -> Iterator[None]:
    """Listen, and never say a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        (folder / "port").write_text(str(server.getsockname()[1]))
        yield


@contextlib.contextmanager
def a_driver(runtime: Path) -> Iterator[Driver]:
    """Launch a driver as the operator does; nothing is left of it afterwards."""
    from tests.unit.world import World

    folder = Path(tempfile.mkdtemp(prefix="airflow-streaming-alive-"))
    os.environ["AIRFLOW__STREAMING__RUNTIMES"] = json.dumps({"spark-4.3": str(runtime)})
    os.environ["AIRFLOW__STREAMING__DRIVER_FOLDER"] = str(folder / "drivers")
    os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = '{"conn_type": "spark", "host": "local[2]"}'
    world = World(folder)
    world.script.write_text(SCRIPT)
    conf = {"spark.driver.memory": "512m", "spark.ui.enabled": False}
    driver = Driver(world)
    try:
        # The records may go away for a while; Spark's own files are another matter.
        own = {"checkpoint": str(folder / "checkpoint"), "output": str(folder / "output")}
        world.run(world.operator(application_args=[str(folder)], conf=conf, **own))
        deadline = time.monotonic() + 120
        while driver.batches() < 20 and time.monotonic() < deadline:
            time.sleep(0.5)
        yield driver
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            CGROUP.rmdir()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--runtime", type=Path, default=REPOSITORY / ".runtimes" / "spark-4.3")
    parser.add_argument("--only", default="", help="a part of the names of the cases to run")
    args = parser.parse_args()
    heed_signals()
    results = []
    with a_driver(args.runtime.absolute()) as driver, silent_server(driver.folder):
        pid = driver.pid
        for name, (case, seconds) in cases(driver).items():
            if args.only in name:
                results.append(asyncio.run(live_through(driver, name, case, seconds)))
                told = ", ".join(results[-1].actions) or "nothing"
                print(f"{name}: asked for {told}; {results[-1].batches} batches")
        assert driver.world.epochs() == 1
        assert driver.pid == pid
    false = [result.name for result in results if result.is_false_alarm]
    print(f"{len(results)} cases, {len(false)} false alarms {false or ''}")
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
