"""
Home and launcher to situation: one look at a stream.

It fits in a small dict, which a trigger hands to its task in the event, so that the task need not
wait as long again to come to the same verdict.

A driver rewrites the chunk in progress at most every ten seconds, so it is read no more often, and
only its new lines are parsed. A fresh reader begins as far back as the rules look, so that nothing
is forgotten when a triggerer dies: by time, since a chunk may cover five minutes or one. What fired
before that is known from its incident: a rule that fires clears by another bound than one that does
not, and its figures may have stayed between the two for days.

It is read at every look while one is open, from records that keep what they have read: then a look
at a cutover costs a try for its next step, and one for its end.

An observer remembers how long it has seen a heartbeat stand still, because silence may only be
timed by the one who listens.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Self

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.driver_end import DriverEnd
from airflow_streaming.launch.port import Heartbeat, Launcher, open_driver_end
from airflow_streaming.model.health_rules import Finding, HealthRules
from airflow_streaming.model.observation import (
    CpuIdle,
    Observation,
    Process,
    ProcessState,
    VerdictState,
)
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.autoscale import Autoscale
from airflow_streaming.model.records.control import (
    Change,
    ChangeInProgress,
    ChangeKind,
    DesiredState,
)
from airflow_streaming.model.records.cutover import DEADLINES, CutoverStanding, CutoverTerms
from airflow_streaming.model.records.cutover_table import CUTOVER
from airflow_streaming.model.records.epoch import Epoch, Launch
from airflow_streaming.model.records.policy import RestartPolicy, Supervision
from airflow_streaming.model.records.upgrade import OpenUpgrade
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage
from airflow_streaming.model.status import Status
from airflow_streaming.supervision.alerts.alerting import open_incidents
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.rules.rulebook import RuleBook
from airflow_streaming.supervision.sizing import SizeObserver
from airflow_streaming.supervision.standby import StandbyView


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """
    What was seen, by the observer's monotonic clock.

    :param beat: The heartbeat as last seen; 0 before the first.
    :param since: When it was first seen so.
    :param still: How the driver's CPU time moved; ``None`` where it cannot be seen.
    :param suspended_since: When its processes were first seen suspended.
    :param beating: The heartbeat has been seen to rise.
    :param stop_since: When the stop request was first seen.
    """

    epoch: int
    beat: int
    since: float
    still: CpuIdle | None = None
    suspended_since: float | None = None
    beating: bool = False
    stop_since: float | None = None

    def look(self, clock: float, *, beat: int, process: Process, has_stop: bool) -> Memory:
        """Return the memory after one more look."""
        rises = beat != self.beat
        is_suspended = process.state is ProcessState.SUSPENDED
        return replace(
            self,
            beat=beat,
            since=clock if rises else self.since,
            still=_still(self.still, clock, process.cpu_seconds),
            suspended_since=_first(self.suspended_since, clock) if is_suspended else None,
            beating=self.beating or rises,
            stop_since=_first(self.stop_since, clock) if has_stop else None,
        )

    def without(self, blind: float) -> Memory:
        """Return the memory without the last seconds, in which the stream could not be read."""
        return replace(
            self,
            since=self.since + blind,
            # A driver that could not be observed could not read a stop request either.
            stop_since=None if self.stop_since is None else self.stop_since + blind,
            suspended_since=None if self.suspended_since is None else self.suspended_since + blind,
        )

    def to_event(self, clock: float) -> dict[str, Any]:
        """Return the memory as ages in seconds, from which another process continues."""
        return {
            "epoch": self.epoch,
            "beat": self.beat,
            "silent_for": clock - self.since,
            "flat_for": None if self.still is None else clock - self.still.since,
            "cpu": None if self.still is None else self.still.cpu,
            "suspended_for": _age(self.suspended_since, clock),
            "stopping_for": _age(self.stop_since, clock),
        }

    @classmethod
    def from_event(cls, data: dict[str, Any], clock: float) -> Self:
        """Continue from another process's memory."""
        flat_for, cpu = data.get("flat_for"), data.get("cpu")
        return cls(
            epoch=int(data["epoch"]),
            beat=int(data["beat"]),
            since=clock - float(data["silent_for"]),
            still=None
            if flat_for is None or cpu is None
            else CpuIdle(at=clock, cpu=float(cpu), since=clock - float(flat_for)),
            suspended_since=_moment(data.get("suspended_for"), clock),
            stop_since=_moment(data.get("stopping_for"), clock),
        )


def _still(before: CpuIdle | None, clock: float, cpu: float | None) -> CpuIdle | None:
    if cpu is None:
        return None
    return CpuIdle.begin(clock, cpu) if before is None else before.look(clock, cpu)


def _first(before: float | None, clock: float) -> float:
    return clock if before is None else before


def _age(moment: float | None, clock: float) -> float | None:
    return None if moment is None else clock - moment


def _moment(age: Any, clock: float) -> float | None:
    return None if age is None else clock - float(age)


READ_EVERY: Final = 10.0
"""Seconds; the history does not change more often."""
_MARGIN: Final = timedelta(minutes=5)
"""The batch that was in work at the edge."""


class Figures:
    """
    The figures of one epoch.

    :param home: The stream's records.
    :param rules: Held against the figures.
    :param incidents: When each open incident of the epoch was recorded, by its key.
    """

    def __init__(
        self,
        home: StreamHome,
        epoch: int,
        rules: HealthRules,
        *,
        incidents: Mapping[str, datetime] | None = None,
    ) -> None:
        self._home, self.epoch = home, epoch
        self._rules, self._incidents = rules.rules, incidents or {}
        self._book = RuleBook(self._rules)
        self._look_back = _longest(rules) + _MARGIN
        self._read_at = -math.inf
        self._newest: dict[str, int] = {}
        self._chunk: int | None = None
        self._lines = 0

    def findings(self, status: Status, clock: float) -> tuple[Finding, ...]:
        """
        Return what the rules say now.

        :param clock: Monotonic seconds.
        :raises HomeUnavailable: the history could not be read.
        """
        # A heartbeat tells a batch before the history does, so one look may not be enough.
        if clock - self._read_at >= READ_EVERY and self._is_behind(status):
            self._read(status)
            self._read_at = clock
        return self._book.findings(status)

    def _is_behind(self, status: Status) -> bool:
        return any(
            query.progress is not None
            and self._newest.get(query.name, -1) < query.progress.batch_id
            for query in status.queries
        )

    def _read(self, status: Status) -> None:
        chunks = self._home.progress_chunks(self.epoch)
        if self._chunk is None:
            self._read_back(chunks, status)
            return
        for number in chunks:
            if number >= self._chunk:
                skip = self._lines if number == self._chunk else 0
                rows, lines = self._home.progress_rows(self.epoch, number, skip=skip)
                self._learn(rows)
                self._chunk, self._lines = number, lines

    def _read_back(self, chunks: list[int], status: Status) -> None:
        found: list[list[BatchProgress]] = []
        newest = oldest = None
        number = 1
        for number in reversed(chunks):
            rows, lines = self._home.progress_rows(self.epoch, number)
            if self._chunk is None:
                self._chunk, self._lines = number, lines
            found.append(rows)
            if times := [at for row in rows if (at := _begun(row)) is not None]:
                newest, oldest = newest or max(times), min(times)
                if newest - oldest > self._look_back:
                    break
        if oldest is not None and number > 1:
            firing = {key: at for key, at in self._incidents.items() if at < oldest}
            self._book = RuleBook(self._rules, firing=firing)
        # Rows of a query that the book has not met wait for it, and only so many of them can.
        self._book.meet(status)
        for rows in reversed(found):
            self._learn(rows)

    def _learn(self, rows: Iterable[BatchProgress]) -> None:
        for row in rows:
            self._book.learn(row)
            self._newest[row.query] = row.batch_id


def _begun(row: BatchProgress) -> datetime | None:
    with contextlib.suppress(ValueError):
        at = datetime.fromisoformat(row.at)
        return at if at.tzinfo is not None else None
    return None


def _longest(rules: HealthRules) -> timedelta:
    return max(
        (rule.sustained_for + rule.mean_over + rule.clear_for for rule in rules.rules),
        default=timedelta(0),
    )


log: Final = logging.getLogger(__name__)
_ALIVE: Final = frozenset({ProcessState.RUNNING, ProcessState.SUSPENDED})


def change_in_progress(home: StreamHome) -> ChangeInProgress | None:
    """Return the upgrade or cutover that a stream, or a lane of it, is part of and is not closed."""
    change = home.unfinished_change()
    if change is None:
        return None
    match change.what:
        case ChangeKind.UPGRADE:
            return upgrade_in_progress(home, change)
        case ChangeKind.CUTOVER:
            return _cutover(home, change)
    return None


def upgrade_in_progress(home: StreamHome, change: Change) -> OpenUpgrade:
    """Return how far an upgrade has come, and since when."""
    history = home.upgrade_steps(change.number)
    stage = UPGRADE.state_of(history)
    return OpenUpgrade(
        change=change.number,
        deployment=change.deployment,
        stage=stage,
        since=history[-1].at if history else change.at,
        soaks_for=_soaks_for(home, change) if stage is Stage.LAUNCHED else timedelta(0),
    )


def _soaks_for(home: StreamHome, change: Change) -> timedelta:
    try:
        return home.terms(change).soak.at_most
    except RecordError as err:
        log.warning("Stream %r: %s", home.name, err)
        return timedelta(0)


def _cutover(home: StreamHome, change: Change) -> CutoverStanding:
    led, number = home.leader_of(change)
    history, terms = led.steps(number), _terms(led, number)
    state = CUTOVER.state_of(history)
    deadline = DEADLINES.get(state) if terms is None else terms.deadline(state)
    return CutoverStanding(
        change=change.number,
        green=_green(terms, home.name),
        state=state,
        since=history[-1].at if history else change.at,
        deadline=deadline or timedelta(0),
    )


def _terms(led: StreamHome, number: int) -> CutoverTerms | None:
    try:
        return led.cutover_terms(led.change(number))
    except RecordError as err:
        log.warning("Stream %r: %s", led.name, err)
        return None


def _green(terms: CutoverTerms | None, lane: str) -> str:
    pairs = terms.pairs if terms is not None else ()
    return next((pair.green for pair in pairs if lane in (pair.blue, pair.green)), "")


def view_standby(
    standbys: StreamHome,
    probe: Callable[[Epoch, Launch | None, Heartbeat], Process],
    live: Epoch | None,
    silence: Callable[[int, Status | None], timedelta],
) -> StandbyView | None:
    """
    Look at the newest hot standby of a lane; ``None`` when there was none yet.

    :param standbys: The records of the lane's standbys.
    :param live: The lane's newest epoch.
    :param silence: Tells how long the heartbeat of a standby has stood still.
    :raises HomeUnavailable: the home could not be read.
    """
    epoch = standbys.newest_epoch()
    if epoch is None:
        return None
    number, launch = epoch.number, standbys.launch(epoch.number)
    process = probe(epoch, launch, partial(standbys.heartbeat, number))
    status, written = standbys.status(number), standbys.aftermath(number)
    return StandbyView(
        epoch=epoch,
        process=process,
        launch=launch,
        status=status,
        has_come=standbys.barrier(number) is not None,
        has_ended=written.exit is not None or written.death is not None,
        is_stopping=written.stop is not None,
        is_promoted=live is not None and live.token == epoch.token,
        silent_for=silence(number, status),
    )


class StandbyObserver:
    """
    Looks at the newest hot standby of one lane.

    :param home: The lane's records.
    :param memory: What another observer has learnt of it, if anything.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        home: StreamHome,
        launcher: Launcher,
        *,
        memory: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home, self._launcher, self._clock = home.standbys(), launcher, clock
        self._heard: tuple[int, int] | None = None
        self._since = clock()
        told = (memory or {}).get("standby")
        if isinstance(told, Mapping):
            self._heard = int(told["number"]), int(told["beat"])
            self._since = clock() - float(told["silent_for"])

    def to_event(self) -> dict[str, Any]:
        """Return what was learnt, for another process; nothing when none was seen."""
        if self._heard is None:
            return {}
        number, beat = self._heard
        told = {"number": number, "beat": beat, "silent_for": self._clock() - self._since}
        return {"standby": told}

    def look(self, live: Epoch | None) -> StandbyView | None:
        """
        Look once; ``None`` when there was no standby yet.

        :param live: The lane's newest epoch.
        :raises HomeUnavailable: the home could not be read.
        """
        return view_standby(self._home, self._launcher.probe, live, self._silence)

    def _silence(self, number: int, status: Status | None) -> timedelta:
        heard, clock = (number, status.beat if status is not None else 0), self._clock()
        if heard != self._heard:
            self._heard, self._since = heard, clock
        return timedelta(seconds=clock - self._since)


class Observer:
    """
    Looks at the newest epoch of one stream.

    :param home: The stream's records.
    :param launcher: How the driver's processes can be seen from here.
    :param rules: What the judge judges by; default: what the home records of the stream.
    :param policy: The same for restarts.
    :param memory: Where another observer left off.
    :param live: Returns the live lane of the stream, for the task that keeps it running; default:
        the
        lane of ``home`` is looked at, live or not.
    :param clock: Monotonic seconds.
    :param now: The time of day.
    """

    def __init__(
        self,
        home: StreamHome,
        launcher: Launcher,
        *,
        rules: HealthRules | None = None,
        policy: RestartPolicy | None = None,
        memory: dict[str, Any] | None = None,
        live: Callable[[], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._home, self._launcher = home, launcher
        self._given_rules, self._given_policy = rules, policy
        self._figures: Figures | None = None
        self._live = live
        self._clock, self._now = clock, now
        self.state: VerdictState | None = None
        """What the last look meant, for metrics; ``None`` before the first epoch."""
        self._alive: tuple[Epoch, Launch | None] | None = None
        self._heard, self._is_blind = clock(), False
        self._memory = Memory.from_event(memory, self._heard) if memory else None
        self._standbys: StandbyObserver | None = None
        self._standby_memory = memory
        self._sizes: SizeObserver | None = None

    def lose_sight(self) -> None:
        """Take note that a look failed: the time until the next one that succeeds is no silence."""
        self._is_blind = True

    def driver_end(self) -> DriverEnd | None:
        """
        Watch for the end of the driver that the last look saw alive.

        :returns: ``None`` when there is none, or its launcher cannot tell its end.
        """
        return None if self._alive is None else open_driver_end(self._launcher, *self._alive)

    def memory(self) -> dict[str, Any] | None:
        """Return what was learnt, for the next observer."""
        if self._memory is None:
            return None
        standby = self._standbys.to_event() if self._standbys is not None else {}
        return {**self._memory.to_event(self._clock()), **standby}

    def situation(
        self,
        *,
        watched: int | None = None,
        run_started_at: datetime | None = None,
        rollover_after: timedelta | None = None,
        successor_waits: bool = False,
        tells: bool = False,
        asks_change: bool = True,
        wants_standby: bool = False,
        autoscale: Autoscale | None = None,
    ) -> ReconcileInput:
        """
        Look once.

        :param watched: The epoch the task has been watching.
        :param run_started_at: Start of the dag run, for rollover.
        :param successor_waits: Another run of the dag is queued.
        :param tells: The calling task sends alerts that were not sent yet.
        :param asks_change: Also look for an open change; the task that runs the change need not.
        :param wants_standby: The stream asks for a hot standby, and this task looks after it.
        :param autoscale: What the dag says of the stream's size, where this task looks after it.
        :raises HomeUnavailable: the home could not be read; this says nothing of the stream.
        """
        now = self._now()
        rules, policy = self._judged_by()
        desired, epoch = self._home.desired(), self._home.newest_epoch()
        situation = ReconcileInput(
            desired=desired.state if desired else DesiredState.RUNNING,
            wish=desired.number if desired else 0,
            now=now,
            rules=rules,
            policy=policy,
            deployment=self._home.newest_deployment(),
            circuit=self._home.circuit(),
            watched=watched,
            run_age=now - run_started_at if run_started_at else timedelta(0),
            rollover_after=rollover_after,
            successor_waits=successor_waits,
            tells=tells,
            alerts=self._home.alerts() if tells else (),
            change=change_in_progress(self._home) if asks_change else None,
            follows=self._follows(),
        )
        if wants_standby:
            situation = self._with_standby(situation, epoch)
        if epoch is None:
            return situation
        return self._with_size(self._with_epoch(situation, epoch), autoscale)

    def _with_size(self, situation: ReconcileInput, policy: Autoscale | None) -> ReconcileInput:
        deployment, seen = situation.deployment, situation.seen
        is_asked = policy is not None and situation.stop is None and situation.change is None
        if policy is None or not is_asked or deployment is None or seen is None:
            return situation
        if seen.status is None or seen.epoch.deployment != deployment.number:
            return situation
        if self._sizes is None:
            self._sizes = SizeObserver(self._home, policy, self._clock)
        return replace(situation, size=self._sizes.look(deployment, seen, situation.policy))

    def _with_epoch(self, situation: ReconcileInput, epoch: Epoch) -> ReconcileInput:
        launch = self._home.launch(epoch.number)
        # The process is looked at before its last words: one that ends in between leaves an exit
        # record with a process still seen alive, which is "going down", never the reverse.
        heartbeat = partial(self._home.heartbeat, epoch.number)
        process = self._launcher.probe(epoch, launch, heartbeat)
        self._alive = (epoch, launch) if process.state in _ALIVE else None
        status, written = self._status(epoch, process), self._home.aftermath(epoch.number)
        memory = self._remember(epoch, status, process, has_stop=written.stop is not None)
        clock = self._clock()
        seen = Observation(
            epoch=epoch,
            process=process,
            now=situation.now,
            launch=launch,
            status=status,
            exit=written.exit,
            death=written.death,
            silent_for=timedelta(seconds=clock - memory.since),
            flat_for=_seconds(None if memory.still is None else memory.still.flat_for),
            suspended_for=_since(memory.suspended_since, clock),
            beating=memory.beating,
            findings=self._findings(epoch.number, status, situation),
        )
        self.state = judge(seen, situation.rules).state
        return replace(
            situation,
            seen=seen,
            decision=written.decision,
            stop=written.stop,
            stopping_for=_since(memory.stop_since, clock) or timedelta(0),
            is_unreleased=epoch.promotes is not None
            and written.exit is None
            and not self._home.is_released(epoch.number),
        )

    def _status(self, epoch: Epoch, process: Process) -> Status | None:
        try:
            return self._home.status(epoch.number)
        except RecordError as err:
            # Of one that lives, taking no status for "still starting" would end in a kill.
            if process.state is not ProcessState.GONE:
                raise
            log.warning(
                "Driver is dead and its last status is unreadable; continuing without it: %s", err
            )
            return None

    def _with_standby(self, situation: ReconcileInput, live: Epoch | None) -> ReconcileInput:
        if self._standbys is None:
            self._standbys = StandbyObserver(
                self._home, self._launcher, memory=self._standby_memory, clock=self._clock
            )
        try:
            standby = self._standbys.look(live)
        except RecordError as err:
            # The live driver is looked after all the same; of the standby nothing is believed.
            log.warning(
                "Stream %r: a record of its hot standby is unreadable, so none is started or "
                "promoted; restore or remove the record: %s",
                self._home.name,
                err,
            )
            return replace(situation, wants_standby=True, is_standby_unreadable=True)
        return replace(situation, wants_standby=True, standby=standby)

    def _follows(self) -> str | None:
        live = self._live() if self._live is not None else self._home.name
        return None if live == self._home.name else live

    def _judged_by(self) -> tuple[HealthRules, RestartPolicy]:
        rules, policy = self._given_rules, self._given_policy
        if rules is None or policy is None:
            recorded = self._recorded()
            rules = rules or (recorded.health if recorded else HealthRules())
            policy = policy or (recorded.restart if recorded else RestartPolicy())
        return rules, policy

    def _recorded(self) -> Supervision | None:
        try:
            return self._home.supervision()
        except RecordError as err:
            log.warning(
                "Stream %r: recorded health rules are unreadable, using defaults: %s",
                self._home.name,
                err,
            )
            return None

    def _findings(
        self, epoch: int, status: Status | None, situation: ReconcileInput
    ) -> tuple[Finding, ...]:
        if status is None or not situation.rules.rules:
            return ()
        if self._figures is None or self._figures.epoch != epoch:
            incidents = {
                alert.key: alert.at
                for alert in open_incidents(situation.alerts)
                if alert.epoch == epoch
            }
            self._figures = Figures(self._home, epoch, situation.rules, incidents=incidents)
        return self._figures.findings(status, self._clock())

    def _remember(
        self, epoch: Epoch, status: Status | None, process: Process, *, has_stop: bool
    ) -> Memory:
        beat, clock = status.beat if status else 0, self._clock()
        memory = self._memory
        if memory is None or memory.epoch != epoch.number:
            memory = Memory(epoch=epoch.number, beat=beat, since=clock)
        elif self._is_blind:
            # A store that was away was away for the driver too: it could not write its beats.
            memory = memory.without(clock - self._heard)
        self._heard, self._is_blind = clock, False
        self._memory = memory.look(clock, beat=beat, process=process, has_stop=has_stop)
        return self._memory


def _since(moment: float | None, clock: float) -> timedelta | None:
    return _seconds(None if moment is None else clock - moment)


def _seconds(duration: float | None) -> timedelta | None:
    return None if duration is None else timedelta(seconds=duration)
