"""
For how long does a stream commit nothing when its number of executors changes?

One stateful query under load on a real standalone cluster, three ways one after the other: the driver changes its own
size, the driver is stopped and started with the new size, and Spark's dynamic allocation chooses. The load
alternates between two rates; the first two ways go from 2 to 4 executors and back with it. A restart is timed without
the looks of a keep-alive task, so the real one is longer. A gap is the longest time between two commits around a
change, by the times of the checkpoint's files; the seconds over one batch are the gap less the longest time between two
commits just before it.

    python -m benchmarks.resizing --times 10

Goal: in place, at most 1 s over one batch, by the median. At the end every row must be there once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from airflow_streaming.model.status import Resizing
from benchmarks.figures import heed_signals, machine, percentile, table
from benchmarks.upgrade_gap import Commits
from tests.conftest import find_runtimes
from tests.integration.driver.resized import Load, ResizedStream
from tests.integration.driver.running import build_package, world_in
from tests.integration.servers.standalone import Cluster, standalone_cluster

GOAL_SECONDS: Final = 1.0
FEW, MANY = 2, 4
CALM, BUSY = 150.0, 350.0
"""Rows a second; an executor reads 200."""
STEADY_SECONDS: Final = 5.0
PHASE_SECONDS: Final = 15.0
"""Time that dynamic allocation gets for each load."""
IN_PLACE, RESTART, DYNAMIC = "in place", "restart", "dynamic allocation"
DYNAMIC_CONF: Final = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": str(FEW),
    "spark.dynamicAllocation.initialExecutors": str(FEW),
    "spark.dynamicAllocation.maxExecutors": str(MANY),
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """
    A change of the size, or of the load only.

    :param usual: Longest time between two commits just before it, in seconds.
    :param longest: The same around it.
    :param reached: Seconds until the new size was there; ``None`` where it was not.
    :param held: Seconds for which the driver held the query.
    :param executors: Executors at the end.
    """

    way: str
    grows: bool
    usual: float
    longest: float
    reached: float | None
    executors: int
    held: float = 0.0

    @property
    def over(self) -> float:
        """Return the seconds over one batch."""
        return max(0.0, self.longest - self.usual)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The changes of one way, and its rows."""

    changes: list[Change]
    written: int
    lost: int
    doubled: int


Carry = Callable[[ResizedStream, int], tuple[float | None, float]]
"""Changes the size; returns the seconds until it was there and of the hold."""


def in_place(stream: ResizedStream, executors: int) -> tuple[float | None, float]:
    end = stream.resize(executors)
    return (end.seconds if end.result is Resizing.IN_PLACE else None), end.held_s


def restart(stream: ResizedStream, executors: int) -> tuple[float | None, float]:
    began = time.monotonic()
    stream.driver.request_stop()
    stream.driver.ended()
    stream.launch(executors)
    stream.driver.until(lambda: stream.alive() == executors, "The executors of the next driver")
    return time.monotonic() - began, 0.0


def left_to_spark(stream: ResizedStream, executors: int) -> tuple[float | None, float]:
    began = time.monotonic()
    while time.monotonic() - began < PHASE_SECONDS:
        if stream.alive() == executors:
            return time.monotonic() - began, 0.0
        time.sleep(0.5)
    return None, 0.0


def changes_of(
    way: str, carry: Carry, stream: ResizedStream, load: Load, commits: Commits, times: int
) -> Iterator[Change]:
    for number in range(2 * times):
        grows = number % 2 == 0
        if not number:
            commits.await_steady(time.time(), 2 * STEADY_SECONDS)
        usual = _longest(commits.since(time.time() - 2 * STEADY_SECONDS))
        began = time.time()
        load.rows_a_second = BUSY if grows else CALM
        reached, held = carry(stream, MANY if grows else FEW)
        commits.await_steady(time.time(), STEADY_SECONDS)
        change = Change(
            way=way,
            grows=grows,
            usual=usual,
            longest=_longest(commits.since(began)),
            reached=reached,
            executors=stream.alive(),
            held=held,
        )
        told = "not reached" if reached is None else f"reached in {reached:.1f} s"
        print(
            f"{way}, {'up' if grows else 'down'}: {change.longest:.1f} s without a commit, "
            f"{change.over:.1f} s over one batch, {told}, held {held:.2f} s, "
            f"{change.executors} executors; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        yield change


def _longest(moments: Sequence[float]) -> float:
    return max(late - early for early, late in pairwise(moments))


def measure(
    way: str, carry: Carry, folder: Path, runtime: Path, cluster: Cluster, times: int
) -> Outcome:
    folder.mkdir()
    conf = DYNAMIC_CONF if way == DYNAMIC else {}
    with (
        world_in(folder, runtime, build_package(folder)) as world,
        Load(folder / "input", CALM) as load,
        Commits(world.checkpoint() / "commits") as commits,
    ):
        stream = ResizedStream(world, cluster, conf)
        stream.launch(None if way == DYNAMIC else FEW)
        stream.moves(10)
        changes = list(changes_of(way, carry, stream, load, commits, times))
        stream.reads_all(load)
        stream.driver.request_stop()
        stream.driver.ended()
        rows: Counter[int] = stream.rows()
    lost = load.written - len(rows)
    return Outcome(changes, load.written, lost, sum(count > 1 for count in rows.values()))


def _row(way: str, grows: bool, outcome: Outcome) -> tuple[str, ...]:
    found = [change for change in outcome.changes if change.grows is grows]
    over = [change.over for change in found]
    reached = [change.reached for change in found if change.reached is not None]
    return (
        way,
        "2 to 4" if grows else "4 to 2",
        f"{len(reached)} of {len(found)}",
        f"{statistics.median(over):.1f}",
        f"{max(over):.1f}",
        f"{percentile([change.longest for change in found], 0.5):.1f}",
        f"{statistics.median(reached):.1f}" if reached else "-",
        f"{outcome.written:,}",
        str(outcome.lost),
        str(outcome.doubled),
    )


def tell(found: dict[str, Outcome]) -> int:
    """Print the table; 1 when the goal is missed or a row is not there once."""
    head = (
        *("way", "executors", "reached", "s over one batch, median", "most"),
        *("s without a commit, median", "s until reached, median", "rows", "lost", "doubled"),
    )
    rows = [_row(way, grows, one) for way, one in found.items() for grows in (True, False)]
    print(table(head, rows))
    held = [change.held for one in found.values() for change in one.changes if change.held]
    if held:
        print(
            f"held between two batches: median {statistics.median(held):.2f} s, most {max(held):.2f} s"
        )
    ours = [change.over for change in found[IN_PLACE].changes] if IN_PLACE in found else [0.0]
    is_whole = all(not one.lost and not one.doubled for one in found.values())
    return 0 if is_whole and statistics.median(ours) <= GOAL_SECONDS else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the ways so many times up and down."""
    ways: dict[str, Carry] = {IN_PLACE: in_place, RESTART: restart, DYNAMIC: left_to_spark}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--times", type=int, default=10, help="changes of each way, up and down")
    parser.add_argument("--others", type=int, help="changes of the ways but in place")
    parser.add_argument("--runtime", type=Path, default=find_runtimes().get("spark-4.3"))
    parser.add_argument("--only", nargs="*", choices=ways, default=list(ways))
    given = parser.parse_args(arguments)
    if given.runtime is None:
        parser.error("there is no runtime spark-4.3; name one with --runtime")
    heed_signals()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="resizing-", ignore_cleanup_errors=True) as made:
        folder = Path(made).resolve()
        with standalone_cluster(given.runtime, folder) as cluster:
            found = {}
            for number, way in enumerate(given.only):
                times = given.times if way == IN_PLACE else given.others or given.times
                place = folder / f"way{number}"
                found[way] = measure(way, ways[way], place, given.runtime, cluster, times)
    return tell(found)


if __name__ == "__main__":
    sys.exit(main())
