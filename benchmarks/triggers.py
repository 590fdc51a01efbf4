"""
How many streams can one triggerer process watch?

One process runs a thousand ``StreamTrigger`` by Airflow's own ``TriggerRunner``, over a real home
with real processes whose heartbeats another process writes. Beside it, in the same run and as many:
a trigger that does nothing but one ``os.stat`` a poll (the floor) and Airflow's own
``FileTrigger``. ``--find-limit`` raises the number until a target breaks, and tells which.
``--kubernetes`` has the drivers be pods of a real API server (see ``tests/integration/servers``), and tells
what is asked of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import heed_signals, machine, table
from benchmarks.many_pods import laid_out_as_pods
from benchmarks.many_streams import laid_out
from demo.stage import REPOSITORY
from demo.waiting import Progress, Say

KINDS: Final = {"stream": "StreamTrigger", "file": "Airflow's FileTrigger", "stat": "one os.stat"}
STEP: Final = 1.25
PEER_SECONDS: Final = 40.0
SEARCH_SECONDS: Final = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The most a figure may be."""

    words: str
    figure: str
    most: float


TARGETS: Final = (
    Target(words="event-loop block p99 <= 50 ms", figure="lag_p99", most=0.050),
    Target(words="event-loop block never 200 ms", figure="lag_max", most=0.200),
    Target(words="at most 0.6 of a core", figure="cores", most=0.6),
    Target(words="no missed polls", figure="missed", most=0),
    Target(words="no database query by a look", figure="asked_by_looks", most=0),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--triggers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--poll", type=float, default=5.0)
    parser.add_argument("--find-limit", action="store_true")
    parser.add_argument("--kubernetes", action="store_true")
    asked = parser.parse_args()
    heed_signals()
    say, folder = Progress(), Path(tempfile.mkdtemp(prefix="streaming-bench-"))
    try:
        lay_out = laid_out_as_pods if asked.kubernetes else laid_out
        bench = Bench(folder, asked.poll, say, lay_out)
        is_met = compare(bench, asked.triggers, asked.seconds)
        if asked.find_limit:
            find_limit(bench, asked.triggers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if is_met else 1


class Bench:
    """
    Runs triggerer processes, each a fresh one.

    :param poll: Seconds between two looks.
    :param lay_out: Makes streams whose drivers live, in a folder.
    """

    def __init__(
        self,
        folder: Path,
        poll: float,
        say: Say,
        lay_out: Callable[[Path, int], AbstractContextManager[Path]],
    ) -> None:
        self.folder, self.poll, self._say, self._lay_out = folder, poll, say, lay_out

    def run(self, kinds: list[str], count: int, seconds: float) -> dict[str, dict[str, Any]]:
        """Return the figures of each kind of trigger, over the same streams."""
        streams = self.folder / f"{count}"
        streams.mkdir()
        with self._lay_out(streams, count) as home:
            return {
                kind: self._triggerer(
                    kind, home, count, seconds if kind == "stream" else min(seconds, PEER_SECONDS)
                )
                for kind in kinds
            }

    def _triggerer(self, kind: str, home: Path, count: int, seconds: float) -> dict[str, Any]:
        self._say(f"{count} times {KINDS[kind]} for {seconds:.0f} s")
        command = [sys.executable, "-m", "benchmarks.one_triggerer", kind, str(home)]
        done = subprocess.run(
            [*command, str(count), str(seconds), str(self.poll)],
            cwd=REPOSITORY,
            env={**os.environ, "AIRFLOW_HOME": str(self.folder / "airflow")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"The triggerer of {KINDS[kind]} failed:\n{done.stdout}\n{done.stderr}")
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return figures


def compare(bench: Bench, count: int, seconds: float) -> bool:
    """Print our figures beside the peers'; return whether every target is met."""
    figures = bench.run(list(KINDS), count, seconds)
    ours = figures["stream"]
    if ours["failed"] or ours["ended"]:
        sys.exit(f"{ours['failed']} looks failed and {ours['ended']} triggers ended; no figures.")
    print(f"\n{machine()}\n{count} triggers, a look every {bench.poll:g} s, over {seconds:.0f} s\n")
    head = ["", *(KINDS[kind] for kind in figures)]
    columns = [shown(found) for found in figures.values()]
    print(table(head, [[name, *(column[name] for column in columns)] for name in columns[0]]))
    broken = [target for target in TARGETS if figures["stream"][target.figure] > target.most]
    for target in TARGETS:
        print(f"{'MISSED' if target in broken else 'met':8} {target.words}")
    return not broken


def shown(found: dict[str, Any]) -> dict[str, str]:
    """Return one column of the table."""
    has_looks = found["made"] > 0
    return {
        "event-loop block p50, ms": f"{1000 * found['lag_p50']:.1f}",
        "event-loop block p99, ms": f"{1000 * found['lag_p99']:.1f}",
        "event-loop block max, ms": f"{1000 * found['lag_max']:.1f}",
        "... while they start, max, ms": f"{1000 * found['lag_max_at_start']:.1f}",
        "longest garbage collection, ms": f"{1000 * found['gc_max']:.1f}",
        "cores": f"{found['cores']:.3f}",
        "looks made": f"{found['made']}" if has_looks else "-",
        "looks due": f"{found['due']:.0f}" if has_looks else "-",
        "polls missed (2 x the interval)": f"{found['missed']}" if has_looks else "-",
        "longest time between two looks, s": f"{found['longest_gap']:.1f}" if has_looks else "-",
        "a look p50, ms": f"{1000 * found['look_p50']:.1f}" if has_looks else "-",
        "a look p99, ms": f"{1000 * found['look_p99']:.1f}" if has_looks else "-",
        "database queries by looks": f"{found['asked_by_looks']}",
        "queued runs asked for, a second": f"{found['asked_per_second']:.1f}",
        "requests to the API server a second": f"{found['requests_per_second']:.2f}",
        "an answer of it, KiB": f"{found['answer_kib']:.0f}",
        "... p50, max, ms": f"{1000 * found['answer_p50']:.0f}, {1000 * found['answer_max']:.0f}",
        "memory of one trigger, KiB": f"{found['kib_per_trigger']:.0f}",
        "memory of the process, MiB": f"{found['rss_mib']:.0f}",
        "threads": f"{found['threads']}",
    }


def find_limit(bench: Bench, count: int) -> None:
    """Raise the number of triggers until a target breaks; print every step."""
    while True:
        count = round(count * STEP / 50) * 50
        found = bench.run(["stream"], count, SEARCH_SECONDS)["stream"]
        broken = [target.words for target in TARGETS if found[target.figure] > target.most]
        print(
            f"{count} triggers: {found['cores']:.2f} cores, block p99 {1000 * found['lag_p99']:.0f}"
            f" ms, max {1000 * found['lag_max']:.0f} ms, {found['missed']} polls missed"
        )
        if broken:
            print(f"The limit is below {count} triggers. Broken: {'; '.join(broken)}.")
            return


if __name__ == "__main__":
    sys.exit(main())
