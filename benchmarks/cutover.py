"""
For how long do consumers see no fresh row, when a stream continues in another driver?

The same stream, one file every half second, one consumer that reads all the time, four ways: a
cutover with parallel outputs, a handover on one sink, stop and start, and the script that people
write by hand (end ``spark-submit``, copy the checkpoint, start ``spark-submit`` on the copy). The
two cutovers even change the aggregation, which the other two could not: they continue with the same
code. The gap is the longest time between two fresher rows around the change, less the longest in
the steady time before it, which is one batch.

    python -m benchmarks.cutover

Goal: 0 s for parallel outputs; at most 3 s more than one batch for a handover.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_streaming.model.arguments.choices import SwitchMethod
from benchmarks.figures import machine, table
from tests.conftest import find_runtimes
from tests.system.cutovers import applications
from tests.system.cutovers.asked import SINKS, Asked
from tests.system.cutovers.baselines import hand_written, stop_and_start
from tests.system.cutovers.consumer import Consumer
from tests.system.cutovers.runs import Runs
from tests.system.cutovers.shop import Shop, expected
from tests.system.cutovers.stage import Stage
from tests.system.cutovers.truth import judge

GOALS: Final = {SwitchMethod.PARALLEL.value: 0.0, SwitchMethod.HANDOVER.value: 3.0}
NOISE_S: Final = 0.5
"""How much two pauses between batches differ on a machine that does nothing else."""

STEADY_S: Final = 12.0

Baseline = Callable[[Stage, Path, float], Consumer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """
    What one way costs.

    :param usual: Longest time between fresher rows in the steady time before, in seconds.
    :param longest: The same around the change.
    """

    name: str
    usual: float
    longest: float
    rows: int
    lost: int
    doubled: int

    @property
    def extra(self) -> float:
        """Return the seconds without a fresh row that the change has cost."""
        return max(0.0, self.longest - self.usual)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every way once; 1 when a goal is missed or a row is not there once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--runtime", type=Path, default=find_runtimes().get("spark-4.3"))
    given = parser.parse_args(arguments)
    if given.runtime is None:
        parser.error("there is no runtime spark-4.3; name one with --runtime")
    with tempfile.TemporaryDirectory(prefix="cutover-", ignore_cleanup_errors=True) as made:
        folder = Path(made).resolve()
        gaps = [_cutover(folder, given.runtime, way) for way in SwitchMethod]
        gaps += [
            _baseline(folder, given.runtime, "stop and start", stop_and_start),
            _baseline(folder, given.runtime, "script by hand", hand_written),
        ]
    return tell(gaps)


def _cutover(folder: Path, spark: Path, way: SwitchMethod) -> Gap:
    with Runs(folder / way.value, spark, SINKS[way]) as runs:
        told = runs.play(Asked(number=1, way=way))
    return Gap(
        name=way.value,
        usual=told["usual_s"],
        longest=told["switch_s"],
        rows=told["consumer"]["rows"],
        lost=told["consumer"]["lost"],
        doubled=told["consumer"]["doubled"] + told["consumer"]["wrong"],
    )


def _baseline(folder: Path, spark: Path, name: str, way: Baseline) -> Gap:
    stage = Stage.at(folder / name.replace(" ", "-"), spark, "ledger")
    old = applications.write(stage.folder / "jobs")["old"]
    try:
        with Shop(stage.input):
            consumer = way(stage, old, STEADY_S)
    finally:
        stage.end()
    *usual, longest = sorted(consumer.pauses(0, time.time()))
    found = judge(consumer.times, consumer.rows, expected(stage.input))
    return Gap(
        name=name,
        usual=usual[-1],
        longest=longest,
        rows=found.rows,
        lost=found.lost,
        doubled=found.doubled + found.wrong,
    )


def tell(gaps: Sequence[Gap]) -> int:
    """Print the table; return the exit code."""
    head = ("way", "one batch", "longest pause", "without a fresh row", "rows", "lost", "doubled")
    lines = [
        (
            *(gap.name, f"{gap.usual:.1f} s", f"{gap.longest:.1f} s", f"{gap.extra:.1f} s"),
            *(str(gap.rows), str(gap.lost), str(gap.doubled)),
        )
        for gap in gaps
    ]
    print(table(head, lines), machine(), sep="\n\n")
    late = [gap for gap in gaps if gap.extra > GOALS.get(gap.name, gap.extra) + NOISE_S]
    broken = [gap for gap in gaps if gap.lost or gap.doubled]
    return 1 if late or broken else 0


if __name__ == "__main__":
    sys.exit(main())
