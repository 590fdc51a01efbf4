"""
How far the forecast of a restart is from the measured time: recorded restarts, no Spark.

    python -m benchmarks.forecast HOME [HOME ...]
    python -m benchmarks.forecast --simulated [--seed 1]

Each restart of each stream in a home is forecast from the restarts before it. ``--simulated`` draws 200 streams
instead: the start-up of a loaded host (log-normal, 30 % around 20 s), a state that grows over 20 restarts, loaded at
40 to 160 MB/s with 20 % noise. It tests the arithmetic, not Spark. The goal is a median error of at most 25 %.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from statistics import median, quantiles
from typing import Final

from airflow_streaming.advice.cost.restart_forecast import Restart, errors
from airflow_streaming.advice.gathering import restarts_of
from airflow_streaming.home.home import Home
from airflow_streaming.storage.fsspec_store import open_store

GOAL: Final = 0.25
STREAMS: Final = 200
RESTARTS: Final = 20
GIB: Final = 2**30


def recorded(places: list[str]) -> Iterator[tuple[str, list[Restart]]]:
    """Yield the restarts of each stream of the homes."""
    for place in places:
        home = Home(open_store(place))
        for name in sorted(home.store.names("")):
            found = list(restarts_of(home.stream(name))) if not name.startswith("_") else []
            if found:
                yield f"{place}/{name}", found


def simulated(seed: int) -> Iterator[tuple[str, list[Restart]]]:
    """Yield the restarts of streams that no home holds."""
    chance = random.Random(seed)
    for number in range(STREAMS):
        bytes_a_second = chance.uniform(40e6, 160e6)
        state, growth = chance.uniform(0.05, 1.0) * GIB, chance.uniform(1.0, 1.15)
        usual = chance.uniform(0.5, 5.0)
        found = []
        for _ in range(RESTARTS):
            load = state / bytes_a_second * chance.uniform(0.8, 1.2)
            start = 20.0 * chance.lognormvariate(0, 0.3)
            found.append(Restart(start, usual + load, usual, state))
            state *= growth
        yield f"stream {number}", found


def rows(streams: Iterator[tuple[str, list[Restart]]], *, each: bool) -> Iterator[str]:
    """Return the table, line by line."""
    found: list[float] = []
    for name, history in streams:
        mine = errors(history)
        found += mine
        if each and mine:
            yield f"{name}: {len(history)} restarts, median error {median(mine):.0%}"
    if len(found) < 2:
        yield "No stream has four restarts with batches; nothing was forecast."
        return
    yield (
        f"{len(found)} forecasts: median error {median(found):.0%}, 90 % below {quantiles(found, n=10)[-1]:.0%}; "
        f"goal {GOAL:.0%}: {'reached' if median(found) <= GOAL else 'missed'}"
    )


def main() -> None:
    """Print the errors."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("homes", nargs="*", metavar="HOME")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    streams = simulated(given.seed) if given.simulated else recorded(given.homes)
    for line in rows(streams, each=not given.simulated):
        print(line, flush=True)


if __name__ == "__main__":
    main()
