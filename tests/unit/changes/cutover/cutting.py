"""A stream that is cut over: its records are real, its drivers and the time are played by the test."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow_streaming.changes.cutover.engine import Cutover
from airflow_streaming.changes.cutover.lanes import LaneContext
from airflow_streaming.changes.engine import Progress
from airflow_streaming.changes.judging.green import Judgment
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.arguments.terms import CompareTerms, ReadyTerms, SoakTerms
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.cutover import CutoverTerms, Pair, Result
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.controller import StreamController, Submission
from airflow_streaming.supervision.decide import Action, Step, decide
from airflow_streaming.supervision.observer import Observer
from tests.unit.changes.cutover.played import QUERY, Played
from tests.unit.home.make import SCRIPT

TICK: Final = timedelta(seconds=20)
ROWS: Final = 10
"""Rows that are produced in a tick."""
SOAK: Final = SoakTerms(batches=1, at_least=timedelta(seconds=40), at_most=timedelta(seconds=400))
SAME: Final = Judgment(result=Result.PASS, reason="The outputs are the same.")
READY: Final = ReadyTerms(well_for=timedelta(seconds=30), batches=2)


class Cutting(Played):
    """
    Streams whose blue runs deployment 1, and whose green is about to take over.

    :param way: How green becomes live.
    :param green: What green's drivers do: see ``_work``.
    :param streams: Names; all switch together.
    """

    def __init__(
        self,
        folder: Path,
        way: SwitchMethod = SwitchMethod.PARALLEL,
        green: str = "works",
        streams: tuple[str, ...] = ("orders",),
        *,
        stateless: bool = False,
    ) -> None:
        super().__init__(folder, green, streams)
        self.way, self.stateless = way, stateless
        self.has_keep_alive = self.compares = True
        self.wrong_lane = other_lane(streams[0])
        for stream in streams:
            home = self.home(stream)
            home.create_deployment(self.deployment(stream, 1), SCRIPT)
            self._launch_first(stream)
        for _ in range(2):
            self.tick()

    def open(self, stream: str, lane: str, store: Any = None, who: str = "cutover") -> LaneContext:
        home = StreamHome(store or LocalStore(self.uri), lane)
        controller = self.controller(home, who)
        kept = self.lane(lane)
        if kept.observer is None:
            kept.observer = self.observer(self.home(lane), lane, who)
        return LaneContext(
            home=home, controller=controller, acts=controller, observer=kept.observer
        )

    def controller(self, home: StreamHome, by: str, launcher: Any = None) -> StreamController:
        spec = StreamSpec(
            name=home.name.removesuffix(".green"),
            application="/dags/jobs/orders.py",
            home=self.uri,
            runtime="spark-4.3",
            conf={"spark.sql.shuffle.partitions": "2"},
        )
        return StreamController(
            home,
            launcher or self.lane(home.name).launcher,
            spec=replace(spec, name=home.name),
            submit=self._submit,
            by=by,
            now=lambda: self.now,
            chance=lambda: 0.0,
        )

    def observer(self, home: StreamHome, lane: str, who: str, **more: Any) -> Observer:
        return Observer(
            home,
            self.lane(lane).launcher,
            rules=HealthRules(),
            policy=RestartPolicy(),
            memory=self.lane(lane).memories.get(who),
            clock=lambda: self.clock,
            now=lambda: self.now,
            **more,
        )

    def engine(self, lanes: Any = None, by: str = "kim", **more: Any) -> Cutover:
        given = {
            "checkpoints": self.checkpoints,
            "now": lambda: self.now,
            "clock": lambda: self.clock,
            "sleep": self.pause,
            "compare": (lambda *_: SAME) if self.compares else None,
            **more,
        }
        return Cutover(self.streams[0], lanes or self, by=by, **given)

    def terms(self, **changes: Any) -> CutoverTerms:
        told: dict[str, Any] = {
            "change": 1,
            "way": self.way,
            "pairs": tuple(self.pair(stream) for stream in self.streams),
            "ready": READY,
            "soak": SOAK,
            "compare": tuple(CompareTerms(stream=stream) for stream in self.streams),
            "promotes_by_itself": True,
            "key": "run-1",
            **changes,
        }
        return CutoverTerms(**told)

    def pair(self, stream: str) -> Pair:
        blue = self.live_lane(stream)
        green = other_lane(blue)
        current = self.home(blue).newest_deployment()
        newest = self.home(green).newest_deployment()
        assert current is not None
        number = newest.number + 1 if newest else 1
        digest = hashlib.sha256(self.new_script).hexdigest()
        shadow = self.deployment(green, number, application_sha256=digest)
        return Pair(
            stream=stream,
            blue=blue,
            green=green,
            blue_deployment=current.number,
            shadow=shadow,
            live=shadow if self.way is SwitchMethod.PARALLEL else self._live(shadow, current),
            start=StartWay.FRESH,
            queries=(QUERY,),
            stateful=() if self.stateless else (QUERY,),
        )

    @property
    def new_script(self) -> bytes:
        return f"# it {self.code}\n".encode()

    def begin(self, lanes: Any = None, **changes: Any) -> int:
        sources = dict.fromkeys(self.streams, self.new_script)
        return self.engine(lanes).begin(self.terms(**changes), sources).number

    def advance(self, until: CutoverState = CutoverState.FINALIZED, lanes: Any = None) -> Progress:
        """Let a task of its own take the cutover on."""
        return self.engine(lanes).advance(until)

    def drive(self, until: CutoverState = CutoverState.FINALIZED, *, ticks: int = 80) -> Progress:
        """Take the cutover on while time passes and keep-alive tasks do their part."""
        for _ in range(ticks):
            progress = self.advance(until)
            if progress.is_there or progress.needs_person:
                return progress
            self.tick()
        raise AssertionError(f"It got no further than {progress}; {self.history()}")

    def keep_alive(self, stream: str) -> Action:
        """Do what the task that keeps the stream alive does."""
        lane = self.live_lane(stream)
        home = self.home(lane)
        observer = self.observer(home, lane, "keep-alive", live=lambda: self.live_lane(stream))
        controller = self.controller(home, "keep-alive")
        situation = observer.situation(watched=None)
        self.lane(lane).memories["keep-alive"] = observer.memory()
        step, seen = decide(situation), situation.seen
        if step.action is Action.LAUNCH:
            controller.begin(situation, step)
        elif step.action is Action.SETTLE:
            controller.settle(situation)
        elif step.action is Action.STOP and seen is not None:
            controller.stop(seen, step.reason, timedelta(seconds=60))
        elif step.action is Action.KILL and seen is not None:
            controller.kill(seen, step.reason)
        return step.action

    def want(self, state: DesiredState, lane: str) -> None:
        self.home(lane).want(state, by="kim", reason="The test says so.", now=self.now)

    # What time brings.

    def tick(self) -> None:
        """Let some time pass: data comes, drivers work, consumers read, keep-alive tasks look."""
        self.pass_time(TICK)
        self.produced += ROWS
        self.play()
        for lane in self.lanes.values():
            if lane.observer is not None:
                lane.observer.situation(asks_change=False)
        for stream in self.streams:
            if self.has_keep_alive:
                self.keep_alive(stream)

    def pause(self, seconds: float) -> None:
        """Do what happens while the engine waits for a moment."""
        self.pass_time(timedelta(seconds=seconds))
        self.produced += 1
        self.play()

    def pass_time(self, time: timedelta) -> None:
        self.now += time
        self.clock += time.total_seconds()

    def _submit(self, submission: Submission) -> LaunchRequest:
        return LaunchRequest(
            epoch=submission.epoch,
            command=("spark-submit",),
            environment={},
            log=self.folder / "driver.log",
        )

    def _live(self, shadow: Deployment, blue: Deployment) -> Deployment:
        number = shadow.number + 1
        changes: Mapping[str, Any] = {"output": blue.output}
        if not self.stateless:
            changes = {**changes, "checkpoint": shadow.checkpoint}
        return self.deployment(
            shadow.stream, number, application_sha256=shadow.application_sha256, **changes
        )

    def _launch_first(self, lane: str) -> None:
        home = self.home(lane)
        situation = self.observer(home, lane, "nobody").situation()
        step = Step(action=Action.LAUNCH, reason="The first launch.", cause=LaunchCause.FIRST)
        assert self.controller(home, "keep-alive").begin(situation, step) is not None


def outcome(world: Cutting) -> tuple[Any, ...]:
    """Return all that has to be the same in the end, whoever was killed on the way."""
    home = world.home(world.streams[0])
    end = home.change_end(world.change)
    lanes = [lane for stream in world.streams for lane in (stream, other_lane(stream))]
    return (
        end.outcome if end else None,
        world.history()[-1:],
        [world.live_lane(stream) for stream in world.streams],
        [world.running(lane) is not None for lane in lanes],
        [_newest(world, lane) for lane in lanes],
        [world.home(lane).unfinished_change() for lane in lanes],
        world.faults(),
    )


def _newest(world: Cutting, lane: str) -> tuple[int, str] | None:
    found = world.home(lane).newest_deployment()
    return None if found is None else (found.number, found.checkpoint.removeprefix(world.uri))
