"""
A second opinion on readiness: what may be said at a look, worked out from all looks so far.

The product keeps no memory but the step that led to ``shadowing`` and a count of errors; the model
keeps everything and asks of every look anew. ``python -m tests.unit.changes.cutover.judging_model``
compares the two over 100,000 random courses.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Final

from airflow_streaming.changes.judging.green import judge_catching_up, judge_ready
from airflow_streaming.changes.judging.lane_figures import LaneFigures, QueryFigures, Since
from airflow_streaming.changes.judging.soak import Backlog
from airflow_streaming.model.arguments.terms import ReadyTerms
from airflow_streaming.model.records.cutover_table import CutoverEvent as E
from tests.unit.supervision.builders import NOW, seconds

TERMS: Final = ReadyTerms(
    well_for=seconds(60), batches=3, backlog_records=500.0, backlog_factor=2.0, measuring_errors=3
)
COURSES: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look finds; green's clock and the observer's run apart."""

    now: float
    clock: float
    green_seen: bool = True
    blue_seen: bool = True
    epoch: int = 1
    trouble: bool = False
    fires: bool = False
    both_fire: bool = False
    batches: int = 3
    read: int = 10
    idle: bool = False
    left: int = 0
    blue_left: int = 0

    @property
    def green(self) -> LaneFigures | None:
        if not self.green_seen:
            return None
        query = QueryFigures(
            name="q",
            batches=self.batches,
            idle=self.idle,
            read=self.read,
            largest=10,
            newest=5,
            backlog=Backlog(unit="records", amount=self.left),
        )
        return LaneFigures(
            deployment=1,
            epoch=self.epoch,
            at=NOW + seconds(self.clock),
            started_at=NOW,
            trouble="It is stuck." if self.trouble else "",
            findings={"late/q": "It is late."} if self.fires or self.both_fire else {},
            queries=(query,),
        )

    @property
    def blue(self) -> LaneFigures | None:
        if not self.blue_seen:
            return None
        query = QueryFigures(
            name="q",
            batches=9,
            read=90,
            largest=20,
            newest=5,
            backlog=Backlog(unit="records", amount=self.blue_left),
        )
        return LaneFigures(
            deployment=1,
            epoch=7,
            at=NOW,
            started_at=NOW,
            findings={"late/q": "It is late."} if self.both_fire else {},
            queries=(query,),
        )


def a_course(random: Random) -> list[Look]:
    """Return a random course, in which most looks are good."""
    now, clock, epoch, looks = 0.0, random.uniform(-50, 50), 1, []
    bad = random.choice((0.0, 0.02, 0.1, 0.3))
    batches = random.choice((0, 3))
    for _ in range(random.randint(1, 30)):
        step = random.uniform(1, 30)
        now += step
        clock += step * random.choice((1.0, 1.0, 1.0, 0.5, -1.0))
        epoch += random.random() < bad / 3
        batches += random.random() < 0.2
        looks.append(
            Look(
                now=now,
                clock=clock,
                green_seen=random.random() >= bad,
                blue_seen=random.random() >= bad,
                epoch=epoch,
                trouble=random.random() < bad,
                fires=random.random() < bad,
                both_fire=random.random() < 0.2,
                batches=batches,
                read=random.choice((0, 10, 10, 10)),
                idle=random.random() < 0.3,
                left=random.choice((0, 0, 0, 40, 60, 200, 501)),
                blue_left=random.choice((0, 20, 100, 1000)),
            )
        )
    return looks


def is_broken(look: Look) -> bool:
    """Tell whether a look that has seen green shows that it is not well."""
    allowed = [500]
    if look.blue_seen:
        allowed.append(2 * look.blue_left + 20)
    fires = (look.fires or look.both_fire) and not (look.both_fire and look.blue_seen)
    return look.trouble or fires or look.left > min(allowed)


def by_the_book(looks: list[Look], begun: int, *, compared: bool) -> E | None:
    """Say what follows from the last look, with shadowing begun at the look of that number."""
    last, first = looks[-1], looks[begun]
    failed = [not (look.green_seen and look.blue_seen) for look in looks[begun + 1 :]]
    in_a_row = failed[::-1].index(False) if False in failed else len(failed)
    if last.green_seen and last.epoch != first.epoch:
        return E.GREEN_CHANGED
    if last.green_seen and is_broken(last):
        return E.GREEN_FELL_BEHIND
    if in_a_row:
        return E.INCONCLUSIVE if in_a_row >= TERMS.measuring_errors else None
    well = max(0.0, min(last.now - first.now, last.clock - first.clock))
    is_told = last.read > 0 or (compared and last.batches >= 3)
    proved = is_told and (last.batches >= 3 or last.idle)
    if well >= 60 and proved:
        return E.GREEN_WELL
    return E.INCONCLUSIVE if well >= 180 and not proved else None


def disagreement(seed: int) -> str | None:
    """Live through one course; return the first look of which the model says otherwise."""
    looks, compared = a_course(Random(seed)), seed % 3 == 0
    since: Since | None = None
    begun = errors = 0
    for number, look in enumerate(looks):
        now = NOW + timedelta(seconds=look.now)
        if since is None:
            said = judge_catching_up(look.green, look.blue, TERMS, now=now)
            caught = look.green_seen and look.blue_seen and not is_broken(look)
            if (said.event is E.GREEN_CAUGHT_UP) is not caught:
                return f"seed {seed}, look {number}, catching up: {said.event} ({said.reason})"
            if said.event is not None:
                since, begun, errors = Since.from_facts(said.figures), number, 0
            continue
        told = judge_ready(
            *(look.green, look.blue, TERMS, since), compared=compared, errors=errors, now=now
        )
        wanted = by_the_book(looks[: number + 1], begun, compared=compared)
        if told.event is not wanted:
            return f"seed {seed}, look {number}: {told.event} ({told.reason}), wanted {wanted}"
        errors = told.errors
        if told.event in (E.GREEN_WELL, E.INCONCLUSIVE):
            return None
        if told.event is not None:
            since = None
    return None


def main() -> int:
    """Compare the two over many courses; return 1 when they disagree."""
    for seed in range(COURSES):
        wrong = disagreement(seed)
        if wrong is not None:
            sys.stdout.write(f"{wrong}\n")
            return 1
    sys.stdout.write(f"{COURSES:,} courses, no disagreement.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
