"""
Campaigns over hundreds of played streams, by seed.

``python -m tests.system.campaign_simulated --campaigns 200 --streams 500`` needs no Spark. The records and the
decisions are the real ones; the upgrades of the streams are played. In each campaign candidates are bad, slow, refused
or fail after a good soak. Workers are killed before durable steps, or overtaken there by another worker; triggerers are
lost for up to an hour; the cluster is full at times; users pause, resume, approve, abort and take streams out. In the
end no wave may have begun after a bad stream, each stream has to run exactly one deployment that its records name, and
no return may be half done. One line is printed for each campaign that is not so, and the process ends with 1.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import contextlib
import logging
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, Final

from airflow_streaming.changes.campaign.state import CampaignState, MemberState
from airflow_streaming.changes.campaign.waves import DEFAULT_WAVES, waves_of
from airflow_streaming.exceptions import CampaignRefused
from airflow_streaming.model.arguments.policies import Blackout
from airflow_streaming.model.records.campaign import (
    ApproveWaves,
    BadSoak,
    CampaignEvent,
    CampaignOutcome,
    CampaignStep,
)
from airflow_streaming.services.campaigns import commands as acts
from tests.unit.changes.campaign.played import (
    CANDIDATE,
    OLD,
    RESTORED,
    PlayedFleet,
    PlayedStream,
)
from tests.unit.checkpoints.restoring import Killed

BAD: Final = 0.02
MOST_MINUTES: Final = 20_000
_ENDS: Final = {
    MemberState.KEPT: CANDIDATE,
    MemberState.ROLLED_BACK: RESTORED,
    MemberState.REFUSED: OLD,
    MemberState.OUT: OLD,
    MemberState.WAITING: OLD,
}


@dataclass
class Simulated:
    """
    One campaign with its misfortunes, drawn from a seed.

    :param bad: Share of candidates that are bad.
    """

    seed: int
    streams: int
    bad: float = BAD

    def __post_init__(self) -> None:
        self.chance = Random(f"campaign {self.seed}")
        names = [f"s{number:04}" for number in range(self.streams)]
        self.fleet = PlayedFleet({name: self._stream() for name in names})
        self.policy = self.chance.choice(list(BadSoak))
        self.at_once = self.chance.choice([1, 5, 10, 25])
        self.events: Counter[str] = Counter()
        self.lost_until = 0
        self.fleet.begin(
            *waves_of(names, DEFAULT_WAVES),
            follows=self._follows(names),
            at_once=self.at_once,
            bad_soak=self.policy,
            wave_soak=timedelta(minutes=self.chance.choice([0, 5, 60])),
            approve=self.chance.choice(list(ApproveWaves)),
            blackouts=self._blackouts(),
        )
        self.fleet.before = self._before
        self.fleet.store.before_create = self._before

    def _stream(self) -> PlayedStream:
        is_bad = self.chance.random() < self.bad
        code = self.chance.choice(["bad", "bad", "late"]) if is_bad else "works"
        if not is_bad and self.chance.random() < 0.02:
            code = self.chance.choice(["refused", "no backup"])
        slow = self.chance.random() < 0.05
        soaks = self.chance.randrange(30, 60) if slow else self.chance.randrange(2, 6)
        return PlayedStream(code, soaks)

    def _follows(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return what streams read of earlier ones; and now and then a circle."""
        found = {
            name: (names[self.chance.randrange(number)],)
            for number, name in enumerate(names)
            if number and self.chance.random() < 0.3
        }
        if self.chance.random() < 0.2 and len(names) > 1:
            first, second = self.chance.sample(list(names), 2)
            found |= {first: (second,), second: (first,)}
        return found

    def _blackouts(self) -> tuple[Blackout, ...]:
        daily = Blackout(start="06:00", end="08:00")
        return (daily,) if self.chance.random() < 0.3 else ()

    def _before(self) -> None:
        """Before each durable step the worker may be killed, or overtaken by another one."""
        chance = self.chance.random()
        if chance < 0.02:
            self.events["kills"] += 1
            raise Killed
        if chance < 0.04:
            self.events["overtaken"] += 1
            before, quiet = self._before, lambda: None
            self.fleet.before = self.fleet.store.before_create = quiet
            try:
                self.fleet.tick(self.chance.randrange(0, 5))
                self.fleet.work()
            finally:
                self.fleet.before = self.fleet.store.before_create = before

    def play(self) -> CampaignState:
        """Let time pass until the campaign is closed."""
        worker = self.fleet.worker()
        for minute in range(MOST_MINUTES):
            self._misfortune(minute)
            if minute >= self.lost_until:
                try:
                    progress = worker.work()
                    if progress.is_there:
                        return progress.state
                    self._answer(progress.needs_person)
                except Killed:
                    worker = self.fleet.worker()
            self.fleet.tick()
        raise AssertionError(f"It came to no end: {self.fleet.state()}")

    def _misfortune(self, minute: int) -> None:
        chance = self.chance.random()
        if chance < 0.005:
            self.events["lost triggerers"] += 1
            self.lost_until = minute + self.chance.randrange(5, 60)
        elif chance < 0.02:
            self.fleet.free = self.chance.choice([0, 0, 1, 3])
            self.events["full clusters"] += self.fleet.free == 0
        elif chance < 0.05:
            self.fleet.free = None
        elif chance < 0.06:
            self._command(minute)

    def _command(self, minute: int) -> None:
        with contextlib.suppress(CampaignRefused, Killed):
            if self.chance.random() < 0.6:
                name = self.chance.choice(list(self.fleet.streams))
                acts.take_out(self.fleet.campaigns, 1, name, by="ada", reason="mine")
                self.events["taken out"] += 1
            elif self.chance.random() < 0.05:
                acts.abort(self.fleet.campaigns, 1, by="ada", reason="enough")
            else:
                acts.pause(self.fleet.campaigns, 1, by="ada", reason="lunch")
                self.events["pauses"] += 1

    def _answer(self, needs_person: bool) -> None:
        if not needs_person or self.chance.random() < 0.7:
            return
        for act in (acts.resume, acts.approve):
            with contextlib.suppress(CampaignRefused, Killed):
                act(self.fleet.campaigns, 1, by="ada", reason="go on")


def faults_of(simulated: Simulated, state: CampaignState) -> list[str]:
    """Return what is wrong with the end of a campaign."""
    fleet, steps = simulated.fleet, simulated.fleet.campaigns.steps(1)
    faults = []
    for name, stream in fleet.streams.items():
        member = state.members[name]
        wanted = _ENDS.get(member)
        if stream.is_open or stream.deployment != wanted:
            faults.append(f"{name} is {member}, {stream.stage}, on {stream.deployment}")
        if member is MemberState.KEPT and stream.code in ("bad", "refused", "no backup"):
            faults.append(f"{name} is kept and was {stream.code}")
    if fleet.most_busy > simulated.at_once:
        faults.append(f"{fleet.most_busy} of {simulated.at_once} at once")
    if state.outcome is CampaignOutcome.DONE and state.streams_in(MemberState.WAITING):
        faults.append("It is done, and streams wait.")
    return [*faults, *_after_bad(simulated, state, steps)]


def _after_bad(
    simulated: Simulated, state: CampaignState, steps: Sequence[CampaignStep]
) -> list[str]:
    """Return what went on after a bad stream that nobody had taken out."""
    faults, bad_wave = [], 0
    for step in steps:
        if step.event in (CampaignEvent.WAVE_OPENED, CampaignEvent.ADMITTED) and bad_wave:
            faults.append(f"step {step.number} {step.event} after a bad stream")
        if step.event is CampaignEvent.BAD and not bad_wave:
            bad_wave = step.wave or _wave_of(state, step.streams[0])
    wrong = [
        name
        for wave in state.campaign.waves[bad_wave:]
        for name in wave
        if bad_wave and simulated.fleet.streams[name].stage != "none"
    ]
    if wrong:
        faults.append(f"{wrong[0]} was begun in a wave after a bad one")
    own = [
        name
        for name, stream in simulated.fleet.streams.items()
        if stream.was_bad and name not in state.taken_out
    ]
    if own and state.outcome is CampaignOutcome.DONE:
        faults.append(f"{own[0]} was bad and nothing stopped")
    if bad_wave and simulated.policy is BadSoak.WAVE and state.passed < bad_wave:
        kept = [
            name
            for name in state.campaign.waves[bad_wave - 1]
            if state.members[name] is MemberState.KEPT and name not in state.taken_out
        ]
        faults += [f"{name} of a bad wave is kept" for name in kept]
    return faults


def _wave_of(state: CampaignState, name: str) -> int:
    return next(n for n, wave in enumerate(state.campaign.waves, 1) if name in wave)


def played(seed: int, streams: int, bad: float = BAD) -> dict[str, Any]:
    """Play the campaign of a seed; return what came of it."""
    simulated = Simulated(seed, streams, bad)
    try:
        state = simulated.play()
    except AssertionError as err:
        return {"seed": seed, "outcome": "none", "faults": [str(err)[:400]], "events": {}}
    members = Counter(str(member) for member in state.members.values())
    return {
        "seed": seed,
        "outcome": str(state.outcome),
        "members": members,
        "events": simulated.events,
        "faults": faults_of(simulated, state),
        "waves": state.wave,
    }


def _one(given: tuple[int, int, float]) -> dict[str, Any]:
    return played(*given)


def _quiet() -> None:
    logging.disable(logging.CRITICAL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the campaigns; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=200)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--bad", type=float, default=BAD, help="share of bad candidates")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    began, wrong = time.monotonic(), 0
    outcomes, members, events = Counter[str](), Counter[str](), Counter[str]()
    seeds = [
        (seed, given.streams, given.bad)
        for seed in range(given.first, given.first + given.campaigns)
    ]
    _quiet()
    with multiprocessing.Pool(given.processes, _quiet) as pool:
        for found in pool.imap_unordered(_one, seeds):
            outcomes[f"{found['outcome']} in wave {found.get('waves')}"] += 1
            members.update(found.get("members", {}))
            events.update(found["events"])
            if found["faults"]:
                wrong += 1
                print(f"seed {found['seed']}: {' | '.join(found['faults'])[:600]}", flush=True)
    took = time.monotonic() - began
    print(f"{len(seeds)} campaigns of {given.streams} streams in {took:.0f} s: {wrong} wrong.")
    print(f"Ends: {dict(sorted(outcomes.items()))}. Streams: {dict(members)}.")
    print(f"Misfortunes: {dict(events)}.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
