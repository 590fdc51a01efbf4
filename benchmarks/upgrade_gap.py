"""
For how long does a stream commit nothing when it goes to another deployment?

One stateful query with a file of input every half second and a trigger of one second, on one Spark.
It is taken to another script again and again, four ways in turn: the script that people write by hand
(SIGTERM to ``spark-submit``, and ``spark-submit`` again), plain stop and start by this provider (what
``restart=True`` does), an upgrade in place, and a pre-warmed one. The upgrades keep a backup of the
batch at which the old driver stopped; the other two keep nothing to go back to. A gap is the longest
time between two commits around a change, by the times of the checkpoint's files; the seconds over
one batch are the gap less the longest time between two commits just before it.

Records, launcher, engine and drivers are the real ones; a loop stands for the Airflow task, with the
same second between two looks. All of an exchange is one task, so that Airflow's scheduler has no part
in it.

    python -m benchmarks.upgrade_gap --times 10

Goal: pre-warmed, at most 3 s over one batch, by the median. At the end every row must be there once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import cycle, pairwise
from pathlib import Path
from typing import Final, Self

from airflow_streaming.changes.upgrade.begin import UpgradeTermsRequest
from airflow_streaming.changes.upgrade.engine import EXCHANGE_PACE, UpgradeInPlace
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan
from airflow_streaming.model.records.upgrade_table import Stage as Reached
from airflow_streaming.model.records.upgrade_table import WarmUp
from airflow_streaming.operators.common.change import POLL_SECONDS
from benchmarks.figures import heed_signals, machine, percentile, table
from tests.conftest import find_runtimes
from tests.system.cutovers import applications
from tests.system.cutovers.baselines import submit
from tests.system.cutovers.consumer import new_rows
from tests.system.cutovers.keeping import KeepAlive, start, want
from tests.system.cutovers.shop import Shop, expected
from tests.system.cutovers.stage import CONF, QUERY, STREAM, Stage
from tests.system.cutovers.truth import Verdict, judge_rows
from tests.system.cutovers.waiting import until
from tests.system.standby_kills import end_standbys

GOAL_SECONDS: Final = 3.0
ONLY: Final = ("hand", "plain", "upgrade", "prewarmed")
STEADY_SECONDS: Final = 10.0
"""Time between a change and the next one, in which the usual time between commits is taken."""
PATIENCE: Final = 240.0
LOOK_SECONDS: Final = 0.05
HAND, PLAIN, UPGRADE, WARMED = (
    "spark-submit by hand",
    "plain stop and start",
    "upgrade",
    "upgrade, pre-warmed",
)
_OURS: Final = {"plain": PLAIN, "upgrade": UPGRADE, "prewarmed": WARMED}
SOAK: Final = SoakTerms(
    batches=2, at_least=timedelta(seconds=3), at_most=timedelta(seconds=120), backlog_growth=1000.0
)
BACK: Final = RollbackPlan(
    way=RollbackMethod.REWIND, reason="The sink keeps a file for each batch."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """
    What one change cost.

    :param usual: Longest time between two commits just before it, in seconds.
    :param longest: The same around it.
    :param parts: Of an upgrade: seconds from one moment of its exchange to the next, by name.
    """

    way: str
    usual: float
    longest: float
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def over(self) -> float:
        """Return the seconds over one batch."""
        return max(0.0, self.longest - self.usual)


class Commits:
    """Notes when each batch of a checkpoint was committed, in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commits", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def since(self, moment: float) -> list[float]:
        """Return the times of the commits from a moment on, and of the one before it."""
        times = sorted(self._times.values())
        first = max((n for n, at in enumerate(times) if at < moment), default=0)
        return times[first:]

    def await_steady(self, moment: float, seconds: float) -> None:
        """Wait until batches were committed for some seconds, beginning after a moment."""

        def is_steady() -> bool:
            later = [at for at in self.since(moment) if at > moment]
            return len(later) >= 3 and later[-1] - later[0] >= seconds

        until(is_steady, "a steady flow of commits", PATIENCE)

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.isdecimal() and int(entry.name) not in self._times:
                        self._times[int(entry.name)] = entry.stat().st_mtime


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every way so many times; 1 when the goal is missed or a row is not there once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--times", type=int, default=10, help="changes of each way")
    parser.add_argument("--runtime", type=Path, default=find_runtimes().get("spark-4.3"))
    parser.add_argument("--only", nargs="*", choices=ONLY, default=ONLY, help="these ways alone")
    given = parser.parse_args(arguments)
    if given.runtime is None:
        parser.error("there is no runtime spark-4.3; name one with --runtime")
    heed_signals()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="upgrade-gap-", ignore_cleanup_errors=True) as made:
        folder = Path(made).resolve()
        gaps, rows = list[Gap](), Verdict(rows=0, lost=0, doubled=0, wrong=0)
        if "hand" in given.only:
            gaps, rows = _by_hand(folder / "hand", given.runtime, given.times)
        ways = [way for name, way in _OURS.items() if name in given.only]
        if ways:
            ours, more = _ours(folder / "ours", given.runtime, given.times, ways)
            gaps, rows = gaps + ours, rows + more
    return tell(gaps, rows)


def _say(gap: Gap) -> None:
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in gap.parts.items())
    load = os.getloadavg()[0]
    print(
        f"{gap.way}: {gap.longest:.1f} s without a commit, {gap.over:.1f} s over one batch; load "
        f"{load:.1f}{f' ({parts})' if parts else ''}",
        flush=True,
    )


def _measured(commits: Commits, way: str, began: float, parts: Mapping[str, float]) -> Gap:
    commits.await_steady(time.time(), STEADY_SECONDS)
    before = [late - early for early, late in pairwise(commits.since(began - STEADY_SECONDS))]
    around = [late - early for early, late in pairwise(commits.since(began))]
    quiet = len(commits.since(began - STEADY_SECONDS)) - len(around) - 1
    gap = Gap(way=way, usual=max(before[:quiet]), longest=max(around), parts=parts)
    _say(gap)
    return gap


def _by_hand(folder: Path, spark: Path, times: int) -> tuple[list[Gap], Verdict]:
    stage = Stage.at(folder, spark, "ledger")
    written = applications.write(stage.folder / "jobs")
    scripts = cycle([written["newer"], written["old"]])
    output, checkpoint = stage.folder / "out", stage.folder / "checkpoint"
    output.mkdir(parents=True)
    driver = submit(stage, written["old"], output, checkpoint)
    gaps: list[Gap] = []
    try:
        with Shop(stage.input), Commits(checkpoint / QUERY / "commits") as commits:
            commits.await_steady(time.time(), STEADY_SECONDS)
            for _ in range(times):
                began = time.time()
                driver.send_signal(signal.SIGTERM)
                driver.wait(PATIENCE)
                driver = submit(stage, next(scripts), output, checkpoint)
                gaps.append(_measured(commits, HAND, began, {}))
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    return gaps, _judged(stage, str(output))


def _judged(stage: Stage, output: str) -> Verdict:
    return judge_rows(new_rows(output, set()), expected(stage.input))


def _ours(folder: Path, spark: Path, times: int, ways: Sequence[str]) -> tuple[list[Gap], Verdict]:
    stage = Stage.at(folder, spark, "ledger")
    written = applications.write(stage.folder / "jobs")
    scripts = cycle([written["newer"], written["old"]])
    start(stage, written["old"])
    home = stage.lane(STREAM)
    deployment = home.newest_deployment()
    if deployment is None:
        raise RuntimeError("The stream has no deployment.")
    gaps: list[Gap] = []
    try:
        folder = Path(deployment.checkpoint) / QUERY / "commits"
        with Shop(stage.input), Commits(folder) as commits, KeepAlive(stage):
            commits.await_steady(time.time(), STEADY_SECONDS)
            try:
                for way in list(ways) * times:
                    gaps.append(_change(stage, commits, way, next(scripts)))
            except KeyboardInterrupt:
                print("Interrupted: the changes so far count.", flush=True)
            want(stage, STREAM, DesiredState.STOPPED)
            until(lambda: not stage.drivers(), "the driver to be stopped", PATIENCE)
    finally:
        end_standbys(stage)
        stage.end()
    return gaps, _judged(stage, deployment.output)


def _change(stage: Stage, commits: Commits, way: str, script: Path) -> Gap:
    if way == PLAIN:
        began = time.time()
        proposed, source = stage.proposal(STREAM, script, fresh=False)
        stage.keeper(STREAM, "benchmark").deploy(proposed, source)
        return _measured(commits, way, began, {})
    exchange = Exchange(stage, script, prewarm=way == WARMED)
    exchange.go(Reached.READY)
    began = time.time()
    exchange.go(Reached.LAUNCHED)
    until_kept = threading.Thread(target=exchange.go, args=(Reached.KEPT,), daemon=True)
    until_kept.start()
    gap = _measured(commits, way, began, {})
    until_kept.join(PATIENCE)
    return exchange.explained(gap, commits, began)


class Exchange:
    """One upgrade, taken on as its task does it."""

    def __init__(self, stage: Stage, script: Path, *, prewarm: bool) -> None:
        self._stage, self._home, self._prewarm = stage, stage.lane(STREAM), prewarm
        self._observer = stage.observer(STREAM)
        self._engine = UpgradeInPlace(
            *(self._home, stage.keeper(STREAM, "benchmark", str(script)), self._observer),
            open_backup_store(stage.store_uri, create=True),
            by="benchmark",
            pace=EXCHANGE_PACE,
        )
        proposed, source = stage.proposal(STREAM, script, fresh=False)
        asked = UpgradeTermsRequest(
            rollback=BACK, soak=SOAK, stop_grace=timedelta(seconds=30), prewarm=prewarm
        )
        self._change = self._engine.begin(proposed, source, asked)

    def go(self, until_: Reached) -> None:
        """Take it to a stage; raises ``RuntimeError`` when it is given up or takes too long."""
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            progress = self._engine.advance(until_, self._change.number)
            if progress.is_there:
                break
            time.sleep(POLL_SECONDS)
        state = progress.state
        if not progress.is_there or state in (Reached.ABORTED, Reached.ROLLED_BACK):
            raise RuntimeError(f"The upgrade is {state}: {progress.reason} {progress.waiting}")

    def explained(self, gap: Gap, commits: Commits, began: float) -> Gap:
        """Return the gap with its parts, as the records tell them."""
        moments = dict(self._moments(commits, began))
        names = list(moments)
        parts = {late: moments[late] - moments[early] for early, late in pairwise(names)}
        found = Gap(way=gap.way, usual=gap.usual, longest=gap.longest, parts=parts)
        print("  " + ", ".join(f"{name} {took:.1f}" for name, took in parts.items()), flush=True)
        return found

    def _moments(self, commits: Commits, began: float) -> Iterator[tuple[str, float]]:
        home, steps = self._home, self._home.stages(self._change.number)
        stopped, launched = steps[Reached.STOPPED], steps[Reached.LAUNCHED]
        fence, epoch = int(stopped.facts["fence"]), int(launched.facts["epoch"])
        old = max(number for number in home.epoch_numbers() if number < fence)
        stop, exit_, launch = home.stop_request(old), home.exit(old), home.launch(epoch)
        if stop is None or exit_ is None or launch is None:
            raise RuntimeError(f"The exchange of change {self._change.number} left no trace.")
        orders = home.orders(epoch)
        if bool(orders) is not self._prewarm:
            code = launched.facts.get("warm_up", WarmUp.LOST.value)
            raise RuntimeError(f"The upgrade of change {self._change.number} was started {code}.")
        times = commits.since(began)
        yield "last commit", max(at for at in times if at < _at(exit_.ended_at))
        yield "queries ended", _at(exit_.ended_at)
        yield "driver gone", _at(home.epoch(fence).created_at)
        yield "backed up", _at(stopped.at)
        yield (
            "released" if orders else "started",
            _at(orders[0].at if orders else launch.launched_at),
        )
        yield "first commit", min(at for at in times if at > _at(stopped.at))


def _at(moment: datetime) -> float:
    return moment.timestamp()


def tell(gaps: Sequence[Gap], rows: Verdict) -> int:
    """Print the tables; return the exit code."""
    by_way = {way: [g for g in gaps if g.way == way] for way in (HAND, PLAIN, UPGRADE, WARMED)}
    head = ("seconds", "times", "one batch", "gap median", "gap max", "over median", "over max")
    lines = [
        (
            *(way, str(len(found))),
            f"{statistics.median(g.usual for g in found):.1f}",
            f"{statistics.median(g.longest for g in found):.1f}",
            f"{max(g.longest for g in found):.1f}",
            f"{statistics.median(g.over for g in found):.1f}",
            f"{max(g.over for g in found):.1f}",
        )
        for way, found in by_way.items()
        if found
    ]
    print(f"\nSeconds without a commit around a change of the deployment\n{table(head, lines)}")
    for way in filter(by_way.get, (UPGRADE, WARMED)):
        names = list(by_way[way][0].parts)
        told = (
            f"{name} {statistics.median(g.parts[name] for g in by_way[way]):.1f}" for name in names
        )
        print(f"{way}, medians from one moment to the next: {', '.join(told)}")
    print(
        f"\n{rows.rows} rows: {rows.lost} lost, {rows.doubled} doubled, {rows.wrong} wrong. "
        f"{CONF['spark.master']}\n{machine()}"
    )
    warmed = [gap.over for gap in by_way[WARMED]]
    if not warmed:
        return 0 if rows.is_whole else 1
    over, is_met = statistics.median(warmed), statistics.median(warmed) <= GOAL_SECONDS
    print(
        f"Pre-warmed: {over:.1f} s over one batch (p90 {percentile(warmed, 0.9):.1f}); the goal is at "
        f"most {GOAL_SECONDS:.0f} s: {'met' if is_met else 'missed'}."
    )
    return 0 if is_met and rows.is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
