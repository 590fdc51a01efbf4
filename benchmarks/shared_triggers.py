"""
How do three triggerers share 2,000 streams by queues, and how long is a stream unwatched when one of them dies?

Each of three processes runs real ``StreamTrigger`` by Airflow's own ``TriggerRunner``, over a real home on a local disk with
heartbeats of another process. ``TriggerQueues`` gives each stream its queue; each queue is served by two triggerers.
Played are Airflow's database and its assignment: every second a triggerer takes at most 50 triggers of its queues that
have no triggerer, or a triggerer without a heartbeat for 30 s. Streams have no Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, cast

from airflow_streaming.model.fleet.trigger_queues import TriggerQueues
from benchmarks.figures import heed_signals, machine, percentile, table
from benchmarks.many_streams import laid_out, stream_name
from benchmarks.one_triggerer import AT_ONCE, WARM_UP
from demo.stage import REPOSITORY
from demo.waiting import Progress, Say

QUEUES: Final = TriggerQueues(names=("streams-1", "streams-2", "streams-3"))
HEARTBEAT: Final = 5.0
"""[triggerer] job_heartbeat_sec"""
DEAD_AFTER: Final = 30.0
"""[triggerer] triggerer_health_check_threshold"""
LONGEST: Final = 180.0
PRICES: Final = {"GET": 0.0004, "LIST": 0.005, "PUT": 0.005, "DELETE": 0.0}
"""Dollars for 1,000 requests, as in docs/capacity.md."""
HOURS: Final = 730


class Child:
    """
    A triggerer.

    :param queues: Queues that it serves.
    """

    def __init__(
        self, number: int, queues: set[str], home: Path, poll: float, folder: Path
    ) -> None:
        self.number, self.queues = number, queues
        self.beat = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.shared_triggerer", str(home), str(poll)],
            cwd=REPOSITORY,
            env={**os.environ, "AIRFLOW_HOME": str(folder / "airflow")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / f"triggerer-{number}.log").open("wb"),
            text=True,
        )

    def tell(self, verb: str, value: Any) -> None:
        """Send a line."""
        pipe = cast("IO[str]", self.process.stdin)
        pipe.write(json.dumps({verb: value}) + "\n")
        pipe.flush()

    def hear(self) -> dict[str, Any]:
        """Return the next line that is an answer."""
        for line in cast("IO[str]", self.process.stdout):
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise SystemExit(f"Triggerer {self.number} has ended; see its log.")

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None


class Assignment:
    """Airflow's assignment of triggers, played."""

    def __init__(self, children: list[Child], count: int) -> None:
        self.children = children
        self.queues = [QUEUES.queue_of(stream_name(number), {}) for number in range(count)]
        self.owner: list[Child | None] = [None] * count

    def assign(self) -> int:
        """Let each triggerer take its next triggers; return how many have none that lives."""
        now = time.monotonic()
        for child in self.children:
            if child.is_alive and now - child.beat >= HEARTBEAT:
                child.beat = now
        for child in random.sample(self.children, len(self.children)):
            if child.is_alive:
                self._take(child, now)
        return sum(not self._is_watched(number, now) for number in range(len(self.owner)))

    def _take(self, child: Child, now: float) -> None:
        free = [
            number
            for number, queue in enumerate(self.queues)
            if queue in child.queues and not self._is_watched(number, now)
        ][:AT_ONCE]
        if free:
            child.tell("take", free)
        for number in free:
            self.owner[number] = child

    def _is_watched(self, number: int, now: float) -> bool:
        owner = self.owner[number]
        return owner is not None and now - owner.beat < DEAD_AFTER

    def until_done(self, limit: float) -> None:
        """Assign every second until each trigger has a triggerer with a heartbeat."""
        deadline = time.monotonic() + limit
        while self.assign():
            if time.monotonic() > deadline:
                raise SystemExit("Not all triggers were assigned.")
            time.sleep(1.0)


@contextmanager
def triggerers(home: Path, poll: float, folder: Path) -> Iterator[list[Child]]:
    """Start three triggerers, each for two of the queues."""
    names = QUEUES.names
    children = [
        Child(number, {name, names[(number + 1) % len(names)]}, home, poll, folder)
        for number, name in enumerate(names)
    ]
    try:
        for child in children:
            child.hear()
        yield children
    finally:
        for child in children:
            child.process.kill()
            child.process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--poll", type=float, default=5.0)
    asked = parser.parse_args()
    heed_signals()
    folder = Path(tempfile.mkdtemp(prefix="streaming-bench-"))
    try:
        with laid_out(folder, asked.streams) as home:
            return run(home, folder, asked, Progress())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(home: Path, folder: Path, asked: argparse.Namespace, say: Say) -> int:
    """Measure, kill a triggerer, and print the figures."""
    say(f"{asked.streams} streams, three triggerers")
    with triggerers(home, asked.poll, folder) as children:
        assignment = Assignment(children, asked.streams)
        assignment.until_done(LONGEST)
        rest(assignment, WARM_UP)
        say(f"measuring for {asked.seconds:.0f} s")
        for child in children:
            child.tell("measure", asked.seconds)
        figures = [child.hear() for child in children]
        for child in children:
            child.beat = time.monotonic()
        rest(assignment, HEARTBEAT)
        print_shares(figures, asked)
        say("killing a triggerer")
        dead = children[0]
        lost = [number for number, owner in enumerate(assignment.owner) if owner is dead]
        killed = time.monotonic()
        dead.process.kill()
        dead.process.wait()
        rest(assignment, DEAD_AFTER)
        assignment.until_done(LONGEST)
        taken = time.monotonic() - killed
        print_recovery(lost, looks_after(killed, children[1:], lost, assignment), killed, taken)
    return 1 if any(found["ended"] for found in figures) else 0


def rest(assignment: Assignment, seconds: float) -> None:
    """Let the triggerers work for some time; heartbeats and assignment continue."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assignment.assign()
        time.sleep(1.0)


def print_shares(figures: list[dict[str, Any]], asked: argparse.Namespace) -> None:
    print(f"\n{machine()}\n{asked.streams} streams, a look every {asked.poll:g} s\n")
    rows = {
        "streams": "{triggers}",
        "cores": "{cores:.3f}",
        "looks made / due": "{made} / {due:.0f}",
        "polls missed (2 x the interval)": "{missed}",
        "longest time between two looks, s": "{longest_gap:.1f}",
        "memory, MiB": "{rss_mib:.0f}",
    }
    lags = {"p50": "lag_p50", "p99": "lag_p99", "max": "lag_max"}
    head = ["", *(f"triggerer {number}" for number in range(1, len(figures) + 1))]
    body = [[name, *(text.format(**found) for found in figures)] for name, text in rows.items()]
    for name, key in lags.items():
        body.append(
            [f"event-loop block {name}, ms", *(f"{1000 * found[key]:.1f}" for found in figures)]
        )
    print(table(head, body))
    hourly = {
        kind: 3600 * sum(found["requests"].get(kind, 0.0) for found in figures) for kind in PRICES
    }
    price = sum(hourly[kind] * HOURS / 1000 * cost for kind, cost in PRICES.items())
    told = ", ".join(f"{count:,.0f} {kind}" for kind, count in hourly.items())
    print(
        f"\nrequests an hour: {told}; of one stream {sum(hourly.values()) / asked.streams:,.0f}"
        f"\nprice of a month on S3: ${price:,.0f}, of one stream ${price / asked.streams:.2f}"
    )


def looks_after(
    moment: float, children: list[Child], wanted: list[int], assignment: Assignment
) -> dict[int, float]:
    """Return when each stream was first looked at after a moment, once all wanted ones were."""
    found: dict[int, float] = {}
    deadline = time.monotonic() + LONGEST
    while not found.keys() >= {*wanted} and time.monotonic() < deadline:
        rest(assignment, HEARTBEAT)
        for child in children:
            child.tell("looks", moment)
            for number, at in child.hear()["looks"].items():
                found[int(number)] = min(at, found.get(int(number), at))
    return found


def print_recovery(lost: list[int], found: dict[int, float], killed: float, taken: float) -> None:
    waits = [found[number] - killed for number in lost if number in found]
    print(
        f"\n{len(lost)} streams of the killed triggerer: all have another one after {taken:.0f} s; "
        f"{len(waits)} were looked at again, p50 {percentile(waits, 0.5):.1f} s, last {max(waits):.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
