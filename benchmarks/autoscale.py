"""
How ``autoscale`` does over days of load, beside fixed sizes and other rules: simulated, no Spark.

    python -m benchmarks.autoscale [--days 3] [--seed 1] [--gap 25] [--curve NAME] [--load FILE]

``--load`` plays a recorded load instead: a file with the rows of each minute, one number a line.

A batch of ``x`` rows takes ``1 s + x / (400 * executors)``, with 10 % noise, under a processing
trigger of 10 s; all that has come is read. A change of the size stops the stream for ``--gap``
seconds (a restart was measured at 10 to 40 s), and each of its first two batches takes 4 s longer.
The decision is the one that runs in production and sees what it sees there: the progress of the
batches since the driver started.

Lag is the age of the oldest row that is not committed, at every second. The fixed sizes work 70 % of
their time at the highest load of the curve, and at its mean. ``autoscale_rules.py`` has the rules of the others;
dynamic allocation changes the size without a pause.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from airflow_streaming.model.arguments.autoscale import Autoscale
from airflow_streaming.model.records.size_change import SizeChange
from airflow_streaming.supervision.scaling.autoscale import WARM_UP, Sample, SizeInput, size_step
from benchmarks.autoscale_rules import DynamicAllocation, FlinkRules

DAY: Final = 86_400
FIXED_S: Final = 1.0
ROWS_A_SECOND: Final = 400.0
"""Of one executor."""
INTERVAL: Final = 10
COLD_S: Final = 4.0
"""What each of the first batches of a driver takes longer."""
LOOK_EVERY: Final = 60
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
Curve = Callable[[int, random.Random], float]


def diurnal(second: int, chance: random.Random) -> float:
    """Day and night: 200 to 3,800 rows a second."""
    hour = second % DAY / 3600
    return (2000 - 1800 * math.cos((hour - 3) / 24 * 2 * math.pi)) * chance.uniform(0.9, 1.1)


def spike(second: int, chance: random.Random) -> float:
    """Five times the load for 20 minutes, three times a day, within one minute."""
    since = (
        min(second % DAY - at for at in (8 * 3600, 13 * 3600, 20 * 3600) if second % DAY >= at)
        if second % DAY >= 8 * 3600
        else DAY
    )
    height = min(since / 60, 1.0) if since < 1200 else max(0.0, 1 - (since - 1200) / 60)
    return 600 * (1 + 4 * height) * chance.uniform(0.9, 1.1)


def growth(second: int, chance: random.Random) -> float:
    """From 400 to 4,000 rows a second over the whole time; see ``Load``."""
    return (400 + 1200 * second / DAY) * chance.uniform(0.9, 1.1)


def outage(second: int, chance: random.Random) -> float:
    """1,200 rows a second; nothing for two hours, whose rows come within ten minutes then, every day."""
    since = second % DAY - 10 * 3600
    if 0 <= since < 7200:
        return 0.0
    caught = 1200 * 7200 / 600 if 7200 <= since < 7800 else 0.0
    return (1200 + caught) * chance.uniform(0.9, 1.1)


class Noisy:
    """Around 1,000 rows a second, wandering by half of that with a memory of five minutes."""

    def __init__(self) -> None:
        self._level = 0.0

    def __call__(self, second: int, chance: random.Random) -> float:
        keep = math.exp(-1 / 300)
        self._level = keep * self._level + math.sqrt(1 - keep**2) * chance.gauss(0, 0.5)
        return 1000 * math.exp(self._level)


CURVES: Final[dict[str, Callable[[], Curve]]] = {
    "diurnal": lambda: diurnal,
    "spike": lambda: spike,
    "slow growth": lambda: growth,
    "outage": lambda: outage,
    "noisy": Noisy,
}


@dataclass(slots=True)
class Stream:
    """A stream under load, one second after another."""

    executors: int
    chance: random.Random
    gap: int
    pending: list[list[float]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    down_until: int = 0
    committed_at: float = 0.0
    busy_until: float = 0.0
    batch: list[list[float]] = field(default_factory=list)
    is_new: bool = False
    scales: bool = True
    """More executors make the rows of a batch cheaper."""
    running: Sample | None = None
    batch_at: int = 0

    def second(self, now: int, rows: float) -> float:
        """Let a second pass; return the age of the oldest row that is not committed."""
        self.pending.append([now, rows])
        if self.batch and now >= self.committed_at:
            if not self.is_new and self.running is not None:
                self.samples.append(self.running)
            self.batch, self.is_new = [], False
        is_due = now % INTERVAL == 0 or now - self.busy_until > INTERVAL
        if now >= self.busy_until and is_due:
            self._begin(now)
        oldest = self.batch[0][0] if self.batch else self.pending[0][0]
        return now - oldest

    def _begin(self, now: int) -> None:
        rows = sum(one for _, one in self.pending)
        self.batch, self.pending, self.batch_at = self.pending, [[now, 0.0]], now
        if not rows:
            self.batch = []  # Spark runs no batch without data
            return
        seconds = FIXED_S + rows / (
            ROWS_A_SECOND * (self.executors if self.scales else 1)
        ) * self.chance.uniform(0.9, 1.1)
        if len(self.samples) < WARM_UP:
            seconds += COLD_S
        self.busy_until = self.committed_at = now + seconds
        at = START + timedelta(seconds=now)
        self.running = Sample(at, int(rows), seconds, 0.0)

    def resize(self, now: int, executors: int) -> None:
        """Stop at the batch boundary and start with another size."""
        self.down_until = math.ceil(max(now, self.busy_until)) + self.gap
        self.busy_until = self.down_until
        # The batch in work is committed before the driver stops, and told of by the old epoch.
        self.executors, self.samples, self.is_new = executors, [], bool(self.batch)


def autoscaled(stream: Stream, policy: Autoscale, now: int, changes: list[SizeChange]) -> None:
    """Look once, as a trigger does."""
    if now < stream.down_until:
        return
    at = START + timedelta(seconds=now)
    step = size_step(
        SizeInput(
            policy=policy,
            now=at,
            executors=stream.executors,
            alive=stream.executors,
            batches={"q": stream.samples[-500:]},
            intervals_s={"q": INTERVAL},
            in_work_s={"q": now - stream.batch_at} if stream.batch else {},
            changes=changes,
        )
    )
    if step.changes:
        changes.append(
            SizeChange(
                number=len(changes) + 1,
                epoch=len(changes) + 1,
                code=step.code,
                executors=step.executors,
                before=stream.executors,
                configured=1,
                reason=step.reason,
                by="simulation",
                at=at,
                figures=step.figures,
            )
        )
        stream.resize(now, step.executors)


def needed(rows_a_second: float) -> int:
    """Return the executors that work 70 % of an interval at a load."""
    usable = 0.7 * INTERVAL - FIXED_S
    return max(1, math.ceil(rows_a_second * INTERVAL / ROWS_A_SECOND / usable))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run."""

    lags: list[float]
    executor_hours: float
    changes: int
    most: int


def play(
    load: list[float],
    executors: int,
    seed: int,
    gap: int,
    policy: Autoscale | None,
    other: DynamicAllocation | FlinkRules | None = None,
    *,
    scales: bool = True,
) -> Outcome:
    """Run a stream through a load, by a policy, by the rules of another autoscaler, or with a fixed size."""
    stream = Stream(executors=executors, chance=random.Random(seed), gap=gap, scales=scales)
    lags, hours, changes, most, others = [], 0.0, list[SizeChange](), executors, 0
    for now, rows in enumerate(load):
        lags.append(stream.second(now, rows))
        hours += stream.executors / 3600
        if policy is not None and now % LOOK_EVERY == 0:
            autoscaled(stream, policy, now, changes)
        if other is not None:
            others += by_other_rules(stream, other, now)
        most = max(most, stream.executors)
    return Outcome(lags=lags, executor_hours=hours, changes=len(changes) + others, most=most)


def by_other_rules(stream: Stream, rules: DynamicAllocation | FlinkRules, now: int) -> bool:
    """Let a second pass by the rules of another autoscaler; tell whether the size has changed."""
    before = stream.executors
    if isinstance(rules, DynamicAllocation):
        stream.executors = rules.after(before, is_working=now < stream.busy_until)
    elif now % LOOK_EVERY == 0 and now >= stream.down_until:
        waiting = sum(rows for _, rows in stream.pending)
        wanted = rules.wanted(before, now, START, stream.samples[-500:], waiting)
        if wanted != before:
            stream.resize(now, wanted)
    return stream.executors != before


def loads(days: int, seed: int, curve: str | None) -> Iterator[tuple[str, list[float]]]:
    """Yield the named load curves, or all of them, as rows of each second."""
    for name, make in CURVES.items():
        if curve in (None, name):
            at, chance = make(), random.Random(seed)
            yield name, [at(second, chance) for second in range(days * DAY)]


def recorded(file: Path) -> Iterator[tuple[str, list[float]]]:
    """Yield a recorded load: the rows of each minute, spread over its seconds."""
    minutes = [float(line) for line in file.read_text().split()]
    yield file.stem, [rows / 60 for rows in minutes for _ in range(60)]


def rows(found_loads: Iterator[tuple[str, list[float]]], seed: int, gap: int) -> Iterator[str]:
    """Return the table, line by line."""
    yield f"{'curve':12} {'size':14} {'lag max s':>9} {'p95 s':>6} {'executor h/day':>14} {'changes/day':>11}"
    for name, load in found_loads:
        days = len(load) / DAY
        minutes = [sum(load[i : i + 60]) / 60 for i in range(0, len(load), 60)]
        peak, mean = needed(max(minutes)), needed(sum(load) / len(load))
        policy = Autoscale(min=1, max=max(peak, 2))
        for size, begin, rules, other in (
            (f"at peak ({peak})", peak, None, None),
            (f"at mean ({mean})", mean, None, None),
            ("autoscale", mean, policy, None),
            ("dynamic alloc.", mean, None, DynamicAllocation(most=max(peak, 2))),
            ("Flink's rules", mean, None, FlinkRules(most=max(peak, 2), gap=gap)),
        ):
            found = play(load, begin, seed, gap, rules, other)
            ordered = sorted(found.lags)
            yield (
                f"{name:12} {size:14} {ordered[-1]:9.0f} {ordered[int(len(ordered) * 0.95)]:6.0f} "
                f"{found.executor_hours / days:14.1f} {found.changes / days:11.1f}"
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gap", type=int, default=25)
    parser.add_argument("--curve", choices=[*CURVES])
    parser.add_argument("--load", type=Path)
    given = parser.parse_args()
    found = recorded(given.load) if given.load else loads(given.days, given.seed, given.curve)
    for line in rows(found, given.seed, given.gap):
        print(line, flush=True)


if __name__ == "__main__":
    main()
