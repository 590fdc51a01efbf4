"""
Are the judges right? Random histories, held against a reference model and against the truth.

``python -m tests.system.judging --histories 100000`` runs three parts and prints what each found:

* rules, verdicts and restarts against the models ``tests/unit/supervision/reference_model.py``,
  ``reference_judge.py`` and ``restart_model.py``,
* histories that are slow or strange but alive, where nobody may be restarted,
* the same histories with a real stall, hang or death in them, which must be found in time.

The process ends with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, cast

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules, RuleState, Severity
from airflow_streaming.model.observation import Observation, Verdict, VerdictState
from airflow_streaming.supervision.health import judge, stall_window
from airflow_streaming.supervision.observer import Observer
from benchmarks.figures import percentile
from tests.system.simulated import (
    BEAT,
    Fault,
    SimulatedHome,
    SimulatedLauncher,
    Weather,
    World,
    observer_time,
)
from tests.unit.supervision.agreement import disagreement_of_judges, disagreement_of_rules
from tests.unit.supervision.restart_model import disagreement_of_restarts

POLL: Final = 5.0
LASTS: Final = 1_800.0
HOUR: Final = 3_600.0
DEFAULT: Final = HealthRules()
RECOMMENDED: Final = HealthRules.recommended()
BAD: Final = frozenset({VerdictState.HUNG, VerdictState.STALLED})


def weather(random: Random) -> Weather:
    """Return something that is strange, and no reason to restart anybody."""
    at = random.uniform(200, 900)
    kinds: dict[str, dict[str, Any]] = {
        "a batch twenty times as long": {"slow_batch": at},
        "a stop of 20 s": {"stopped": (at, 20.0)},
        "a tenth of the CPU": {"slowness": 10.0},
        "the driver's clock moved": {"driver_clock": (at, random.choice([HOUR, -HOUR]))},
        "the observer's clock moved": {"observer_clock": (at, random.choice([HOUR, -HOUR]))},
        "the home away": {"away": (at, random.uniform(5, 600))},
        "status late": {"lateness": 20.0},
    }
    name = random.choice(list(kinds))
    return Weather(name=name, **kinds[name])


@dataclass
class Watch:
    """One observer at its polls."""

    world: World
    rules: HealthRules
    observer: Observer = field(init=False)

    def __post_init__(self) -> None:
        world = self.world
        self.observer = Observer(
            cast("Any", SimulatedHome(world)),
            cast("Any", SimulatedLauncher(world)),
            rules=self.rules,
            policy=RestartPolicy(),
            clock=lambda: world.now,
            now=lambda: observer_time(world),
        )

    def look(self) -> Observation | None:
        """Look once; ``None`` when the home could not be read."""
        try:
            return self.observer.situation().seen
        except HomeUnavailable:
            self.observer.lose_sight()
            return None


def looks(world: World, rules: HealthRules, until: float) -> Iterable[tuple[Observation, Verdict]]:
    """Let time pass, and judge at every poll."""
    watch, due = Watch(world, rules), 0.0
    while world.now < until:
        world.tick()
        if world.now < due:
            continue
        due = world.now + POLL
        seen = watch.look()
        if seen is not None:
            yield seen, judge(seen, rules)


def false_alarms(seed: int) -> tuple[str, list[str], bool]:
    """Watch a history that is alive; return its weather, what was wrong, and if a rule fired."""
    wrong: list[str] = []
    fired = False
    name = ""
    for rules in (DEFAULT, RECOMMENDED):
        random = Random(seed)
        world = World(random=random, weather=weather(random))
        name = world.weather.name
        for seen, verdict in looks(world, rules, LASTS):
            fired = fired or any(f.state is RuleState.FIRING for f in seen.findings)
            if verdict.state in BAD or verdict.severity in (Severity.RESTART, Severity.STOP):
                wrong.append(f"seed {seed}, {name}, at {world.now:.0f} s: {verdict.reason}")
    return name, wrong, fired


def detection(seed: int) -> tuple[str, float | None, float]:
    """Watch a history with a fault; return its kind, the seconds to find it, and those allowed."""
    random = Random(seed)
    kind = random.choice(["stall", "freeze", "suspend", "kill"])
    fault = Fault(kind=kind, at=float(random.randint(1_200, 1_500)))
    world = World(random=random, weather=weather(random), fault=fault)
    for seen, verdict in looks(world, RECOMMENDED, fault.at + 3 * HOUR):
        if _is_found(kind, verdict) and world.now >= fault.at:
            begun = world.stands_since if kind == "stall" else fault.at
            window = _window(kind, seen)
            # The silence begins when the last beat is first seen; a stall is told by the next beat.
            slack = POLL + BEAT * world.weather.slowness + world.weather.lateness
            slack += 0.0 if kind in ("stall", "kill") else POLL
            slack += _blind_for(world.weather, fault)
            return kind, world.now - (begun or fault.at) - window, slack
    return kind, None, 0.0


def _blind_for(weather: Weather, fault: Fault) -> float:
    # While the home is away nobody can look, and that time is not counted as silence either.
    return 0.0 if weather.away is None else max(0.0, sum(weather.away) - fault.at)


def _is_found(kind: str, verdict: Verdict) -> bool:
    wanted = {
        "stall": VerdictState.STALLED,
        "freeze": VerdictState.HUNG,
        "suspend": VerdictState.HUNG,
        "kill": VerdictState.DEAD,
    }
    return verdict.state is wanted[kind]


def _window(kind: str, seen: Observation) -> float:
    if kind == "kill":
        return 0.0
    if kind == "stall" and seen.status is not None:
        return stall_window(
            seen.status.queries[0],
            stall_after=RECOMMENDED.stall_after,
            stall_factor=RECOMMENDED.stall_factor,
        ).total_seconds()
    window = RECOMMENDED.suspended_after if kind == "suspend" else RECOMMENDED.hang_after
    return window.total_seconds()


def disagreements(seed: int) -> list[str]:
    """Return what the reference model says otherwise of one history and one observation."""
    models = (disagreement_of_rules, disagreement_of_judges, disagreement_of_restarts)
    return [wrong for model in models if (wrong := model(seed))]


class Trial:
    """Runs the parts over all cores and keeps the score."""

    def __init__(self, seed: int, pool: ProcessPoolExecutor) -> None:
        self._seed, self._pool = seed, pool
        self.wrong = 0

    def agreement(self, histories: int) -> None:
        begun = time.monotonic()
        found = [wrong for wrongs in self._over(disagreements, histories) for wrong in wrongs]
        self._tell(
            f"reference models: {histories} histories of rules, {histories} observations and "
            f"{histories} histories of restarts, {len(found)} disagreements",
            begun,
            found,
        )

    def alive(self, histories: int) -> None:
        begun = time.monotonic()
        results = self._over(false_alarms, histories)
        found = [wrong for _, wrongs, _ in results for wrong in wrongs]
        kinds = Counter(name for name, _, _ in results)
        self._tell(
            f"slow but alive: {histories} histories under default and recommended rules "
            f"({', '.join(f'{n} {name}' for name, n in sorted(kinds.items()))}), {len(found)} "
            f"verdicts of restart, stop, hung or stalled; a recommended rule alerted in "
            f"{sum(fired for _, _, fired in results)}",
            begun,
            found,
        )

    def faults(self, histories: int) -> None:
        begun = time.monotonic()
        results = self._over(detection, histories)
        for kind in sorted({kind for kind, _, _ in results}):
            mine = [(took, slack) for k, took, slack in results if k == kind]
            late = [took for took, slack in mine if took is None or took > slack]
            times = [took for took, _ in mine if took is not None]
            self._tell(
                f"{kind}: {len(mine)} histories, {len(mine) - len(times)} not found, seconds past "
                f"the window p50 {percentile(times, 0.5):.0f}, p95 {percentile(times, 0.95):.0f}, "
                f"worst {max(times):.0f}; {len(late)} later than window + poll",
                begun,
                [f"found after {took} s" for took in late],
            )

    def _over(self, work: Callable[[int], Any], histories: int) -> list[Any]:
        seeds = range(self._seed, self._seed + histories)
        return list(self._pool.map(work, seeds, chunksize=max(1, min(200, histories // 20))))

    def _tell(self, text: str, begun: float, wrong: list[str]) -> None:
        self.wrong += len(wrong)
        sys.stdout.write(f"{text}; {time.monotonic() - begun:.0f} s\n")
        for line in wrong[:5]:
            sys.stdout.write(f"  {line[:500]}\n")
        sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=100_000, help="against the models")
    parser.add_argument(
        "--simulated", type=int, default=2_000, help="alive, and as many with faults"
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with ProcessPoolExecutor() as pool:
        trial = Trial(given.seed, pool)
        trial.agreement(given.histories)
        trial.alive(given.simulated)
        trial.faults(given.simulated)
    return 1 if trial.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
