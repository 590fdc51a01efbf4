"""
``make soak``: a deployment for a long time, and which of its figures grow.

    python -m tests.deployment.soak --minutes 120 --streams 20
    python -m tests.deployment.soak --minutes 20 --streams 3 --acts driver-kill,backup --plot soak.svg

One stream counts its rows at the end; the others are small and need no input. The acts fall evenly over the time.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.figures import machine
from demo.run import interrupt
from demo.stage import REPOSITORY, end_leftovers
from demo.waiting import Progress, wait_for
from tests.deployment.acts import ACTS
from tests.deployment.cells import chosen, run_cells
from tests.deployment.deployed import Deployment, Machine, deployment
from tests.deployment.profiles import PROFILES
from tests.deployment.requests import Kind
from tests.deployment.requests import markdown as requests_table
from tests.deployment.run import RUNTIMES
from tests.deployment.sampling import FIGURES, Sampler, store_requests
from tests.deployment.table import Outcome, holds
from tests.deployment.table import markdown as acts_table
from tests.deployment.trends import Sample, markdown, points, trends
from tests.deployment.world import World

DAY: Final = "driver-kill,backup,driver-kill,upgrade,driver-kill,backup,blue-green,driver-kill"
LOOK_EVERY: Final = 1.0
COLUMNS: Final = 3
"""Plots beside each other."""
SPARKS: Final = Machine(
    spark_4_3=RUNTIMES / "spark-4.3", spark_3_5=RUNTIMES / "spark-3.5", s3a=RUNTIMES / "s3a"
)


def main() -> int:
    """Run the deployment for a time; return the exit code."""
    parser = argparse.ArgumentParser(prog="tests.deployment.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--streams", type=int, default=20, help="all streams, real drivers")
    parser.add_argument("--acts", default=DAY, help=f"in this order; {', '.join(ACTS)}")
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two samples")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="s3-postgresql")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / ".deployment")
    parser.add_argument("--samples", type=Path, default=Path("soak.jsonl"))
    parser.add_argument("--plot", type=Path, default=Path("soak.svg"))
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        outcomes = soak(arguments)
    except (KeyboardInterrupt, RuntimeError) as err:
        end_leftovers(arguments.folder.resolve(), print)
        print(f"The run ended before its time: {err or 'interrupted'}")
        return 1
    return 0 if all(map(holds, outcomes)) else 1


def soak(arguments: argparse.Namespace) -> list[Outcome]:
    """Run and sample the deployment, print the tables, and draw the plot."""
    say, more = Progress(), arguments.streams - 1
    cells = chosen(arguments.acts)
    with deployment(arguments.profile, arguments.folder, SPARKS, say, more) as made:
        for name in (f"ticks_{number}" for number in range(1, more + 1)):
            wait_for(partial(made.airflow.has_dag, name), what=f"dag {name}", say=say)
            made.airflow.unpause(name)
        sampler = Sampler(made, arguments.every, arguments.samples)
        sampler.start()
        try:
            pause = Pause(60 * arguments.minutes, len(cells))
            outcomes = run_cells(made, cells, say, pause=pause)
        finally:
            sampler.stop()
        requests, seconds = pause.requests(made)
    print(f"\n{machine()}; {arguments.streams} streams, {arguments.minutes:.0f} minutes\n")
    print(f"{acts_table(outcomes)}\n\n{markdown(trends(FIGURES, sampler.samples))}\n")
    print(f"{requests_table(requests, seconds=seconds, streams=arguments.streams)}\n")
    draw(arguments.plot, sampler.samples)
    return outcomes


class Pause:
    """
    Waits for the moment of the next act; the last call waits for the end.

    :param seconds: Of the whole run, from the first call.
    :param acts: They fall evenly over the run.
    """

    def __init__(self, seconds: float, acts: int) -> None:
        self._step, self._next, self._begun = seconds / (acts + 1), 0.0, 0.0
        self._before: Counter[Kind] = Counter()

    def __call__(self, world: World) -> None:
        if not self._next:
            self._begun, self._before = time.monotonic(), store_requests(world.made)
        self._next = (self._next or time.monotonic()) + self._step
        while time.monotonic() < self._next:
            if ended := world.made.airflow.ended_component():
                raise RuntimeError(ended)
            time.sleep(LOOK_EVERY)

    def requests(self, made: Deployment) -> tuple[Counter[Kind], float]:
        """Return the requests to the store since the first call, and the seconds since then."""
        return store_requests(made) - self._before, time.monotonic() - self._begun


def draw(file: Path, samples: Sequence[Sample]) -> None:
    """Draw one small plot for each figure."""
    from matplotlib import rcParams  # of the deployment's environment only
    from matplotlib.figure import Figure

    drawn = [(figure, found) for figure in FIGURES if (found := points(figure, samples))]
    rows = -(-len(drawn) // COLUMNS)
    # Text stays text: the file is small, and a browser can search it.
    rcParams["svg.fonttype"] = "none"
    whole = Figure(figsize=(4 * COLUMNS, 2 * rows), layout="constrained")
    for axes, (figure, found) in zip(whole.subplots(rows, COLUMNS).flat, drawn, strict=False):
        axes.plot([at * 60 for at, _ in found], [value for _, value in found], linewidth=1)
        axes.set_title(f"{figure.name} ({figure.unit})", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.set_ylim(bottom=0)
    whole.supxlabel("minutes", fontsize=9)
    whole.savefig(file, format="svg")


if __name__ == "__main__":
    sys.exit(main())
