"""Play one course: workers with the real engine, who die, are suspended and are overtaken."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_streaming.changes.cutover.engine import Cutover
from airflow_streaming.changes.cutover.engine import CutoverProgress as Progress
from airflow_streaming.changes.judging.green import Judgment
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.home.consumers import live
from airflow_streaming.home.home import Home
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.cutover import Result
from airflow_streaming.model.records.cutover_table import CutoverCommand, CutoverState
from tests.patience import PATIENCE
from tests.system.cutovers.model.course import NEVER, Course, Leg
from tests.system.cutovers.model.given import Lanes, Terms
from tests.system.cutovers.model.world import RUNTIME, STREAM, World
from tests.unit.changes.upgrade.killing import DyingLauncher, Pause
from tests.unit.checkpoints.restoring import Killed, Life
from tests.unit.launch.restored_stream import DyingStore

LOOK_S: Final = 1.5
LONGEST_S: Final = 1500.0
S: Final = CutoverState


class Worker:
    """One who takes a cutover on, until its end or his."""

    def __init__(self, world: World, leg: Leg, terms: Terms, life: Life, name: str) -> None:
        self._world, self._leg, self._terms = world, leg, terms
        store: Any = DyingStore(world.store, life)
        lanes = Lanes(world, store, DyingLauncher(world.launcher, life), name)
        self._engine = Cutover(
            STREAM,
            lanes,
            by=name,
            checkpoints=world.checkpoints,
            retire=lambda *_: "backup-1",
            compare=lambda *_: Judgment(result=Result.PASS, reason="The outputs are the same."),
            now=lambda: world.now,
            clock=world.clock,
            sleep=world.sleep,
        )

    def work(self) -> Progress:
        """Go on to the end."""
        terms, source = self._terms.of()
        if not self._terms.is_begun():
            self._engine.begin(terms, {STREAM: source})
        began = self._world.t
        # Who finds it where its worker died may give it up at once, also where nobody is asked.
        view, _ = self._engine.look()
        if self._leg.word and view.state.value == self._leg.word_at:
            self._word()
        while True:
            progress = self._engine.advance(S.FINALIZED)
            if progress.is_there:
                if progress.state is S.FINALIZED:
                    progress = self._engine.command(
                        CutoverCommand.RETIRE, "It is not wanted any longer."
                    )
                return progress
            if self._world.t - began > LONGEST_S:
                raise AssertionError(f"Stuck in {progress.state}: {progress.waiting}")
            self._say(progress)
            self._world.sleep(LOOK_S)

    def _say(self, progress: Progress) -> None:
        if progress.needs_person:
            with contextlib.suppress(CutoverRefused):
                self._engine.command(CutoverCommand.ABORT, "Nobody knows what to do.")
        elif self._leg.word and progress.state.value == self._leg.word_at:
            self._word()

    def _word(self) -> None:
        with contextlib.suppress(CutoverRefused):
            command = CutoverCommand(self._leg.word.replace("_", "-"))
            self._engine.command(command, "A person says so.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """
    What came of a course.

    :param ends: Of its cutovers.
    :param faults: What is wrong, in words; empty when nothing is.
    """

    ends: tuple[str, ...]
    faults: tuple[str, ...]
    rows: int
    steps: int


class Play:
    """One course in a folder."""

    def __init__(self, folder: Path, course: Course) -> None:
        self.course = course
        self.world = World(folder, course.seed, course.shape)
        self.steps, self._number = 0, -1
        source = b"# works from the beginning\n"
        controller = self.world.controller(STREAM, "kim")
        controller.deploy(controller.propose(RUNTIME, "/jobs/works.py", source), source)

    def run(self) -> Played:
        """Play everything and judge it."""
        self.world.sleep(20)
        ends, faults = list[str](), list[str]()
        for number, leg in enumerate(self.course.legs):
            try:
                ends.append(self._leg(number, leg))
            except (Exception, AssertionError) as err:  # noqa: BLE001 - it is what is looked for
                faults.append(f"{type(err).__name__}: {err}"[:1500])
                break
            self._rest()
        faults += self._judged(is_over=len(ends) == len(self.course.legs))
        rows = sum(self.world.reader.seen.values())
        return Played(ends=tuple(ends), faults=tuple(faults), rows=rows, steps=self.steps)

    def _leg(self, number: int, leg: Leg) -> str:
        world, terms = self.world, Terms(self.world, self.course, number)
        world.kills = [world.t + after for after in leg.kills]
        self._number = number
        if leg.stops_after is not None:
            world.once(leg.stops_after, lambda: self._stop(number))
        terms.of()
        if leg.overtaken is not None:
            self._overtaken(leg, terms, leg.overtaken)
        for worker, last in enumerate([*leg.deaths, NEVER]):
            life = Life(last)
            try:
                return Worker(world, leg, terms, life, f"worker {worker}").work().state.value
            except CutoverRefused as err:
                if terms.is_begun():
                    raise
                return f"refused: {err}"[:40]
            except Killed:
                world.told.append(f"{world.t:.1f} worker {worker} is killed at step {last}")
                world.sleep(world.random.uniform(0.2, 12))
            finally:
                self.steps += life.steps
        raise AssertionError("Nobody brought it to an end.")

    def _overtaken(self, leg: Leg, terms: Terms, step: int) -> None:
        """Suspend a worker before a step, let another go on for a while, and wake the first."""
        pause, failed = Pause(step), list[BaseException]()
        late = Worker(self.world, leg, terms, pause, "late worker")

        def work() -> None:
            try:
                late.work()
            except BaseException as err:  # noqa: BLE001 - a late worker may fail, and is replaced
                failed.append(err)
            finally:
                pause.arrived.set()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert pause.arrived.wait(PATIENCE), "The suspended worker came to nothing."
        if thread.is_alive():
            self.world.told.append(f"{self.world.t:.1f} a worker is suspended at step {step}")
            life = Life(self.world.random.randrange(1, 80))
            try:
                Worker(self.world, leg, terms, life, "overtaker").work()
            except Killed:
                self.world.told.append(f"{self.world.t:.1f} the overtaker is killed")
        pause.go.set()
        thread.join(PATIENCE)
        if failed and isinstance(failed[0], AssertionError):
            raise failed[0]

    def _want(self, state: DesiredState) -> None:
        lane = live_lane(Home(self.world.store), STREAM)
        self.world.home(lane).want(state, by="kim", reason="So it is.", now=self.world.now)

    def _stop(self, number: int) -> None:
        if self._number == number:
            self._want(DesiredState.STOPPED)

    def _rest(self) -> None:
        self.world.kills, self._number = [], -1
        self._want(DesiredState.RUNNING)
        self.world.sleep(45)

    def _judged(self, *, is_over: bool) -> list[str]:
        world = self.world
        found = live(Home(world.store), STREAM)
        writers = [one for one in world.launcher.models() if one.epoch.stream == found.lane]
        faults = [*world.law.offenses]
        if is_over and len(writers) != 1 and not self._is_bad(found.lane):
            faults.append(f"{len(writers)} drivers of {found.lane} live in the end.")
        if not is_over or not writers:
            return faults
        world.sea.stops_at = world.t
        world.sleep(15)
        checkpoint = writers[0].checkpoint
        committed = checkpoint.committed()
        watermark = 0 if committed is None else checkpoint.plan_of(committed).watermark_ms
        files = world.sea.files(world.t)
        right = world.sea.expected(
            files, is_stateful=world.shape.is_stateful, watermark_ms=watermark
        )
        if watermark < files * 2000 - 14_000 and world.shape.is_stateful:
            faults.append(f"The live lane came no further than {watermark} of {files * 2000} ms.")
        faults += _differs("live output", world.sinks.rows(found.output), right)
        world.sleep(3)
        return faults + _differs("consumer", world.reader.seen, right)

    def _is_bad(self, lane: str) -> bool:
        """Tell whether the live code is one that fails, later than anybody watched it."""
        newest = self.world.home(lane).newest_deployment()
        return newest is not None and "fails" in newest.application


def _differs(what: str, rows: Counter[Any], right: Counter[Any]) -> list[str]:
    lost, more = right - rows, rows - right
    doubled = [row for row in more if row in right]
    wrong = [row for row in more if row not in right]
    told = {"lost": list(lost.elements()), "doubled": doubled, "wrong": wrong}
    return [f"{what}: {len(found)} {name}: {found[:4]}" for name, found in told.items() if found]
