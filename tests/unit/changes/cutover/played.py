"""Lanes whose records are real and whose drivers are played: what they do, and what they say."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from airflow_streaming.home.consumers import live
from airflow_streaming.home.home import Home, StreamHome, init_home
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.model.codec import encode
from airflow_streaming.model.names import Layout
from airflow_streaming.model.progress import BatchProgress, SourceProgress
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import (
    Barrier,
    Epoch,
    Exit,
    OrderAct,
    Outcome,
    QueryClaim,
    StandbyAnswer,
    StandbyOrder,
)
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.supervision.observer import Observer
from tests.fakes import FakeLauncher
from tests.unit.changes.cutover.model_checkpoints import ModelCheckpoints, Sink
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_query, make_status

QUERY: Final = "counts"


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


class Played:
    """
    Lanes of streams whose drivers are played.

    :param green: What green's drivers do: see ``_work``.
    :param streams: Names; all switch together.
    """

    def __init__(self, folder: Path, green: str, streams: tuple[str, ...]) -> None:
        self.folder, self.code, self.streams = folder, green, streams
        self.uri = str(folder / "home")
        init_home(self.uri)
        self.store: Any = LocalStore(self.uri)
        self.now, self.clock = NOON, 1000.0
        self.produced = 0
        self.checkpoints = ModelCheckpoints()
        self.sinks: dict[tuple[str, str], Sink] = {}
        self.lanes: dict[str, Lane] = {}
        self.read: list[tuple[str, int]] = []

    def home(self, lane: str) -> StreamHome:
        return StreamHome(LocalStore(self.uri), lane)

    def deployment(self, lane: str, number: int, **changes: Any) -> Deployment:
        told = {
            "stream": lane,
            "checkpoint": f"{self.uri}/{lane}/checkpoints/{number:06d}",
            "output": f"{self.uri}/{lane}/output/{number:06d}",
            "color": "green" if lane.endswith(".green") else "blue",
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
            home.store.create(
                Layout(lane).place(Barrier, epoch=epoch.number), Layout(lane).bytes_of(barrier)
            )
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
        path = Layout(lane).place(StandbyAnswer, epoch=epoch.number, number=order.number)
        home.store.create(path, answer.to_bytes(lane))

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
        wrote = {"drops": 0, "counts none": None}.get(does, 90)
        self._say(lane, epoch, batches, backlog=backlog, wrote=wrote)

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
        wrote: int | None = None,
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
            queries=() if standby else (self._query(batches, backlog, wrote),),
            standby=standby,
        )
        self._replace(lane, epoch.number, "status.json", told.to_bytes())
        rows = [q.progress for q in told.queries if q.progress is not None]
        kept = self.lane(lane).history.setdefault(epoch.number, [])
        kept.extend(json.dumps(encode(row)) for row in rows)
        self._replace(lane, epoch.number, "progress/000001.jsonl", "\n".join(kept).encode())

    def _query(self, batches: int, backlog: float, wrote: int | None) -> Any:
        progress = BatchProgress(
            query=QUERY,
            batch_id=batches,
            at="2026-03-01T12:00:00.000Z",
            input_rows=100,
            input_rows_per_second=10.0,
            processed_rows_per_second=10.0,
            duration_ms=100,
            output_rows=wrote,
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
        LocalStore(self.uri).create(path, said.to_bytes(lane))
        self.lane(lane).launcher.end(epoch.token)

    def lose(self, lane: str) -> None:
        """Let the driver of a lane be gone without a word."""
        self.lane(lane).launcher.end(self.epoch(lane).token)

    def _is_new(self, lane: str, epoch: Epoch) -> bool:
        found = self.home(lane).deployment(epoch.deployment).application_sha256
        return found != hashlib.sha256(SCRIPT).hexdigest()

    def _replace(self, lane: str, epoch: int, name: str, data: bytes) -> None:
        LocalStore(self.uri).replace(Layout(lane).epoch(epoch, name), data)
