"""A stream that is cut over: its records are real, its drivers and the time are played by the test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.cutover.orders import Barrier, OrderAct, StandbyAnswer, StandbyOrder
from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.terms import (
    CutoverTerms,
    Pair,
    ReadyTerms,
    StartWay,
    SwitchWay,
)
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.epoch import Epoch, Exit, LaunchCause, Outcome, QueryClaim
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.lanes import other_lane
from airflow_streaming.core.names import Layout
from airflow_streaming.core.policy import RestartPolicy
from airflow_streaming.core.progress import BatchProgress, SourceProgress
from airflow_streaming.core.steering import Action, Step, decide
from airflow_streaming.core.upgrade.terms import SoakTerms
from airflow_streaming.core.wire import encode
from airflow_streaming.cutover.cutting_over import Cutover, Progress
from airflow_streaming.cutover.ports import LaneHands
from airflow_streaming.files.local import LocalStore
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.lanes import live
from airflow_streaming.launch.keeper import Keeper, Submission
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.observe.stream import Observer
from airflow_streaming.spec import StreamSpec
from tests.fakes import FakeLauncher
from tests.unit.cutover.model_checkpoints import ModelCheckpoints, Sink
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_query, make_status

QUERY: Final = "counts"
TICK: Final = timedelta(seconds=20)
ROWS: Final = 10
"""Rows that are produced in a tick."""
SOAK: Final = SoakTerms(batches=1, at_least=timedelta(seconds=40), at_most=timedelta(seconds=400))
READY: Final = ReadyTerms(well_for=timedelta(seconds=30), batches=2)


class Lane:
    """One lane: its launcher, and what its drivers have said."""

    def __init__(self) -> None:
        self.launcher = OneDriver()
        self.history: dict[int, list[str]] = {}
        self.memories: dict[str, Any] = {}
        self.observer: Observer | None = None
        """Of whoever cuts over. Between two looks of a task its trigger goes on looking."""


class OneDriver(FakeLauncher):
    """A launcher that stands for the law that a lane never has more than one driver at work."""

    def launch(self, request: LaunchRequest) -> Any:
        assert not self.living(), f"A driver is started beside {self.living()}."
        return super().launch(request)


class Cutting:
    """
    Streams whose blue runs deployment 1, and whose green is about to take over.

    :param way: How green becomes live.
    :param green: What green's drivers do: see ``_work``.
    :param streams: Names; all switch together.
    """

    def __init__(
        self,
        folder: Path,
        way: SwitchWay = SwitchWay.PARALLEL,
        green: str = "works",
        streams: tuple[str, ...] = ("orders",),
        *,
        stateless: bool = False,
    ) -> None:
        self.folder, self.way, self.code, self.streams = folder, way, green, streams
        self.stateless = stateless
        self.uri = str(folder / "home")
        self.store: Any = LocalStore(self.uri)
        self.now, self.clock = NOON, 1000.0
        self.produced = 0
        self.checkpoints = ModelCheckpoints()
        self.sinks: dict[tuple[str, str], Sink] = {}
        self.lanes: dict[str, Lane] = {}
        self.read: list[tuple[str, int]] = []
        self.has_keep_alive = True
        self.wrong_lane = other_lane(streams[0])
        for stream in streams:
            home = self.home(stream)
            home.create_deployment(self.deployment(stream, 1), SCRIPT)
            self._launch_first(stream)
        for _ in range(2):
            self.tick()

    # What is there.

    def home(self, lane: str) -> StreamHome:
        return StreamHome(LocalStore(self.uri), lane)

    def deployment(self, lane: str, number: int, **changes: Any) -> Deployment:
        told = {
            "stream": lane,
            "checkpoint": f"{self.uri}/{lane}/checkpoints/{number:06d}",
            "output": f"{self.uri}/{lane}/output/{number:06d}",
            "colour": "green" if lane.endswith(".green") else "blue",
        }
        return make_deployment(number, **(told | changes))

    def live_lane(self, stream: str = "orders") -> str:
        return live(Home(LocalStore(self.uri)), stream).lane

    def history(self, change: int | None = None) -> list[str]:
        """Return the states that the newest cutover has come through."""
        home = self.home(self.streams[0])
        return [step.after.value for step in home.steps(change or self.change)]

    @property
    def change(self) -> int:
        home = self.home(self.streams[0])
        return [one.number for one in home.changes() if home.leads(one)][-1]

    def epoch(self, lane: str) -> Epoch:
        newest = self.home(lane).newest_epoch()
        assert newest is not None
        return newest

    def running(self, lane: str) -> int | None:
        """Return the deployment that a living driver of a lane runs."""
        living = self.lane(lane).launcher.living()
        return self.home(lane).epoch(living[0]).deployment if living else None

    def lane(self, lane: str) -> Lane:
        return self.lanes.setdefault(lane, Lane())

    def sink(self, deployment: Deployment, query: str = QUERY) -> Sink:
        return self.sinks.setdefault((deployment.output, query), Sink())

    def faults(self) -> list[str]:
        """Say what is lost or doubled in what consumers read."""
        told = []
        for stream in self.streams:
            found = live(Home(LocalStore(self.uri)), stream)
            fault = self.sinks[(found.output, QUERY)].faults()
            told += [f"{stream}: {fault}"] if fault else []
        return told

    # Who acts.

    def open(self, stream: str, lane: str, store: Any = None, who: str = "cutover") -> LaneHands:
        home = StreamHome(store or LocalStore(self.uri), lane)
        keeper = self.keeper(home, who)
        kept = self.lane(lane)
        if kept.observer is None:
            kept.observer = self.observer(self.home(lane), lane, who)
        return LaneHands(home=home, keeper=keeper, acts=keeper, observer=kept.observer)

    def keeper(self, home: StreamHome, by: str, launcher: Any = None) -> Keeper:
        spec = StreamSpec(
            name=home.name.removesuffix(".green"),
            application="/dags/jobs/orders.py",
            home=self.uri,
            runtime="spark-4.3",
            conf={"spark.sql.shuffle.partitions": "2"},
        )
        return Keeper(
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
            live=shadow if self.way is SwitchWay.PARALLEL else self._live(shadow, current),
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

    def advance(self, until: CutoverState = CutoverState.FINALISED, lanes: Any = None) -> Progress:
        """Let a task of its own take the cutover on."""
        return self.engine(lanes).advance(until)

    def drive(self, until: CutoverState = CutoverState.FINALISED, *, ticks: int = 80) -> Progress:
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
        keeper = self.keeper(home, "keep-alive")
        situation = observer.situation(watched=None)
        self.lane(lane).memories["keep-alive"] = observer.memory()
        step, seen = decide(situation), situation.seen
        if step.action is Action.LAUNCH:
            keeper.begin(situation, step)
        elif step.action is Action.SETTLE:
            keeper.settle(situation)
        elif step.action is Action.STOP and seen is not None:
            keeper.stop(seen, step.reason, timedelta(seconds=60))
        elif step.action is Action.KILL and seen is not None:
            keeper.kill(seen, step.reason)
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

    def play(self) -> None:
        for name, lane in list(self.lanes.items()):
            for number in lane.launcher.living():
                self._play(name, self.home(name).epoch(number))
        for stream in self.streams:
            found = live(Home(LocalStore(self.uri)), stream)
            sink = self.sinks.get((found.output, QUERY))
            rows = max((end for _, end in sink.batches.values()), default=0) if sink else 0
            self.read.append((found.lane, rows))

    def _play(self, lane: str, epoch: Epoch) -> None:
        home = self.home(lane)
        if self.epoch(lane).number > epoch.number:
            self.end(lane, epoch, Outcome.FENCED)
        elif home.stop_request(epoch.number) is not None:
            self.end(lane, epoch, Outcome.STOPPED)
        elif epoch.standby and not self._is_released(lane, epoch):
            self._stand_by(lane, epoch)
        else:
            self._work(lane, epoch)

    def _is_released(self, lane: str, epoch: Epoch) -> bool:
        orders = self.home(lane).orders(epoch.number)
        return any(order.act is OrderAct.RELEASE for order in orders)

    def _stand_by(self, lane: str, epoch: Epoch) -> None:
        home = self.home(lane)
        if home.barrier(epoch.number) is None:
            barrier = Barrier(epoch=epoch.number, queries=(QUERY,), at=self.now)
            home.store.create(Layout(lane).barrier(epoch.number), barrier.to_bytes())
        for order in home.orders(epoch.number):
            if home.answer(epoch.number, order.number) is None:
                self._obey(lane, epoch, order)
        self._say(lane, epoch, 0, standby=True)

    def _obey(self, lane: str, epoch: Epoch, order: StandbyOrder) -> None:
        home, error = self.home(lane), ""
        for query, batch in order.absorb.items():
            found = self.checkpoints.get(home.deployment(epoch.deployment), query)
            if self.code == "cannot absorb":
                error = "The state store is broken."
            elif len(found.ends) == batch:
                found.commit()
        answer = StandbyAnswer(epoch=epoch.number, number=order.number, at=self.now, error=error)
        path = Layout(lane).standby_answer(epoch.number, order.number)
        home.store.create(path, answer.to_bytes())

    def _work(self, lane: str, epoch: Epoch) -> None:
        home = self.home(lane)
        status = home.status(epoch.number)
        batches = 0 if status is None else status.batches
        is_new = lane != self.streams[0] and self._is_new(lane, epoch)
        does = self.code if is_new else "works"
        is_live = lane == self.live_lane(lane.removesuffix(".green"))
        if does == "fails at once" or (does == "fails later" and is_live):
            self.end(lane, epoch, Outcome.FAILED)
            return
        if does != "hangs":
            batches += self._batch(lane, epoch)
        backlog = 1000.0 * 2**batches if does == "falls behind" else 0.0
        self._say(lane, epoch, batches, backlog=backlog)

    def _batch(self, lane: str, epoch: Epoch) -> int:
        home = self.home(lane)
        deployment = home.deployment(epoch.deployment)
        found = self.checkpoints.get(deployment, QUERY)
        claim = self._claim(lane, found.query_id)
        if found.planned is not None and claim is not None and claim.absorb == len(found.ends):
            found.commit()
            return 0
        if found.planned is None:
            found.planned = self.produced
        self._check_alone(lane, deployment)
        shift = home.batch_shift(found.query_id)
        self.sink(deployment).write(len(found.ends) + shift, found.end, found.planned)
        found.commit()
        return 1

    def _claim(self, lane: str, query_id: str) -> QueryClaim | None:
        home = self.home(lane)
        newest = home.newest_deployment()
        for number in range(newest.number if newest else 0, 0, -1):
            claim = home.claim(number, QUERY)
            if claim is not None and claim.query_id == query_id:
                return claim
        return None

    def _check_alone(self, lane: str, deployment: Deployment) -> None:
        """Stand for the law that a sink and a checkpoint have one writer."""
        for other, found in self.lanes.items():
            for number in found.launcher.living() if other != lane else ():
                epoch = self.home(other).epoch(number)
                theirs = self.home(other).deployment(epoch.deployment)
                is_idle = epoch.standby and not self._is_released(other, epoch)
                assert is_idle or theirs.output != deployment.output, (
                    f"{lane} and {other} write to {theirs.output}."
                )
                assert theirs.checkpoint != deployment.checkpoint

    def _say(
        self,
        lane: str,
        epoch: Epoch,
        batches: int,
        *,
        backlog: float = 0.0,
        standby: bool = False,
    ) -> None:
        status = self.home(lane).status(epoch.number)
        first = status.first_progress_at if status is not None else None
        told = make_status(
            epoch.number,
            stream=lane,
            token=epoch.token,
            beat=1 if status is None else status.beat + 1,
            at=self.now,
            started_at=status.started_at if status is not None else self.now,
            first_progress_at=first or (self.now if batches else None),
            queries=() if standby else (self._query(batches, backlog),),
            standby=standby,
        )
        self._replace(lane, epoch.number, "status.json", told.to_bytes())
        rows = [q.progress for q in told.queries if q.progress is not None]
        kept = self.lane(lane).history.setdefault(epoch.number, [])
        kept.extend(json.dumps(encode(row)) for row in rows)
        self._replace(lane, epoch.number, "progress/000001.jsonl", "\n".join(kept).encode())

    def _query(self, batches: int, backlog: float) -> Any:
        progress = BatchProgress(
            query=QUERY,
            batch_id=batches,
            at="2026-03-01T12:00:00.000Z",
            input_rows=100,
            input_rows_per_second=10.0,
            processed_rows_per_second=10.0,
            duration_ms=100,
            sources=(SourceProgress(source="orders", backlog_records=backlog),),
        )
        return make_query(
            QUERY,
            batches=batches,
            processing=False,
            message="Waiting for next trigger",
            progress=progress if batches else None,
            committed_ago_s=1.0,
        )

    def end(self, lane: str, epoch: Epoch, outcome: Outcome) -> None:
        said = Exit(epoch=epoch.number, outcome=outcome, reason=f"It {outcome}.", ended_at=self.now)
        path = Layout(lane).epoch(epoch.number, "exit.json")
        LocalStore(self.uri).create(path, said.to_bytes())
        self.lane(lane).launcher.end(epoch.token)

    def lose(self, lane: str) -> None:
        """Let the driver of a lane be gone without a word."""
        self.lane(lane).launcher.end(self.epoch(lane).token)

    def _is_new(self, lane: str, epoch: Epoch) -> bool:
        found = self.home(lane).deployment(epoch.deployment).application_sha256
        return found != hashlib.sha256(SCRIPT).hexdigest()

    def _replace(self, lane: str, epoch: int, name: str, data: bytes) -> None:
        LocalStore(self.uri).replace(Layout(lane).epoch(epoch, name), data)

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
        assert self.keeper(home, "keep-alive").begin(situation, step) is not None


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
