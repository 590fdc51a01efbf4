"""
Kill everything at random moments while real events arrive, then count rows (``make chaos``).

The input is the daily files of a real shop, which are not part of this repository. Before and after
each kill a file arrives, so that kills meet running batches, and so that there is something to do
after a restart. Now and then the next kill does not wait until the last one is healed.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import csv
import random
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from demo.events import LATENESS, drop
from demo.run import interrupt
from demo.stage import REPOSITORY, Stage
from demo.waiting import PATIENCE, Progress, Say, wait_for
from tests.system.victims import KILLS, RUNS_ON

DATA: Final = REPOSITORY.parent / "shared" / "data" / "retail"
DAGS: Final = Path(__file__).parent / "dags"
"""Seconds one recovery may take: a killed worker is noticed by its missing heartbeat."""

IMPATIENCE: Final = 0.25
"""Share of the kills after which the next one does not wait for the recovery."""

# Airflow's usual waits before it believes that a component or a task is dead are minutes long.
QUICK: Final = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """
    One kill.

    :param seconds: Until a batch was committed by a driver that was not hit; ``None`` when the next
        kill came first.
    """

    kind: str
    seconds: float | None


class Chaos:
    """
    Kills and heals.

    :param stage: A running Airflow; the stream is well.
    :param files: Names and contents that are still to arrive.
    """

    def __init__(
        self, stage: Stage, files: Iterator[tuple[str, str]], chance: random.Random, say: Say
    ) -> None:
        self._stage, self._files, self._chance, self._say = stage, files, chance, say
        self.killed: list[Killed] = []

    def arrive(self, count: int = 1) -> None:
        """Let that many files arrive, if there are any left."""
        for name, content in islice(self._files, count):
            drop(self._stage.orders, name, content)

    def run(self, kills: int) -> None:
        """Kill that often, every kind as often as any other, in random order."""
        kinds = [kind for kind, _ in zip(_forever([*KILLS]), range(kills), strict=False)]
        self._chance.shuffle(kinds)
        for number, kind in enumerate(kinds, start=1):
            self.arrive()
            time.sleep(self._chance.uniform(0.0, 4.0))
            self._say(f"Kill {number} of {kills}: {kind}, {self._kill(kind)}")
            self._heal(kind, is_last=number == kills)

    def _kill(self, kind: str) -> str:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if what := KILLS[kind](self._stage):
                return what
            time.sleep(0.05)
        raise RuntimeError(f"Waited {PATIENCE:.0f} s in vain for a {kind} to kill.")

    def _heal(self, kind: str, *, is_last: bool) -> None:
        before, start = self._position(), time.monotonic()
        must_restart = kind not in RUNS_ON
        self.arrive()
        if not is_last and self._chance.random() < IMPATIENCE:
            self.killed.append(Killed(kind=kind, seconds=None))
            return

        def has_gone_on() -> bool:
            epoch, batch = self._position()
            moved = epoch > before[0] if must_restart else (epoch, batch) > before
            return moved and self._stage.stream.is_well()

        wait_for(
            has_gone_on,
            what="the next batch",
            say=self._say,
            failing=self._stage.airflow.ended_component,
            every=0.2,
        )
        self.killed.append(Killed(kind=kind, seconds=time.monotonic() - start))

    def _position(self) -> tuple[int, int]:
        epoch, progress = self._stage.stream.epoch, self._stage.stream.progress
        return (epoch.number if epoch else 0, progress.batch_id if progress else -1)


def _forever(kinds: list[str]) -> Iterator[str]:
    while True:
        yield from kinds


def newest_event(files: list[Path]) -> datetime:
    """Return the time of the newest line of all files."""

    def times() -> Iterator[str]:
        for path in files:
            with path.open(encoding="utf-8", newline="") as lines:
                yield from (line["InvoiceDate"] for line in csv.DictReader(lines))

    return datetime.fromisoformat(f"{max(times())}+00:00")


def play(stage: Stage, files: list[Path], kills: int, seed: int, say: Say) -> dict[str, Any]:
    """Run the whole play and return what was counted."""
    contents = ((path.name, path.read_text(encoding="utf-8")) for path in files)
    chaos = Chaos(stage, contents, random.Random(seed), say)
    chaos.arrive(2)
    wait_for(lambda: stage.airflow.has_dag("retail_chaos"), what="the dag", say=say)
    stage.airflow.unpause("retail_chaos")
    wait_for(stage.stream.is_well, what="the first batch", say=say)
    chaos.run(kills)
    chaos.arrive(len(files))
    final = newest_event(files) - LATENESS
    wait_for(
        lambda: stage.stream.has_passed(final),
        what="the rest of the files to be consumed",
        say=say,
    )
    stage.stream.stop(say)
    epoch = stage.stream.epoch
    return {
        "killed": chaos.killed,
        "epochs": epoch.number if epoch else 0,
        "most": stage.drivers.most,
        "looks": stage.drivers.looks,
        **stage.compare(),
    }


def show(result: dict[str, Any]) -> str:
    """Return the result as a table."""
    lines = [f"{'killed':<15}{'times':>6}  seconds to the next batch: median, longest"]
    for kind in KILLS:
        times = [k.seconds for k in result["killed"] if k.kind == kind]
        healed = [seconds for seconds in times if seconds is not None]
        told = f"{statistics.median(healed):.0f}, {max(healed):.0f}" if healed else "-"
        lines.append(f"{kind:<15}{len(times):>6}  {told}")
    facts = {
        "kills": len(result["killed"]),
        "epochs": result["epochs"],
        "drivers at once": f"at most {result['most']} in {result['looks']} looks",
        "rows": f"{result['found']} found, {result['expected']} by the batch run",
        "rows lost": result["lost"],
        "rows doubled": result["doubled"],
        "rows wrong": result["wrong"],
        "for example": "; ".join(result["examples"]) or "-",
    }
    return "\n".join([*lines, "", *(f"{name:<17}{value}" for name, value in facts.items())])


def holds(result: dict[str, Any]) -> bool:
    """Tell whether nothing was lost or doubled, and no two drivers were alive at once."""
    clean = not (result["lost"] or result["doubled"] or result["wrong"])
    return clean and result["expected"] > 0 and result["most"] == 1


def main() -> int:
    """Run the program; 0 when all holds."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--folder", type=Path, default=REPOSITORY / ".demo" / "chaos")
    parser.add_argument(
        "--runtime", type=Path, default=REPOSITORY / ".runtimes" / "spark-4.3", help="Spark's home"
    )
    arguments = parser.parse_args()
    files = sorted(arguments.data.glob("*.csv"))
    if not files:
        print(f"There are no real events in {arguments.data}. Name their folder with --data.")
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    say = Progress()
    stage = Stage(
        arguments.folder,
        runtime=arguments.runtime,
        say=say,
        dags=DAGS,
        stream="retail_chaos",
        environment=QUICK,
    )
    try:
        with stage:
            result = play(stage, files, arguments.kills, arguments.seed, say)
    except (KeyboardInterrupt, RuntimeError) as err:
        say(f"Ended early, and nothing is left running: {err or 'interrupted'}")
        return 1
    print(f"\n{show(result)}\n\nseed {arguments.seed}, {len(files)} files of {arguments.data}")
    left = stage.leftovers()
    say("Nothing was lost or doubled." if holds(result) else "It does not hold; see above.")
    return 0 if holds(result) and not left else 1


if __name__ == "__main__":
    sys.exit(main())
