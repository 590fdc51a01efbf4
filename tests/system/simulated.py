"""
A simulated driver, its home and its launcher, second by second, for judging without Spark.

The driver counts what a real one counts: durations beat by beat on a monotonic clock, times of day
from a wall clock that somebody may move. What can go wrong around it is a ``Weather``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.epochs import EpochOutcome
from airflow_streaming.launch.port import Heartbeat
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.progress import BatchProgress, SourceProgress
from airflow_streaming.model.records.epoch import Epoch, Launch
from airflow_streaming.model.status import Status
from tests.unit.supervision.builders import NOW, a_deployment, a_launch, a_query, a_status, an_epoch

BEAT: Final = 2.0
HISTORY_EVERY: Final = 10.0
BEGUN: Final = NOW


@dataclass(frozen=True, kw_only=True)
class Weather:
    """
    What is unusual about a history; every time in seconds from its start.

    :param slow_batch: From when on one batch takes twenty times as long as the others.
    :param stopped: When the driver's processes are stopped, and for how long.
    :param slowness: Everything the driver does takes so many times as long.
    :param driver_clock: When the driver's wall clock is moved, and by how much.
    :param observer_clock: The same for the observer's.
    :param away: When the home is away, and for how long.
    :param lateness: How long a written status takes to be seen.
    """

    name: str
    slow_batch: float | None = None
    stopped: tuple[float, float] | None = None
    slowness: float = 1.0
    driver_clock: tuple[float, float] | None = None
    observer_clock: tuple[float, float] | None = None
    away: tuple[float, float] | None = None
    lateness: float = 0.0

    def moved(self, of: tuple[float, float] | None, now: float) -> float:
        return of[1] if of is not None and now >= of[0] else 0.0

    def is_in(self, times: tuple[float, float] | None, now: float) -> bool:
        return times is not None and times[0] <= now < times[0] + times[1]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """
    What really goes wrong, and when.

    :param kind: ``stall`` (a batch stands still), ``freeze`` (the JVM hangs without CPU time),
        ``suspend`` (its processes are stopped for good) or ``kill``.
    """

    kind: str
    at: float


@dataclass
class World:
    """A driver, its home and its host; ``tick`` lets a second pass."""

    random: Random
    weather: Weather
    fault: Fault | None = None
    now: float = 0.0
    interval: float | None = None
    usual: float = 2.0
    cpu: float = 0.0
    stands_since: float | None = None
    """When the batch that stalls had its last sign of work."""
    _lived: float = 0.0
    _beat: int = 0
    _beaten_at: float = 0.0
    _rows: list[BatchProgress] = field(default_factory=list)
    _written: list[BatchProgress] = field(default_factory=list)
    _written_at: float = -1e9
    _sent: list[tuple[float, Status]] = field(default_factory=list)
    _batch_id: int = 0
    _begun: float | None = None
    _begun_wall: float = 0.0
    _needs: float = 0.0
    _quiet: float = 0.0
    _due: float = 5.0
    _committed: float = 0.0
    _ready: float = 0.0
    _busy_until: float = 60.0
    _is_busy: bool = True
    _has_been_slow: bool = False
    _durations: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.interval = self.random.choice([None, 5.0, 10.0, 30.0])
        self.usual = self.random.choice([1.0, 2.0, 5.0, 12.0])

    def wall(self) -> float:
        """Return the driver's time of day in seconds."""
        return (
            BEGUN.timestamp() + self.now + self.weather.moved(self.weather.driver_clock, self.now)
        )

    def is_stopped(self) -> bool:
        if self.fault is not None and self.fault.kind == "suspend" and self.now >= self.fault.at:
            return True
        return self.weather.is_in(self.weather.stopped, self.now)

    def is_hit_by(self, kind: str) -> bool:
        return self.fault is not None and self.fault.kind == kind and self.now >= self.fault.at

    def tick(self) -> None:
        """Let a second of true time pass."""
        self.now += 1.0
        if self.is_stopped() or self.is_hit_by("freeze") or self.is_hit_by("kill"):
            return
        self._lived += 1.0
        self.cpu += self.random.uniform(0.02, 0.1) if self._begun is None else 0.5
        self._change_input()
        self._work()
        if self._lived - self._beaten_at >= BEAT * self.weather.slowness:
            self._write()

    def _change_input(self) -> None:
        if self.now >= self._busy_until:
            self._is_busy = not self._is_busy or self.random.random() < 0.5
            self._busy_until = self.now + self.random.uniform(20, 400)

    def _work(self) -> None:
        if self._begun is None:
            has_data = self._is_busy or self.is_hit_by("stall")
            self._ready = self._ready + 1 if has_data else 0.0
            if has_data and self._lived >= self._due:
                self._begin()
            return
        stands = self.is_hit_by("stall")
        if stands and self.stands_since is None:
            self.stands_since = self.now
        # A batch at work is quiet now and then: a long task, a slow answer from outside.
        is_quiet = stands or self.random.random() < 0.9
        self._quiet = self._quiet + 1 if is_quiet and (stands or self._quiet < 60) else 0.0
        self._needs -= 0.0 if stands else 1.0 / self.weather.slowness
        if self._needs <= 0:
            self._commit()

    def _begin(self) -> None:
        self._begun, self._begun_wall, self._quiet = self._lived, self.wall(), 0.0
        self._needs = self.usual * self.random.uniform(0.6, 1.4)
        slow = self.weather.slow_batch
        if slow is not None and self.now >= slow and not self._has_been_slow:
            self._needs, self._has_been_slow = 20 * self.usual, True

    def _commit(self) -> None:
        begun = self._begun or 0.0
        took = max(0.0, self.wall() - self._begun_wall)
        rows = self.random.randint(1, 5_000)
        self._rows.append(self._row(took, rows))
        self._durations = [*self._durations, int(1000 * (self._lived - begun))][-20:]
        self._batch_id, self._committed, self._begun = self._batch_id + 1, self._lived, None
        self._ready = 0.0
        self._due = (
            self._lived if self.interval is None else max(self._lived, begun + self.interval)
        )

    def _row(self, took: float, rows: int) -> BatchProgress:
        return BatchProgress(
            query="revenue",
            batch_id=self._batch_id,
            at=_moment(self._begun_wall).isoformat(),
            input_rows=rows,
            input_rows_per_second=rows / max(1.0, self.interval or took),
            processed_rows_per_second=rows / took if took else None,
            duration_ms=int(1000 * took),
            watermark_delay_s=self.random.uniform(10, 90),
            state_rows=1_000,
            dropped_rows=0,
            state_commit_ms=50.0 * self.weather.slowness,
            sources=(SourceProgress(source="FileStreamSource[file:/in]", backlog_files=0.0),),
        )

    def _write(self) -> None:
        self._beat, self._beaten_at = self._beat + 1, self._lived
        if self.weather.is_in(self.weather.away, self.now):
            return
        late = self.random.uniform(0, self.weather.lateness)
        self._sent.append((self.now + late, self._status()))
        if self._lived - self._written_at >= HISTORY_EVERY:
            self._written, self._written_at = list(self._rows), self._lived

    def _status(self) -> Status:
        works = self._begun is not None
        query = a_query(
            processing=works,
            data_available=works or self._is_busy,
            message="Waiting for next trigger",
            batches=len(self._rows),
            progress=self._rows[-1] if self._rows else None,
            processing_interval_s=self.interval,
            recent_durations_ms=tuple(self._durations),
            planned_batch=self._batch_id if works else None,
            batch_for_s=None if self._begun is None else self._lived - self._begun,
            quiet_for_s=self._quiet if works else None,
            committed_ago_s=self._lived - self._committed,
            ready_for_s=None if works else self._ready,
        )
        return a_status(
            beat=self._beat,
            started_at=BEGUN,
            at=_moment(self.wall()),
            first_progress_at=BEGUN if self._rows else None,
            queries=(query,),
        )

    def seen(self) -> Status | None:
        """Return the newest status that has arrived."""
        arrived = [status for at, status in self._sent if at <= self.now]
        if not arrived:
            return None
        newest = max(arrived, key=lambda status: status.beat)
        self._sent = [(at, s) for at, s in self._sent if s.beat >= newest.beat]
        return newest

    def process(self) -> Process:
        if self.is_hit_by("kill"):
            return Process.gone("pid 4711 is gone")
        state = ProcessState.SUSPENDED if self.is_stopped() else ProcessState.RUNNING
        return Process(state=state, detail=f"pid 4711 is {state}", cpu_seconds=self.cpu)


class SimulatedHome:
    """What an observer reads of a home, out of a world."""

    name = "orders"

    def __init__(self, world: World) -> None:
        self._world = world
        self._epoch, self._launch = replace(an_epoch(), created_at=BEGUN), a_launch()

    def desired(self) -> None:
        if self._world.weather.is_in(self._world.weather.away, self._world.now):
            raise HomeUnavailable("The home is away.")

    def newest_epoch(self) -> Epoch:
        return self._epoch

    def newest_deployment(self) -> Any:
        return a_deployment()

    def circuit(self) -> None:
        return None

    def unfinished_change(self) -> None:
        return None

    def launch(self, epoch: int) -> Launch:
        return self._launch

    def status(self, epoch: int) -> Status | None:
        return self._world.seen()

    def heartbeat(self, epoch: int) -> datetime | None:
        status = self._world.seen()
        return None if status is None else status.at

    def aftermath(self, epoch: int) -> EpochOutcome:
        return EpochOutcome()

    def progress_chunks(self, epoch: int) -> list[int]:
        return [1]

    def progress_rows(
        self, epoch: int, chunk: int, *, skip: int = 0
    ) -> tuple[list[BatchProgress], int]:
        return self._world._written[skip:], len(self._world._written)


class SimulatedLauncher:
    """What an observer sees of the host, out of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        return self._world.process()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def observer_time(world: World) -> datetime:
    """Return the observer's time of day."""
    moved = world.weather.moved(world.weather.observer_clock, world.now)
    return BEGUN + timedelta(seconds=world.now + moved)
