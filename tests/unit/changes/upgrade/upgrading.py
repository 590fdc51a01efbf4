"""A stream that is upgraded: its records are real, its driver and the time are played by the test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from airflow_streaming.changes.engine import Progress
from airflow_streaming.changes.upgrade.begin import UpgradeTermsRequest
from airflow_streaming.changes.upgrade.engine import UpgradeInPlace
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.driver.exit_status import promoted
from airflow_streaming.driver.standby.promotion import PromotionBook, read_signs, reason_to_end
from airflow_streaming.home.home import StreamHome, init_home
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.codec import encode
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.names import Layout
from airflow_streaming.model.progress import BatchProgress, SourceProgress
from airflow_streaming.model.records.control import ChangeEnd, DesiredState
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, Exit, LaunchCause, Outcome
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan, SinkFacts
from airflow_streaming.model.records.upgrade_table import Stage
from airflow_streaming.model.status import Status
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.controller import StreamController, Submission
from airflow_streaming.supervision.decide import Action, Step, decide
from airflow_streaming.supervision.observer import Observer
from tests.fakes import FakeLauncher
from tests.unit.checkpoints.restoring import new_store, run_batches
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_query, make_status

QUERY: Final = "counts"
NEVER: Final = 10**6
TICK: Final = timedelta(seconds=20)
REWIND: Final = RollbackPlan(way=RollbackMethod.REWIND, reason="The sink keeps nothing.")
SINKS: Final = (SinkFacts(query=QUERY, sink="foreachbatch", habit=SinkReplaySemantics.UNKNOWN),)
SOAK: Final = SoakTerms(batches=3, at_least=timedelta(seconds=60), at_most=timedelta(seconds=200))


class Upgraded:
    """
    A stream that runs deployment 1 and is about to run another script.

    :param code: What the new script does: see ``_play``.
    :param warmth: Of a pre-warmed upgrade: what the warmed driver does, see ``WarmedDriver``; empty
        for an upgrade that is not pre-warmed.
    """

    def __init__(self, folder: Path, code: str = "works", warmth: str = "") -> None:
        self.folder, self.code, self.warmth = folder, code, warmth
        self.waiting: dict[str, WarmedDriver] = {}
        self.uri = str(folder / "home")
        init_home(self.uri)
        self.new_script = f"# it {code}\n".encode()
        self.now, self.clock = NOON, 1000.0
        self.launcher = OneDriver(lambda: self.epoch, lambda: self.living())
        self.store = new_store(folder)
        self.memories: dict[str, Any] = {}
        self.written: list[tuple[int, int]] = []
        self.stubborn: set[int] = set()
        self.worker: Any = None
        self._trigger: Observer | None = None
        self._history: dict[int, list[str]] = {}
        self.conf: dict[str, Any] = {"spark.sql.shuffle.partitions": "2"}
        self.first = f"{self.uri}/orders/checkpoints/000001"
        self.home.create_deployment(make_deployment(1, checkpoint=self.first), SCRIPT)
        run_batches(Path(self.first) / QUERY, 0, "c-0-0-0-1")
        self._start()

    # What is there.

    @property
    def home(self) -> StreamHome:
        return StreamHome(LocalStore(self.uri), "orders")

    @property
    def deployment(self) -> Deployment:
        newest = self.home.newest_deployment()
        assert newest is not None
        return newest

    @property
    def epoch(self) -> Epoch:
        newest = self.home.newest_epoch()
        assert newest is not None
        return newest

    def stages(self) -> list[str]:
        return [stage.value for stage in self.home.stages(1)]

    def running(self) -> int | None:
        """Return the number of the deployment that a living driver runs."""
        living = self.living()
        return living[0].deployment if living else None

    def living(self) -> list[Epoch]:
        """Return the epochs that have a living driver; a standby that waits has none."""
        alive = self.launcher.alive()
        epochs = map(self.home.epoch, self.home.epoch_numbers())
        return [epoch for epoch in epochs if epoch.token in alive]

    def standbys(self) -> list[Epoch]:
        """Return the records of the standbys that have a living driver, promoted or not."""
        alive, standbys = self.launcher.alive(), self.home.standbys()
        epochs = map(standbys.epoch, standbys.epoch_numbers())
        return [epoch for epoch in epochs if epoch.token in alive]

    # Who acts.

    def controller(self, home: StreamHome | None = None, by: str = "upgrade") -> StreamController:
        spec = StreamSpec(
            name="orders",
            application="/dags/jobs/orders.py",
            home=self.uri,
            runtime="spark-4.3",
            conf=self.conf,
        )
        return StreamController(
            *(home or self.home, self.launcher if home is None else self.worker or self.launcher),
            spec=spec,
            submit=self._submit,
            by=by,
            now=lambda: self.now,
            chance=lambda: 0.0,
        )

    def observer(self, home: StreamHome | None = None, who: str = "upgrade") -> Observer:
        return Observer(
            *(home or self.home, self.launcher),
            rules=HealthRules(),
            policy=RestartPolicy(),
            memory=self.memories.get(who),
            clock=lambda: self.clock,
            now=lambda: self.now,
        )

    def engine(self, home: StreamHome | None = None, **more: Any) -> UpgradeInPlace:
        observer = self.observer(home)
        self._listening = observer
        given = {"by": "kim", "now": lambda: self.now, **more}
        return UpgradeInPlace(
            home or self.home, self.controller(home), observer, self.store, **given
        )

    def proposed(self, **changes: Any) -> Deployment:
        told = {
            "checkpoint": self.deployment.checkpoint,
            "application_sha256": hashlib.sha256(self.new_script).hexdigest(),
            **changes,
        }
        return make_deployment(self.deployment.number + 1, **told)

    def begin(self, home: StreamHome | None = None, **asked: Any) -> int:
        told = {"rollback": REWIND, "soak": SOAK, "key": "run-1", "sinks": SINKS}
        given = {**told, "prewarm": bool(self.warmth), **asked}
        engine = self.engine(home)
        return engine.begin(self.proposed(), self.new_script, UpgradeTermsRequest(**given)).number

    def advance(self, until: Stage = Stage.KEPT, home: StreamHome | None = None) -> Progress:
        """Let a task of its own take the upgrade on; what it has heard is handed over."""
        engine = self.engine(home)
        progress = engine.advance(until)
        self.memories["upgrade"] = self._listening.memory()
        # Between two tasks their trigger listens.
        self._trigger = self.observer()
        self._trigger.situation()
        return progress

    def drive(self, until: Stage = Stage.KEPT, *, ticks: int = 60) -> Progress:
        """Take the upgrade on while time passes and the keep-alive task does its part."""
        for _ in range(ticks):
            progress = self.advance(until)
            if progress.is_there or progress.needs_person:
                return progress
            self.tick()
        raise AssertionError(f"It got no further than {progress}.")

    def keep_alive(self) -> Action:
        """Do what the task that keeps the stream alive does."""
        observer, controller = self.observer(who="keep-alive"), self.controller(by="keep-alive")
        situation = observer.situation(watched=None)
        self.memories["keep-alive"] = observer.memory()
        step = decide(situation)
        seen = situation.seen
        if step.action is Action.LAUNCH:
            controller.begin(situation, step)
        elif step.action is Action.SETTLE:
            controller.settle(situation)
        elif step.action is Action.STOP and seen is not None:
            controller.stop(seen, step.reason, timedelta(seconds=60))
        elif step.action is Action.KILL and seen is not None:
            controller.kill(seen, step.reason)
        return step.action

    def want(self, state: DesiredState) -> None:
        self.home.want(state, by="kim", reason="The test says so.", now=self.now)

    # What time brings.

    def tick(self) -> None:
        """Let some time pass: the driver works, and the keep-alive task looks."""
        self.now += TICK
        self.clock += TICK.total_seconds()
        for epoch in self.standbys():
            self.waiting.setdefault(epoch.token, WarmedDriver(self, epoch)).tick()
        for epoch in self.living():
            if self.may_write(epoch):
                self._play(epoch)
        self.keep_alive()
        if self._trigger is not None:
            self._trigger.situation()
            self.memories["upgrade"] = self._trigger.memory()

    def may_write(self, epoch: Epoch) -> bool:
        """Tell whether the driver of an epoch is past the barrier."""
        warmed = self.waiting.get(epoch.token)
        return warmed is None or warmed.is_released

    def _play(self, epoch: Epoch) -> None:
        """Let a driver do what it is made for."""
        if self.epoch.number > epoch.number:
            self._end(epoch, Outcome.FENCED)
        elif self.home.stop_request(epoch.number) is not None:
            if epoch.deployment not in self.stubborn:
                self._end(epoch, Outcome.STOPPED)
        else:
            does = self.code if self._is_new(epoch) else "works"
            self._work(epoch, does)

    def _work(self, epoch: Epoch, does: str) -> None:
        status = self.home.status(epoch.number)
        batches = 0 if status is None else status.batches
        if does == "fails at once" or (does == "fails after two" and batches == 2):
            self._end(epoch, Outcome.FAILED)
            return
        if does == "hangs":
            return
        if does not in ("idles", "starts no query"):
            self._commit(epoch)
            batches += 1
        backlog = 1000.0 * 2**batches if does == "falls behind" else 100.0
        self._say(epoch, batches, backlog, does)

    def _commit(self, epoch: Epoch) -> None:
        folder = Path(self.home.deployment(epoch.deployment).checkpoint) / QUERY
        last = inspect(str(folder)).last_committed_batch
        batch = 0 if last is None else last + 1
        run_batches(folder, batch, "c-0-0-0-1")
        self.written.append((epoch.deployment, batch))

    def _say(self, epoch: Epoch, batches: int, backlog: float, does: str) -> None:
        status = self.home.status(epoch.number)
        told = make_status(
            epoch.number,
            token=epoch.token,
            beat=1 if status is None else status.beat + 1,
            at=self.now,
            first_progress_at=self._first_progress(status, batches),
            queries=() if does == "starts no query" else (self._query(batches, backlog, does),),
        )
        self._replace(epoch.number, "status.json", told.to_bytes())
        rows = [q.progress for q in told.queries if q.progress is not None]
        self._history.setdefault(epoch.number, []).extend(json.dumps(encode(row)) for row in rows)
        lines = "\n".join(self._history[epoch.number]).encode()
        self._replace(epoch.number, "progress/000001.jsonl", lines)

    def _first_progress(self, status: Status | None, batches: int) -> datetime | None:
        if status is not None and status.first_progress_at is not None:
            return status.first_progress_at
        return self.now if batches else None

    def _query(self, batches: int, backlog: float, does: str) -> Any:
        progress = BatchProgress(
            query=QUERY,
            batch_id=batches,
            at="2026-03-01T12:00:00.000Z",
            input_rows=100,
            input_rows_per_second=10.0,
            processed_rows_per_second=10.0,
            duration_ms=100,
            output_rows=0 if does == "drops" else 90,
            sources=(SourceProgress(source="orders", backlog_records=backlog),),
        )
        return make_query(
            QUERY,
            batches=batches,
            processing=False,
            data_available=does != "idles",
            message="Waiting for data to arrive" if does == "idles" else "Waiting for next trigger",
            progress=progress if batches else None,
            committed_ago_s=60.0 if does == "idles" else 1.0,
        )

    def _is_new(self, epoch: Epoch) -> bool:
        return self.home.deployment(epoch.deployment).application_sha256 != (
            hashlib.sha256(SCRIPT).hexdigest()
        )

    def _end(self, epoch: Epoch, outcome: Outcome) -> None:
        said = Exit(epoch=epoch.number, outcome=outcome, reason=f"It {outcome}.", ended_at=self.now)
        path = Layout("orders").epoch(epoch.number, "exit.json")
        self.home.store.create(path, said.to_bytes("orders"))
        self.launcher.end(epoch.token)

    def _replace(self, epoch: int, name: str, data: bytes) -> None:
        self.home.store.replace(Layout("orders").epoch(epoch, name), data)

    def _submit(self, submission: Submission) -> LaunchRequest:
        assert "hunter2" not in str(submission.deployment.conf)
        return LaunchRequest(
            epoch=submission.epoch,
            command=("spark-submit",),
            environment={},
            log=self.folder / "driver.log",
        )

    def _start(self) -> None:
        situation = self.observer(who="nobody").situation()
        step = Step(action=Action.LAUNCH, reason="The first launch.", cause=LaunchCause.FIRST)
        assert self.controller().begin(situation, step) is not None
        for _ in range(2):
            self.tick()


class WarmedDriver:
    """
    The driver of a standby: its way to an epoch is the real one, and its stream plays the rest.

    Its warmth says what becomes of it: it ``warms`` and waits; ``ends early``, before it comes to the
    barrier; ``ends warm``, after it; is ``silent`` from the barrier on; ``never comes`` there; or
    ``ends promoted``, before it is released.
    """

    def __init__(self, stream: Upgraded, standby: Epoch) -> None:
        self._stream, self._standby, self._lane_epoch = stream, standby, 0
        self._book = PromotionBook(stream.home.store, standby, adopt=self._adopt)
        self._ticks = self._beat = 0
        self.is_released = False

    def tick(self) -> None:
        """Do what comes in the time of a tick."""
        if self.is_released:
            return
        self._ticks += 1
        if self._has_to_end():
            self._end(Outcome.FENCED if self._is_fenced() else Outcome.STOPPED)
        elif self._dies():
            self._stream.launcher.end(self._standby.token)
        elif self._ticks > 1 and self._stream.warmth != "never comes":
            self._wait()

    def _dies(self) -> bool:
        after = {"ends early": 1, "ends warm": 3}.get(self._stream.warmth, NEVER)
        is_promoted = self._lane_epoch > 0 and self._stream.warmth == "ends promoted"
        return self._ticks >= after or is_promoted

    def _wait(self) -> None:
        self._book.show(("counts",))
        if self._stream.warmth != "silent" or self._ticks <= 2:
            self._beat += 1
            self._say()
        if self._stream.warmth == "ends promoted" and self._lane_epoch:
            return
        if self._book.next() is not None:
            others = [one.number for one in self._stream.living() if not self._is_mine(one)]
            assert not others, f"A warmed driver is released beside {others}."
            self._book.answer(committed={}, error="")
            self.is_released = True

    def _is_mine(self, epoch: Epoch) -> bool:
        return epoch.token == self._standby.token

    def _say(self) -> None:
        number, layout = self._place()
        told = make_status(
            number,
            token=self._standby.token,
            stream=layout.root,
            beat=self._beat,
            at=self._stream.now,
            standby=True,
            queries=(),
        )
        self._stream.home.store.replace(layout.epoch(number, "status.json"), layout.bytes_of(told))

    def _place(self) -> tuple[int, Layout]:
        if self._lane_epoch:
            return self._lane_epoch, Layout(self._standby.serves)
        return self._standby.number, Layout(self._standby.stream)

    def _adopt(self, epoch: Epoch, _: Any) -> None:
        last = promoted(self._standby, epoch, self._stream.now)
        path = Layout(self._standby.stream).epoch(self._standby.number, "exit.json")
        self._stream.home.store.create(path, last.to_bytes(self._standby.stream))
        self._lane_epoch, self._beat = epoch.number, 0

    def _is_fenced(self) -> bool:
        number, layout = self._place()
        return self._stream.home.store.read(layout.place(Epoch, number=number + 1)) is not None

    def _has_to_end(self) -> bool:
        number, layout = self._place()
        store = self._stream.home.store
        if self._is_fenced() or store.read(layout.epoch(number, "stop.json")) is not None:
            return True
        standby = self._standby
        signs = read_signs(store, Layout(standby.serves), standby.change)
        return not self._lane_epoch and bool(reason_to_end(signs, standby))

    def _end(self, outcome: Outcome) -> None:
        number, layout = self._place()
        last = Exit(epoch=number, outcome=outcome, reason=f"{outcome}.", ended_at=self._stream.now)
        self._stream.home.store.create(layout.epoch(number, "exit.json"), layout.bytes_of(last))
        self._stream.launcher.end(self._standby.token)


class OneDriver(FakeLauncher):
    """
    A launcher that stands for the law that there is never more than one driver at work.

    A standby may wait beside it.
    """

    def __init__(self, newest: Callable[[], Epoch], at_work: Callable[[], Sequence[Epoch]]) -> None:
        super().__init__()
        self._newest, self._at_work = newest, at_work

    def alive(self) -> set[str]:
        """Return the tokens of all drivers that have a process."""
        return {token for token, driver in self.drivers.items() if driver.is_alive}

    def launch(self, request: LaunchRequest) -> Any:
        if request.epoch.serves:
            return super().launch(request)
        is_fenced = self._newest().number > request.epoch.number
        others = [epoch.number for epoch in self._at_work()]
        assert is_fenced or not others, f"A driver is started beside {others}."
        launch = super().launch(request)
        if is_fenced:
            # The first thing a driver does is to look for a newer epoch.
            self.end(request.epoch.token)
        return launch


def end_of(stream: Upgraded) -> ChangeEnd | None:
    return stream.home.change_end(1)


def outcome(stream: Upgraded) -> tuple[Any, ...]:
    """Return all that has to be the same in the end, whoever was killed on the way."""
    end, newest = end_of(stream), stream.deployment
    stages = [one for one in stream.stages() if one not in ("backed_up", "ready", "stopped")]
    return (
        end.outcome if end else None,
        stages,
        newest.number,
        newest.application_sha256,
        newest.checkpoint.removeprefix(stream.uri),
        stream.running(),
        len(stream.home.changes()),
    )
