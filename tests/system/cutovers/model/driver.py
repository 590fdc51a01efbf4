"""
A modeled driver: it starts, waits at the barrier where it has to, runs batches, and may die anywhere.

Its life is a generator: every ``yield`` is a time that passes, and a moment at which it can be
killed. What it writes it writes as a real driver does, in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_streaming.changes.restore.switch import location
from airflow_streaming.driver.checkpoint.checkpoint_claims import Claims
from airflow_streaming.driver.standby.barrier import OrderBook
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, OrderAct, Outcome
from airflow_streaming.model.storage import LocalStore
from tests.system.cutovers.model.checkpoint import ModelCheckpoint, Planned
from tests.system.cutovers.model.sea import DELAY_MS, window_of
from tests.system.cutovers.model.telling import Telling

if TYPE_CHECKING:
    from tests.system.cutovers.model.world import World

QUERY: Final = "counts"
MOST_FILES: Final = 8
LATER_BATCHES: Final = 12
"""After so many batches fails what is made to fail later."""

Life = Generator[float, None, None]


@dataclass
class ModelDriver:
    """
    One driver.

    :param gone: Its processes are no more.
    """

    world: World
    epoch: Epoch
    deployment: Deployment
    token: str
    gone: bool = False
    batches: int = 0
    shift: int = 0
    stands_by: bool = False
    started: bool = False
    life: Life = field(init=False)

    def __post_init__(self) -> None:
        folder = Path(self.deployment.checkpoint) / QUERY
        self.checkpoint = ModelCheckpoint(folder, reads_files=self.world.shape.reads_files)
        self.telling = Telling(self)
        self.life = self._live()

    @property
    def place(self) -> str:
        return str(self.checkpoint.folder)

    @property
    def code(self) -> str:
        return Path(self.deployment.application).stem

    def _live(self) -> Life:
        yield self.world.random.uniform(1.0, 4.0)
        if self._is_over():
            return
        self.telling.say()
        if self.code == "fails_at_once":
            self.end(Outcome.FAILED)
            return
        self.started = True
        if self.epoch.standby and not (yield from self._stand_by()):
            return
        claims = self._claims()
        claim = claims.check(QUERY, LocalStore(self.place), self._location, must_know=True)
        self.shift = 0 if claim is None else claim.batch_shift
        self.world.law.enter(self, self.place, f"sink {self.deployment.output}")
        if claim is not None and claim.absorb is not None:
            yield from self._absorb(claim.absorb)
        self.checkpoint.forget()
        claims.keep(QUERY, self.checkpoint.query_id(), self._location)
        claims.write()
        yield from self._work()

    def _claims(self) -> Claims:
        home = self.world.home(self.epoch.stream)
        return Claims(
            home.store,
            Layout(self.epoch.stream),
            deployment=self.deployment.number,
            epoch=self.epoch.number,
        )

    @property
    def _location(self) -> str:
        return location(self.place)

    def _stand_by(self) -> Generator[float, None, bool]:
        home = self.world.home(self.epoch.stream)
        book = OrderBook(home.store, Layout(self.epoch.stream), self.epoch.number)
        book.show([QUERY])
        self.stands_by = True
        while True:
            if self._is_over():
                return False
            self.telling.beat()
            order = book.next()
            if order is None:
                yield 0.1
                continue
            absorbs = order.absorb.get(QUERY)
            if absorbs is not None:
                yield from self._absorb(absorbs)
            if order.act is OrderAct.ABSORB:
                book.answer(committed={QUERY: self.checkpoint.committed() or 0}, error="")
                continue
            self.stands_by = False
            book.answer(committed={}, error="")
            return True

    def _absorb(self, batch: int) -> Life:
        """Run a planned batch with its output thrown away, unless it was run before."""
        committed = self.checkpoint.committed()
        if committed is not None and committed >= batch:
            return
        self.checkpoint.forget()
        self.world.law.enter(self, self.place)
        yield from self._run(self.checkpoint.plan_of(batch), writes=False)

    def _work(self) -> Life:
        while True:
            if self._is_over():
                return
            self.telling.beat()
            if self.code == "fails_later" and self.batches >= LATER_BATCHES:
                self.end(Outcome.FAILED)
                return
            plan = yield from self._next_plan()
            if plan is None:
                yield 0.5
                continue
            if self.world.shape.has_gate and self._is_over():
                return
            yield from self._run(plan, writes=True)
            yield self.world.random.uniform(0.2, 0.8)

    def _next_plan(self) -> Generator[float, None, Planned | None]:
        """Return the batch that is planned and not committed, or plan the next one."""
        checkpoint = self.checkpoint
        committed, planned = checkpoint.committed(), checkpoint.planned()
        if planned is not None and (committed is None or planned > committed):
            return checkpoint.plan_of(planned)
        batch = 0 if committed is None else committed + 1
        watermark = 0 if committed is None else checkpoint.next_watermark(committed)
        last = None if committed is None else checkpoint.plan_of(committed)
        offset = yield from self._next_offset()
        has_data = offset > (-1 if last is None else last.offset) and offset >= 0
        is_due = last is not None and self.world.shape.is_stateful and watermark > last.watermark_ms
        if not has_data and not is_due:
            return None
        plan = Planned(batch=batch, watermark_ms=watermark, offset=offset)
        checkpoint.plan(plan, self.world.now_ms)
        yield 0.05
        return plan

    def _next_offset(self) -> Generator[float, None, int]:
        checkpoint, world = self.checkpoint, self.world
        read = checkpoint.read()
        there = min(world.sea.files(world.t), read + MOST_FILES)
        if there <= read:
            return checkpoint.last_offset()
        if not world.shape.reads_files:
            return there
        entry = checkpoint.log_files(list(range(read, there)), world.now_ms)
        yield 0.05
        return entry

    def _run(self, plan: Planned, *, writes: bool) -> Life:
        """Run one batch: the sink, the state, the commit."""
        world, checkpoint = self.world, self.checkpoint
        lines = world.sea.lines(checkpoint.files_of(plan))
        newest = max((at for at, _, _ in lines), default=0)
        if world.shape.is_stateful:
            state = Counter(world.states.get((self.place, plan.batch), {}))
            state.update((window_of(at), key) for at, key, _ in lines)
            rows = [(out, n) for out, n in state.items() if out[0] <= plan.watermark_ms]
            for out, _ in rows:
                del state[out]
        else:
            state, rows = Counter(), [((number, ""), 1) for _, _, number in lines]
        yield world.random.uniform(0.1, 0.6)
        if writes:
            world.sinks.write(self.deployment.output, plan.batch + self.shift, rows)
            yield 0.05
        world.states[self.place, plan.batch + 1] = dict(state)
        yield 0.05
        checkpoint.commit(plan.batch, max(plan.watermark_ms, newest - DELAY_MS))
        if writes:
            self.batches += 1
            self.telling.committed(plan.batch, len(lines))

    def _is_over(self) -> bool:
        """Look for reasons to end, and end."""
        if self.gone:
            return True
        home = self.world.home(self.epoch.stream)
        newest = home.newest_epoch()
        if newest is not None and newest.number > self.epoch.number:
            self.end(Outcome.FENCED)
        elif home.stop_request(self.epoch.number) is not None:
            self.end(Outcome.STOPPED)
        return self.gone

    def end(self, outcome: Outcome) -> None:
        """Leave the last words and be gone."""
        self.telling.say()
        self.telling.last_words(outcome)
        self.world.kill(self)
