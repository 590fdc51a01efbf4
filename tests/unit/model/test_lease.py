"""
A lease: held by a driver, watched by others, and simulated over thousands of bad schedules.

The simulation moves one driver, one watcher and one store second by second. Either side may lose the
store; the driver's process may be stopped between looking and writing; its machine may be paused
with its clocks; clocks run at different speeds and the time of day is set. What the driver and the
watcher decide by is the real thing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.lease import HeldLease, Instant, check_lease, is_over, margin_of
from airflow_streaming.model.observation import Process, ProcessState, VerdictState
from airflow_streaming.supervision.decide import Action, decide
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.observer import Memory
from tests.conftest import RUNS_NIGHTLY
from tests.unit.supervision.builders import (
    a_situation,
    a_spec,
    an_epoch,
    an_exit,
    observed,
    seconds,
)

LEASE: Final = timedelta(seconds=30)
UNSEEN: Final = Process.unseen("driver runs on host worker-1, this is worker-2")
HORIZON: Final = 240
SCHEDULES: Final = 10_000 if RUNS_NIGHTLY else 1_000
BEAT_EVERY: Final = 2
LOOK_EVERY: Final = 5

Span = tuple[int, int]


@dataclass
class Schedule:
    """What goes wrong in one run; spans are seconds of true time."""

    seed: int
    pauses_machine: bool = False
    cut_off: list[Span] = field(default_factory=list)
    blind: list[Span] = field(default_factory=list)
    stopped: list[Span] = field(default_factory=list)
    paused: list[Span] = field(default_factory=list)
    jumps: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = chance = random.Random(self.seed)
        self.driver_speed, self.watcher_speed = (
            chance.uniform(0.99, 1.01),
            chance.uniform(0.99, 1.01),
        )
        self.cut_off = self._spans(2, 200)
        self.blind = self._spans(2, 60)
        self.stopped = self._spans(2, 150)
        self.paused = self._spans(2, 150) if self.pauses_machine else []
        self.jumps = {chance.randrange(HORIZON): chance.uniform(-3600, 3600) for _ in range(2)}

    def _spans(self, most: int, longest: int) -> list[Span]:
        starts = [self.chance.randrange(HORIZON) for _ in range(self.chance.randint(0, most))]
        return [(start, start + self.chance.randint(1, longest)) for start in starts]


def marked(spans: list[Span]) -> bytearray:
    """Return one byte for each second: whether it lies in a span."""
    marks = bytearray(HORIZON)
    for begin, end in spans:
        for second in range(begin, min(end, HORIZON)):
            marks[second] = 1
    return marks


@dataclass
class Run:
    """
    What came of a schedule.

    :param taken_over_at: Second at which the next epoch was begun; ``None`` when it was not.
    :param last_beat_at: Second at which the last heartbeat before it could be read.
    :param begun: Writes that the old driver began after that, each with whether the store was in
        its sight.
    :param landed: Writes that it had begun before and that a stop had kept from landing.
    """

    taken_over_at: int | None = None
    last_beat_at: int = 0
    begun: list[tuple[int, bool]] = field(default_factory=list)
    landed: list[int] = field(default_factory=list)


Over = Callable[[timedelta, timedelta], bool]


class OldDriver:
    """The driver that may lose its host."""

    def __init__(self, schedule: Schedule, seen: Run) -> None:
        self._schedule, self._seen = schedule, seen
        self._paused, self._stopped = marked(schedule.paused), marked(schedule.stopped)
        self._cut_off = marked(schedule.cut_off)
        self._clock = Instant(running=0.0, wall=0.0)
        self._lease = HeldLease(seconds=LEASE.total_seconds(), since=self._clock)
        self._writing: tuple[int, Instant] | None = None
        self._has_begun = False
        self.beat, self.is_alive = 0, True

    def move(self, now: int) -> None:
        """Live one second: renew, look, write."""
        if self._paused[now]:
            return
        passed = self._schedule.driver_speed
        jumped = passed + self._schedule.jumps.get(now, 0.0)
        clock = self._clock
        self._clock = Instant(running=clock.running + passed, wall=clock.wall + jumped)
        if self.is_alive and not self._stopped[now]:
            self._work(now, sees_store=not self._cut_off[now])

    def _work(self, now: int, *, sees_store: bool) -> None:
        seen = self._seen
        if self._has_begun and seen.taken_over_at is not None:
            seen.landed.append(now)
        self._has_begun = False
        if sees_store:
            self._renew(now)
        is_fenced = sees_store and seen.taken_over_at is not None
        if self._lease.left(self._clock) <= 0 or is_fenced:
            self.is_alive = False
            return
        if seen.taken_over_at is not None:
            seen.begun.append((now, sees_store))
        # A stop right now would keep it from landing.
        self._has_begun = self._schedule.chance.random() < 0.5
        if self._writing is None and now % BEAT_EVERY == 0:
            self._writing = now + self._schedule.chance.randrange(5), self._clock

    def _renew(self, now: int) -> None:
        if self._writing is not None and now >= self._writing[0]:
            self.beat += 1
            self._lease, self._writing = self._lease.renewed(self._writing[1]), None
            if self._seen.taken_over_at is None:
                self._seen.last_beat_at = now


class Watcher:
    """Looks at the heartbeat by a clock of its own, and cannot see the driver's processes."""

    def __init__(self, schedule: Schedule, over: Over) -> None:
        self._speed, self._blind, self._over = schedule.watcher_speed, marked(schedule.blind), over
        self._memory = Memory(epoch=17, beat=0, since=0.0)
        self._heard, self._was_blind = 0.0, False

    def takes_over(self, now: int, beat: int) -> bool:
        clock = now * self._speed
        if self._blind[now]:
            self._was_blind = True
            return False
        if self._was_blind:
            self._memory = self._memory.without(clock - self._heard)
        self._heard, self._was_blind = clock, False
        self._memory = self._memory.look(clock, beat=beat, process=UNSEEN, has_stop=False)
        return self._over(LEASE, timedelta(seconds=clock - self._memory.since))


def run(schedule: Schedule, over: Over = is_over) -> Run:
    """Play a schedule."""
    seen = Run()
    driver, watcher = OldDriver(schedule, seen), Watcher(schedule, over)
    for now in range(HORIZON):
        driver.move(now)
        if seen.taken_over_at is not None and not driver.is_alive:
            break
        if now % LOOK_EVERY == 0 and seen.taken_over_at is None:
            seen.taken_over_at = now if watcher.takes_over(now, driver.beat) else None
    return seen


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    """Play every schedule in which machines keep their clocks running."""
    return [run(Schedule(seed)) for seed in range(SCHEDULES)]


def test_without_a_pause_of_the_machine_no_old_driver_begins_a_write_after_a_takeover(
    runs: list[Run],
) -> None:
    taken = [one for one in runs if one.taken_over_at is not None]
    assert len(taken) > SCHEDULES // 10, "the schedules are bad enough"
    assert [one.begun for one in taken if one.begun] == []


def test_what_a_stop_kept_from_landing_lands_at_most_once(runs: list[Run]) -> None:
    landed = [len(one.landed) for one in runs if one.landed]
    assert landed, "the schedules stop drivers in the middle"
    assert set(landed) == {1}


def test_a_driver_whose_machine_was_paused_with_its_clocks_is_bounded_by_fence_and_lease() -> None:
    runs = [run(Schedule(seed, pauses_machine=True)) for seed in range(SCHEDULES // 5)]

    begun = [one.begun for one in runs if one.begun]
    assert begun, "this is what a lease cannot promise"
    assert not any(sees_store for one in begun for _, sees_store in one), (
        "the fence ends it at once"
    )
    assert max(len(one) for one in begun) <= LEASE.total_seconds() * 1.02 + 1


def test_a_takeover_comes_in_time() -> None:
    """A driver that is lost for good is replaced after lease, margin and a look or two."""
    late = []
    for seed in range(300):
        schedule = Schedule(seed)
        schedule.cut_off, schedule.blind = [(20, HORIZON)], []
        seen = run(schedule)
        assert seen.taken_over_at is not None
        late.append(seen.taken_over_at - seen.last_beat_at)

    bound = (LEASE + margin_of(LEASE)).total_seconds() * 1.02 + 2 * LOOK_EVERY
    assert max(late) <= bound


def test_the_simulation_finds_a_takeover_that_comes_too_early() -> None:
    def too_early(lease: timedelta, silent: timedelta) -> bool:
        return silent >= lease * 0.5

    assert any(run(Schedule(seed), too_early).begun for seed in range(2000))


@pytest.mark.parametrize(
    ("process", "lease", "silent", "is_dead"),
    [
        (UNSEEN, 60.0, 89.0, False),
        (UNSEEN, 60.0, 90.0, True),
        (UNSEEN, None, 10**6, False),
        (Process(state=ProcessState.RUNNING, detail="pid 1"), 60.0, 10**6, False),
        (Process(state=ProcessState.SUSPENDED, detail="pid 1"), 60.0, 10**6, False),
    ],
)
def test_only_a_driver_out_of_sight_ends_by_its_lease(
    process: Process, lease: float | None, silent: float, is_dead: bool
) -> None:
    told = observed(epoch=an_epoch(lease_seconds=lease), silent_for=seconds(silent))
    seen = replace(told, process=process)

    assert seen.is_dead is is_dead


@pytest.mark.parametrize(
    ("lease", "action"), [(None, Action.BLOCKED), (60.0, Action.SETTLE)], ids=["ask", "takeover"]
)
def test_a_stream_asks_or_takes_over(lease: float | None, action: Action) -> None:
    seen = observed(
        ProcessState.UNSEEN, epoch=an_epoch(lease_seconds=lease), silent_for=seconds(1000)
    )

    assert decide(a_situation(seen=seen)).action is action
    expected = VerdictState.UNREACHABLE if lease is None else VerdictState.DEAD
    assert judge(seen, a_situation().rules).state is expected


def test_an_exit_record_counts_before_the_lease() -> None:
    seen = observed(
        ProcessState.UNSEEN,
        epoch=an_epoch(lease_seconds=60.0),
        exit=an_exit(),
        silent_for=seconds(61),
    )

    assert seen.is_dead


@pytest.mark.parametrize("lease", [timedelta(seconds=29), timedelta(days=2), timedelta(0)])
def test_a_lease_that_cannot_be_kept_is_refused(lease: timedelta) -> None:
    with pytest.raises(ValueError):
        check_lease(lease)
    with pytest.raises(SpecError):
        a_spec(lease=lease).check()
    with pytest.raises(ValueError):
        an_epoch(lease_seconds=lease.total_seconds())


@pytest.mark.parametrize("choice", ["ask", "takeover"])
def test_a_stream_says_what_becomes_of_a_lost_host(choice: str) -> None:
    a_spec(on_lost_host=choice).check()
    with pytest.raises(SpecError):
        a_spec(on_lost_host=f"{choice}!").check()


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (Instant(running=10.0, wall=10.0), 20.0),
        (Instant(running=30.0, wall=30.0), 0.0),
        # Slept without the running clock, or set forward.
        (Instant(running=10.0, wall=40.0), -10.0),
        # Set back.
        (Instant(running=31.0, wall=-3600.0), -1.0),
    ],
)
def test_the_clock_that_has_run_further_counts(now: Instant, left: float) -> None:
    held = HeldLease(seconds=30.0, since=Instant(running=0.0, wall=0.0))

    assert held.left(now) == left
